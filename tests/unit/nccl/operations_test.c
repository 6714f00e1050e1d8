/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allreduces of two ranks as NCCL runs them (tools/ncclcheck/cases_operations.c has the rules), in virtual time: an operation takes a
 * one-way delay for each of its two steps and the bytes at the link's rate, and nothing more.
 */
#include <string.h>

#include "plugins/nccl/sizes.h"
#include "unit/channel/two.h"

#define LINK_BPS  UINT64_C(4000000000)
#define RECEIVE	  (UINT64_C(1) << 20)
#define SLICE_MIN (32u << 10)
#define SLICES	  4
#define STEP	  2
#define CHANNELS  2
/* The first ones, during which the rate is found, do not count. */
#define WARM 5

/* The connection in one direction, or one end of it: slice i is in place i mod SLICES. */
struct line {
	struct act act[SLICES];
	unsigned posted, ended;
};

struct rank {
	struct line send[CHANNELS], receive[CHANNELS];
	unsigned begun;
	/* beginning of the first operation that counts, and the end of the last one */
	uint64_t from_ns, to_ns;
};

struct path {
	uint64_t delay_ns;
	/* bytes that the link's queue holds; 0: any number */
	uint64_t queue_bytes;
	unsigned channels, operations;
	/* one connection carries both directions */
	bool both_ways;
};

struct job {
	const struct path *path;
	struct two two;
	/* connections, by NCCL's channel and the rank that sends, and their ends */
	struct gw_channel *connection[CHANNELS][2][2];
	struct rank rank[2];
	/* bytes in the slices of a step */
	uint64_t bytes[STEP];
};

static bool in_turn(const struct rank *rank, const struct line *line)
{
	return line->posted / SLICES < rank->begun && line->posted / SLICES == line->ended / SLICES;
}

static bool end_one(struct job *job, struct line *line, bool receiving)
{
	struct act *act = &line->act[line->ended % SLICES];

	if (line->ended == line->posted || !act->ended)
		return false;
	if (receiving)
		act_check_bytes(act, job->bytes[line->ended % STEP], line->ended);
	else
		act_check(act, 0);
	line->ended++;
	return true;
}

/* Has acts posted on one of the connections. */
static void use(struct job *job, unsigned channel, int sender)
{
	memcpy(job->two.channel, job->connection[channel][job->path->both_ways ? 0 : sender],
	       sizeof(job->two.channel));
}

static bool look_at_channel(struct job *job, int end, unsigned channel)
{
	static const struct gw_op_attr buffered = { .flags = GW_OP_BUFFERED };
	struct rank *rank = &job->rank[end];
	struct line *send = &rank->send[channel], *receive = &rank->receive[channel];
	bool moved = false;

	use(job, channel, !end);
	while (in_turn(rank, receive)) {
		act_recv(&job->two, end, RECEIVE, &receive->act[receive->posted++ % SLICES]);
		moved = true;
	}
	use(job, channel, end);
	while (in_turn(rank, send) &&
	       (send->posted % SLICES < STEP || receive->ended + STEP > send->posted)) {
		act_post(&job->two, end, false, job->bytes[send->posted % STEP], send->posted,
			 &buffered, &send->act[send->posted % SLICES]);
		send->posted++;
		moved = true;
	}
	moved |= end_one(job, receive, true);
	moved |= end_one(job, send, false);
	return moved;
}

static bool has_received(const struct job *job, const struct rank *rank)
{
	for (unsigned i = 0; i < job->path->channels; i++)
		if (rank->receive[i].ended < rank->begun * SLICES)
			return false;
	return true;
}

/* What NCCL's thread of a rank does when it looks at its connections; true if something moved. */
static bool look(struct job *job, int end)
{
	struct rank *rank = &job->rank[end];
	bool moved = false;

	if (has_received(job, rank) && rank->begun < job->path->operations) {
		if (rank->begun++ == WARM)
			rank->from_ns = two_now(&job->two);
		moved = true;
	}
	for (unsigned i = 0; i < job->path->channels; i++)
		moved |= look_at_channel(job, end, i);
	if (moved)
		rank->to_ns = two_now(&job->two);
	return moved;
}

static void connect_one(struct job *job, const struct gw_channel_attr *attr,
			struct gw_channel *connection[2])
{
	struct gw_channel_info info[2];

	for (int end = 0; end < 2; end++) {
		assert_int_equal(
			gw_channel_create(job->two.world.hosts[end].ctx, attr, &connection[end]),
			0);
		assert_int_equal(gw_channel_info(connection[end], &info[end]), 0);
	}
	for (int end = 0; end < 2; end++) {
		assert_int_equal(gw_channel_connect(connection[end], &info[!end]), 0);
		world_touch(&job->two.world, (uint32_t)end);
	}
}

static unsigned connections(const struct job *job)
{
	return job->path->both_ways ? 1 : 2 * job->path->channels;
}

static void job_open(struct job *job)
{
	struct two_attr attr = { .link = { .rate_bps = LINK_BPS,
					   .delay_ns = job->path->delay_ns,
					   .queue_bytes = job->path->queue_bytes },
				 .host = { .queue = 1 << 14 } };

	connection_sizes(2 * job->path->delay_ns, &attr.channel[0]);
	attr.channel[0].flags = GW_CHANNEL_NO_PARITY;
	attr.channel[1] = attr.channel[0];
	two_open(&job->two, &attr);
	memcpy(job->connection[0][0], job->two.channel, sizeof(job->two.channel));
	for (unsigned i = 1; i < connections(job); i++)
		connect_one(job, &attr.channel[0], job->connection[i / 2][i % 2]);
}

/* Closes all but the first connection, which is closed with the hosts. */
static void job_close(struct job *job)
{
	for (unsigned i = 1; i < connections(job); i++)
		for (int end = 0; end < 2; end++)
			assert_int_equal(gw_channel_close(job->connection[i / 2][i % 2][end]), 0);
	use(job, 0, 0);
	two_close(&job->two);
}

/* Waits until what was sent has ended. */
static void drain(struct job *job, uint64_t limit_ns)
{
	for (unsigned i = 0; i < 2 * job->path->channels; i++) {
		struct line *send = &job->rank[i % 2].send[i / 2];

		while (send->ended < send->posted)
			if (!end_one(job, send, false))
				assert_true(two_step(&job->two, limit_ns));
	}
}

/* Mean time of an operation of `bytes`. */
static uint64_t operate(const struct path *path, uint64_t bytes)
{
	static struct job job;
	uint64_t chunk = bytes / 2 / path->channels;
	uint64_t slice = chunk / STEP > SLICE_MIN ? chunk / STEP : SLICE_MIN;
	struct rank *rank = job.rank;
	uint64_t limit;

	memset(&job, 0, sizeof(job));
	job.path = path;
	job.bytes[0] = slice < chunk ? slice : chunk;
	job.bytes[1] = chunk - job.bytes[0];
	job_open(&job);
	limit = two_now(&job.two) + 10 * S;
	while (rank[0].begun < path->operations || rank[1].begun < path->operations ||
	       !has_received(&job, &rank[0]) || !has_received(&job, &rank[1])) {
		bool moved = look(&job, 0);

		if (!look(&job, 1) && !moved)
			assert_true(two_step(&job.two, limit));
	}
	drain(&job, limit);
	two_run(&job.two, S);
	job_close(&job);
	return (rank[0].to_ns - rank[0].from_ns) / (path->operations - WARM);
}

/* Time of an operation in hundredths of the floor: two steps, and headers of 70 bytes with every 1024. */
static uint64_t of_the_floor(const struct path *path, uint64_t kib)
{
	uint64_t floor_ns = 2 * path->delay_ns + (kib << 10) * 8 * 1094 / 1024 * S / LINK_BPS;
	uint64_t took_ns = operate(path, kib << 10);

	print_message("%llu KiB: %.2f ms, %.2f of the floor\n", (unsigned long long)kib,
		      (double)took_ns / (double)MS, (double)took_ns / (double)floor_ns);
	return took_ns * 100 / floor_ns;
}

static void a_step_takes_a_one_way_delay(void **state)
{
	static const struct path far = {
		.delay_ns = 5 * MS, .channels = 1, .operations = 25, .both_ways = true
	};
	static const uint64_t kib[] = { 1, 4, 16, 64, 256, 1024 };

	(void)state;
	/* What fits in a few packets is paced by nothing. The rate of messages that are sent one at a time is not learnt: they are paced
	 * more slowly than the link, and miss the goal of 1.15. */
	for (size_t i = 0; i < sizeof(kib) / sizeof(kib[0]); i++)
		assert_true(of_the_floor(&far, kib[i]) < (kib[i] <= 4 ? 102 : 125));
}

/* Flows begin together, end one after the other, and wait for each other: none may be left with a small window. */
static void channels_share_a_short_path(void **state)
{
	static const struct path near = { .delay_ns = 100 * US, .channels = 2, .operations = 30 };
	static const uint64_t kib[] = { 64, 1024, 2048 };

	(void)state;
	for (size_t i = 0; i < sizeof(kib) / sizeof(kib[0]); i++)
		assert_true(of_the_floor(&near, kib[i]) < (kib[i] <= 64 ? 102 : 115));
}

/* A queue of a bandwidth-delay product, which the flows overflow together. They are paced by windows that are cut by half then, and far
 * from the goal of 1.15. */
static void channels_share_a_short_queue(void **state)
{
	static const struct path near = {
		.delay_ns = 100 * US, .queue_bytes = 100000, .channels = 2, .operations = 30
	};

	(void)state;
	assert_true(of_the_floor(&near, 1024) < 300);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_takes_a_one_way_delay),
		cmocka_unit_test(channels_share_a_short_path),
		cmocka_unit_test(channels_share_a_short_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

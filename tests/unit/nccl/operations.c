/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations in virtual time; see operations.h. */
#include "operations.h"

#include <string.h>

#include "plugins/nccl/sizes.h"

#define SLICE_MIN (32u << 10)
#define SLICE_MAX (512u << 10)
/* Slices in two steps, in one, and in flight on a connection. */
#define SLICES 4
#define STEP   2
#define DEPTH  4
/* Bytes on the link for each packet beside its payload. */
#define HEADERS 70

/* The connection in one direction, or one end of it: slice i is in place i mod DEPTH. */
struct line {
	struct act act[DEPTH];
	unsigned posted, ended;
};

struct rank {
	struct line send[OPERATIONS_CHANNELS], receive[OPERATIONS_CHANNELS];
	unsigned begun;
	/* beginning of the latest operation, and when it was found to have ended; 0: it has not */
	uint64_t begun_ns, ended_ns;
};

struct job {
	const struct operations_attr *attr;
	struct operations_result *out;
	struct two two;
	/* connections, by NCCL's channel and the rank that sends, and their ends */
	struct gw_channel *connection[OPERATIONS_CHANNELS][2][2];
	struct rank rank[2];
	/* slices in an operation on one channel, and the bytes in those of a step */
	unsigned slices;
	uint64_t bytes[STEP];
};

static unsigned connections(const struct job *job)
{
	return job->attr->both_ways ? 1 : 2 * job->attr->channels;
}

static bool in_turn(const struct job *job, const struct rank *rank, const struct line *line)
{
	return line->posted < rank->begun * job->slices && line->posted - line->ended < DEPTH &&
	       line->posted / job->slices == line->ended / job->slices;
}

static bool end_one(struct job *job, struct line *line, bool receiving)
{
	struct act *act = &line->act[line->ended % DEPTH];

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
	memcpy(job->two.channel, job->connection[channel][job->attr->both_ways ? 0 : sender],
	       sizeof(job->two.channel));
}

static bool look_at_channel(struct job *job, int end, unsigned channel)
{
	static const struct gw_op_attr buffered = { .flags = GW_OP_BUFFERED };
	struct rank *rank = &job->rank[end];
	struct line *send = &rank->send[channel], *receive = &rank->receive[channel];
	bool moved = false;

	use(job, channel, !end);
	while (in_turn(job, rank, receive)) {
		act_recv(&job->two, end, SLICE_MAX, &receive->act[receive->posted++ % DEPTH]);
		moved = true;
	}
	use(job, channel, end);
	while (in_turn(job, rank, send) &&
	       (send->posted % SLICES < STEP || receive->ended + STEP > send->posted)) {
		act_post(&job->two, end, false, job->bytes[send->posted % STEP], send->posted,
			 &buffered, &send->act[send->posted % DEPTH]);
		send->posted++;
		moved = true;
	}
	moved |= end_one(job, receive, true);
	moved |= end_one(job, send, false);
	return moved;
}

static bool has_received(const struct job *job, const struct rank *rank)
{
	for (unsigned i = 0; i < job->attr->channels; i++)
		if (rank->receive[i].ended < rank->begun * job->slices)
			return false;
	return true;
}

static void note_end(struct job *job, struct rank *rank)
{
	uint64_t took_ns = two_now(&job->two) - rank->begun_ns;
	char text[512];

	rank->ended_ns = two_now(&job->two);
	if (rank != &job->rank[0])
		return;
	if (job->attr->verbose) {
		print_message("%u: %.3f ms\n", rank->begun, (double)took_ns / (double)MS);
		for (unsigned i = 0; i < connections(job); i++) {
			gw_channel_explain(job->connection[i / 2][i % 2][i % 2], text,
					   sizeof(text));
			print_message("  channel %u from %u %s\n", i / 2, i % 2, text);
		}
	}
	if (rank->begun <= OPERATIONS_WARM)
		return;
	job->out->mean_ns += took_ns / (job->attr->operations - OPERATIONS_WARM);
	if (took_ns > job->out->most_ns)
		job->out->most_ns = took_ns;
}

/* What NCCL's thread of a rank does when it looks at its connections; true if something moved. */
static bool look(struct job *job, int end)
{
	struct rank *rank = &job->rank[end];
	bool moved = false;

	if (!rank->ended_ns && has_received(job, rank))
		note_end(job, rank);
	if (rank->ended_ns && rank->begun < job->attr->operations &&
	    two_now(&job->two) >= rank->ended_ns + job->attr->gap_ns) {
		rank->begun++;
		rank->begun_ns = two_now(&job->two);
		rank->ended_ns = 0;
		moved = true;
	}
	for (unsigned i = 0; i < job->attr->channels; i++)
		moved |= look_at_channel(job, end, i);
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

static void job_open(struct job *job)
{
	struct two_attr attr = { .link = job->attr->link,
				 .host = { .queue = 1 << 14 },
				 .payload = job->attr->payload,
				 .wake_ns = job->attr->wake_ns,
				 .seed = job->attr->seed,
				 .max_qps = 8 * OPERATIONS_CHANNELS };

	connection_sizes(2 * job->attr->link.delay_ns, &attr.channel[0]);
	attr.channel[0].flags = GW_CHANNEL_NO_PARITY;
	attr.channel[0].congestion = job->attr->congestion;
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
	for (unsigned i = 0; i < 2 * job->attr->channels; i++) {
		struct line *send = &job->rank[i % 2].send[i / 2];

		while (send->ended < send->posted)
			if (!end_one(job, send, false))
				assert_true(two_step(&job->two, limit_ns));
	}
}

/* Lets the time pass to the next event, or to the beginning of the next operation. */
static void pass(struct job *job, uint64_t limit_ns)
{
	uint64_t until = limit_ns;

	for (int end = 0; end < 2; end++) {
		const struct rank *rank = &job->rank[end];

		if (rank->ended_ns && rank->begun < job->attr->operations &&
		    rank->ended_ns + job->attr->gap_ns < until)
			until = rank->ended_ns + job->attr->gap_ns;
	}
	assert_true(two_step(&job->two, until) || until < limit_ns);
}

/* Divides an operation into slices, as NCCL does. */
static void cut(struct job *job)
{
	uint64_t chunk = job->attr->bytes / 2 / job->attr->channels;
	uint64_t loops = (chunk + STEP * SLICE_MAX - 1) / (STEP * SLICE_MAX);
	uint64_t slice;

	chunk /= loops;
	slice = chunk / STEP > SLICE_MIN ? chunk / STEP : SLICE_MIN;
	job->slices = (unsigned)loops * SLICES;
	job->bytes[0] = slice < chunk ? slice : chunk;
	job->bytes[1] = chunk - job->bytes[0];
}

/* A process that has to be woken is late by half of the longest time in the mean, in each step at either end. */
static uint64_t floor_of(const struct operations_attr *attr)
{
	uint64_t payload = attr->payload ? attr->payload : TWO_PAYLOAD;
	uint64_t wire = attr->bytes * (payload + HEADERS) / payload;

	return 2 * attr->link.delay_ns + attr->wake_ns + wire * 8 * S / attr->link.rate_bps;
}

void operations_run(const struct operations_attr *attr, struct operations_result *out)
{
	static struct job job;
	struct rank *rank = job.rank;
	const struct link *link;
	uint64_t limit;

	memset(&job, 0, sizeof(job));
	*out = (struct operations_result){ .floor_ns = floor_of(attr) };
	job.attr = attr;
	job.out = out;
	cut(&job);
	job_open(&job);
	limit = two_now(&job.two) + 100 * S;
	rank[0].ended_ns = rank[1].ended_ns = two_now(&job.two);
	while (rank[0].begun < attr->operations || rank[1].begun < attr->operations ||
	       !rank[0].ended_ns || !rank[1].ended_ns) {
		bool moved = look(&job, 0);

		if (!look(&job, 1) && !moved)
			pass(&job, limit);
	}
	drain(&job, limit);
	two_run(&job.two, S);
	link = sim_link(job.two.world.sim, 0);
	out->overflow = (double)link->stats.overflow /
			(double)(link->stats.overflow + link->stats.forwarded + 1);
	job_close(&job);
}

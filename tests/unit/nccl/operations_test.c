/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allreduces of two ranks over a channel as NCCL runs them (tools/ncclcheck/cases_operations.c has the rules), in virtual time: an
 * operation takes a one-way delay for each of its two steps and the bytes at the link's rate, and nothing more.
 */
#include <string.h>

#include "plugins/nccl/sizes.h"
#include "unit/channel/two.h"

#define DELAY_NS   (5 * MS)
#define LINK_BPS   UINT64_C(4000000000)
#define RECEIVE	   (UINT64_C(1) << 20)
#define SLICE_MIN  (32u << 10)
#define SLICES	   4
#define STEP	   2
#define OPERATIONS 25
/* The first ones, during which the rate is found, do not count. */
#define WARM 5

/* The connection in one direction, or one end of it: slice i is in place i mod SLICES. */
struct line {
	struct act act[SLICES];
	unsigned posted, ended;
};

struct rank {
	struct line send, receive;
	unsigned begun;
	/* beginning of the first operation that counts, and the end of the last one */
	uint64_t from_ns, to_ns;
};

struct job {
	struct two two;
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

/* What NCCL's thread of a rank does when it looks at its connections; true if something moved. */
static bool look(struct job *job, int end)
{
	static const struct gw_op_attr buffered = { .flags = GW_OP_BUFFERED };
	struct rank *rank = &job->rank[end];
	struct line *send = &rank->send, *receive = &rank->receive;
	bool moved = false;

	if (receive->ended == rank->begun * SLICES && rank->begun < OPERATIONS) {
		if (rank->begun++ == WARM)
			rank->from_ns = two_now(&job->two);
		moved = true;
	}
	while (in_turn(rank, receive)) {
		act_recv(&job->two, end, RECEIVE, &receive->act[receive->posted++ % SLICES]);
		moved = true;
	}
	while (in_turn(rank, send) &&
	       (send->posted % SLICES < STEP || receive->ended + STEP > send->posted)) {
		act_post(&job->two, end, false, job->bytes[send->posted % STEP], send->posted,
			 &buffered, &send->act[send->posted % SLICES]);
		send->posted++;
		moved = true;
	}
	moved |= end_one(job, receive, true);
	moved |= end_one(job, send, false);
	if (moved)
		rank->to_ns = two_now(&job->two);
	return moved;
}

/* Mean time of an operation of `bytes`. */
static uint64_t operate(uint64_t bytes, uint64_t rtt_ns)
{
	struct two_attr attr = { .link = { .rate_bps = LINK_BPS, .delay_ns = DELAY_NS },
				 .host = { .queue = 1 << 14 } };
	static struct job job;
	uint64_t chunk = bytes / 2, slice = chunk / STEP > SLICE_MIN ? chunk / STEP : SLICE_MIN;
	uint64_t limit;

	memset(&job, 0, sizeof(job));
	job.bytes[0] = slice < chunk ? slice : chunk;
	job.bytes[1] = chunk - job.bytes[0];
	connection_sizes(rtt_ns, &attr.channel[0]);
	attr.channel[0].flags = GW_CHANNEL_NO_PARITY;
	attr.channel[1] = attr.channel[0];
	two_open(&job.two, &attr);
	limit = two_now(&job.two) + 10 * S;
	while (job.rank[0].receive.ended + job.rank[1].receive.ended < 2 * SLICES * OPERATIONS) {
		bool moved = look(&job, 0);

		if (!look(&job, 1) && !moved)
			assert_true(two_step(&job.two, limit));
	}
	for (int end = 0; end < 2; end++) {
		while (job.rank[end].send.ended < job.rank[end].send.posted)
			if (!end_one(&job, &job.rank[end].send, false))
				assert_true(two_step(&job.two, limit));
	}
	two_run(&job.two, S);
	two_close(&job.two);
	return (job.rank[0].to_ns - job.rank[0].from_ns) / (OPERATIONS - WARM);
}

static void a_step_takes_a_one_way_delay(void **state)
{
	static const uint64_t kib[] = { 1, 4, 16, 64, 256, 1024 };

	(void)state;
	for (size_t i = 0; i < sizeof(kib) / sizeof(kib[0]); i++) {
		uint64_t bytes = kib[i] << 10;
		/* Two steps, and headers of 70 bytes with every 1024. */
		uint64_t floor_ns = 2 * DELAY_NS + bytes * 8 * 1094 / 1024 * S / LINK_BPS;
		uint64_t took_ns = operate(bytes, 2 * DELAY_NS);

		print_message("%llu KiB: %.2f ms, %.2f of the floor\n", (unsigned long long)kib[i],
			      (double)took_ns / (double)MS, (double)took_ns / (double)floor_ns);
		/* What fits in a few packets is paced by nothing. The rate of messages that are sent one at a time is not learnt:
		 * they are paced more slowly than the link, and miss the goal of 1.15. */
		assert_true(took_ns * 100 < floor_ns * (kib[i] <= 4 ? 102 : 125));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_takes_a_one_way_delay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

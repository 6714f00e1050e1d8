/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the coordinator of bounded operations decides, in virtual time: how many ranks it waits for, how many may send to an owner at a
 * time, and who coordinates next.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <godwit/bounded_collective.h>

#include "simulation/ranks.h"

#define RANKS	 8
#define COUNT	 (1u << 16)
#define MS	 UINT64_C(1000000)
#define LIMIT_NS (60000 * MS)
/* Operations after which every rank has measured enough for a deadline. */
#define WARM 6

struct op {
	struct gw_bounded_report report[RANKS];
	/* time from a rank's call to its end there, in ns */
	uint64_t took_ns[RANKS];
	uint32_t ended;
};

static struct ranks ranks;
static float numbers[RANKS][COUNT], results[RANKS][COUNT];
static uint64_t posted_ns[RANKS];
static struct op now_running;
static bool failed;

static void expect(bool holds, const char *what, uint64_t seen)
{
	printf("%s: %s, %llu\n", holds ? "ok" : "FAIL", what, (unsigned long long)seen);
	failed = failed || !holds;
}

static void done(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	uint32_t rank = (uint32_t)(uintptr_t)arg;

	if (result->status || gw_bounded_report(coll, &now_running.report[rank])) {
		fprintf(stderr, "bounded_plan: %s\n", strerror(-result->status));
		exit(1);
	}
	now_running.took_ns[rank] = ranks_now(&ranks) - posted_ns[rank];
	now_running.ended++;
	gw_coll_close(coll);
}

/* One allreduce, which each rank calls as late as `late_ns` says; null: all at once. */
static struct op reduce(const uint64_t *late_ns, uint64_t deadline_ns)
{
	struct gw_bounded_attr bounded = { .deadline_ns = deadline_ns };
	uint64_t start = ranks_now(&ranks);
	bool called[RANKS] = { false };

	now_running = (struct op){ .ended = 0 };
	while (now_running.ended < RANKS) {
		uint64_t due = start + LIMIT_NS;

		for (uint32_t r = 0; r < RANKS; r++) {
			uint64_t at = start + (late_ns ? late_ns[r] : 0);
			struct gw_coll_attr attr = { .send = numbers[r],
						     .recv = results[r],
						     .count = COUNT,
						     .type = GW_FLOAT32,
						     .reduction = GW_MEAN,
						     .done = done,
						     .arg = (void *)(uintptr_t)r };
			struct gw_coll *coll;

			if (called[r])
				continue;
			if (at > ranks_now(&ranks)) {
				due = at < due ? at : due;
				continue;
			}
			called[r] = true;
			posted_ns[r] = ranks_now(&ranks);
			if (gw_bounded_allreduce(ranks.rank[r].comm, &attr, &bounded, &coll))
				exit(1);
			ranks_touch(&ranks, r);
		}
		if (!ranks_step(&ranks, due) && ranks_now(&ranks) >= start + LIMIT_NS) {
			fprintf(stderr, "bounded_plan: does not end\n");
			exit(1);
		}
	}
	return now_running;
}

static void open_ranks(void)
{
	struct ranks_attr attr = { .sim = { .seed = 1, .payload = 4096, .start_ns = 1000 * MS },
				   .context = { .max_qps = 1024 },
				   .seed = 1,
				   .mail_ns = MS,
				   .comm = { .tracks = 1, .peer_timeout_ns = 60000 * MS } };

	attr.shape = (struct sim_shape_attr){
		.shape = SIM_STAR,
		.hosts = RANKS,
		.edge = { .rate_bps = 1000 * MS, .delay_ns = MS / 20, .queue_bytes = 500000 }
	};
	if (ranks_open(&ranks, &attr)) {
		fprintf(stderr, "bounded_plan: the ranks cannot be opened\n");
		exit(1);
	}
	ranks.timed = true;
	for (int i = 0; i < WARM; i++)
		reduce(NULL, 0);
}

/* Fewer than half of the ranks do not decide for the others, however long these take. */
static void half_is_waited_for(void)
{
	uint64_t late_ns[RANKS] = { 0 };
	struct op op;

	open_ranks();
	for (uint32_t r = 3; r < RANKS; r++)
		late_ns[r] = 500 * MS;
	op = reduce(late_ns, 0);
	expect(op.report[0].late <= RANKS / 2, "ranks left out while most are late",
	       op.report[0].late);
	expect(op.took_ns[0] >= 500 * MS, "ns that the first waited for them", op.took_ns[0]);
	for (uint32_t r = 3; r < RANKS; r++)
		late_ns[r] = r < 6 ? 0 : 500 * MS;
	op = reduce(late_ns, 0);
	expect(op.report[0].late == 2, "ranks left out while two are late", op.report[0].late);
	expect(op.took_ns[0] < 400 * MS, "ns that the first waited for them", op.took_ns[0]);
	ranks_close(&ranks);
}

/* After a deadline that cut shares off half as many send to an owner at a time; after each other operation one more. */
static void incast_follows_deadlines(void)
{
	uint32_t before, incast;

	open_ranks();
	before = reduce(NULL, 0).report[0].incast;
	expect(before == RANKS - 1, "senders at a time", before);
	for (int i = 0; i < 4; i++)
		reduce(NULL, MS / 5);
	incast = reduce(NULL, MS / 5).report[0].incast;
	expect(incast <= 2, "senders at a time after five deadlines", incast);
	reduce(NULL, 5000 * MS);
	before = reduce(NULL, 5000 * MS).report[0].incast;
	incast = reduce(NULL, 5000 * MS).report[0].incast;
	expect(incast == before + 1, "senders at a time after an operation more", incast);
	ranks_close(&ranks);
}

/* A coordinator that is late is waited for. After that another one is the coordinator, and it is not. */
static void late_coordinator_hands_over(void)
{
	uint64_t late_ns[RANKS] = { 500 * MS };
	struct op op;

	open_ranks();
	op = reduce(late_ns, 0);
	expect(op.took_ns[1] >= 500 * MS, "ns that others waited for the coordinator",
	       op.took_ns[1]);
	reduce(NULL, 0);
	op = reduce(late_ns, 0);
	expect(op.took_ns[1] < 400 * MS, "ns that others waited for it when it had handed over",
	       op.took_ns[1]);
	expect(op.report[1].late == 1, "ranks left out then", op.report[1].late);
	ranks_close(&ranks);
}

/* A rank that was late does not become the coordinator, although it waited longest for one that was late. */
static void late_rank_does_not_coordinate(void)
{
	uint64_t straggler_ns[RANKS] = { [RANKS - 1] = 500 * MS };
	uint64_t coordinator_ns[RANKS];
	struct op op;

	open_ranks();
	reduce(straggler_ns, 0);
	for (uint32_t r = 0; r < RANKS; r++)
		coordinator_ns[r] = r ? 50 * MS : 500 * MS;
	coordinator_ns[RANKS - 1] = 0;
	reduce(coordinator_ns, 0);
	reduce(NULL, 0);
	op = reduce(straggler_ns, 0);
	expect(op.took_ns[1] < 400 * MS, "ns that others waited for a rank that was late before",
	       op.took_ns[1]);
	ranks_close(&ranks);
}

int main(void)
{
	half_is_waited_for();
	incast_follows_deadlines();
	late_coordinator_hands_over();
	late_rank_does_not_coordinate();
	return failed;
}

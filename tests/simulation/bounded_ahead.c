/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounded operations while one rank is away, in virtual time: how far the others go on without it, that it gets the results of all that
 * it missed when it comes, and that it takes part again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <godwit/bounded_collective.h>

#include "simulation/ranks.h"

#define RANKS	   4
#define COUNT	   (1u << 17)
#define OPERATIONS 160
#define AHEAD	   12
#define TRACKS	   2
#define MS	   UINT64_C(1000000)
#define LIMIT_NS   (60000 * MS)
/* Operations after which every rank has measured enough for a deadline, and after which the last rank is away. */
#define WARM 8

struct scenario {
	uint32_t count, operations, ahead;
	uint64_t compute_ns, away_ns;
	/* operations from one absence to the next; 0: there is one only */
	uint32_t every;
};

struct member {
	uint32_t done;
	bool computing;
	uint64_t due_ns;
	float *numbers, *result;
	/* of each operation: its result, as a hash, and the report */
	uint64_t hash[OPERATIONS];
	struct gw_bounded_report report[OPERATIONS];
	/* when it ended here */
	uint64_t end_ns[OPERATIONS];
};

static const struct scenario *now_running;
static struct ranks ranks;
static struct member members[RANKS];
static uint64_t left_ns;
static bool failed;

static void expect(bool holds, const char *what, uint64_t seen)
{
	printf("%s: %s, %llu\n", holds ? "ok" : "FAIL", what, (unsigned long long)seen);
	failed = failed || !holds;
}

static uint64_t hash_of(const float *values)
{
	const unsigned char *bytes = (const unsigned char *)values;
	uint64_t hash = 1469598103934665603u;

	for (size_t i = 0; i < now_running->count * sizeof(float); i++)
		hash = (hash ^ bytes[i]) * 1099511628211u;
	return hash;
}

static void compute(uint32_t rank)
{
	struct member *member = &members[rank];
	uint32_t since = member->done - WARM, every = now_running->every;
	bool away =
		rank == RANKS - 1 && member->done >= WARM && (every ? !(since % every) : !since);

	member->computing = member->done < now_running->operations;
	member->due_ns =
		ranks_now(&ranks) + (away ? now_running->away_ns : now_running->compute_ns);
	if (away)
		left_ns = ranks_now(&ranks);
}

static void done(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	uint32_t rank = (uint32_t)(uintptr_t)arg;
	struct member *member = &members[rank];

	if (result->status || gw_bounded_report(coll, &member->report[member->done])) {
		fprintf(stderr, "bounded_ahead: %s\n", strerror(-result->status));
		exit(1);
	}
	member->hash[member->done] = hash_of(member->result);
	member->end_ns[member->done++] = ranks_now(&ranks);
	gw_coll_close(coll);
	/* What is sent to others must not be the caller's memory. */
	memset(member->result, 0, COUNT * sizeof(float));
	compute(rank);
}

static void post(uint32_t rank)
{
	struct member *member = &members[rank];
	struct gw_coll_attr attr = { .send = member->numbers,
				     .recv = member->result,
				     .count = now_running->count,
				     .type = GW_FLOAT32,
				     .reduction = GW_MEAN,
				     .done = done,
				     .arg = (void *)(uintptr_t)rank };
	struct gw_coll *coll;

	member->computing = false;
	for (size_t i = 0; i < now_running->count; i++)
		member->numbers[i] = (float)((i * 31 + rank * 7 + member->done * 13) % 1009);
	if (gw_bounded_allreduce(ranks.rank[rank].comm, &attr, NULL, &coll))
		exit(1);
	ranks_touch(&ranks, rank);
}

static bool all_done(void)
{
	for (uint32_t r = 0; r < RANKS; r++)
		if (members[r].done < now_running->operations)
			return false;
	return true;
}

static void run(void)
{
	while (!all_done()) {
		uint64_t due = LIMIT_NS, now = ranks_now(&ranks);

		for (uint32_t r = 0; r < RANKS; r++) {
			if (members[r].computing && members[r].due_ns <= now)
				post(r);
			else if (members[r].computing && members[r].due_ns < due)
				due = members[r].due_ns;
		}
		if (!ranks_step(&ranks, due) && ranks_now(&ranks) >= LIMIT_NS) {
			fprintf(stderr, "bounded_ahead: does not end\n");
			exit(1);
		}
	}
}

/* Operations that a rank had ended when the last one came back. */
static uint32_t done_by(uint32_t rank, uint64_t time_ns)
{
	uint32_t count = 0;

	while (count < now_running->operations && members[rank].end_ns[count] <= time_ns)
		count++;
	return count;
}

static void play(const struct scenario *scenario)
{
	struct ranks_attr attr = { .sim = { .seed = 1, .payload = 4096, .start_ns = 1000 * MS },
				   .context = { .max_qps = 1024 },
				   .seed = 1,
				   .mail_ns = MS,
				   .comm = { .tracks = TRACKS,
					     .ahead = scenario->ahead,
					     .peer_timeout_ns = 60000 * MS } };
	uint32_t differ = 0;

	attr.shape = (struct sim_shape_attr){
		.shape = SIM_STAR,
		.hosts = RANKS,
		.edge = { .rate_bps = 1000 * MS, .delay_ns = MS / 20, .queue_bytes = 500000 }
	};
	if (ranks_open(&ranks, &attr)) {
		fprintf(stderr, "bounded_ahead: the ranks cannot be opened\n");
		exit(1);
	}
	ranks.timed = true;
	now_running = scenario;
	for (uint32_t r = 0; r < RANKS; r++) {
		members[r] = (struct member){ .numbers = calloc(COUNT, sizeof(float)),
					      .result = calloc(COUNT, sizeof(float)) };
		compute(r);
	}
	run();
	ranks_close(&ranks);
	for (uint32_t r = 0; r < RANKS; r++) {
		free(members[r].numbers);
		free(members[r].result);
		for (uint32_t i = 0; i < scenario->operations; i++)
			differ += members[r].hash[i] != members[0].hash[i];
	}
	expect(!differ, "results that differ from those of the first rank", differ);
	expect(members[0].report[WARM].late == 1, "ranks that were late",
	       members[0].report[WARM].late);
}

/* The others go on as far as results may be kept, and no further. */
static void others_go_on(void)
{
	static const struct scenario scenario = { .count = COUNT,
						  .operations = 40,
						  .ahead = AHEAD,
						  .compute_ns = 10 * MS,
						  .away_ns = 1000 * MS };
	uint64_t back_ns, fetched_ns;
	uint32_t ahead;

	play(&scenario);
	back_ns = left_ns + scenario.away_ns;
	ahead = done_by(0, back_ns) - WARM;
	fetched_ns = members[RANKS - 1].end_ns[WARM + AHEAD - 1] - back_ns;
	expect(ahead >= AHEAD, "operations that ended while a rank was away", ahead);
	expect(ahead <= AHEAD + TRACKS, "and are not more than may be kept for it", ahead);
	expect(fetched_ns < 2 * AHEAD * scenario.compute_ns,
	       "ns until it had the results of those that were kept", fetched_ns);
}

/* A rank that computes as long as the others, who hardly wait for the network, comes nearer since they wait for it. */
static void straggler_catches_up(void)
{
	static const struct scenario scenario = {
		.count = 4096, .operations = OPERATIONS, .compute_ns = 20 * MS, .away_ns = 400 * MS
	};
	uint32_t without = 0;

	play(&scenario);
	for (uint32_t i = 0; i < OPERATIONS; i++)
		without += members[0].report[i].late;
	expect(without >= 20, "operations without it", without);
	expect(without < OPERATIONS - WARM - 40, "and not all that follow", without);
}

/* One that is away again and again would not come back however long it is waited for: the others do not go slower. */
static void stalls_cost_nothing(void)
{
	static const struct scenario scenario = { .count = 4096,
						  .operations = OPERATIONS,
						  .ahead = 1000,
						  .compute_ns = 20 * MS,
						  .away_ns = 400 * MS,
						  .every = 10 };
	uint64_t step_ns;

	play(&scenario);
	step_ns = (members[0].end_ns[OPERATIONS - 1] - members[0].end_ns[OPERATIONS / 2]) /
		  (OPERATIONS / 2 - 1);
	expect(step_ns < scenario.compute_ns * 11 / 10,
	       "ns from one operation to the next while a rank stalls", step_ns);
}

int main(void)
{
	others_go_on();
	straggler_catches_up();
	stalls_cost_nothing();
	return failed;
}

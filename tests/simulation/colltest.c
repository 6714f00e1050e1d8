/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * colltest: collectives on simulated networks, one scenario a seed: ranks, path, loss, operations in flight, types, algorithms, a
 * rank that dies or aborts. Every operation must end; one that ends with 0 must have the result of a sequential reference,
 * and nothing outside of its buffer may change. It stops at the first violation, with the command that replays it.
 */
#include "collective/multicast.h"
#include "simulation/coll_run.h"
#include "tools/coll/values.h"

/* ---- scenarios -------------------------------------------------------------------------------------------------- */

static uint64_t draw_count(struct rng *rng, uint32_t size)
{
	switch (rng_below(rng, 8)) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		return size;
	case 3:
		return 40000 + rng_below(rng, 40000);
	default:
		return coll_spread(rng, 2, 20000);
	}
}

static void draw_plan(struct rng *rng, const struct coll_scenario *s, struct coll_plan *plan)
{
	uint32_t size = s->attr.shape.hosts;
	bool blocks;

	plan->operation = (enum operation)rng_below(rng, OPERATION_COUNT);
	blocks = plan->operation == OPERATION_ALLGATHER ||
		 plan->operation == OPERATION_REDUCE_SCATTER ||
		 plan->operation == OPERATION_ALLTOALL;
	plan->attr.count = draw_count(rng, size);
	if (blocks)
		plan->attr.count = (plan->attr.count + size - 1) / size;
	plan->attr.type = (enum gw_type)rng_below(rng, GW_UINT64 + 1);
	plan->attr.reduction = (enum gw_reduction)rng_below(rng, GW_MAX + 1);
	plan->attr.root = (uint32_t)rng_below(rng, size);
	plan->in_place = !rng_below(rng, 3);
	do
		plan->attr.algorithm =
			(enum gw_algorithm)rng_below(rng, GW_ALGORITHM_MULTICAST + 1);
	while (plan->attr.algorithm && !algorithm_fits(plan->operation, plan->attr.algorithm) &&
	       (plan->attr.algorithm != GW_ALGORITHM_MULTICAST ||
		!multicast_fits(plan->operation)));
	if (s->attr.comm.flags & GW_COMM_FIXED_ORDER)
		plan->attr.algorithm = GW_ALGORITHM_AUTO;
}

/* What concerns multicast, last, so that it changes nothing of what else a seed draws. */
static void draw_multicast(struct rng *rng, struct coll_scenario *s)
{
	uint32_t size = s->attr.shape.hosts;

	s->without = coll_scenario_rank(rng, 16, s);
	s->deaf = coll_scenario_rank(rng, 6, s);
	s->deaf_ns = COLL_START_NS + coll_spread(rng, MS, 500 * MS);
	s->lossy = coll_scenario_rank(rng, 8, s);
	if (rng_below(rng, 3))
		return;
	/* Packets that come long after their operation. */
	if (!rng_below(rng, 3)) {
		s->attr.shape.edge.reorder = 0.01;
		s->attr.shape.edge.reorder_ns = 300 * MS;
	}
	for (unsigned i = 0; i < s->count; i++) {
		struct coll_plan *plan = &s->plans[i];

		if (rng_below(rng, 3))
			plan->operation =
				rng_below(rng, 2) ? OPERATION_BROADCAST : OPERATION_ALLGATHER;
		if (!multicast_fits(plan->operation))
			continue;
		plan->attr.algorithm =
			rng_below(rng, 4) ? GW_ALGORITHM_MULTICAST : GW_ALGORITHM_AUTO;
		if (!rng_below(rng, 3))
			plan->attr.count = (50000 + rng_below(rng, 1000000)) /
					   gw_type_size(plan->attr.type) /
					   (plan->operation == OPERATION_ALLGATHER ? size : 1);
	}
}

static void draw(uint64_t seed, struct coll_scenario *s)
{
	static const struct coll_limits limits = {
		.large_in = 8,
		.rate_least_bps = 50000000,
		.delay_most_ns = 20 * MS,
		.lossless_in = 3,
		.loss_divisor = 50000,
		.bursts_in = 4,
		.burst_enter = 0.001,
		.duplicates_in = 3,
		.reorders_in = 3,
		.skew_most_ns = 100 * MS,
		.operations_max = 8,
		.faults_in = 4,
		.fault_most_ns = 200 * MS,
		.aborts = true,
	};
	struct rng rng;

	coll_scenario_begin(&rng, &limits, seed, s);
	s->attr.comm.flags =
		(rng_below(&rng, 4) ? 0 : GW_COMM_FIXED_ORDER) | (seed % 2 ? GW_COMM_SERVED : 0);
	s->attr.comm.segment_bytes =
		rng_below(&rng, 2) ? 0 : 1000 + (uint32_t)rng_below(&rng, 30000);
	coll_scenario_pace(&rng, &limits, s);
	for (unsigned i = 0; i < s->count; i++)
		draw_plan(&rng, s, &s->plans[i]);
	coll_scenario_fault(&rng, &limits, s);
	draw_multicast(&rng, s);
	if (seed % 8 == 5)
		s->attr.mail_room = 1 + (uint32_t)(seed / 8 % 4);
	/* So many that ranks agree on rates, also while operations are open that depend on it. */
	for (; seed % 4 == 3 && s->count < COLL_OPERATIONS_MAX; s->count++)
		draw_plan(&rng, s, &s->plans[s->count]);
}

/* ---- checking --------------------------------------------------------------------------------------------------- */

static void check_part(struct coll_run *run, struct coll_part *part)
{
	const struct coll_plan *plan = part->plan;
	const struct value_question question = { .operation = (enum coll_operation)plan->operation,
						 .reduction = plan->attr.reduction,
						 .type = plan->attr.type,
						 .rank = part->rank,
						 .size = run->ranks.size,
						 .root = plan->attr.root,
						 .count = plan->attr.count };

	if (!coll_check_end(part, 0))
		return;
	for (size_t i = 0; i < part->recv_bytes / gw_type_size(plan->attr.type); i++)
		if (!value_right(&question, part->recv, i))
			FAIL(run, "operation %u (%s) of rank %u: element %zu is wrong",
			     part->number, operation_name(plan->operation), part->rank, i);
}

/* What was multicast, over all scenarios and ranks. */
static struct {
	uint64_t works, missing, ended, rounds, data, parity, dropped, fetched, given_up;
	/* letters for which the mail had no room */
	uint64_t mail_full;
} sights;

static void look_at_multicast(struct coll_run *run)
{
	for (uint32_t r = 0; r < run->ranks.size; r++) {
		const struct gw_comm *comm = run->ranks.rank[r].comm;
		const struct multicast_group *group = comm ? comm->multicast : NULL;

		if (!group)
			continue;
		sights.works += group->state == MULTICAST_WORKS;
		sights.missing += group->state == MULTICAST_MISSING;
		sights.ended += group->ended;
		sights.rounds += group->rounds;
		sights.data += group->sent_data;
		sights.parity += group->sent_parity;
		sights.dropped += group->dropped;
		sights.fetched += group->fetched;
		sights.given_up += group->given_up;
	}
}

static void check(struct coll_run *run)
{
	for (uint32_t i = 0; !run->failed && i < run->ranks.size * run->scenario->count; i++)
		check_part(run, &run->parts[i]);
	look_at_multicast(run);
	sights.mail_full += run->ranks.mail_full;
}

static int tell(uint64_t scenarios, uint64_t faults)
{
	printf("%llu scenarios, %llu with a rank that died or aborted\n",
	       (unsigned long long)scenarios, (unsigned long long)faults);
	printf("multicast: works at %llu ranks, not at %llu; %llu operations in %llu rounds, %llu data and %llu parity packets, "
	       "%llu dropped, %llu groups fetched, %llu given up\n",
	       (unsigned long long)sights.works, (unsigned long long)sights.missing,
	       (unsigned long long)sights.ended, (unsigned long long)sights.rounds,
	       (unsigned long long)sights.data, (unsigned long long)sights.parity,
	       (unsigned long long)sights.dropped, (unsigned long long)sights.fetched,
	       (unsigned long long)sights.given_up);
	printf("mail: no room for %llu letters\n", (unsigned long long)sights.mail_full);
	if (scenarios >= 200 && !sights.mail_full) {
		fputs("colltest: the mail always had room\n", stderr);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct coll_test test = {
		.name = "colltest", .draw = draw, .given = value_given, .check = check, .tell = tell
	};

	return coll_test_main(&test, argc, argv);
}

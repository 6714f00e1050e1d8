/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws the scenarios of boundedtest. */
#include "simulation/bounded_scenario.h"

#define OPERATIONS_MAX 10

static uint64_t draw_count(struct rng *rng)
{
	switch (rng_below(rng, 8)) {
	case 0:
		return rng_below(rng, 3);
	case 1:
		return 3 + rng_below(rng, 60);
	case 2:
		return 100000 + rng_below(rng, 100000);
	default:
		return coll_spread(rng, 500, 60000);
	}
}

static enum operation draw_operation(struct rng *rng)
{
	if (!rng_below(rng, 5))
		return OPERATION_REDUCE_SCATTER;
	if (!rng_below(rng, 6))
		return OPERATION_ALLGATHER;
	return rng_below(rng, 10) ? OPERATION_ALLREDUCE : OPERATION_BROADCAST;
}

static void draw_plan(struct rng *rng, uint32_t size, struct coll_plan *plan)
{
	static const enum gw_type types[] = { GW_FLOAT32, GW_FLOAT64, GW_FLOAT16, GW_BFLOAT16 };
	struct gw_bounded_attr *bounded = &plan->bounded;

	plan->operation = draw_operation(rng);
	plan->is_bounded = rng_below(rng, 8);
	plan->in_place = !rng_below(rng, 3);
	plan->attr.count = draw_count(rng);
	if (plan->operation == OPERATION_REDUCE_SCATTER || plan->operation == OPERATION_ALLGATHER)
		plan->attr.count = plan->attr.count / size + 1;
	plan->attr.root = (uint32_t)rng_below(rng, size);
	plan->attr.type = types[rng_below(rng, 2) ? 0 : rng_below(rng, 4)];
	plan->attr.reduction = (enum gw_reduction)rng_below(rng, rng_below(rng, 4) ? 2 : 4);
	bounded->recovery = (enum gw_recovery)rng_below(rng, GW_RECOVER_CODED + 1);
	if (bounded->recovery == GW_RECOVER_HADAMARD) {
		plan->attr.reduction = (enum gw_reduction)rng_below(rng, 2);
		plan->attr.type = rng_below(rng, 3) ? GW_FLOAT32 : GW_BFLOAT16;
	}
	if (rng_below(rng, 2))
		bounded->deadline_ns = coll_spread(rng, 200 * US, SECOND);
	if (!rng_below(rng, 4)) {
		bounded->floor_ppm = 500000 + (uint32_t)rng_below(rng, 500001);
		bounded->flags = rng_below(rng, 2) ? GW_BOUNDED_REPAIR : 0;
	}
	if (bounded_plan_gathers(plan)) {
		plan->is_bounded = true;
		bounded->floor_ppm = bounded->flags = 0;
		bounded->recovery = rng_below(rng, 2) ? GW_RECOVER_PREVIOUS : GW_RECOVER_COUNT;
		plan->attr.type = (enum gw_type)rng_below(rng, GW_FLOAT64 + 1);
	}
}

/* Half of the operations on coefficients are on some of the caller's: whole blocks of them. */
static void transform_some(struct coll_plan *plan)
{
	if (!plan->is_bounded || plan->bounded.recovery != GW_RECOVER_HADAMARD ||
	    plan->attr.count % 2 || plan->attr.count < GW_BOUNDED_BLOCK)
		return;
	plan->bounded.flags |= GW_BOUNDED_TRANSFORMED;
	plan->attr.count -= plan->attr.count % GW_BOUNDED_BLOCK;
}

/* In half of the scenarios whose number of ranks can be that of a grid allreduces have one. */
static void arrange_some(struct rng *rng, uint32_t size, struct coll_scenario *s)
{
	uint32_t rows = 2 + (uint32_t)rng_below(rng, 3);

	while (size % rows)
		rows = rows == 2 ? 3 : rows == 4 ? 2 : size;
	if (rows == size || rng_below(rng, 2))
		return;
	for (unsigned i = 0; i < s->count; i++)
		if (s->plans[i].is_bounded && s->plans[i].operation == OPERATION_ALLREDUCE)
			s->plans[i].bounded.rows = rows;
}

bool bounded_plan_gathers(const struct coll_plan *plan)
{
	return plan->operation == OPERATION_ALLGATHER || plan->operation == OPERATION_BROADCAST;
}

void bounded_scenario_draw(uint64_t seed, struct coll_scenario *s)
{
	static const struct coll_limits limits = {
		.large_in = 3,
		.rate_least_bps = 100000000,
		.delay_most_ns = 5 * MS,
		.lossless_in = 4,
		.loss_divisor = 20000,
		.bursts_in = 3,
		.burst_enter = 0.002,
		.reorders_in = 4,
		.skew_most_ns = 30 * MS,
		.operations_max = OPERATIONS_MAX,
		.faults_in = 6,
		.fault_most_ns = 300 * MS,
	};
	struct rng rng;

	coll_scenario_begin(&rng, &limits, seed, s);
	coll_scenario_pace(&rng, &limits, s);
	for (unsigned i = 0; i < s->count; i++)
		draw_plan(&rng, s->attr.shape.hosts, &s->plans[i]);
	/* Deadlines adapt to operations of one size. Those that were not drawn are bounded sums. */
	if (!rng_below(&rng, 3)) {
		for (; s->count < OPERATIONS_MAX; s->count++)
			s->plans[s->count] = (struct coll_plan){ .operation = OPERATION_ALLREDUCE,
								 .is_bounded = true };
		for (unsigned i = 0; i < s->count; i++) {
			s->plans[i].attr.count = s->plans[0].attr.count;
			s->plans[i].bounded.deadline_ns = 0;
		}
	}
	for (unsigned i = 0; i < s->count; i++)
		transform_some(&s->plans[i]);
	arrange_some(&rng, s->attr.shape.hosts, s);
	s->straggler = coll_scenario_rank(&rng, 2, s);
	s->late_ns = coll_spread(&rng, MS, 2 * SECOND);
	s->late_chance = 0.1 + 0.9 * rng_unit(&rng);
	s->drifter = coll_scenario_rank(&rng, 6, s);
	coll_scenario_fault(&rng, &limits, s);
}

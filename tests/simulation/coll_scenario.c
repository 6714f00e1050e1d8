/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws the scenarios of colltest. */
#include "simulation/coll_scenario.h"

#include <string.h>

#include "collective/multicast.h"

#define US		UINT64_C(1000)
#define MS		UINT64_C(1000000)
#define SECOND		UINT64_C(1000000000)
#define PEER_TIMEOUT_NS (20 * SECOND)

static uint64_t spread(struct rng *rng, uint64_t low, uint64_t high)
{
	uint64_t value = low;

	while (value < high && rng_below(rng, 3))
		value *= 2;
	return value < high ? value + rng_below(rng, value + 1) : high;
}

static void draw_path(struct rng *rng, struct coll_scenario *s)
{
	struct link_attr *edge = &s->attr.shape.edge;

	edge->rate_bps = spread(rng, 50000000, UINT64_C(20000000000));
	edge->delay_ns = spread(rng, 500, 20 * MS);
	if (rng_below(rng, 3))
		edge->loss = (double)rng_below(rng, 1000) / (rng_below(rng, 4) ? 50000 : 5000);
	if (!rng_below(rng, 4)) {
		edge->burst_enter = 0.001;
		edge->burst_leave = 0.1;
		edge->burst_loss = 0.8;
		edge->burst_max_ns = 10 * MS;
	}
	if (!rng_below(rng, 3))
		edge->duplicate = 0.01;
	if (!rng_below(rng, 3)) {
		edge->reorder = 0.05;
		edge->reorder_ns = edge->delay_ns;
	}
	if (!rng_below(rng, 4))
		edge->jitter_ns = edge->delay_ns / 2;
	if (!rng_below(rng, 3))
		edge->queue_bytes = 200000 + rng_below(rng, 1000000);
}

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
		return spread(rng, 2, 20000);
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

	s->without = rng_below(rng, 16) ? size : (uint32_t)rng_below(rng, size);
	s->deaf = rng_below(rng, 6) ? size : (uint32_t)rng_below(rng, size);
	s->deaf_ns = COLL_START_NS + spread(rng, MS, 500 * MS);
	s->lossy = rng_below(rng, 8) ? size : (uint32_t)rng_below(rng, size);
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

void coll_scenario_draw(uint64_t seed, struct coll_scenario *s)
{
	struct rng rng;
	uint32_t size;

	memset(s, 0, sizeof(*s));
	rng_seed(&rng, seed);
	s->seed = seed;
	size = (uint32_t)(rng_below(&rng, 8) ? 2 + rng_below(&rng, 4) : 2 + rng_below(&rng, 8));
	s->attr.seed = seed + 1;
	s->attr.sim = (struct sim_attr){ .seed = seed + 2,
					 .payload = rng_below(&rng, 2) ? 4096 : 1024,
					 .start_ns = COLL_START_NS };
	s->attr.shape.shape = size == 2 ? SIM_PAIR : SIM_STAR;
	s->attr.shape.hosts = size;
	draw_path(&rng, s);
	if (!rng_below(&rng, 4))
		s->attr.host = (struct sim_host_attr){ .nic = true,
						       .fence_ns = 20 * US,
						       .read_ns = 10 * US,
						       .completion_ns = 10 * US,
						       .lifetime_ns = MS };
	s->attr.context =
		(struct gw_context_attr){ .max_qps = 256, .max_sends = 4096, .max_recvs = 4096 };
	s->attr.comm.tracks = 1 + (uint32_t)rng_below(&rng, 4);
	s->attr.comm.peer_timeout_ns = PEER_TIMEOUT_NS;
	s->attr.comm.flags = rng_below(&rng, 4) ? 0 : GW_COMM_FIXED_ORDER;
	s->attr.comm.segment_bytes =
		rng_below(&rng, 2) ? 0 : 1000 + (uint32_t)rng_below(&rng, 30000);
	s->attr.mail_ns = spread(&rng, 10 * US, 50 * MS);
	s->skew_ns = spread(&rng, US, 100 * MS);
	s->count = 1 + (unsigned)rng_below(&rng, COLL_OPERATIONS_MAX);
	for (unsigned i = 0; i < s->count; i++)
		draw_plan(&rng, s, &s->plans[i]);
	s->victim = size;
	if (size > 1 && !rng_below(&rng, 4)) {
		s->victim = (uint32_t)rng_below(&rng, size);
		s->aborts = rng_below(&rng, 2);
		s->fault_ns = COLL_START_NS + spread(&rng, US, 200 * MS);
	}
	draw_multicast(&rng, s);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws what the scenarios of colltest and boundedtest have in common. */
#include "simulation/coll_scenario.h"

#include <string.h>

#define PEER_TIMEOUT_NS (20 * SECOND)

uint64_t coll_spread(struct rng *rng, uint64_t low, uint64_t high)
{
	uint64_t value = low;

	while (value < high && rng_below(rng, 3))
		value *= 2;
	return value < high ? value + rng_below(rng, value + 1) : high;
}

uint32_t coll_scenario_rank(struct rng *rng, uint32_t in, const struct coll_scenario *s)
{
	uint32_t size = s->attr.shape.hosts;

	return rng_below(rng, in) ? size : (uint32_t)rng_below(rng, size);
}

static void draw_path(struct rng *rng, const struct coll_limits *limits, struct link_attr *edge)
{
	edge->rate_bps = coll_spread(rng, limits->rate_least_bps, UINT64_C(20000000000));
	edge->delay_ns = coll_spread(rng, 500, limits->delay_most_ns);
	if (rng_below(rng, limits->lossless_in)) {
		edge->loss = (double)rng_below(rng, 1000);
		edge->loss /= rng_below(rng, 4) ? limits->loss_divisor : 5000;
	}
	if (!rng_below(rng, limits->bursts_in)) {
		edge->burst_enter = limits->burst_enter;
		edge->burst_leave = 0.1;
		edge->burst_loss = 0.8;
		edge->burst_max_ns = 10 * MS;
	}
	if (limits->duplicates_in && !rng_below(rng, limits->duplicates_in))
		edge->duplicate = 0.01;
	if (!rng_below(rng, limits->reorders_in)) {
		edge->reorder = 0.05;
		edge->reorder_ns = edge->delay_ns;
	}
	if (!rng_below(rng, 4))
		edge->jitter_ns = edge->delay_ns / 2;
	if (!rng_below(rng, 3))
		edge->queue_bytes = 200000 + rng_below(rng, 1000000);
}

void coll_scenario_begin(struct rng *rng, const struct coll_limits *limits, uint64_t seed,
			 struct coll_scenario *s)
{
	uint32_t most, size;

	memset(s, 0, sizeof(*s));
	rng_seed(rng, seed);
	s->seed = seed;
	most = rng_below(rng, limits->large_in) ? 5 : COLL_RANKS_MAX;
	size = 2 + (uint32_t)rng_below(rng, most - 1);
	s->attr.seed = seed + 1;
	s->attr.sim = (struct sim_attr){ .seed = seed + 2,
					 .payload = rng_below(rng, 2) ? 4096 : 1024,
					 .start_ns = COLL_START_NS };
	s->attr.shape.shape = size == 2 ? SIM_PAIR : SIM_STAR;
	s->attr.shape.hosts = size;
	draw_path(rng, limits, &s->attr.shape.edge);
	if (!rng_below(rng, 4))
		s->attr.host = (struct sim_host_attr){ .nic = true,
						       .fence_ns = 20 * US,
						       .read_ns = 10 * US,
						       .completion_ns = 10 * US,
						       .lifetime_ns = MS };
	s->attr.context =
		(struct gw_context_attr){ .max_qps = 256, .max_sends = 4096, .max_recvs = 4096 };
	s->attr.comm.tracks = 1 + (uint32_t)rng_below(rng, 4);
	s->attr.comm.peer_timeout_ns = PEER_TIMEOUT_NS;
	s->victim = s->straggler = s->drifter = s->without = s->deaf = s->lossy = size;
}

void coll_scenario_pace(struct rng *rng, const struct coll_limits *limits, struct coll_scenario *s)
{
	s->attr.mail_ns = coll_spread(rng, 10 * US, 50 * MS);
	s->skew_ns = coll_spread(rng, US, limits->skew_most_ns);
	s->count = 1 + (unsigned)rng_below(rng, limits->operations_max);
}

void coll_scenario_fault(struct rng *rng, const struct coll_limits *limits, struct coll_scenario *s)
{
	s->victim = coll_scenario_rank(rng, limits->faults_in, s);
	if (s->victim == s->attr.shape.hosts)
		return;
	s->aborts = limits->aborts && rng_below(rng, 2);
	s->fault_ns = COLL_START_NS + coll_spread(rng, US, limits->fault_most_ns);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_scenario.h: what a seed of colltest or boundedtest draws: ranks, path, operations, and what goes wrong. The two tests
 * share the scenario and most of the draws; what is bounded, bounded_scenario.h draws.
 */
#ifndef SIMULATION_COLL_SCENARIO_H
#define SIMULATION_COLL_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

#include <godwit/bounded_collective.h>

#include "collective/algorithm.h"
#include "simulation/ranks.h"

#define US     UINT64_C(1000)
#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

/* Time at which every scenario begins, in ns. */
#define COLL_START_NS	    SECOND
#define COLL_OPERATIONS_MAX 24
#define COLL_RANKS_MAX	    9

/* One operation, the same on all ranks. */
struct coll_plan {
	enum operation operation;
	struct gw_coll_attr attr;
	bool in_place;
	bool is_bounded;
	struct gw_bounded_attr bounded;
};

/* Where a member names a rank, the number of ranks stands for none. */
struct coll_scenario {
	uint64_t seed;
	struct ranks_attr attr;
	struct coll_plan plans[COLL_OPERATIONS_MAX];
	unsigned count;
	/* time after which the ranks post the first operation, and each of the following ones, at most */
	uint64_t skew_ns;
	/* a rank that dies, or aborts */
	uint32_t victim;
	bool aborts;
	uint64_t fault_ns;
	/* a rank that posts each operation up to this much later, with this chance */
	uint32_t straggler;
	uint64_t late_ns;
	double late_chance;
	/* a rank whose digest of bounded results is changed after its first operation */
	uint32_t drifter;
	/* a rank that has no multicast; one that loses all of it, both ways, from a time on; one whose way in loses 30 % */
	uint32_t without;
	uint32_t deaf;
	uint64_t deaf_ns;
	uint32_t lossy;
};

/* The numbers in which the draws of the two tests differ. "In" means: one scenario in so many. */
struct coll_limits {
	/* scenarios with up to COLL_RANKS_MAX ranks; the others have up to 5 */
	uint32_t large_in;
	uint64_t rate_least_bps;
	uint64_t delay_most_ns;
	/* paths without random loss, and the divisor of light loss, which is 1000 / loss_divisor at most */
	uint32_t lossless_in;
	double loss_divisor;
	uint32_t bursts_in;
	double burst_enter;
	/* paths that duplicate packets; 0: none */
	uint32_t duplicates_in;
	uint32_t reorders_in;
	uint64_t skew_most_ns;
	uint32_t operations_max;
	/* scenarios with a rank that dies, by when at most, and whether it may abort instead */
	uint32_t faults_in;
	uint64_t fault_most_ns;
	bool aborts;
};

/* From `low` to `high`, as likely small as large by the logarithm. */
uint64_t coll_spread(struct rng *rng, uint64_t low, uint64_t high);

/* The steps that both tests take, in this order: seed, ranks and network; times and number of operations; the fault. Between
 * them each draws what is its own. No rank is special until one is drawn. */
void coll_scenario_begin(struct rng *rng, const struct coll_limits *limits, uint64_t seed,
			 struct coll_scenario *s);
void coll_scenario_pace(struct rng *rng, const struct coll_limits *limits, struct coll_scenario *s);
void coll_scenario_fault(struct rng *rng, const struct coll_limits *limits,
			 struct coll_scenario *s);

/* A rank, in one scenario of `in`; otherwise none. */
uint32_t coll_scenario_rank(struct rng *rng, uint32_t in, const struct coll_scenario *s);

#endif

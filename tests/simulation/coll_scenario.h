/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_scenario.h: what a seed of colltest draws: ranks, path, operations, and what goes wrong. */
#ifndef SIMULATION_COLL_SCENARIO_H
#define SIMULATION_COLL_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

#include "collective/algorithm.h"
#include "simulation/ranks.h"

/* Time at which every scenario begins, in ns. */
#define COLL_START_NS	    UINT64_C(1000000000)
#define COLL_OPERATIONS_MAX 8

/* One operation, the same on all ranks. */
struct coll_plan {
	enum operation operation;
	struct gw_coll_attr attr;
	bool in_place;
};

struct coll_scenario {
	uint64_t seed;
	struct ranks_attr attr;
	struct coll_plan plans[COLL_OPERATIONS_MAX];
	unsigned count;
	/* time after which the ranks post the first operation, and each of the following ones, at most */
	uint64_t skew_ns;
	/* a rank that dies, or aborts; size: none */
	uint32_t victim;
	bool aborts;
	uint64_t fault_ns;
	/* a rank that has no multicast; one that loses all of it, both ways, from a time on; one whose way in loses 30 %; size: none */
	uint32_t without;
	uint32_t deaf;
	uint64_t deaf_ns;
	uint32_t lossy;
};

/* The same seed draws the same scenario. */
void coll_scenario_draw(uint64_t seed, struct coll_scenario *s);

#endif

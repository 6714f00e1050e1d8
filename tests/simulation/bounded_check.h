/* SPDX-License-Identifier: BSD-3-Clause */
/* bounded_check.h: what must hold of bounded operations that have ended. */
#ifndef SIMULATION_BOUNDED_CHECK_H
#define SIMULATION_BOUNDED_CHECK_H

#include "simulation/coll_run.h"

/* Operations of each kind, over all scenarios. */
struct bounded_sights {
	uint64_t operations, whole, lost, deadline, late, poor, diverged, holes, gathered,
		transformed, grids, previous;
};
extern struct bounded_sights bounded_sights;

/* 2^rank in every element: the sum with zeros for what is missing says which shares are in it, and it is exact in every type. */
int bounded_given(uint32_t rank, uint64_t index);

/* Checks all operations of a run, and counts them. */
void bounded_check_run(struct coll_run *run);

#endif

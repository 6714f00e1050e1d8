/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run.h: a scenario run to its end under the design's invariants:
 *
 *  - every request ends, and within bounded virtual time;
 *  - an exact message arrives whole, or fails for a reason the scenario holds;
 *  - a bit that is set stands for bytes that are right, in the i-th receive for the i-th send;
 *  - nothing lands outside a buffer, and nothing in it after release;
 *  - nothing is told twice;
 *  - memory returns to where it started.
 */
#ifndef SIMULATION_RUN_H
#define SIMULATION_RUN_H

#include "simulation/scenario.h"
#include "simulation/sights.h"

struct run_result {
	bool failed;
	char why[256];
	uint64_t hash; /* of everything that happened */
	uint64_t events;
	uint64_t virtual_ns;
	uint64_t sights[SIGHTS];
};

/* `trace` prints the last events of a run that fails. */
void scenario_run(const struct scenario *scenario, bool trace, struct run_result *out);

#endif

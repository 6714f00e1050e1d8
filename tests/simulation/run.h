/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run.h: runs a scenario to its end and checks the invariants of the design:
 *
 *  - every request ends, and within bounded virtual time;
 *  - an exact message arrives whole, or fails for a reason that is in the scenario;
 *  - where a bit is set the bytes are right: those of the i-th send in the i-th receive;
 *  - nothing is written outside a buffer, and nothing into it after its release;
 *  - no end is reported twice;
 *  - memory returns to where it started.
 */
#ifndef SIMULATION_RUN_H
#define SIMULATION_RUN_H

#include "simulation/scenario.h"
#include "simulation/sights.h"

struct run_result {
	bool failed;
	char why[256];
	/* Hash over every arrival (sim_hash). */
	uint64_t hash;
	/* Packet arrivals. */
	uint64_t events;
	uint64_t virtual_ns;
	/* Number of occurrences of each rare event. */
	uint64_t sights[SIGHTS];
};

/* Runs a scenario. With `trace` it prints the last events of a run that fails. */
void scenario_run(const struct scenario *scenario, bool trace, struct run_result *out);

#endif

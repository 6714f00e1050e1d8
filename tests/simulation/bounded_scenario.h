/* SPDX-License-Identifier: BSD-3-Clause */
/* bounded_scenario.h: what a seed of boundedtest draws. */
#ifndef SIMULATION_BOUNDED_SCENARIO_H
#define SIMULATION_BOUNDED_SCENARIO_H

#include "simulation/coll_scenario.h"

/* The same seed draws the same scenario. */
void bounded_scenario_draw(uint64_t seed, struct coll_scenario *s);

/* Whether an operation gathers blocks instead of reducing. */
bool bounded_plan_gathers(const struct coll_plan *plan);

#endif

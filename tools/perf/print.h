/* SPDX-License-Identifier: BSD-3-Clause */
/* What was measured, for a person (a line a size, as it comes) and as JSON (one object at the end). */
#ifndef TOOLS_PERF_PRINT_H
#define TOOLS_PERF_PRINT_H

#include <jansson.h>
#include <stdbool.h>

#include "measure.h"
#include "plan.h"

/* The head of the table: what is measured, with whom, and what the columns are. */
void perf_print_head(const struct perf_plan *plan, const char *peer, bool icrc);
void perf_print_row(const struct perf_plan *plan, bool client, const struct perf_measurement *what);

/* What all sizes have in common, and one size. */
json_t *perf_json_plan(const struct perf_plan *plan, bool client);
json_t *perf_json_row(const struct perf_plan *plan, bool client,
		      const struct perf_measurement *what);

#endif

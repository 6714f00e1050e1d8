/* SPDX-License-Identifier: BSD-3-Clause */
/* One size, measured: what both ends do alike once they agree on a plan. */
#ifndef TOOLS_PERF_MEASURE_H
#define TOOLS_PERF_MEASURE_H

#include "interval.h"
#include "result.h"
#include "records.h"
#include "team.h"
#include "tools/progress.h"

struct perf_measurement {
	struct perf_result here;
	struct perf_result there;
	/* the packets had an ICRC */
	bool icrc;
};

/*
 * Connects the open benches, warms up, measures, and trades results with the peer. What goes wrong is explained in the
 * report; the benches stay the caller's to close.
 */
int perf_measure(struct perf_team *team, struct control *control, struct progress *progress,
		 struct perf_intervals *intervals, struct perf_measurement *out);

#endif

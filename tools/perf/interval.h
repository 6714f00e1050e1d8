/* SPDX-License-Identifier: BSD-3-Clause */
/* What moves in each interval of a measurement, as this end sees it: a line each, or entries of a JSON array. */
#ifndef TOOLS_PERF_INTERVAL_H
#define TOOLS_PERF_INTERVAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct perf_team;

struct perf_intervals {
	/* length of an interval; 0: none are reported */
	uint64_t every_ns;
	/* array that takes entries in place of lines; null: lines are printed */
	json_t *entries;
	/* end of the interval under way */
	uint64_t next_ns;
	/* time and counts at the end of the last interval */
	uint64_t last_ns;
	uint64_t bytes;
	uint64_t messages;
	uint64_t repeated;
};

/* A measurement begins. */
void perf_intervals_begin(struct perf_intervals *intervals, struct perf_team *team);

/* True if an interval is over: call perf_intervals_report(). */
bool perf_intervals_due(const struct perf_intervals *intervals, uint64_t now);

/* Reports what moved since the last report. */
void perf_intervals_report(struct perf_intervals *intervals, struct perf_team *team, uint64_t now);

/* The measurement is over: reports the last interval, which may be shorter, unless it is too short to tell anything. */
void perf_intervals_end(struct perf_intervals *intervals, struct perf_team *team, uint64_t now);

#endif

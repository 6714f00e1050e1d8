/* SPDX-License-Identifier: BSD-3-Clause */
/* What boundedsim is told to do. */
#ifndef BENCH_BOUNDED_SETTING_H
#define BENCH_BOUNDED_SETTING_H

#include <stdbool.h>
#include <stdint.h>

#include <godwit/bounded_collective.h>

/* Operations at the start that are not counted: deadlines adapt. */
#define WARMUP 8

struct setting {
	uint64_t ranks, bytes, operations, seed, late_ns, compute_ns, tracks, rtt_ns, rate_bps,
		tail_ns, step_ns, rows, buckets;
	double loss, burst, late, unbiased;
	bool exact;
	/* the straggler is late by `late_ns` each time; else on the mean */
	bool late_fixed;
	struct gw_bounded_attr bounded;
};

/* Reads the command line. Returns 0, or 1 if it is wrong: `setting_usage` says what is right. */
int setting_read(int argc, char **argv, struct setting *out);
extern const char setting_usage[];

#endif

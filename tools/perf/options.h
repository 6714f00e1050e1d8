/* SPDX-License-Identifier: BSD-3-Clause */
/* What `godwit perf` is told on the command line. Without a host it is the server, and what to measure is not its choice. */
#ifndef TOOLS_PERF_OPTIONS_H
#define TOOLS_PERF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/options.h"
#include "plan.h"

struct report;

#define PERF_SIZES_MAX 64

struct perf_options {
	struct options common;
	/* most memory that messages may take */
	uint64_t memory_bytes;
	/* the server goes on after a test */
	bool keep;
	/* length of the intervals that this end tells about; 0: none */
	uint64_t interval_ns;
	/* the client's */
	/* without the size, and without the depth unless that was given */
	struct perf_plan plan;
	bool depth_given;
	/* bytes after which a test ends, over all channels; 0: not given */
	uint64_t bytes;
	unsigned size_count;
	uint64_t sizes[PERF_SIZES_MAX];
};

/* What is wrong goes into the report, as a usage error, and -EINVAL comes back. */
int perf_options_parse(int argc, char **argv, struct report *report, struct perf_options *out);

/* The whole plan for one size. Depth is lowered to what fits unless it was given. */
struct perf_plan perf_options_plan(const struct perf_options *options, uint64_t size);

#endif

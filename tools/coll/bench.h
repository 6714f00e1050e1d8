/* SPDX-License-Identifier: BSD-3-Clause */
/* bench.h: what the files of `godwit coll` share while it measures. */
#ifndef TOOLS_COLL_BENCH_H
#define TOOLS_COLL_BENCH_H

#include "bounded.h"
#include "buffers.h"
#include "job.h"

struct bench {
	struct coll_job job;
	struct gw_comm *comm;
	uint32_t rank, size;
	struct coll_buffers buffers;
	/* elements, as struct gw_coll_attr has them */
	uint64_t count;
	/* one for each timed operation, ns */
	double *times;
	json_t *rows;
	/* every rank looked at its result of this size */
	bool checked;
	uint64_t wrong_in_all;
	/* of the bounded operations of one size */
	struct coll_losses losses;
	/* what the operation waited for that a signal interrupted */
	char waiting[256];
	/* the last operation is complete */
	bool whole;
};

/* Rank 0 prints the head of the table. */
void bench_head(const struct bench *bench);

/* Rank 0 prints a line of the table, or keeps a row of JSON, for a size; `mean` in ns. */
void bench_show(struct bench *bench, uint64_t bytes, uint64_t iterations, double mean,
		double wrong);

#endif

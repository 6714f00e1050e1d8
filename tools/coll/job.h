/* SPDX-License-Identifier: BSD-3-Clause */
/* What `godwit coll` was asked to do. */
#ifndef TOOLS_COLL_JOB_H
#define TOOLS_COLL_JOB_H

#include <godwit/bounded_collective.h>

#include "tools/report.h"
#include "values.h"

struct coll_job {
	enum coll_operation operation;
	/* bytes as nccl-tests count them: the larger of what a rank gives and gets */
	uint64_t from, to;
	/* each size is so many times the one before */
	uint64_t factor;
	enum gw_type type;
	enum gw_reduction reduction;
	enum gw_algorithm algorithm;
	uint32_t root;
	/* operations that are timed; 0: for about a second */
	uint64_t iterations;
	uint64_t warmup;
	/* operations that are in flight at a time */
	uint64_t in_flight;
	bool in_place;
	bool no_check;
	/* operations are bounded, with these attributes */
	bool bounded;
	struct gw_bounded_attr limits;
	struct gw_comm_attr comm;
	struct report report;
};

/* Reads the command line. -EINVAL, and what is wrong is in the report. */
int coll_job_read(int argc, char **argv, struct coll_job *job);

const char *coll_operation_name(enum coll_operation operation);
const char *coll_type_name(enum gw_type type);
const char *coll_reduction_name(enum gw_reduction reduction);
const char *coll_algorithm_name(enum gw_algorithm algorithm);

#endif

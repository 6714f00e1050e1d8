/* SPDX-License-Identifier: BSD-3-Clause */
/* What `godwit mesh` was asked to do. */
#ifndef TOOLS_MESH_JOB_H
#define TOOLS_MESH_JOB_H

#include <godwit/collective.h>

#include "tools/report.h"

#define MESH_RANKS_MAX 512

struct mesh_job {
	/* source ports that each pair is measured with */
	uint32_t ports;
	/* times that everything is measured */
	uint32_t passes;
	/* of each part of a measurement */
	uint64_t time_ns;
	/* file to write; null: none */
	const char *html;
	struct gw_comm_attr comm;
	struct report report;
};

/* Reads the command line. -EINVAL, and what is wrong is in the report. */
int mesh_job_read(int argc, char **argv, struct mesh_job *job);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rank of a job this process is. */
#ifndef TOOLS_RANKS_H
#define TOOLS_RANKS_H

#include <godwit/collective.h>

struct report;

/* gw_comm_attr.rank before the options are read, and as long as there is no --rank */
#define RANKS_NOT_GIVEN GW_COMM_NONE

/* Whether --rank, --ranks and --root-host are given all, and go together, or none: then rank 0 stands for none. -EINVAL, and what is
 * wrong is in the report. */
int ranks_check(struct report *report, struct gw_comm_attr *comm);

#endif

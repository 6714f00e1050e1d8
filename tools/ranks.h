/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rank of a job this process is, by its command line or by a launcher's environment. */
#ifndef TOOLS_RANKS_H
#define TOOLS_RANKS_H

#include <stdbool.h>

#include <godwit/collective.h>

struct report;

/* gw_comm_attr.rank before the options are read, and as long as there is no --rank */
#define RANKS_NOT_GIVEN GW_COMM_NONE

/* Whether --rank, --ranks and --root-host are given all, and go together, or none: then rank 0 stands for none. -EINVAL, and what is
 * wrong is in the report. */
int ranks_check(struct report *report, struct gw_comm_attr *comm);

/*
 * Whether a command that fails before the ranks have met is to print its JSON object: not if --rank or a launcher says that this is
 * another rank than 0. One object is then all that a job prints, since what stops one rank stops rank 0 as well.
 */
bool ranks_may_speak(int argc, char **argv);

#endif

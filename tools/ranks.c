/* SPDX-License-Identifier: BSD-3-Clause */
#include "ranks.h"

#include <stddef.h>

#include "report.h"

int ranks_check(struct report *report, struct gw_comm_attr *comm)
{
	bool given = comm->rank != RANKS_NOT_GIVEN;

	if (given != (comm->size > 0) || given != (comm->root != NULL))
		return report_usage(report, "--rank, --ranks and --root-host belong together");
	if (!given)
		comm->rank = 0;
	else if (comm->rank >= comm->size)
		return report_usage(report, "--rank %u: there are ranks 0 to %u", comm->rank,
				    comm->size - 1);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* The value of --rank. The command line may be wrong, so that no table of options has been gone through. */
static const char *from_options(int argc, char **argv)
{
	static const char option[] = "--rank";
	const size_t length = sizeof(option) - 1;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], option))
			return i + 1 < argc ? argv[i + 1] : NULL;
		if (!strncmp(argv[i], option, length) && argv[i][length] == '=')
			return argv[i] + length + 1;
	}
	return NULL;
}

/* In the order in which a communicator looks at them, see `man libgodwit-collective`. */
static const char *from_launcher(void)
{
	static const char *const names[] = { "GODWIT_RANK", "RANK", "OMPI_COMM_WORLD_RANK",
					     "PMI_RANK" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value && value[0])
			return value;
	}
	return getenv("SLURM_STEP_ID") || getenv("SLURM_STEPID") ? getenv("SLURM_PROCID") : NULL;
}

bool ranks_may_speak(int argc, char **argv)
{
	const char *rank = from_options(argc, argv);

	if (!rank)
		rank = from_launcher();
	return !rank || strtoul(rank, NULL, 10) == 0;
}

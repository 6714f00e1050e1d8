/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crew.h: the process that is the switch and the parent of every host's command. It is the first process of its
 * process namespace: should it die, in whatever way, the kernel kills all that was started below it.
 */
#ifndef LAB_CREW_H
#define LAB_CREW_H

#include <sys/resource.h>

#include "plan.h"
#include "switch.h"

#define CREW_RUNNING (-1)

/* Memory shared with the process that started the lab; it is read once the crew has ended. */
struct lab_result {
	char error[LAB_ERROR_SIZE]; /* empty: none */
	bool finished;
	int first_failed; /* host whose command was the first to fail; CREW_RUNNING: none */
	int status[LAB_HOSTS_MAX]; /* exit status as a shell would show it, or CREW_RUNNING */
	uint64_t overruns
		[LAB_HOSTS_MAX]; /* lost by no plan, but because the switch did not keep up */
	uint64_t elapsed_ns;
	struct switch_counts counts;
};

struct crew_pipes {
	struct rlimit files;	      /* on open files, as the commands are to have it */
	int lifeline;		      /* reads as ended once the starter is gone */
	int output[LAB_HOSTS_MAX][2]; /* standard output and error of each command */
};

/* Runs the lab to its end and exits. SIGTERM asks for an early one. */
void crew_run(const struct lab_plan *plan, const struct crew_pipes *pipes,
	      struct lab_result *result) __attribute__((noreturn));

#endif

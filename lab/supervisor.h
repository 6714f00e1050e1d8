/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * supervisor.h: the process that runs the switch and is the parent of every host's command. It is the first process of its
 * process namespace: when it ends, for whatever reason, the kernel kills everything that was started below it.
 */
#ifndef LAB_SUPERVISOR_H
#define LAB_SUPERVISOR_H

#include <sys/resource.h>

#include "config.h"
#include "switch.h"
#include "terminal.h"

/* In place of an exit status or a host: the command is still running, or none failed. */
#define LAB_RUNNING (-1)

/* Memory shared with the process that started the lab, which reads it after the supervisor has ended. */
struct lab_result {
	/* why the lab itself failed; empty: it did not */
	char error[LAB_ERROR_SIZE];
	/* all commands have ended and everything below is set */
	bool finished;
	/* host whose command was the first to fail, or LAB_RUNNING */
	int first_failed;
	/* exit status of each command as a shell shows it, or LAB_RUNNING */
	int status[LAB_HOSTS_MAX];
	/* packets that each host's kernel dropped because the switch was too slow */
	uint64_t overruns[LAB_HOSTS_MAX];
	/* from the start of the commands to the end of the last one */
	uint64_t elapsed_ns;
	struct switch_counts counts;
};

struct supervisor_pipes {
	/* limit on open files that the commands get */
	struct rlimit files;
	/* read end of a pipe that reaches end of file when the starter has ended */
	int lifeline;
	/* standard output and error of each command */
	int output[LAB_HOSTS_MAX][2];
	/* terminal for the shell of config->shell */
	struct terminal terminal;
};

/* Runs the lab to its end and exits. SIGTERM, SIGINT and SIGHUP end it early. */
void supervisor_run(const struct lab_config *config, const struct supervisor_pipes *pipes,
		    struct lab_result *result) __attribute__((noreturn));

#endif

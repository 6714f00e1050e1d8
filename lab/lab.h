/* SPDX-License-Identifier: BSD-3-Clause */
/* lab.h: runs a lab, a network of hosts on this machine, as a struct lab_config describes it. */
#ifndef LAB_LAB_H
#define LAB_LAB_H

#include <stdio.h>

#include "supervisor.h"
#include "config.h"

struct lab_outcome {
	/* signal that ended the lab early; 0: none */
	int signal;
	struct lab_result *result;
};

/*
 * Builds the network, runs the command in every host, prints their output and removes everything. SIGINT, SIGTERM and
 * SIGHUP end it early; a second one ends it at once. Returns 0, with the commands' statuses in the result, which
 * lab_forget() frees; or -errno if the lab itself failed, with the reason in error.
 */
int lab_run(const struct lab_config *config, struct lab_outcome *out, char error[LAB_ERROR_SIZE]);
void lab_forget(struct lab_outcome *outcome);

/* Prints the result as one JSON object on a line. Returns 0, -ENOMEM or -EIO. */
int lab_print_json(const struct lab_config *config, const struct lab_outcome *outcome, FILE *to);

/* Prints what each link forwarded and dropped, and how long packets waited for it, as a table with a line for each link that
 * had packets. */
void lab_print_summary(const struct lab_config *config, const struct lab_outcome *outcome,
		       FILE *to);

/* True if packets left so late that what was measured in the lab may be wrong. */
bool lab_was_late(const struct lab_config *config, const struct switch_counts *counts);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* lab.h: runs a plan. */
#ifndef LAB_LAB_H
#define LAB_LAB_H

#include <stdio.h>

#include "crew.h"
#include "plan.h"

struct lab_outcome {
	int signal; /* that ended it early; 0: none */
	struct lab_result *result;
};

/*
 * Builds the network, runs the command in every host, prints what they say and takes everything down. Signals SIGINT,
 * SIGTERM and SIGHUP end it early; a second one, at once. -errno if the lab itself failed, with the reason in error;
 * the commands' statuses are in the result, which lab_forget() frees.
 */
int lab_run(const struct lab_plan *plan, struct lab_outcome *out, char error[LAB_ERROR_SIZE]);
void lab_forget(struct lab_outcome *outcome);

/* One JSON object on a line. -ENOMEM. */
int lab_print_json(const struct lab_plan *plan, const struct lab_outcome *outcome, FILE *to);

/* True if packets left so late that the numbers measured in the lab are in doubt. */
bool lab_was_late(const struct lab_plan *plan, const struct switch_counts *counts);

#endif

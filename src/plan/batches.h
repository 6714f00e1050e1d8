/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * batches.h: groups that fare alike, which the closed form sums over.
 *
 * Groups whose sending ended at times spread evenly over a stretch make a batch. With n repair rounds a group at time t is
 * done at t + batch_cost_ns(n), and log_done[n] is the logarithm of the chance that n rounds are enough. Private to the
 * closed form.
 */
#ifndef PLAN_BATCHES_H
#define PLAN_BATCHES_H

#include "plan/process.h"

#define ROUNDS_MAX  512
#define BATCHES_MAX 11
#define NEGLIGIBLE  1e-9 /* chance that a message needs more rounds than are looked at */

struct batch {
	double first_ns; /* the first group ended just behind this */
	double last_ns;
	double groups;	  /* that fare independently */
	double weight;	  /* that there are */
	double repair_ns; /* cost of the first round, of the second, and of each after */
	double again_ns;
	double later_ns;
	const struct process
		*told;	  /* what is said until it is heard: costs as in there, not as above */
	double log_early; /* chance that a group is done before its turn comes */
	unsigned rounds;  /* done[] has so many entries; behind them it is 1 */
	double log_done[ROUNDS_MAX];
};

struct batches {
	struct batch list[BATCHES_MAX];
	unsigned count;
	struct batch result; /* not a group: the sender hears of the end as if it were one */
	double start_ns;     /* no message is over before */
};

double batch_cost_ns(const struct batch *batch, unsigned rounds);

void batches_make(const struct process *process, struct batches *out);

/* Chance that no group needs a repair. */
double batches_no_repair(const struct batches *batches);

/* Chance that a full group needs one. */
double batches_group_fails(const struct process *process);

/* How much later than possible the sender hears of the end, on average, because results are lost. */
double batches_mean_result_ns(const struct process *process);

#endif

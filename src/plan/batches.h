/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * batches.h: groups with the same statistics, which the closed form sums over.
 *
 * A batch is a number of groups whose last units left at times spread evenly over an interval. A group that left at time t
 * is complete after n repair rounds at t + cost_ns[n], and log_done[n] is the logarithm of the probability that n
 * rounds are enough. Used by closed.c only.
 */
#ifndef PLAN_BATCHES_H
#define PLAN_BATCHES_H

#include "plan/process.h"

#define ROUNDS_MAX  512
#define BATCHES_MAX 11
/* Probability below which a further repair round is ignored. */
#define NEGLIGIBLE 1e-9

struct batch {
	/* times at which the first and the last group left */
	double first_ns;
	double last_ns;
	/* groups, counting those that one burst hits together as one */
	double groups;
	/* groups in all */
	double weight;
	/* duration of the first repair round, of the second, and of each later one */
	double repair_ns;
	double again_ns;
	double later_ns;
	/* set for an announcement or a result: rounds are repetitions, timed by process_told_ns() */
	const struct process *told;
	/* logarithm of the probability that a group is complete before its parity is sent */
	double log_early;
	/* entries in log_done[]; with more rounds a group is complete */
	unsigned rounds;
	double log_done[ROUNDS_MAX];
	/* time that each number of repair rounds up to `rounds` takes */
	double cost_ns[ROUNDS_MAX + 1];
};

struct batches {
	struct batch list[BATCHES_MAX];
	unsigned count;
	/* the result, which the sender waits for as if it were one more group */
	struct batch result;
	/* time before which no message is complete */
	double start_ns;
};

/* Divides the groups of a process into batches. */
void batches_make(const struct process *process, struct batches *batches);

/* Returns the probability that no group needs a repair. */
double batches_no_repair(const struct batches *batches);

/* Returns the probability that a complete group needs one. */
double batches_group_fails(const struct process *process);

/* Returns the mean delay of the result due to lost results. */
double batches_mean_result_ns(const struct process *process);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_run.h: runs a scenario of collectives: every rank posts its operations when they are due, one rank may die, and what holds for
 * every operation is checked. What a result must be, the test that drew the scenario knows.
 */
#ifndef SIMULATION_COLL_RUN_H
#define SIMULATION_COLL_RUN_H

#include <stdio.h>

#include "simulation/coll_scenario.h"

/* An operation of one rank. */
struct coll_part {
	struct coll_run *run;
	const struct coll_plan *plan;
	uint32_t rank;
	unsigned number;
	uint64_t due_ns;
	bool posted;
	/* how often the operation ended */
	unsigned ended;
	int status;
	/* allocations in which `send` and `recv` lie, with a margin on both sides */
	uint8_t *memory[2];
	uint8_t *send, *recv;
	size_t send_bytes, recv_bytes;
	/* the received bytes, as they were at the end */
	uint8_t *result;
	/* an earlier result, all zeros, for a bounded operation */
	uint8_t *previous;
	/* what a bounded operation told at its end, and bytes of each rank that are missing */
	struct gw_bounded_report report;
	uint64_t missing[COLL_RANKS_MAX];
};

struct coll_run {
	const struct coll_test *test;
	const struct coll_scenario *scenario;
	struct ranks ranks;
	/* those of rank 0 first */
	struct coll_part *parts;
	bool struck, deafened;
	bool failed;
	char why[512];
};

/* A test: how it draws a scenario, and what must hold after it. */
struct coll_test {
	/* name of the program */
	const char *name;
	void (*draw)(uint64_t seed, struct coll_scenario *s);
	/* what a rank gives as its i-th element */
	int (*given)(uint32_t rank, uint64_t index);
	/* Checks the operations of a run that has ended, and counts what was seen. */
	void (*check)(struct coll_run *run);
	/* Prints what was seen in so many scenarios. Returns the program's exit status. */
	int (*tell)(uint64_t scenarios, uint64_t faults);
};

/* Only the first reason is kept. */
#define FAIL(run, ...)                                                                             \
	do {                                                                                       \
		if (!(run)->failed)                                                                \
			snprintf((run)->why, sizeof((run)->why), __VA_ARGS__);                     \
		(run)->failed = true;                                                              \
	} while (0)

struct coll_part *coll_part_of(const struct coll_run *run, uint32_t rank, unsigned number);

/* Checks what holds for every operation: margins, one end, a status that has a reason. True if there is a result to look at, which is
 * so if the status is 0 or `accepted`. */
bool coll_check_end(struct coll_part *part, int accepted);

/* Runs the seeds of the command line, up to the first violation. Returns the program's exit status. */
int coll_test_main(const struct coll_test *test, int argc, char **argv);

/* What stands for a number of a rank, where an earlier sum is given: more than all ranks give together. */
#define COLL_PREVIOUS 1024

/* Whether an operation is a sum whose missing numbers are those of an earlier one. */
static inline bool coll_previous_counts(const struct coll_plan *plan)
{
	return plan->is_bounded && plan->bounded.recovery == GW_RECOVER_PREVIOUS &&
	       (plan->operation == OPERATION_ALLREDUCE ||
		plan->operation == OPERATION_REDUCE_SCATTER) &&
	       plan->attr.reduction == GW_SUM && plan->attr.type == GW_FLOAT32;
}

#endif

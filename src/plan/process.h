/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process.h: the sending of a message as a random process. Every scheme is described by one struct process, which the
 * closed form and the sampler both evaluate.
 *
 * Units (packets, or chunks of packets) leave one after another. They form groups of `size`, each of which can lose
 * `spare` of its units. `spread` neighbouring groups make a block, whose units are sent in turn. For a group that lost d
 * units more than it can spare, d further units are sent, some time after the last unit of its block left; those that are
 * lost too are sent again, later. The message is complete when no group misses anything. Selective Repeat is groups of one
 * unit that can spare none. XOR(k, m) is m times as many groups of k / m + 1 units that can spare one, with spread m.
 *
 * Our codes send all data first and then the parity of all groups (`lead`): a message that lost no data is complete before
 * its parity is sent. In SDR-RDMA the parity of a group follows the group.
 */
#ifndef PLAN_PROCESS_H
#define PLAN_PROCESS_H

#include "plan/loss.h"
#include "plan/plan.h"

struct process {
	/* loss of units */
	struct loss_model loss;
	/* time that a unit takes on the wire */
	double unit_ns;
	/* units sent before any repair: data and parity */
	uint64_t units;
	/* units of data among them */
	uint64_t data;

	/* complete groups */
	uint64_t groups;
	/* units in a group */
	unsigned size;
	/* units that a group can lose */
	unsigned spare;
	/* groups in a block */
	unsigned spread;
	/* units of data sent before any parity; 0: each group's parity follows its data */
	uint64_t lead;
	/* units of a group sent after `lead` */
	unsigned turn;
	/* incomplete groups at the end of the message, which form one block, and units in each */
	unsigned last_groups;
	unsigned last_size;

	/* from the last unit of a block leaving to its first repair leaving */
	double first_ns;
	/* from a first repair leaving to the next one, if the repair was lost */
	double again_ns;
	/* the same if the request for the repair was lost */
	double unheard_ns;
	/* from a later repair leaving to the next one */
	double later_ns;
	/* probability that a request is lost */
	double request_loss;
	/* probability that a repair after the first is sent twice */
	double twice;
	/* probability that an announcement or a result is lost */
	double control_loss;
	/* from the first copy of an announcement or result to the second; 0: announce_ns or result_ns */
	double early_ns;
	/* from an announcement to its first repetition; doubles each time */
	double announce_ns;
	/* from a result to its first repetition; doubles each time */
	double result_ns;
	/* units at the end of the message that have too few behind them to prove them lost */
	unsigned tail;
	/* first_ns of these */
	double tail_ns;
	/* probability that the probe which asks about these is lost */
	double tail_loss;
	/* the sender asks about the tail only after the repairs of earlier units have left */
	bool tail_waits;

	/* from the last useful unit leaving to the sender knowing that everything arrived */
	double end_ns;
	/* time of the whole message without loss and parity */
	double ideal_ns;

	/* SDR-RDMA's treatment of groups that cannot be decoded; see struct plan_path */
	bool fallback;
	double fallback_ns;
	double rto_ns;
	/* units of data in a group */
	unsigned group_data;
};

/* Describes a message as a process. The arguments must have passed plan_check(). */
void process_make(const struct plan_params *params, const struct plan_path *path, uint64_t size,
		  struct process *out);

/* Returns the time that a scheme takes if nothing is lost. */
double process_least_ns(const struct plan_params *params, const struct plan_path *path,
			uint64_t size);

/* Returns how long after the first attempt an announcement or a result arrives if `tries` attempts were lost. `again_ns`
 * is announce_ns or result_ns. */
double process_told_ns(const struct process *process, double again_ns, unsigned tries);

/* Returns the probability that this attempt, counted from 0, to deliver a result fails. After the patience the receiver
 * repeats the result and the sender asks for it, and either is enough; the latter takes two datagrams. */
double process_result_loss(const struct process *process, unsigned attempt);

/* Returns the process of sending so many units again under Selective Repeat, as the fallback does. */
struct process process_of_fallback(const struct process *process, uint64_t units);

/* Simulates `samples` messages: sets times[], unsorted, and how many of them needed a repair. Returns 0 or -ENOMEM. */
int process_sample(const struct process *process, uint64_t seed, unsigned samples, double *times,
		   uint64_t *repaired);

/* Computes mean and quantiles in closed form. */
void process_closed(const struct process *process, struct plan_result *out);

/* Computes what has left, and is not lost, this long after the first unit left. */
void process_by(const struct process *process, double at_ns, struct plan_bounded *out);

/* Orders doubles for qsort(). */
int process_compare_times(const void *a, const void *b);

#endif

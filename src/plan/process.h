/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process.h: every scheme as one process, which the closed form and the sampler both work on.
 *
 * Units (packets, or chunks of them) leave one after another. They form groups of `size`, each of which can do without
 * `spare` of its units; `spread` neighbouring groups take turns unit by unit. A group that lost d more than it can spare
 * has d units sent for it, some time after the last of its block left; those lost again are sent again, later. The message
 * is over when no group lacks anything. Selective Repeat is groups of one that can spare nothing. XOR(k, m) is m times as
 * many groups of k / m + 1 that can spare one, spread by m.
 *
 * Our codes send all data first and the parity of all groups behind it (`lead`): a message that lost no data is over
 * before its parity is. In SDR-RDMA each group's parity follows the group.
 */
#ifndef PLAN_PROCESS_H
#define PLAN_PROCESS_H

#include "plan/loss.h"
#include "plan/plan.h"

struct process {
	struct loss_model loss; /* of units */
	double unit_ns;
	uint64_t units; /* sent at first: data and parity */
	uint64_t data;	/* of these, data */

	uint64_t groups; /* full ones */
	unsigned size;
	unsigned spare;
	unsigned spread;
	uint64_t
		lead; /* data units sent before any parity; 0: a group's units follow one another */
	unsigned turn;	      /* units of a group that are sent behind that, in its turn */
	unsigned last_groups; /* those of the message's end, where it is no multiple; one block */
	unsigned last_size;

	double first_ns; /* from a block's last unit having left to the first repair leaving */
	/* From a repair having left to the next: when it was lost, when it was not even asked for, and in later rounds. */
	double again_ns;
	double unheard_ns;
	double later_ns;
	double request_loss; /* a repair is not asked for, and waits for the next time */
	double twice;	     /* chance that a repair behind the first leaves twice */
	double control_loss; /* of announcements and results */
	double early_ns;     /* from the first of these to the second; 0: as between later ones */
	double announce_ns;  /* from an announcement to the next; twice as long each time */
	double result_ns;    /* from a result to the next; likewise */
	unsigned tail; /* so many units at the end have nothing behind them that proves them lost */
	double tail_ns;	  /* their first_ns */
	double tail_loss; /* they are not asked about, and wait for the next time */
	bool tail_waits;  /* until repairs of what went before have left */

	double end_ns;	 /* from the last useful unit having left to the sender knowing */
	double ideal_ns; /* of the whole message, without loss or parity */

	/* SDR-RDMA's way with groups that cannot be rebuilt; see struct plan_path. */
	bool fallback;
	double fallback_ns;
	double rto_ns;
	unsigned group_data;
};

/* The arguments passed plan_check(). */
void process_make(const struct plan_params *params, const struct plan_path *path, uint64_t size,
		  struct process *out);

/* When an announcement or a result is told after so many tries in vain. `again_ns` is the one's own of those above. */
double process_told_ns(const struct process *process, double again_ns, unsigned tries);

/* Chance that this try at a result, from 0, is in vain. Once patience is over the receiver says it again as the sender asks,
 * and either is enough; the latter takes two datagrams. */
double process_result_loss(const struct process *process, unsigned attempt);

/* Selective Repeat of so many units on the same path, as the fallback does it. */
struct process process_of_fallback(const struct process *process, uint64_t units);

/* What sampling leaves. Times of `samples` messages, unsorted. -ENOMEM. */
int process_sample(const struct process *process, uint64_t seed, unsigned samples, double *times,
		   uint64_t *repaired);

/* How long messages take, as a distribution function. */
void process_closed(const struct process *process, struct plan_result *out);

/* Share of units there, and chance that all are, this long after the first left; without repairs and with them. */
void process_by(const struct process *process, double at_ns, struct plan_bounded *out);

#endif

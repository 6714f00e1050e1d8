/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agree.h: from the rates that each rank measured to those that all ranks choose algorithms by. Private to collective/.
 *
 * Every now and then, after operations with the same numbers on all ranks, a communicator posts an operation of its own: the minimum of
 * the rates over all ranks, since an operation is as fast as the rank that it takes longest. It is in force from
 * the AGREE_LAG-th operation after it on, on every rank: one that was posted before the result is known is *undecided*, and starts
 * when it is.
 */
#ifndef COLLECTIVE_AGREE_H
#define COLLECTIVE_AGREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "collective/choose.h"

struct gw_coll;
struct gw_comm;

/* What a rank has measured, and what is being agreed on. */
struct agree {
	/* highest rate of each algorithm since the latest agreement, in kbit/s; 0: none */
	uint64_t rate_kbps[CHOOSE_RATES];
	/* operations that are posted before the next agreement */
	uint32_t next;
	/* agreements that are not in force, in the order of their numbers */
	struct list open;
};

void agree_init(struct gw_comm *comm);
void agree_free(struct gw_comm *comm);

/* An operation was posted: posts an agreement if it is time for one. */
void agree_posted(struct gw_comm *comm);
/* An operation has ended with status 0, now: learns from what it took. */
void agree_measure(const struct gw_coll *coll);
/* Puts the agreements in force that are known and that the next operation to be posted needs. */
void agree_settle(struct gw_comm *comm);
/* Whether the algorithm of an operation with this number depends on an agreement that is not in force. */
bool agree_pending(const struct gw_comm *comm, uint32_t number);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exchange.h: operations in which every rank sends to all others at the same time.
 *
 * Each channel has a congestion controller, and none of them knows that as many flows as there are other ranks meet in front of every
 * receiver. They find their shares in tens of round trips, by which time the operation is over, and the next one begins with too much
 * again. How the traffic is spread is known here: a channel's share is the rate of the link over the number of senders, and its pacer is
 * limited to that. The controllers stay, below the limit.
 *
 * The rate of the link is what arrives at this rank from all others (arrivals.h). Ranks need not agree on it: where links are alike each finds
 * the same, and where they are not the controllers do what they do without limits.
 */
#ifndef COLLECTIVE_EXCHANGE_H
#define COLLECTIVE_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "collective/arrivals.h"

struct gw_comm;
struct gw_coll;

/* Of a communicator. */
struct exchange {
	struct arrivals arrivals;
	/* exchanges under way */
	uint32_t running;
	/* number of the context's counter of bytes that arrived */
	unsigned counter;
};

/* Of a track: the exchange that runs there. */
struct exchange_track {
	/* ranks that this one sends to; 0: there is none */
	uint32_t peers;
	/* bytes for each of them that are sent at the same time */
	uint64_t bytes;
	/* its channels have a limit, until this time: who is behind then has the link to itself */
	bool limited;
	uint64_t lift_ns;
};

void exchange_init(struct gw_comm *comm);

/* An operation begins in which this rank sends `total` bytes: `bytes` to each of `peers` ranks at the same time, once or several times. */
void exchange_begin(struct gw_coll *coll, uint32_t peers, uint64_t bytes, uint64_t total);
/* It has ended. Without effect if it did not begin. */
void exchange_end(struct gw_coll *coll);

/* Looks at what has arrived, and at the time. */
void exchange_turn(struct gw_comm *comm);

/* What a channel of a track is limited to, in bits a second; 0: it is not. */
uint64_t exchange_limit_bps(const struct gw_comm *comm, uint32_t track);

#endif

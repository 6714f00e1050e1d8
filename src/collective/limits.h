/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limits.h: each channel's share of the link while an operation runs.
 *
 * A congestion controller finds its share in tens of round trips, by which time an operation is over. Between operations it forgets
 * nothing of what it once reached, and the next one begins with a burst that a short queue does not hold. And none of them knows that others
 * meet it in front of a receiver, as many as there are other ranks where all send to all. How the traffic is spread is known here: a channel's
 * share is the rate of the link over the number of ranks that send to one at the same time, and its pacer is limited to that. The
 * controllers stay, below the limit.
 *
 * The rate of the link is what arrives at this rank from all others (arrivals.h). Ranks need not agree on it: where links are alike each finds
 * the same, and where they are not the controllers do what they do without limits. The root of a broadcast, at which nothing arrives, has none;
 * nor have operations whose ranks wait for each other in every round, and so do not fill the link.
 */
#ifndef COLLECTIVE_LIMITS_H
#define COLLECTIVE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "collective/arrivals.h"

struct gw_comm;
struct gw_coll;

/* Of a communicator. */
struct limits {
	struct arrivals arrivals;
	/* operations under way that have limits, or would have them if the rate were known */
	uint32_t running;
	/* one of those since the last pause had limits */
	bool limited;
	/* number of the context's counter of bytes that arrived */
	unsigned counter;
};

/* What this rank sends in an operation. */
struct flow {
	/* ranks that it sends to at the same time; 0: there are none */
	uint32_t peers;
	/* bytes for each of them, once or several times */
	uint64_t bytes;
	/* of all these, what it sends while it waits for more to come in; 0: it waits in each of several rounds */
	uint64_t meanwhile;
	/* all bytes that it sends in turn */
	uint64_t total;
};

/* Of a track: the operation that runs there. */
struct track_limits {
	struct flow flow;
	/* its channels have a limit, until this time: who is behind then has the link to itself */
	bool limited;
	uint64_t lift_ns;
};

/* Whether limits are of use: a short operation is over before all senders have opened their windows. */
static inline bool limits_serve(double takes_ns, uint64_t rtt_ns)
{
	return takes_ns >= (double)(ARRIVALS_WINDOWS * arrivals_window_ns(rtt_ns, 0));
}

void limits_init(struct gw_comm *comm);

void limits_begin(struct gw_coll *coll, const struct flow *flow);
/* It has ended. Without effect if it did not begin. */
void limits_end(struct gw_coll *coll);

/* Looks at what has arrived, and at the time. */
void limits_turn(struct gw_comm *comm);

/* What a channel of a track is limited to, in bits a second; 0: it is not. */
uint64_t limits_bps(const struct gw_comm *comm, uint32_t track);

#endif

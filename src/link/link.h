/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.h: one direction of a link: rate, delay, a finite queue, marking, and everything that can happen to a packet.
 *
 * A pure model: given the time and a packet's size it says when the packet comes out at the far end, once, twice or
 * never, and in what state. It keeps no packets. The queue is known from the time the link is busy until: bytes still to
 * be clocked out are the occupancy. The simulator and the lab share it, and a seed decides everything.
 */
#ifndef LINK_LINK_H
#define LINK_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

struct link_attr {
	uint64_t rate_bps;    /* 0: infinitely fast */
	uint64_t delay_ns;    /* of propagation */
	uint64_t jitter_ns;   /* added, uniform from 0 to this; may reorder */
	uint64_t queue_bytes; /* a packet that finds this much waiting is dropped; 0: no limit */
	uint64_t ecn_bytes;   /* one that finds this much is marked; 0: never */
	double loss;	      /* independent */
	/* Gilbert-Elliott: probabilities, a packet, of entering and leaving a bad state, and of loss while in it. */
	double burst_enter;
	double burst_leave;
	double burst_loss;
	uint64_t
		burst_max_ns; /* the bad state ends after this, however few packets met it; 0: never by time */
	double duplicate;
	double corrupt;
	double reorder; /* held back by up to reorder_ns */
	uint64_t reorder_ns;
};

struct link_stats {
	uint64_t forwarded;
	uint64_t lost;	   /* by chance */
	uint64_t overflow; /* the queue was full */
	uint64_t cut;	   /* the link was down */
	uint64_t marked;
	uint64_t duplicated;
	uint64_t corrupted;
	uint64_t reordered;
};

struct link {
	struct link_attr attr;
	struct rng rng;
	uint64_t busy_until_ns;
	bool bad; /* in a burst of loss */
	uint64_t bad_since_ns;
	bool down;
	struct link_stats stats;
};

struct link_verdict {
	unsigned copies; /* 0: lost */
	bool ce;
	bool corrupt;
	uint64_t at_ns[2]; /* when each copy arrives */
};

void link_init(struct link *link, const struct link_attr *attr, uint64_t seed);

/* A packet of `bytes` enters at `now_ns`. Times must not go backwards. */
struct link_verdict link_enter(struct link *link, uint64_t now_ns, uint32_t bytes);

/* Bytes waiting to be clocked out. */
uint64_t link_queued_bytes(const struct link *link, uint64_t now_ns);

/* Mean loss of the attributes, burst and chance together. */
double link_mean_loss(const struct link_attr *attr);

#endif

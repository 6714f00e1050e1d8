/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.h: a model of one direction of a link: rate, delay, a finite queue, ECN marking, loss, duplication, corruption and
 * reordering.
 *
 * Given the time and the size of a packet, the model answers when the packet arrives at the far end, once, twice or never,
 * and whether it is marked or corrupted. It stores no packets: the bytes in the queue follow from the time at which the
 * link has sent everything it was given. The simulator and the lab share the model. The seed determines every random draw.
 */
#ifndef LINK_LINK_H
#define LINK_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

/* Probabilities are for each packet. */
struct link_attr {
	/* Rate in bits a second; 0: infinite. */
	uint64_t rate_bps;
	/* Propagation delay. */
	uint64_t delay_ns;
	/* Largest extra delay of a packet, drawn evenly from 0 on. Packets may overtake each other. */
	uint64_t jitter_ns;
	/* Capacity of the queue: a packet that does not fit is dropped; 0: no limit. */
	uint64_t queue_bytes;
	/* Bytes in the queue above which a packet is marked; 0: never. */
	uint64_t ecn_bytes;
	/* Probability of loss, independent for each packet. */
	double loss;
	/* Gilbert-Elliott: probabilities that the bad state begins and ends, and of loss while it lasts. */
	double burst_enter;
	double burst_leave;
	double burst_loss;
	/* Longest time in the bad state, however few packets met it; 0: no limit. */
	uint64_t burst_max_ns;
	/* Probability that the packet arrives twice. */
	double duplicate;
	/* Probability that the packet arrives corrupted. */
	double corrupt;
	/* Probability that the packet is held back, and the longest time for which it is. */
	double reorder;
	uint64_t reorder_ns;
};

/* Packets that entered the link, by what happened to them. */
struct link_stats {
	uint64_t forwarded;
	/* Bytes of those. */
	uint64_t bytes;
	/* Lost at random, alone or in a burst. */
	uint64_t lost;
	/* Dropped because the queue was full. */
	uint64_t overflow;
	/* Dropped because the link was down. */
	uint64_t cut;
	uint64_t marked;
	uint64_t duplicated;
	uint64_t corrupted;
	uint64_t reordered;
};

struct link {
	struct link_attr attr;
	struct rng rng;
	/* Time at which everything given to the link so far has been sent. */
	uint64_t busy_until_ns;
	/* State of the Gilbert-Elliott model, and the time at which it last changed. */
	bool bad;
	uint64_t bad_since_ns;
	/* True while every packet is dropped. */
	bool down;
	struct link_stats stats;
};

/* What happens to one packet. */
struct link_verdict {
	/* Number of copies that arrive: 0, 1 or 2. */
	unsigned copies;
	/* Marked as having met congestion (ECN CE). */
	bool ce;
	bool corrupt;
	/* Arrival time of each copy. */
	uint64_t at_ns[2];
};

void link_init(struct link *link, const struct link_attr *attr, uint64_t seed);

/* Decides what happens to a packet of `bytes` bytes that enters at `now_ns`. Times must not go backwards. */
struct link_verdict link_enter(struct link *link, uint64_t now_ns, uint32_t bytes);

/* Returns the bytes in the queue: given to the link and not sent yet. */
uint64_t link_queued_bytes(const struct link *link, uint64_t now_ns);

/* Returns the mean loss that the attributes stand for, bursts included, the queue not. */
double link_mean_loss(const struct link_attr *attr);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compete.h: how long-haul competes with flows that fill a queue until it overflows.
 *
 * A controller that reduces its window when delay rises starves beside one that does not. If the queue stays far above the
 * target although the window was reduced, the queue is caused by other flows. From then on the window follows TCP CUBIC
 * (S. Ha, I. Rhee, L. Xu, "CUBIC: A New TCP-Friendly High-Speed TCP Variant", 2008; RFC 9438), until the queue drains.
 * Switching between two modes is the idea of Copa (V. Arun, H. Balakrishnan, NSDI 2018).
 *
 * Differences from CUBIC: it starts with half of the window that it had before the other flows came, and grows by 5 % a
 * round until the first loss, to catch up. And it reduces the window at most once in half the time that CUBIC takes to
 * recover. This makes no difference beside CUBIC, whose losses are rarer. BBR version 1 ignores loss and causes it all the
 * time; a flow that reacted to each loss would get nothing beside it.
 */
#ifndef CONGESTION_COMPETE_H
#define CONGESTION_COMPETE_H

#include "congestion/model.h"

struct compete {
	/* rounds in a row with a crowded queue, when the first began, and the longest queue since */
	unsigned rounds;
	uint64_t since;
	double queue_most_ns;
	/* CUBIC's W_max, in bytes, and K, in seconds; K is 0 before the first loss */
	double peak, k_s;
	/* time of the last reduction, and the rate in bytes per ns before it */
	uint64_t epoch;
	double share;
};

/* True if the queue at the end of a round is far above the target. */
bool compete_crowded(const struct model *model, double target_ns);

/* Called after every round: true if the queue is caused by other flows. */
bool compete_needed(struct compete *compete, const struct model *model, double target_ns,
		    uint64_t now_ns);

/* Starts competing; returns the window in bytes. */
double compete_enter(struct compete *compete, const struct model *model, double window,
		     uint64_t now_ns);

/* Returns the window after a round, in bytes. */
double compete_round(struct compete *compete, const struct model *model, double window,
		     uint64_t now_ns);

/* Returns the window to keep after competing, in bytes; 0: none. When others lost packets as well the queue drains, and it fills
 * again as they recover: whoever yielded to that would lose part of its share each time. */
double compete_floor(const struct compete *compete, const struct model *model, uint64_t now_ns);

/* True when the queue has drained: the other flows are gone, or use long-haul too. */
bool compete_over(const struct model *model, double target_ns);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compete.h: how long-haul holds its own against those who fill a queue until it overflows.
 *
 * A controller that gives way to delay starves beside one that does not. So it asks whether giving way helped: a queue
 * that stays far above the target while the window falls is somebody else's. From then on the window moves as TCP
 * CUBIC's does (S. Ha, I. Rhee, L. Xu, "CUBIC: A New TCP-Friendly High-Speed TCP Variant", 2008; RFC 9438), until the
 * queue drains. To switch between two modes is the idea of Copa (V. Arun, H. Balakrishnan, NSDI 2018).
 *
 * Where it differs from CUBIC: it starts with half of what it held before the others came, and grows by a twentieth a
 * round up to the first loss, for it has lost time. And it is cut at most once in half the time that CUBIC takes to
 * recover. Beside CUBIC, whose losses are rarer than that, this changes nothing. BBR's first version does not mind
 * loss, causes it all the time, and would take everything from whoever answers each.
 */
#ifndef CONGESTION_COMPETE_H
#define CONGESTION_COMPETE_H

#include "congestion/model.h"

struct compete {
	unsigned rounds; /* in a row with far too much queue; since when; the most of it */
	uint64_t since;
	double queue_most_ns;
	double peak, k_s; /* CUBIC's W_max and K; K is 0 before the first loss */
	uint64_t epoch;
};

/* Far too much queue, at the end of a round. */
bool compete_crowded(const struct model *model, double target_ns);

/* To be asked after every round: true if the queue must be others'. */
bool compete_needed(struct compete *compete, const struct model *model, double target_ns,
		    uint64_t now_ns);

/* The window to begin with. */
double compete_enter(struct compete *compete, const struct model *model, double window,
		     uint64_t now_ns);

/* The window after a round. `chance` is the share of packets that the path loses without a queue. */
double compete_round(struct compete *compete, const struct model *model, double window,
		     double chance, uint64_t now_ns);

/* True when the queue has drained: the others are gone, or were of our own kind. */
bool compete_over(const struct model *model, double target_ns);

#endif

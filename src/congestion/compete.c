/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether to compete, and CUBIC's curve: the window is a cubic of the time since the last cut. */
#include <math.h>

#include "congestion/compete.h"

#define NS_A_SECOND 1e9

#define CROWDED	     3.8 /* targets of queue; flows of our own kind hold 3.2 at most */
#define TRIPS	     3	 /* round trips of that, queue included, and rounds, before it is others' */
#define ROUNDS	     3
#define OVER	     1.9  /* targets of queue */
#define ENTER_GROWTH 0.05 /* a round, up to the first loss */
#define LOSS_FACTOR  2.0  /* times what is lost by chance: more is for want of room */
#define LOSS_CEILING 0.15 /* never more than this, whoever causes it */
#define PEAK_GAIN    0.125
#define CUT_EVERY    0.5 /* of the time to recover */
#define C	     0.4 /* RFC 9438 counts in segments */
#define BETA	     0.7
#define SEGMENT	     1500.0

bool compete_crowded(const struct model *m, double target_ns)
{
	return m->queue_ns > CROWDED * target_ns;
}

bool compete_needed(struct compete *c, const struct model *m, double target_ns, uint64_t now_ns)
{
	if (!compete_crowded(m, target_ns)) {
		c->rounds = 0;
		return false;
	}
	if (!c->rounds++) {
		c->since = now_ns;
		c->queue_most_ns = 0;
	}
	c->queue_most_ns = fmax(c->queue_most_ns, m->queue_ns);
	/* Counted by the round trip as it is: so long does it take to see that the queue is gone, when it was our own. */
	return c->rounds >= ROUNDS && m->queue_ns > c->queue_most_ns / 2 &&
	       (double)(now_ns - c->since) > TRIPS * (m->least_ns + c->queue_most_ns);
}

double compete_enter(struct compete *c, const struct model *m, double window, uint64_t now_ns)
{
	c->rounds = 0;
	c->k_s = 0;
	c->epoch = now_ns;
	/* Half: how many the others are is not known. */
	return fmax(window, model_past(m) / 2 * (m->least_ns + m->queue_ns));
}

double compete_round(struct compete *c, const struct model *m, double window, double chance,
		     uint64_t now_ns)
{
	double t = (double)(now_ns - c->epoch) / NS_A_SECOND - c->k_s;

	c->queue_most_ns = fmax(c->queue_most_ns, m->queue_ns);
	if (m->loss > LOSS_FACTOR * chance && m->queue_ns > c->queue_most_ns / 2 &&
	    t >= (CUT_EVERY - 1) * c->k_s) {
		c->peak = window;
		c->k_s = cbrt(window / SEGMENT * (1 - BETA) / C);
		c->epoch = now_ns;
		return window * BETA;
	}
	if (m->loss > LOSS_CEILING) {
		/* What was had at the last cut is perhaps not there any more. */
		c->peak += (window - c->peak) * PEAK_GAIN;
		return window * (1 - LOSS_CEILING);
	}
	if (m->idle)
		return window;
	if (c->k_s <= 0)
		return window * (1 + ENTER_GROWTH);
	return fmax(window, c->peak + C * t * t * t * SEGMENT);
}

bool compete_over(const struct model *m, double target_ns)
{
	return m->queue_ns < OVER * target_ns;
}

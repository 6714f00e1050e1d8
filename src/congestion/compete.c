/* SPDX-License-Identifier: BSD-3-Clause */
/* compete.c: when to compete, and CUBIC's curve: the window is a cubic function of the time since the last reduction. */
#include <math.h>

#include "congestion/compete.h"

#define NS_A_SECOND 1e9

/* Queue that counts as crowded, in targets; flows under long-haul keep 3.2 at most. */
#define CROWDED 3.8
/* The queue is caused by others after so many crowded rounds and so many round trips, queue included. */
#define TRIPS  3
#define ROUNDS 3
/* Queue below which competing ends, in targets. */
#define OVER 1.9
/* Growth of the window in a round before the first loss. */
#define ENTER_GROWTH 0.05
/* Reduction when more is lost than chance explains. */
#define CONGESTED_CUT 0.15
/* Weight of a new value in the smoothed peak. */
#define PEAK_GAIN 0.125
/* Shortest time between reductions, as a share of K. */
#define CUT_EVERY 0.5
/* What is left of the window for the first round trips after a reduction, to see whether the queue drains: it does if it is our own
 * flows that fill it. After that the window is BETA of what it was, as CUBIC's. */
#define DIP	  0.5
#define DIP_TRIPS 2.0
/* Time after a reduction for which others are expected back, in K. */
#define TRUCE 1.0
/* Constants of RFC 9438, which counts in segments. */
#define C	0.4
#define BETA	0.7
#define SEGMENT 1500.0

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
	/* In round trips with the queue included: that long it takes to see that our own queue has drained. */
	return c->rounds >= ROUNDS && m->queue_ns > c->queue_most_ns / 2 &&
	       (double)(now_ns - c->since) > TRIPS * (m->least_ns + c->queue_most_ns);
}

double compete_enter(struct compete *c, const struct model *m, double window, uint64_t now_ns)
{
	c->rounds = 0;
	c->k_s = 0;
	c->epoch = now_ns;
	/* Half of what was delivered before, since the number of other flows is not known. With more our own flows, if they ever take
	 * each other for others, keep the queue that made them. */
	return fmax(window, model_past(m) / 2 * (m->least_ns + m->queue_ns));
}

double compete_round(struct compete *c, const struct model *m, double window, uint64_t now_ns)
{
	double t = (double)(now_ns - c->epoch) / NS_A_SECOND - c->k_s;

	c->queue_most_ns = fmax(c->queue_most_ns, m->queue_ns);
	if (chance_exceeded(&m->chance, m->loss, m->sent) && m->queue_ns > c->queue_most_ns / 2 &&
	    t >= (CUT_EVERY - 1) * c->k_s) {
		c->peak = window;
		c->share = model_rate(m);
		c->k_s = cbrt(window / SEGMENT * (1 - BETA) / C);
		c->epoch = now_ns;
		return window * DIP;
	}
	if (m->loss > m->chance.ceiling) {
		/* The bandwidth available at the last reduction may have shrunk. */
		c->peak += (window - c->peak) * PEAK_GAIN;
		return window * (1 - CONGESTED_CUT);
	}
	if (m->idle || (c->k_s > 0 &&
			(double)(now_ns - c->epoch) < DIP_TRIPS * (m->least_ns + c->queue_most_ns)))
		return window;
	if (c->k_s <= 0)
		return window * (1 + ENTER_GROWTH);
	return fmax(window, c->peak + C * t * t * t * SEGMENT);
}

double compete_floor(const struct compete *c, const struct model *m, uint64_t now_ns)
{
	double since_s = (double)(now_ns - c->epoch) / NS_A_SECOND;

	return since_s < TRUCE * c->k_s ? c->share * model_trip(m) : 0;
}

bool compete_over(const struct model *m, double target_ns)
{
	return m->queue_ns < OVER * target_ns;
}

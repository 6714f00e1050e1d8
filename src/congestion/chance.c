/* SPDX-License-Identifier: BSD-3-Clause */
/* chance.c: the test that tells chance from congestion; chance.h explains it. */
#include <math.h>

#include "congestion/chance.h"

/* The ceiling, in multiples of the loss that was found to be chance. */
#define CEILING_FACTOR 1.5
#define TEST_EVERY_NS  UINT64_C(10000000000)
/* Time for which loss is congestion without another test after one that showed congestion: short flows that share a short queue would
 * test for most of their time. */
#define REFUTED_NS UINT64_C(50000000)
/* Packets behind each of the two shares that the test compares. */
#define PACKETS_LEAST 96
/* Least fall of the loss that shows congestion: a share of it, and standard deviations of the difference. */
#define FALL	    0.25
#define FALL_SIGMAS 2
/* Standard deviations by which loss must exceed the ceiling. */
#define PASSED_SIGMAS 2
/* Weight of a round in the share, and packets that it needs to count in full. */
#define LEARN_GAIN    (1 / 16.0)
#define LEARN_PACKETS 32
/* Loss that is more than chance: this multiple of it, or this much above it, whichever is less, and standard deviations. */
#define EXCEEDED_FACTOR 2.0
#define EXCEEDED_MARGIN 0.1
#define EXCEEDED_SIGMAS 2

void chance_init(struct chance *c, double base)
{
	*c = (struct chance){ .base = base, .ceiling = base };
}

static double share_of(double lost, double packets)
{
	return packets > 0 ? lost / packets : 0;
}

void chance_learn(struct chance *c, const struct chance_round *round)
{
	double full = fmin(round->packets / LEARN_PACKETS, 1);
	/* At first the share is a mean, but not of rounds whose losses may be due to the growth of the window. */
	double gain = round->idle ? fmax(LEARN_GAIN, 1 / (c->learned + 1)) : LEARN_GAIN;

	c->learned = fmin(c->learned + full, 1 / LEARN_GAIN);
	c->share += (share_of(round->lost, round->packets) - c->share) * gain * full;
	if (c->proven > 0)
		c->share = fmin(c->share, c->proven);
}

bool chance_is_open(const struct chance *c)
{
	return c->packets > 0 || c->stage != CHANCE_COUNTING;
}

bool chance_exceeded(const struct chance *c, double loss, double packets)
{
	double sigma = packets > 0 ? sqrt(c->share * (1 - c->share) / packets) : 1;

	return loss > fmin(EXCEEDED_FACTOR * c->share, c->share + EXCEEDED_MARGIN) +
			      EXCEEDED_SIGMAS * sigma;
}

double chance_part(const struct chance *c, double loss, double packets)
{
	if (c->proven > 0 && !chance_exceeded(c, loss, packets))
		return fmin(loss, CHANCE_BREAKER);
	return fmin(loss, c->proven);
}

/* The ceiling in force; that of a test that is too old is not believed. */
static double ceiling(const struct chance *c, uint64_t now_ns)
{
	return now_ns - c->proven_ns < TEST_EVERY_NS ? c->ceiling : c->base;
}

/* True if so many losses above the ceiling are no luck: a few dozen packets may lose twice their share. */
static bool passed(const struct chance *c, uint64_t now_ns)
{
	double most = ceiling(c, now_ns);

	return share_of(c->lost, c->packets) >
	       most + PASSED_SIGMAS * sqrt(most * (1 - most) / c->packets);
}

static void enter(struct chance *c, enum chance_stage stage)
{
	c->stage = stage;
	c->packets = c->lost = 0;
}

/* True if the loss fell by more than the change of the rate explains by luck. */
static bool fell(const struct chance *c)
{
	double before = share_of(c->lost_before, c->packets_before);
	double after = share_of(c->lost, c->packets);
	double sigma = sqrt(before * (1 - before) * (1 / c->packets_before + 1 / c->packets));

	return before - after > fmax(FALL * before, FALL_SIGMAS * sigma);
}

static enum chance_verdict conclude(struct chance *c, bool queue, uint64_t now_ns)
{
	bool congestion = queue || fell(c);

	if (congestion) {
		c->refuted_ns = now_ns;
		/* The test that raised the ceiling is refuted if this loss was below it. */
		if (share_of(c->lost_before, c->packets_before) <= c->ceiling) {
			c->ceiling = c->base;
			c->proven = 0;
		}
	} else {
		c->share = c->proven = share_of(c->lost, c->packets);
		c->ceiling = fmin(fmax(CEILING_FACTOR * c->share, c->base), CHANCE_BREAKER);
		c->proven_ns = now_ns;
	}
	enter(c, CHANCE_COUNTING);
	return congestion ? CHANCE_CONGESTION : CHANCE_FINE;
}

enum chance_verdict chance_judge(struct chance *c, const struct chance_round *round,
				 uint64_t now_ns)
{
	/* A test in which the sender paused is no test. */
	if (round->idle) {
		enter(c, CHANCE_COUNTING);
		return CHANCE_FINE;
	}
	if (round->packets <= 0)
		return c->stage == CHANCE_COUNTING ? CHANCE_FINE : CHANCE_SEND_LESS;
	c->packets += round->packets;
	c->lost += round->lost;
	switch (c->stage) {
	case CHANCE_COUNTING:
		if (share_of(c->lost, c->packets) <= ceiling(c, now_ns)) {
			enter(c, CHANCE_COUNTING);
			return CHANCE_FINE;
		}
		if (c->packets < PACKETS_LEAST || !passed(c, now_ns))
			return CHANCE_FINE;
		if (share_of(c->lost, c->packets) > CHANCE_BREAKER) {
			enter(c, CHANCE_COUNTING);
			return CHANCE_CONGESTION;
		}
		if (c->refuted_ns && now_ns - c->refuted_ns < REFUTED_NS) {
			enter(c, CHANCE_COUNTING);
			return CHANCE_CONGESTION;
		}
		c->packets_before = c->packets;
		c->lost_before = c->lost;
		enter(c, CHANCE_WAITING);
		return CHANCE_SEND_LESS;
	case CHANCE_WAITING:
		enter(c, CHANCE_TESTING);
		return CHANCE_SEND_LESS;
	case CHANCE_TESTING:
		if (c->packets < PACKETS_LEAST)
			return CHANCE_SEND_LESS;
		return conclude(c, round->queue, now_ns);
	}
	return CHANCE_FINE;
}

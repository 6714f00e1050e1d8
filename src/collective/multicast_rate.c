/* SPDX-License-Identifier: BSD-3-Clause */
/* Rate and window of multicast passes. */
#include <math.h>

#include "collective/multicast_rate.h"

#define START_BPS    UINT64_C(10000000000)
#define FLOOR_BPS    UINT64_C(5000000)
#define START_WINDOW 128
#define MOST_WINDOW  (UINT32_C(1) << 20)
/* Loss that is nobody's fault. */
#define LOSS_FREE 0.02
/* Packets from which a pass says something about loss. */
#define PASS_PACKETS 32
/* A pass may arrive for so much longer than it left, by jitter and batches. */
#define STRETCH_NS UINT64_C(1000000)
#define NS_BITS	   8e9
/* Loss above the usual from which the rate does not grow. */
#define LOSS_SHOWS 0.005
/* Part by which the rate grows after a pass that was fine: at first and after trouble, and at most; it doubles between them. */
#define GROWTH_LEAST 0.02
#define GROWTH_MOST  0.5

void multicast_rate_init(struct multicast_rate *rate, uint64_t start_bps, uint64_t cap_bps)
{
	*rate = (struct multicast_rate){ .cap_bps = cap_bps ? cap_bps : UINT64_MAX,
					 .growth = GROWTH_MOST,
					 .window = START_WINDOW };
	rate->rate_bps = start_bps ? start_bps : START_BPS;
	if (rate->rate_bps > rate->cap_bps)
		rate->rate_bps = rate->cap_bps;
}

static void set(struct multicast_rate *rate, double bps)
{
	uint64_t floor = FLOOR_BPS < rate->cap_bps ? FLOOR_BPS : rate->cap_bps;

	rate->rate_bps = bps < (double)floor	       ? floor
			 : bps > (double)rate->cap_bps ? rate->cap_bps
						       : (uint64_t)bps;
}

static void narrow(struct multicast_rate *rate)
{
	rate->window = rate->window / 2 > START_WINDOW ? rate->window / 2 : START_WINDOW;
}

/* A pass that was fine: the faster, the longer none was not, unless losses begin to show. */
static void grow(struct multicast_rate *rate, double loss, double usual)
{
	if (loss > 1.5 * usual + LOSS_SHOWS) {
		rate->growth = GROWTH_LEAST;
		return;
	}
	set(rate, (double)rate->rate_bps * (1 + rate->growth));
	rate->growth = fmin(2 * rate->growth, GROWTH_MOST);
}

/* A pass that arrived for longer than it left. A single one may come from a receiver that was not scheduled: once the path is known
 * it does not more than halve the rate. */
static void slow_down(struct multicast_rate *rate, const struct multicast_pass *pass)
{
	double least = rate->steady ? (double)rate->rate_bps / 2 : 0;
	double seen = (double)pass->bytes * NS_BITS / (double)pass->seen_ns;

	set(rate, fmin((double)rate->rate_bps, fmax(seen, least)));
	rate->growth = GROWTH_LEAST;
}

void multicast_rate_learn(struct multicast_rate *rate, const struct multicast_pass *pass)
{
	double loss = pass->packets ? (double)pass->missed / pass->packets : 0, usual = rate->loss;
	double limit = 1.5 * rate->chance > LOSS_FREE ? 1.5 * rate->chance : LOSS_FREE;
	bool slow = pass->seen_ns > pass->sent_ns + pass->sent_ns / 4 + STRETCH_NS;

	if (pass->packets < PASS_PACKETS)
		return;
	loss = loss < 0.9 ? loss : 0.9;
	rate->loss = rate->loss > 0 ? (3 * rate->loss + loss) / 4 : loss;
	if (slow)
		slow_down(rate, pass);
	rate->steady |= slow || loss > limit;
	if (loss <= limit) {
		rate->lowered_from = 0;
		if (!slow)
			grow(rate, loss, usual);
		if (!slow && rate->window < MOST_WINDOW)
			rate->window *= 2;
		return;
	}
	rate->growth = GROWTH_LEAST;
	if (rate->lowered_from && loss > rate->lowered_at * 0.75) {
		rate->chance = loss;
		set(rate, (double)rate->lowered_from);
		rate->lowered_from = 0;
		return;
	}
	rate->lowered_from = rate->rate_bps;
	rate->lowered_at = loss;
	set(rate, (double)rate->rate_bps * (1 - loss));
	narrow(rate);
}

uint32_t multicast_rows(const struct multicast_rate *rate, uint32_t deficit)
{
	double p = rate->loss < 0.5 ? rate->loss : 0.5;

	if (!deficit)
		return 0;
	return (uint32_t)ceil((deficit + 2 * sqrt(deficit * p)) / (1 - p));
}

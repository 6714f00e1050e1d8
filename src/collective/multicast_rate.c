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
/* Growth of the rate after a good pass: before it has met a limit, and after. */
#define GROWTH	      1.5
#define GROWTH_STEADY 1.02

void multicast_rate_init(struct multicast_rate *rate, uint64_t start_bps, uint64_t cap_bps)
{
	*rate = (struct multicast_rate){ .cap_bps = cap_bps ? cap_bps : UINT64_MAX,
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

void multicast_rate_learn(struct multicast_rate *rate, const struct multicast_pass *pass)
{
	double loss = pass->packets ? (double)pass->missed / pass->packets : 0;
	double limit = 1.5 * rate->chance > LOSS_FREE ? 1.5 * rate->chance : LOSS_FREE;
	bool slow = pass->seen_ns > pass->sent_ns + pass->sent_ns / 4 + STRETCH_NS;

	if (pass->packets < PASS_PACKETS)
		return;
	loss = loss < 0.9 ? loss : 0.9;
	rate->loss = rate->loss > 0 ? (3 * rate->loss + loss) / 4 : loss;
	rate->steady |= slow || loss > limit;
	if (slow)
		set(rate, fmin((double)rate->rate_bps,
			       (double)pass->bytes * NS_BITS / (double)pass->seen_ns));
	if (loss <= limit) {
		rate->lowered_from = 0;
		if (!slow)
			set(rate, (double)rate->rate_bps * (rate->steady ? GROWTH_STEADY : GROWTH));
		if (rate->window < MOST_WINDOW)
			rate->window *= 2;
		return;
	}
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

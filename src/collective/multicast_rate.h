/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * multicast_rate.h: how fast one rank multicasts, and how much before it looks. Pure.
 *
 * A pass of packets is followed by a report: what share of them the worst receiver missed, and for how long packets arrived. A pass
 * that took much longer to arrive than to send met a slower link, and the rate becomes what arrived in that time. A pass that lost
 * many packets lowers the rate by the lost share; when the next one loses as many, the loss does not come from the rate: the rate is
 * restored, and that much loss is taken for chance from then on. Otherwise rate and window grow: the rate slowly after trouble, and faster with every pass
 * that is fine. The window is what a pass has of
 * data that was never sent: it starts small, so that a rate which is much too high does little harm.
 */
#ifndef COLLECTIVE_MULTICAST_RATE_H
#define COLLECTIVE_MULTICAST_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct multicast_rate {
	/* bits a second, and the most that they may be */
	uint64_t rate_bps;
	uint64_t cap_bps;
	/* packets of new data in a pass */
	uint32_t window;
	/* share of packets that the worst receiver loses, smoothed */
	double loss;
	/* share of packets that are lost at any rate */
	double chance;
	/* some pass has met a limit of the path */
	bool steady;
	/* part by which the rate grows after the next pass that is fine */
	double growth;
	/* the last pass lowered the rate from this, after this loss; 0: it did not */
	uint64_t lowered_from;
	double lowered_at;
};

/* What became of a pass. */
struct multicast_pass {
	uint64_t bytes;
	uint32_t packets;
	/* time that it took to leave, and for which it arrived at the slowest receiver */
	uint64_t sent_ns;
	uint64_t seen_ns;
	/* packets that the worst receiver missed */
	uint32_t missed;
};

/* Starts with a rate, or with `cap_bps` if it is 0. A cap of 0 is none. */
void multicast_rate_init(struct multicast_rate *rate, uint64_t start_bps, uint64_t cap_bps);
void multicast_rate_learn(struct multicast_rate *rate, const struct multicast_pass *pass);

/* Symbols to send so that a receiver which lacks `deficit` is likely to get as many. */
uint32_t multicast_rows(const struct multicast_rate *rate, uint32_t deficit);

#endif

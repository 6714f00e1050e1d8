/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arrivals.h: at what rate a link carries data, by what arrives over it while several senders have more for it than it takes. Pure
 * functions: bytes that have arrived and the time go in.
 *
 * Time is cut into windows of some round trips, which end before a pause. The rate is the highest of a window. Senders that are limited to the
 * rate could never show that the link has more. So in two windows of six they are allowed more (it arrives in the second), and twice as much
 * more in the next two if that arrived. In the others they are allowed a little less, so that queues drain.
 *
 * Nor do they show that it has less: they also send less than they may because they wait for each other, or run late, and a rate lowered for
 * that would hold them up once more. Only operations that no limit holds up lower the rate, by a little: those before it was known, and now and
 * then a trial, which is allowed half as much more from begin to end.
 */
#ifndef COLLECTIVE_ARRIVALS_H
#define COLLECTIVE_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>

/* Shortest windows that an operation should last for limits to be of use. */
#define ARRIVALS_WINDOWS 3

struct arrivals {
	/* bits that arrive in a second; 0: not known */
	uint64_t rate_bps;
	/* what is allowed above it, in thousandths; and windows since that was set */
	int32_t room;
	uint32_t windows;
	/* more is allowed all the time, and if less arrives the rate is lowered */
	bool trial;
	/* bits a second of the window before */
	uint64_t last_bps;
	/* the most in a window of this operation; 0: no window has ended */
	uint64_t best_bps;
	/* begin of the window, bytes that had arrived then, and times that more were seen since; 0: there is none */
	uint64_t began_ns;
	uint64_t began_bytes;
	uint32_t turns;
	/* time between the last two times; 0: there was a long pause */
	uint64_t gap_ns;
	/* when more bytes were last seen, and how many there were */
	uint64_t seen_ns;
	uint64_t seen_bytes;
};

/* How long a window is, in ns, where data arrives for so long; 0: not known. */
uint64_t arrivals_window_ns(uint64_t rtt_ns, double takes_ns);

/* Data begins to arrive, and has ended; limited: senders kept to what was allowed. */
void arrivals_begin(struct arrivals *a, bool trial);
void arrivals_end(struct arrivals *a, bool limited);

/* So many bytes have arrived in all. True: a window has ended, and arrivals_allowed_bps() may have changed. */
bool arrivals_see(struct arrivals *a, uint64_t window_ns, uint64_t bytes, uint64_t now_ns);

/* What all senders together should send, in bits a second; 0: not known. */
uint64_t arrivals_allowed_bps(const struct arrivals *a);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The rate of a link, by what arrives: arrivals.h. */
#include "collective/arrivals.h"

/* A window has so many round trips, at least so much time, and so many turns in which bytes were seen: a process that was late finds
 * more of them at once. */
#define WINDOW_TRIPS	2
#define WINDOW_LEAST_NS UINT64_C(1000000)
#define WINDOW_TURNS	8
/* Windows while data arrives: the longer they are, the less it matters that a process was late in one. */
#define WINDOWS_IN_ALL 16
/* Without bytes for this share of a window and PAUSE_GAPS times the mean until now, there is a pause. The mean is that of PAUSE_TURNS
 * or more. */
#define PAUSE_SHARE 8
#define PAUSE_GAPS  4
#define PAUSE_TURNS 4
/* A window that took this many times its length was not full. Nor does it become longer for gaps of more than that. */
#define WINDOW_MOST 4
/* What is allowed above the rate, in thousandths: at first, at least and at most while more is tried, and between. */
#define ROOM_MOST  500
#define ROOM_LEAST 100
#define ROOM_REST  (-50)
/* Windows until that changes, while more is tried and between. */
#define TRY_WINDOWS  2
#define REST_WINDOWS 4
/* The first two windows differ by this share at most. */
#define ALIKE 8
/* Rates of which one is so many times the other are not both the link's. */
#define FAR 2
/* Weights of a rate that is a little higher, and of an operation with a lower one, as divisors. */
#define HIGHER 2
#define LOWER  8

uint64_t arrivals_window_ns(uint64_t rtt_ns, double takes_ns)
{
	uint64_t ns = WINDOW_TRIPS * rtt_ns, share_ns = (uint64_t)(takes_ns / WINDOWS_IN_ALL);

	if (ns < WINDOW_LEAST_NS)
		ns = WINDOW_LEAST_NS;
	return ns < share_ns ? share_ns : ns;
}

static uint64_t with_room(const struct arrivals *a, int64_t room)
{
	return a->rate_bps / 1000 * (uint64_t)(1000 + room);
}

static void allow(struct arrivals *a, int32_t room)
{
	a->room = room;
	a->windows = 0;
}

void arrivals_begin(struct arrivals *a, bool trial)
{
	a->trial = trial;
	if (trial)
		allow(a, ROOM_MOST);
	a->began_ns = 0;
	a->best_bps = a->last_bps = 0;
}

void arrivals_end(struct arrivals *a, bool limited)
{
	if (a->trial)
		allow(a, ROOM_REST);
	/* It was that of senders who had little left, and is found again. */
	if (a->best_bps / FAR > a->rate_bps)
		a->rate_bps = 0;
	/* Only the most counts: senders end one after another, and the last ones do not fill the link. */
	if ((a->trial || !limited) && a->best_bps && a->best_bps < a->rate_bps)
		a->rate_bps -= (a->rate_bps - a->best_bps) / LOWER;
}

/* Takes two windows for the first rate that are alike: senders find out at the start how much they may send, and have little left at
 * the end. */
static void begin_with(struct arrivals *a, uint64_t bps)
{
	uint64_t low = bps < a->last_bps ? bps : a->last_bps, high = bps + a->last_bps - low;

	if (high - low > low / ALIKE || low < a->best_bps / FAR)
		return;
	a->rate_bps = high;
	allow(a, ROOM_MOST);
}

static void end_window(struct arrivals *a, uint64_t bytes, uint64_t ns)
{
	uint64_t bps = (uint64_t)((double)bytes * 8e9 / (double)ns);

	if (bps > a->best_bps)
		a->best_bps = bps;
	if (!a->rate_bps) {
		begin_with(a, bps);
	} else if (a->trial) {
		if (bps > a->rate_bps)
			a->rate_bps += (bps - a->rate_bps) / HIGHER;
	} else if (++a->windows < (a->room > 0 ? TRY_WINDOWS : REST_WINDOWS)) {
		/* What is allowed now arrives in the next one. */
	} else if (a->room > 0 && bps > with_room(a, a->room / 2)) {
		a->rate_bps = bps;
		allow(a, 2 * a->room < ROOM_MOST ? 2 * a->room : ROOM_MOST);
	} else {
		if (bps > a->rate_bps)
			a->rate_bps += (bps - a->rate_bps) / HIGHER;
		allow(a, a->room > 0 ? ROOM_REST : ROOM_LEAST);
	}
	a->last_bps = bps;
}

static bool is_pause(const struct arrivals *a, uint64_t window_ns, uint64_t now_ns)
{
	uint64_t most_ns = window_ns / PAUSE_SHARE;

	if (a->turns < PAUSE_TURNS)
		most_ns += window_ns / 2;
	else
		most_ns += PAUSE_GAPS * (a->seen_ns - a->began_ns) / a->turns;
	return now_ns - a->seen_ns > most_ns;
}

bool arrivals_see(struct arrivals *a, uint64_t window_ns, uint64_t bytes, uint64_t now_ns)
{
	uint64_t gap_ns = now_ns - a->seen_ns, gap_most_ns = WINDOW_MOST * window_ns;
	bool ends = false;

	if (bytes == a->seen_bytes)
		return false;
	/* On a slow link packets are further apart than a short window lasts. */
	if (window_ns < WINDOW_TURNS * a->gap_ns)
		window_ns = WINDOW_TURNS * a->gap_ns;
	a->gap_ns = gap_ns < gap_most_ns ? gap_ns : 0;
	if (a->began_ns && !is_pause(a, window_ns, now_ns) &&
	    now_ns - a->began_ns <= WINDOW_MOST * window_ns) {
		a->turns++;
		ends = a->turns >= WINDOW_TURNS && now_ns - a->began_ns >= window_ns;
		if (ends)
			end_window(a, bytes - a->began_bytes, now_ns - a->began_ns);
	} else {
		a->began_ns = 0;
	}
	if (ends || !a->began_ns) {
		a->began_ns = now_ns;
		a->began_bytes = bytes;
		a->turns = 0;
	}
	a->seen_ns = now_ns;
	a->seen_bytes = bytes;
	return ends;
}

uint64_t arrivals_allowed_bps(const struct arrivals *a)
{
	return with_room(a, a->room);
}

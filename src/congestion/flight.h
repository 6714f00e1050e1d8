/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flight.h: what a sender that pauses shows about the path. A sender that waits for each answer does not fill its window, but what
 * it sends between two pauses, a flight, leaves at the rate that the window stands for. If it arrives without a queue, the path takes that
 * rate, and the sender earns a larger window as long as its flights leave sooner with it.
 */
#ifndef CONGESTION_FLIGHT_H
#define CONGESTION_FLIGHT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Share of a round trip without a packet that is a pause. */
#define FLIGHT_PAUSE 0.5
/* Largest window as a multiple of a flight. */
#define FLIGHT_WINDOWS 8.0
/* Share of the window's rate that a flight has if only the pacer holds it back. */
#define FLIGHT_PACE 0.5

/* Packets that left without a pause, in a round trip at most: their bytes, and when the first and the last of them left. */
struct flight {
	double bytes;
	uint64_t first_at, last_at;
};

/* The latest flight, and the one before: reports tell of what was sent a round trip ago. */
struct flights {
	struct flight latest, former;
};

static inline void flights_sent(struct flights *flights, uint64_t bytes, double trip_ns,
				uint64_t now_ns)
{
	struct flight *latest = &flights->latest;

	if (now_ns > latest->last_at + (uint64_t)(trip_ns * FLIGHT_PAUSE) ||
	    now_ns > latest->first_at + (uint64_t)trip_ns) {
		flights->former = *latest;
		*latest = (struct flight){ .first_at = now_ns };
	}
	latest->bytes += (double)bytes;
	/* Departures are in the future at times, and not in order. */
	latest->last_at = now_ns > latest->last_at ? now_ns : latest->last_at;
}

static inline bool flight_is_paced(const struct flight *flight, double window, double trip_ns)
{
	double took_ns = (double)(flight->last_at - flight->first_at);

	return flight->bytes * FLIGHT_WINDOWS > window &&
	       flight->bytes * trip_ns > window * FLIGHT_PACE * took_ns;
}

/* Returns the bytes of the larger of the two flights that left at the rate of a window of so many bytes; 0: neither did. */
static inline double flights_paced(const struct flights *flights, double window, double trip_ns)
{
	return fmax(flight_is_paced(&flights->latest, window, trip_ns) ? flights->latest.bytes : 0,
		    flight_is_paced(&flights->former, window, trip_ns) ? flights->former.bytes : 0);
}

#endif

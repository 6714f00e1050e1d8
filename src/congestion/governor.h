/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * governor.h: one congestion controller and one pacer for one queue pair, or for two on the same path.
 *
 * Packets of both queue pairs count against one window and one rate, and reports about both go to one controller. The
 * second queue pair carries short messages: a few of its packets may exceed the window, so that they do not wait behind a
 * window full of bulk data; they are still paced.
 *
 * Governors of one path form a ring. One that has nothing in flight begins with what any of them has learned since it was told
 * anything itself, so that work which moves from one to the next finds windows open.
 */
#ifndef CONGESTION_GOVERNOR_H
#define CONGESTION_GOVERNOR_H

#include <godwit/control.h>

#include "base/list.h"
#include "congestion/cc.h"
#include "congestion/pacer.h"

#define GOVERNOR_SIDES 2

struct governor;

/* Packets in flight, and their bytes of data. */
struct governor_flight {
	uint32_t packets;
	uint64_t bytes;
};

/* One of the queue pairs; the argument of its gate. */
struct governor_side {
	struct governor *governor;
	struct gw_qp *qp;
	/* packets in flight: those that left before packets became larger, and those that left since */
	struct governor_flight former, latest;
	/* bytes that the receiver can buffer */
	uint64_t credit_bytes;
	/* mean bytes of data in the latest packets */
	uint64_t packet_bytes;
	/* it had nothing to send for some of the time covered by its latest report */
	bool idle;
	/* it carries short messages, and may exceed the window by a few packets */
	bool express;
};

struct governor {
	struct cc cc;
	struct pacer pacer;
	/* the user's rate limit; UINT64_MAX: none; 0: no data leaves */
	uint64_t cap_bps;
	/* round-trip time in the latest report; 0: not measured */
	uint64_t rtt_ns;
	/* link in a ring of governors on the same path, from governor_init() on */
	struct list path;
	/* time of the latest report that its controller knows of; 0: none */
	uint64_t reported_ns;
	/* queue pairs in use, 1 or 2 */
	unsigned sides;
	struct governor_side side[GOVERNOR_SIDES];
};

/* Prepares one, on the path of `beside` or, if that is null, on a path of its own. The struct must not move from now on until it
 * has left the path. */
void governor_init(struct governor *governor, struct governor *beside);
void governor_leave(struct governor *governor);

/* Sets the gates of connected queue pairs. */
void governor_open(struct governor *governor, const struct cc_ops *ops, uint64_t cap_bps,
		   struct gw_qp *const *qps, unsigned count, uint64_t now);
void governor_close(struct governor *governor);

/* Sets the rate limit. */
void governor_cap(struct governor *governor, uint64_t cap_bps, uint64_t now);

/* Returns the bytes in flight of all its queue pairs. */
uint64_t governor_in_flight(const struct governor *governor);

#endif

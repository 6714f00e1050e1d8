/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * governor.h: one congestion controller and one pacer for one queue pair, or for two on the same path.
 *
 * What leaves on either counts against one window and one rate; what the peer reports of either feeds one controller. The
 * second queue pair is for what is short: a few of its packets may exceed the window, so that they do not stand behind a
 * window full of bulk; they are still paced.
 */
#ifndef CONGESTION_GOVERNOR_H
#define CONGESTION_GOVERNOR_H

#include <godwit/control.h>

#include "congestion/cc.h"
#include "congestion/pacer.h"

#define GOVERNOR_SIDES 2

struct governor;

/* A queue pair, as its gate's argument. */
struct governor_side {
	struct governor *governor;
	struct gw_qp *qp;
	uint64_t in_flight_bytes;
	uint64_t credit_bytes;
	uint64_t packet_bytes; /* in a packet, of late */
	bool idle;
	bool express;
};

struct governor {
	struct cc cc;
	struct pacer pacer;
	uint64_t cap_bps; /* UINT64_MAX: none; 0: nothing leaves */
	uint64_t rtt_ns;  /* the last that was told */
	unsigned sides;
	struct governor_side side[GOVERNOR_SIDES];
};

/* Takes the gates of connected queue pairs. It must stay where it is until it is closed, or they are. */
void governor_open(struct governor *governor, const struct cc_ops *ops, uint64_t cap_bps,
		   struct gw_qp *const *qps, unsigned count, uint64_t now);
void governor_close(struct governor *governor);

void governor_cap(struct governor *governor, uint64_t cap_bps, uint64_t now);

uint64_t governor_in_flight(const struct governor *governor);

#endif

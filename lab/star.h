/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * star.h: the state of the switch, shared by the two files that work on it: switch.c sets it up and watches the clock,
 * forward.c moves packets.
 */
#ifndef LAB_STAR_H
#define LAB_STAR_H

#include <poll.h>

#include "capture.h"
#include "delay.h"
#include "paths.h"
#include "samples.h"
#include "switch.h"

#define STAR_CONTROLS 2

struct wire {
	struct link link;
	struct delay delay;
	struct heap_node due; /* by the time its next packets leave */
	enum lab_direction direction;
	unsigned host;
	uint64_t bytes;
	uint64_t marked;
	uint64_t refused;
	struct lateness lateness;
	struct lateness waiting; /* of packets, for those ahead of them */
};

struct lab_switch {
	const struct lab_plan *plan;
	struct wire *wires; /* hosts times LAB_DIRECTIONS */
	struct heap due;
	struct store store;
	struct buffer *spare; /* the next packet is read into it */
	struct capture *capture;
	struct samples *samples;
	struct paths paths;
	uint64_t wall_offset_ns; /* from the monotonic clock to the time of day */
	uint64_t start_ns;
	unsigned next_event;
	uint64_t misaddressed;
	uint64_t malformed;
	uint64_t starved;
	struct pollfd polls[LAB_HOSTS_MAX + STAR_CONTROLS];
};

static inline struct wire *wire_of(const struct lab_switch *sw, unsigned host,
				   enum lab_direction direction)
{
	return &sw->wires[host * LAB_DIRECTIONS + direction];
}

/* Sees to all that is due, in order of time. */
void forward_due(struct lab_switch *sw, uint64_t now_ns);

/* Takes a few packets from a host. Everything due by now must have been seen to: time goes forward in every link. */
void forward_read(struct lab_switch *sw, unsigned host);

#endif

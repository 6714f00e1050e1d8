/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switch_state.h: the state of the switch, shared by switch.c, which sets it up and waits for events, and forward.c, which
 * moves packets.
 */
#ifndef LAB_SWITCH_STATE_H
#define LAB_SWITCH_STATE_H

#include <poll.h>

#include "capture.h"
#include "delay.h"
#include "paths.h"
#include "samples.h"
#include "switch.h"

/* Descriptors that switch_turn() watches beside the TUNs. */
#define SWITCH_CONTROLS 2

/* An uplink or a downlink. */
struct lab_link {
	/* the model of rate, delay, queue and loss */
	struct link model;
	/* the packets on it */
	struct delay delay;
	/* in the switch's heap, by the time at which the next packet leaves */
	struct heap_node due;
	enum lab_direction direction;
	unsigned host;
	/* bytes of IP packets that left it */
	uint64_t bytes;
	/* ECN-capable packets that were marked */
	uint64_t marked;
	/* packets that the host's kernel did not accept */
	uint64_t refused;
	/* packets larger than the link carries */
	uint64_t oversize;
	/* how late packets were written */
	struct lateness lateness;
	/* how long packets waited behind others */
	struct lateness waiting;
};

struct lab_switch {
	const struct lab_config *config;
	/* the links, in hosts times LAB_DIRECTIONS entries */
	struct lab_link *links;
	/* links that have packets, by the time at which the next one leaves */
	struct heap due;
	struct store store;
	/* the buffer for the next packet to read */
	struct buffer *spare;
	struct capture *capture;
	struct samples *samples;
	struct paths paths;
	/* time of day less the monotonic clock */
	uint64_t wall_offset_ns;
	/* when the commands were started; 0: not yet */
	uint64_t start_ns;
	/* index of the next change in config->events */
	unsigned next_event;
	/* packets dropped: to no host, malformed, and for lack of memory */
	uint64_t misaddressed;
	uint64_t malformed;
	uint64_t starved;
	struct pollfd polls[LAB_HOSTS_MAX + SWITCH_CONTROLS];
};

static inline struct lab_link *link_of(const struct lab_switch *sw, unsigned host,
				       enum lab_direction direction)
{
	return &sw->links[host * LAB_DIRECTIONS + direction];
}

/* Moves all packets that are due, in the order of time. */
void forward_due(struct lab_switch *sw, uint64_t now_ns);

/* Reads a few packets from a host. Call forward_due() first, because time must not go back in any link. */
void forward_read(struct lab_switch *sw, unsigned host);

#endif

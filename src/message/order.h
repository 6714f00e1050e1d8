/* SPDX-License-Identifier: BSD-3-Clause */
/* order.h: how far the peer's packets have come, in order and on each lane, and what is done about lanes. Part of state.h. */
#ifndef MESSAGE_ORDER_H
#define MESSAGE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "fabric/fabric.h"
#include "path/path.h"

struct control_message;
struct gw_qp;
struct gw_recv;
struct gw_send;

/* How far the first pass of the peer's packets has come on one lane; order.c. Positions count packets, with the message in
 * the high 32 bits. */
struct lane_order {
	/* Position after the furthest packet that landed. */
	uint64_t front;
	/* The same an eighth of a round trip or more ago. */
	uint64_t recent;
	/* The same one such step earlier. */
	uint64_t old;
};

/* Only where the peer has several lanes. */
struct order_lanes {
	uint32_t count;
	/* One bit for each lane that proves something. */
	uint32_t alive;
	/* Time of the last arrival on any lane, in ns. */
	uint64_t landed_ns;
	/* Time at which packets came again after a pause, in ns. */
	uint64_t resumed_ns;
	/* Silence that a living lane was seen to keep, and a quarter, in ns. */
	uint64_t grace_ns;
	/* Time of the last arrival on each lane, in ns. */
	uint64_t heard_ns[FABRIC_LANES_MAX];
	/* Packets landed on all lanes until then. */
	uint32_t heard_at[FABRIC_LANES_MAX];
	/* Packets landed on each lane, repeats included, as reported. */
	uint32_t landed[FABRIC_LANES_MAX];
	/* Of those, packets marked as having met congestion. */
	uint32_t ce[FABRIC_LANES_MAX];
	struct lane_order lane[FABRIC_LANES_MAX];
};

struct order {
	/* The only lane, where there is one. */
	struct lane_order one;
	/* Null where there is one lane. */
	struct order_lanes *lanes;
	/* Time of the last step of `recent` and `old`, in ns. */
	uint64_t turned_ns;
	/* Receives that wait for the first pass to get somewhere. */
	struct list watchers;
	/* The nearest position that one of them waits for. */
	uint64_t watch;
	/* Packets landed when `slack` was last reconsidered. */
	uint32_t looked_at;
	/* Packets by which a packet may be overtaken before it counts as lost. */
	uint16_t slack;
	/* Largest number of packets that overtook one since then. */
	uint16_t seen;
};

/* order.c */
int order_open(struct gw_qp *qp, uint32_t lanes);
void order_close(struct gw_qp *qp);
/* So many packets landed, from this one on, each right behind the other. `fresh`: not seen before. */
void order_landed(struct gw_qp *qp, const struct gw_recv *recv, uint32_t packet, uint32_t packets,
		  const struct fabric_event *event, bool fresh);
void order_unwatch(struct gw_recv *recv);
/* The sender's side: its position after the packet. */
void order_sent(struct gw_qp *qp, const struct gw_send *send, uint32_t packet);

/* lanes.c */
int lanes_open(struct gw_qp *qp);
void lanes_close(struct gw_qp *qp);
void lanes_told(struct gw_qp *qp, const struct control_message *message);
void lanes_echoed(struct gw_qp *qp, uint32_t lane, uint32_t number, uint64_t rtt_ns);
/* What was said by this lane seems not to arrive: another may do better. */
void lanes_turn_control(struct gw_qp *qp);
/* Control that left at `sent_ns` or later has arrived. */
void lanes_control_arrived(struct gw_qp *qp, uint64_t sent_ns);
/* Takes a lane out of use that carries only smaller packets than the others. */
void lanes_retire_small(struct gw_qp *qp, uint32_t lane);
/* Of so many packets that are missing now: how many may have gone to lanes that are silent. */
uint32_t lanes_excused(struct gw_qp *qp, uint32_t lost);

#endif

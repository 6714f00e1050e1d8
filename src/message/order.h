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
	uint64_t front;	 /* one past the furthest that landed */
	uint64_t recent; /* the same a while ago */
	uint64_t old;	 /* and a while before that */
};

/* Only where the peer has several lanes. */
struct order_lanes {
	uint32_t count;
	uint32_t alive; /* a bit a lane that proves something */
	uint64_t landed_ns;
	uint64_t resumed_ns; /* when packets came again after a pause */
	uint64_t grace_ns;   /* that lanes were seen to need before they are called silent */
	uint64_t heard_ns[FABRIC_LANES_MAX];
	uint32_t heard_at[FABRIC_LANES_MAX]; /* packets landed until then, on all */
	uint32_t landed[FABRIC_LANES_MAX];   /* as reported; repeats included */
	uint32_t ce[FABRIC_LANES_MAX];
	struct lane_order lane[FABRIC_LANES_MAX];
};

struct order {
	struct lane_order one; /* where there is one lane */
	struct order_lanes *lanes;
	uint64_t turned_ns;
	struct list watchers; /* receives that wait for the first pass to get somewhere */
	uint64_t watch;	      /* the nearest of those places */
	uint32_t looked_at;   /* packets landed when slack was last looked at */
	uint16_t slack;
	uint16_t seen; /* the farthest a packet was overtaken since */
};

/* order.c */
int order_open(struct gw_qp *qp, uint32_t lanes);
void order_close(struct gw_qp *qp);
/* `fresh`: not seen before. */
void order_landed(struct gw_qp *qp, const struct gw_recv *recv, uint32_t packet,
		  const struct fabric_event *event, bool fresh);
void order_unwatch(struct gw_recv *recv);
/* The sender's side: its position after the packet. */
void order_sent(struct gw_qp *qp, const struct gw_send *send, uint32_t packet);

/* lanes.c */
int lanes_open(struct gw_qp *qp);
void lanes_close(struct gw_qp *qp);
void lanes_told(struct gw_qp *qp, const struct control_message *message);
void lanes_echoed(struct gw_qp *qp, uint32_t lane, uint32_t number, uint64_t rtt_ns);
/* What was said by this lane seems not to arrive: the next one may do better. */
void lanes_turn_control(struct gw_qp *qp);
/* Takes a lane out of use that carries only smaller packets than the others. */
void lanes_retire_small(struct gw_qp *qp, uint32_t lane);
/* Of so many packets that are missing now: how many may have gone to lanes that are silent. */
uint32_t lanes_excused(struct gw_qp *qp, uint32_t lost);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* world.h: what a simulated world consists of. Private to fabric/sim. */
#ifndef FABRIC_SIM_WORLD_H
#define FABRIC_SIM_WORLD_H

#include "base/heap.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/ring.h"
#include "fabric/promise.h"
#include "fabric/sim/sim.h"

#define SIM_LANES_MAX	  FABRIC_LANES_MAX
#define SIM_BUSY_RETRY_NS 1000

enum packet_kind { PACKET_DATA, PACKET_CONTROL, PACKET_GROUP };

struct packet {
	struct packet *next;	/* on a link, in order */
	struct heap_node loose; /* overtaken or overtaking: on its own in the heap */
	uint64_t at_ns;
	uint32_t from;
	uint32_t to;   /* a host, or the number of a group */
	uint32_t node; /* where it arrives next */
	uint32_t qpn;
	uint32_t bytes; /* on the wire */
	uint8_t kind;
	uint8_t lane;
	bool ce;
	bool corrupt;
	bool again;
	bool on_lane; /* has passed what its lane does to it */
	uint32_t imm;
	uint32_t rkey;
	uint64_t va;
	uint32_t length;
	struct sim_qp *from_qp; /* valid only until the packet is launched */
	const uint8_t *source;	/* NIC: memory not read yet */
	uint8_t *payload;	/* of the payload pool; null where none is carried */
};

/* A link with the packets on it: those in order queue here, and only the first is in the world's heap. */
struct wire {
	struct link link;
	uint32_t from_node;
	uint32_t to_node;
	struct packet *head;
	struct packet *tail;
	struct heap_node due;
	uint64_t stamp; /* of the last multicast packet that took it */
};

struct window {
	struct list event; /* among those waiting to open or close */
	struct sim_qp *qp;
	uint8_t *addr;
	uint64_t length;
	uint64_t at_ns; /* when the change is done */
	uint32_t rkey;
	uint32_t slot;
	uint32_t generation;
	uint32_t marks
		[SIM_LANES_MAX]; /* completions of each lane that come before the fence is told */
	bool marked;
	bool closing; /* from at_ns on nothing lands any more */
	/* NIC: whether it will never open, which is told at at_ns. */
	bool fails;
};

struct sim_qp {
	struct endpoint *endpoint;
	void *user;
	uint32_t qpn;
	struct fabric_split split;
	uint32_t slots;
	uint32_t payload;
	struct promise promise;
	uint32_t peer_host;
	uint32_t peer_qpn;
	uint8_t control_lane;
	uint32_t flushed; /* NIC: writes whose memory was read, not yet told */
	struct list flushed_link;
	struct window **windows; /* by slot */
};

/* What a host will see at its next polls. */
struct arrival {
	uint64_t visible_ns;
	struct fabric_event event;
	struct packet *packet; /* of a control datagram, whose bytes live until the poll after */
	uint32_t qpn;
	uint32_t member; /* of a group, if not 0 */
};

struct queue {
	struct ring ring;
	struct arrival *arrivals;
	uint32_t taken; /* in all */
	uint32_t put;
};

struct endpoint {
	struct fabric fabric;
	struct sim *sim;
	struct sim_host_attr attr;
	uint32_t host;
	uint32_t node;
	bool dead;
	bool woken;
	struct list wake;
	struct rng rng;
	uint64_t jump_ns;
	struct sim_qp **qps; /* by number; numbers are never used twice */
	uint32_t qp_count;
	uint32_t qp_room;
	struct list changing;			/* windows between two states */
	struct list flushed;			/* queue pairs with writes to tell as sent */
	bool busy;				/* the world had no packets left: try again soon */
	struct queue queues[SIM_LANES_MAX + 1]; /* data by lane, then control */
	struct packet *holding;			/* control whose bytes the last poll lent out */
	struct packet *unread;			/* NIC: posted writes, in order */
	struct packet *unread_tail;
	struct heap_node read_due;
};

struct sim {
	struct sim_attr attr;
	struct rng rng;
	uint64_t now_ns;
	uint64_t events;
	uint64_t hash;
	struct heap due; /* wires, loose packets, hosts that read memory */
	struct pool packets;
	struct pool payloads;
	struct pool windows;
	struct endpoint **hosts;
	uint32_t host_count;
	struct wire *wires;
	uint32_t wire_count;
	struct sim_shape_attr shape;
	struct list woken;
	struct list members; /* of multicast groups (group.c) */
	uint32_t groups;
	uint32_t member_numbers;
	uint64_t stamp;
	sim_observer *observer;
	void *observer_arg;
};

/* topology.c: the wire to take from a node towards a host. */
struct wire *route(struct sim *sim, uint32_t node, uint32_t to, uint32_t entropy);
/* The stretch that a host's data on a lane passes first; null where lanes are alike. */
struct wire *lane_wire(struct sim *sim, uint32_t host, uint32_t lane);
uint32_t topology_nodes(const struct sim_shape_attr *shape);

/* world.c */
struct packet *packet_new(struct sim *sim, bool payload);
void packet_free(struct sim *sim, struct packet *packet);
struct packet *packet_copy(struct sim *sim, const struct packet *packet);
void packet_launch(struct sim *sim, struct packet *packet, uint32_t node);
/* Onto this wire, if it lets it. */
void packet_enter(struct sim *sim, struct packet *packet, struct wire *wire);
/* What a switch's hash over addresses and ports comes to. */
uint32_t packet_entropy(const struct packet *packet);
void endpoint_wake(struct endpoint *endpoint);
void observe(struct sim *sim, enum sim_sight what, const struct packet *packet);

/* endpoint.c */
int endpoint_open(struct sim *sim, uint32_t host, uint32_t node, const struct sim_host_attr *attr);
void endpoint_free(struct endpoint *endpoint);
void endpoint_read(struct endpoint *endpoint);

/* group.c */
extern const struct fabric_group_ops sim_group_ops;
/* Out of a node, a copy onto every wire that leads to a member. */
void multicast_launch(struct sim *sim, struct packet *packet, uint32_t node);
/* Fills in what a member is to see; false, and the reason counted, if none is. */
bool multicast_arrive(struct endpoint *endpoint, const struct packet *packet, struct arrival *out);
/* Whether the member has not left. */
bool member_stays(const struct endpoint *endpoint, uint32_t number);
int members_poll(struct endpoint *endpoint, struct fabric_event *events, int most);
bool members_have_sent(const struct endpoint *endpoint);
void members_forget(struct endpoint *endpoint);

/* arrive.c */
void endpoint_arrive(struct endpoint *endpoint, struct packet *packet);
/* Drops all that has arrived and was not polled. */
void endpoint_forget(struct endpoint *endpoint);
int sim_poll(struct fabric *fabric, struct fabric_event *events);
uint64_t sim_deadline_ns(const struct fabric *fabric);
void window_change(struct window *window, bool closing, uint64_t after_ns);

static inline struct endpoint *endpoint_of(const struct fabric *fabric)
{
	return container_of(fabric, struct endpoint, fabric);
}

static inline uint64_t local_ns(const struct endpoint *endpoint)
{
	return endpoint->sim->now_ns + endpoint->jump_ns;
}

#endif

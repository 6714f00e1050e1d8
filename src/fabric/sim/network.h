/* SPDX-License-Identifier: BSD-3-Clause */
/* network.h: the objects that a simulated network consists of. Private to fabric/sim. */
#ifndef FABRIC_SIM_NETWORK_H
#define FABRIC_SIM_NETWORK_H

#include "base/heap.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/ring.h"
#include "fabric/promise.h"
#include "fabric/sends_done.h"
#include "fabric/sim/sim.h"

#define SIM_LANES_MAX	  FABRIC_LANES_MAX
#define SIM_BUSY_RETRY_NS 1000

enum packet_kind { PACKET_DATA, PACKET_CONTROL, PACKET_GROUP };

struct packet {
	/* The packet behind this one on its link, or in another queue. */
	struct packet *next;
	/* Place in sim->due of a packet that arrives out of order and therefore is in no link's queue. */
	struct heap_node loose;
	/* Time of its next arrival; of a write whose memory is not read yet, the time at which it is. */
	uint64_t at_ns;
	/* Sending host. */
	uint32_t from;
	/* Receiving host, or the number of a multicast group. */
	uint32_t to;
	/* Node at which it arrives next. */
	uint32_t node;
	/* Queue pair at the receiving host; of a multicast packet, the number of the sending member. */
	uint32_t qpn;
	/* Size on the wire, headers included. */
	uint32_t bytes;
	/* enum packet_kind */
	uint8_t kind;
	uint8_t lane;
	bool ce;
	bool corrupt;
	/* Data that was sent before. */
	bool again;
	/* True once the link that stands for its lane is behind it. */
	bool on_lane;
	uint32_t imm;
	/* Key of the window, or of the multicast group. */
	uint32_t rkey;
	uint64_t va;
	/* Payload in bytes. */
	uint32_t length;
	/* Sending queue pair; valid only until the packet leaves its host. */
	struct sim_qp *from_qp;
	/* NIC: memory that is still to be read. */
	const uint8_t *source;
	/* Content, from sim->payloads; null where packets have none. */
	uint8_t *payload;
};

/* A link and the packets on it. Those in order of arrival are queued here, and only the first one's time is in sim->due. */
struct wire {
	struct link link;
	uint32_t to_node;
	struct packet *head;
	struct packet *tail;
	struct heap_node due;
	/* Value of sim->stamp for the last multicast packet that entered this link. */
	uint64_t stamp;
};

struct sim_window {
	/* Place in endpoint->changing while it opens or closes. */
	struct list event;
	struct sim_qp *qp;
	uint8_t *addr;
	uint64_t length;
	/* Time at which it is open, or closed. */
	uint64_t at_ns;
	uint32_t rkey;
	/* Payload of a full packet, in bytes. */
	uint32_t payload;
	uint32_t slot;
	uint32_t generation;
	/* For each lane, the number of completions that have to be polled before the fence is reported. */
	uint32_t marks[SIM_LANES_MAX];
	/* True once `marks` is filled in. */
	bool marked;
	/* From at_ns on no packet lands here. */
	bool closing;
	/* NIC: it will never open, which is reported at at_ns. */
	bool fails;
};

struct sim_qp {
	struct sim_endpoint *endpoint;
	void *user;
	uint32_t qpn;
	struct fabric_split split;
	/* as in struct fabric_qp_attr */
	uint32_t *late;
	uint32_t slots;
	/* Payload of a full packet in bytes; 0 until the queue pair is connected. */
	uint32_t payload;
	/* Slot and key that were promised for the first exposure; `promised` until then. */
	struct promise promise;
	uint32_t peer_host;
	uint32_t peer_qpn;
	uint8_t control_lane;
	/* NIC: writes whose memory was read, and that were not reported as sent yet. */
	struct sends_done sent;
	/* Window of each slot, or null. */
	struct sim_window **windows;
};

/* An event that a host will see at one of its next polls. */
struct arrival {
	/* Time from which a poll shows it. */
	uint64_t visible_ns;
	struct fabric_event event;
	/* Control or multicast packet whose bytes the event points at: it lives until the poll after. */
	struct packet *packet;
	uint32_t qpn;
	/* Number of a group's member; 0 for events of a queue pair. */
	uint32_t member;
};

struct queue {
	struct ring ring;
	struct arrival *arrivals;
	/* Arrivals polled and arrivals added, since the start. */
	uint32_t taken;
	uint32_t put;
	/* When the process is done with the latest arrival. */
	uint64_t drained_ns;
};

/* A simulated host. */
struct sim_endpoint {
	struct fabric fabric;
	struct sim *sim;
	struct sim_host_attr attr;
	uint32_t host;
	uint32_t node;
	/* Its members of multicast groups (group.c). */
	struct list members;
	/* True when it neither receives nor sends any more. */
	bool dead;
	/* True when its fabric was closed. */
	bool closed;
	/* True while it is in sim->woken. */
	bool woken;
	struct list wake;
	struct rng rng;
	/* Time by which its clock is ahead. */
	uint64_t jump_ns;
	/* Queue pairs by number, null where closed. Numbers are never used twice. */
	struct sim_qp **qps;
	uint32_t qp_count;
	uint32_t qp_room;
	/* Windows that open or close. */
	struct list changing;
	/* NIC: queue pairs and groups with writes to report as sent. */
	struct list sent;
	/* True when the network had no packet left for a write: it is tried again soon. */
	bool busy;
	/* Arrivals: data by lane, then control and multicast. */
	struct queue queues[SIM_LANES_MAX + 1];
	/* Packets whose bytes the last poll lent out. */
	struct packet *holding;
	/* NIC: posted writes whose memory was not read, in order, and the time of the first in sim->due. */
	struct packet *unread;
	struct packet *unread_tail;
	struct heap_node read_due;
};

struct sim {
	struct sim_attr attr;
	struct rng rng;
	uint64_t now_ns;
	/* Arrivals so far, and a hash over them. */
	uint64_t events;
	uint64_t hash;
	/* What happens next: wires by their first packet, packets out of order, NIC hosts that read memory. */
	struct heap due;
	struct pool packets;
	struct pool payloads;
	struct pool windows;
	struct sim_endpoint **hosts;
	uint32_t host_count;
	struct wire *wires;
	uint32_t wire_count;
	struct sim_shape_attr shape;
	/* Hosts that have something to poll. */
	struct list woken;
	/* Members of all multicast groups (group.c), and the numbers given out to groups and to members. */
	struct list members;
	uint32_t groups;
	uint32_t member_numbers;
	/* Number of multicast forwarding decisions so far: tells which links the present one has used. */
	uint64_t stamp;
	sim_observer *observer;
	void *observer_arg;
};

/* topology.c */
/* Returns the link to take from a node towards a host; `entropy` chooses among links of equal cost. */
struct wire *route(struct sim *sim, uint32_t node, uint32_t to, uint32_t entropy);
/* Returns the link that stands for a host's lane; null where lanes do not differ. */
struct wire *lane_wire(struct sim *sim, uint32_t host, uint32_t lane);

/* network.c */
struct packet *packet_new(struct sim *sim, bool payload);
void packet_free(struct sim *sim, struct packet *packet);
struct packet *packet_copy(struct sim *sim, const struct packet *packet);
/* Sends a packet out of a node, onto the link towards its host. */
void packet_launch(struct sim *sim, struct packet *packet, uint32_t node);
/* Gives the packet to a link, which may lose it. */
void packet_enter(struct sim *sim, struct packet *packet, struct wire *wire);
/* Returns what a switch computes from addresses and ports to choose among links of equal cost. */
uint32_t packet_entropy(const struct packet *packet);
/* Adds the host to those that sim_woken() names. */
void endpoint_wake(struct sim_endpoint *endpoint);
void observe(struct sim *sim, enum sim_sight what, const struct packet *packet);

/* endpoint.c */
int endpoint_open(struct sim *sim, uint32_t host, uint32_t node, const struct sim_host_attr *attr);
void endpoint_free(struct sim_endpoint *endpoint);
/* NIC: reads the memory of the posted writes that are due, and sends them. */
void endpoint_read(struct sim_endpoint *endpoint);

/* group.c */
extern const struct fabric_group_ops sim_group_ops;
/* Sends a copy out of a node onto every link that leads to a member, and frees the packet. */
void multicast_launch(struct sim *sim, struct packet *packet, uint32_t node);
/* Fills in the event that the member at this host sees. False, with the drop counted, if there is none. */
bool multicast_arrive(struct sim_endpoint *endpoint, const struct packet *packet,
		      struct arrival *out);
/* Whether the member with this number is still in its group. */
bool member_stays(const struct sim_endpoint *endpoint, uint32_t number);
/* NIC: reports multicast packets as sent; returns the number of events. */
/* Removes the host's members from their groups. */
void members_forget(struct sim_endpoint *endpoint);

/* arrive.c */
/* Takes a packet that has reached its host. */
void endpoint_arrive(struct sim_endpoint *endpoint, struct packet *packet);
/* Drops everything that has arrived and was not polled. */
void endpoint_forget(struct sim_endpoint *endpoint);
int sim_poll(struct fabric *fabric, struct fabric_event *events);
uint64_t sim_deadline_ns(const struct fabric *fabric);
/* Starts to open a window, or to close it; it is done after `after_ns`. */
void window_change(struct sim_window *window, bool closing, uint64_t after_ns);

static inline struct sim_endpoint *endpoint_of(const struct fabric *fabric)
{
	return container_of(fabric, struct sim_endpoint, fabric);
}

/* Returns the time that the host's clock shows. */
static inline uint64_t local_ns(const struct sim_endpoint *endpoint)
{
	return endpoint->sim->now_ns + endpoint->jump_ns;
}

#endif

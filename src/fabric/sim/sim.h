/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim.h: a simulated network in virtual time, with up to thousands of hosts in one process. The seed determines every random
 * draw: the same seed and the same calls give the same run, bit for bit.
 *
 * A network has nodes (hosts and switches) and links between them. Each host is a fabric (fabric.h) on which a context can
 * be opened. Time passes only when the owner of the network says so. The owner calls sim_run_until() to move the time to
 * the next arrival (sim_next_ns), and then lets those hosts make progress that sim_woken() names or whose deadline has come
 * (src/sim/world.h does this).
 *
 * There are two kinds of host. A *software* host behaves as fabric/roce: it checks the key of every packet itself and opens
 * and closes windows at once. A *NIC* host behaves as fabric/verbs: it reads the memory of a write some time after the write
 * was posted, opens and closes windows late and out of order, its completions show no more than the immediate, and they
 * wait in one queue for each lane.
 */
#ifndef FABRIC_SIM_SIM_H
#define FABRIC_SIM_SIM_H

#include "fabric/fabric.h"
#include "link/link.h"

struct sim;

struct sim_attr {
	uint64_t seed;
	/* Largest payload of a data packet in bytes; default 4096. */
	uint32_t payload;
	/* Largest payload that the links carry, in bytes: longer packets are lost; 0: no limit. */
	uint32_t path_payload;
	/* caps.rungs of every host that is no NIC. */
	uint32_t rungs[FABRIC_RUNGS];
	/* True for scale runs: data packets have a length and no content. */
	bool no_payload;
	/* Virtual time at the start. */
	uint64_t start_ns;
};

struct sim_host_attr {
	bool nic;
	/* Default 1. */
	uint32_t lanes;
	/* Events that each queue of the host holds before it overruns; default 4096. */
	uint32_t queue;
	/* Packets that may be in flight towards a software host at most, if more than half of `queue`; default 2048. */
	uint32_t window_most;
	/* Software: time that the process takes to read one event of a queue; 0: it reads whatever is there at once. */
	uint64_t drain_ns;
	/* NIC: longest time for opening or closing a window. */
	uint64_t fence_ns;
	/* NIC: longest time from the post of a write until its memory is read. */
	uint64_t read_ns;
	/* NIC: longest time from an arrival until its completion is visible. */
	uint64_t completion_ns;
	/* NIC: report a fence before the completions of earlier packets. Only the generation then tells them apart. */
	bool undrained;
	/* NIC: caps.lifetime_ns. */
	uint64_t lifetime_ns;
	/* NIC: probability that a window never opens (FABRIC_EXPOSE_FAILED); with 0 nothing is drawn. */
	double expose_fails;
};

int sim_create(const struct sim_attr *attr, struct sim **out);
void sim_destroy(struct sim *sim);

enum sim_shape { SIM_PAIR, SIM_STAR, SIM_RING, SIM_CLOS };
struct sim_shape_attr {
	enum sim_shape shape;
	uint32_t hosts;
	/* SIM_CLOS: leaf switches. SIM_RING: sites, over which the hosts are spread evenly. */
	uint32_t leaves;
	/* SIM_CLOS: spine switches. */
	uint32_t spines;
	/* Links between a host and its switch (SIM_PAIR: between the two hosts). */
	struct link_attr edge;
	/* Links between switches. */
	struct link_attr core;
	/* True if the lanes differ: packets of lane i pass lane[i] before their first link. Its rate is ignored. */
	bool uneven;
	struct link_attr lane[FABRIC_LANES_MAX];
};

/* Builds the network. Hosts are numbered from 0 and all have the attributes `host`. -EINVAL, -ENOMEM. */
int sim_build(struct sim *sim, const struct sim_shape_attr *shape,
	      const struct sim_host_attr *host);

struct fabric *sim_host(struct sim *sim, uint32_t host);
uint32_t sim_links(const struct sim *sim);
/* Returns a link, in the order of topology.c, to look at or to change while the network runs; null past the last. */
struct link *sim_link(struct sim *sim, uint32_t index);
/* Returns the link that stands for a host's lane; null where lanes do not differ. These come last among the links. */
struct link *sim_lane(struct sim *sim, uint32_t host, uint32_t lane);

/* From now on packets with more data than that vanish; 0: none do. */
void sim_path_payload(struct sim *sim, uint32_t payload);

uint64_t sim_now_ns(const struct sim *sim);
/* Returns when the next packet arrives anywhere; UINT64_MAX if none is under way. */
uint64_t sim_next_ns(const struct sim *sim);
/* Handles every arrival up to `until_ns` and moves the time there. */
void sim_run_until(struct sim *sim, uint64_t until_ns);
/* Returns the next host that has something to poll, -1 if there is none. A host is named once until it is polled. */
int64_t sim_woken(struct sim *sim);

/* Whether the host's fabric was closed, which a context does when it is closed. It cannot be opened again. */
bool sim_closed(const struct sim *sim, uint32_t host);

/* From now on the host neither receives nor sends. */
void sim_kill(struct sim *sim, uint32_t host);
/* Moves the host's clock ahead of the others by this much more. */
void sim_jump(struct sim *sim, uint32_t host, uint64_t by_ns);

/* Events inside the network that a test may want to count. */
enum sim_sight {
	/* A link lost a packet. */
	SIM_LOST,
	/* A packet landed while its window was being closed. */
	SIM_LATE_LANDING,
	/* A fence waited for completions that had not been polled. */
	SIM_LATE_FENCE,
};
struct sim_seen {
	enum sim_sight what;
	/* True for data that had been sent before. */
	bool again;
	/* Content of a control datagram; null for data. */
	const uint8_t *control;
	uint32_t length;
};
typedef void sim_observer(void *arg, const struct sim_seen *seen);
void sim_observe(struct sim *sim, sim_observer *observer, void *arg);

/* Returns the number of packet arrivals so far, at switches too. */
uint64_t sim_events(const struct sim *sim);
/* Returns a hash over every arrival: which packet, where and when. */
uint64_t sim_hash(const struct sim *sim);
/* Returns the number of packets that are under way or wait to be polled, for leak checks. */
uint32_t sim_packets(const struct sim *sim);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim.h: a network in virtual time and memory. Thousands of hosts in one process, bit for bit the same from one seed.
 *
 * A world holds nodes (hosts and switches) and links between them. Each host is a fabric (fabric.h) on which a context
 * opens. Nothing happens by itself: the owner of the world alternates between sim_step(), which moves time to the next
 * arrival and hands it to a host's queue, and progress of the hosts that were woken or whose deadline has come.
 *
 * Two kinds of host. A *software* host is like fabric/roce: it checks every packet's key itself and opens and closes
 * windows at once. A *NIC* host is like fabric/verbs: writes read memory some time after they were posted, windows open
 * and close late and out of order, a completion shows no more than the immediate, and completions wait in a queue for
 * each lane.
 */
#ifndef FABRIC_SIM_SIM_H
#define FABRIC_SIM_SIM_H

#include "fabric/fabric.h"
#include "link/link.h"

struct sim;

struct sim_attr {
	uint64_t seed;
	uint32_t payload; /* the largest data packet; default 4096 */
	uint32_t
		path_payload; /* longer packets vanish, though the hosts' interfaces take them; 0: none do */
	uint32_t rungs[FABRIC_RUNGS]; /* caps.rungs */
	bool no_payload;	      /* scale runs: count bytes, carry none */
	uint64_t start_ns;
};

struct sim_host_attr {
	bool nic;
	uint32_t lanes;		/* default 1 */
	uint32_t queue;		/* events a host can hold before it overruns; default 4096 */
	uint64_t fence_ns;	/* NIC: windows open and close within up to this */
	uint64_t read_ns;	/* NIC: memory is read within up to this after the post */
	uint64_t completion_ns; /* NIC: completions become visible within up to this */
	bool undrained; /* NIC: fences are told before every lane was drained: generations must do */
	uint64_t lifetime_ns; /* NIC: caps.lifetime_ns */
	/* NIC: probability that a window never opens (FABRIC_EXPOSE_FAILED); with 0 nothing is drawn. */
	double expose_fails;
};

int sim_create(const struct sim_attr *attr, struct sim **out);
void sim_destroy(struct sim *sim);

/* Topologies. Hosts are numbered from 0. `hosts` attributes apply to all. */
enum sim_shape { SIM_PAIR, SIM_STAR, SIM_RING, SIM_CLOS };
struct sim_shape_attr {
	enum sim_shape shape;
	uint32_t hosts;
	uint32_t leaves;       /* SIM_CLOS; SIM_RING: sites, hosts spread evenly */
	uint32_t spines;       /* SIM_CLOS */
	struct link_attr edge; /* between a host and its switch (SIM_PAIR: between the two) */
	struct link_attr core; /* between switches; oversubscription is its rate */
	/* What befalls each lane's packets besides, before their first link; a rate is ignored. */
	bool uneven;
	struct link_attr lane[FABRIC_LANES_MAX];
};
int sim_build(struct sim *sim, const struct sim_shape_attr *shape,
	      const struct sim_host_attr *host);

struct fabric *sim_host(struct sim *sim, uint32_t host);
uint32_t sim_links(const struct sim *sim);
struct link *sim_link(struct sim *sim, uint32_t index);
/* What a host's data on a lane passes first; null where lanes are alike. These come last among the links. */
struct link *sim_lane(struct sim *sim, uint32_t host, uint32_t lane);

uint64_t sim_now_ns(const struct sim *sim);
/* When the next packet arrives somewhere; UINT64_MAX: none is under way. */
uint64_t sim_next_ns(const struct sim *sim);
/* Handles everything due up to `until_ns` and moves the time there. */
void sim_run_until(struct sim *sim, uint64_t until_ns);
/* The next host that has something to poll; -1 when there is none. Each is named once until polled. */
int64_t sim_woken(struct sim *sim);

/* A host that is dead receives and sends nothing. */
void sim_kill(struct sim *sim, uint32_t host);
/* The host's clock jumps ahead. */
void sim_jump(struct sim *sim, uint32_t host, uint64_t by_ns);

/* What a test may want to count, and cannot see from outside. */
enum sim_sight {
	SIM_LOST,	  /* a packet did not survive a link */
	SIM_LATE_LANDING, /* one landed while its window was closing */
	SIM_LATE_FENCE,	  /* a fence waited for completions that were not yet taken */
};
struct sim_seen {
	enum sim_sight what;
	bool again;		/* data sent before */
	const uint8_t *control; /* null for data */
	uint32_t length;
};
typedef void sim_observer(void *arg, const struct sim_seen *seen);
void sim_observe(struct sim *sim, sim_observer *observer, void *arg);

/* Packet arrivals handled so far, hops included; what became of time in a scale run. */
uint64_t sim_events(const struct sim *sim);
/* A hash over everything that arrived anywhere and when. */
uint64_t sim_hash(const struct sim *sim);
/* Packets under way, for leak checks. */
uint32_t sim_packets(const struct sim *sim);

#endif

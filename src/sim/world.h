/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * world.h: contexts on a simulated network, driven in virtual time.
 *
 * The driver keeps the next deadline of every host in a heap and moves the time from one event to the next: a packet
 * arrives and wakes its host, or the timer of a host expires. All hosts run in the caller's thread.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <godwit/scheme.h>

#include "base/heap.h"
#include "base/rng.h"
#include "fabric/sim/sim.h"

struct world_host {
	/* The host's context; null before it is opened and after it was closed or killed. */
	struct gw_context *ctx;
	/* Place in world->due; the key is the context's next deadline. */
	struct heap_node due;
	uint32_t index;
	/* True while the host makes no progress, as a stopped process. */
	bool stalled;
	/* True from an event on until the turn that it causes, where that takes time. */
	bool waking;
};

struct world {
	struct sim *sim;
	struct world_host *hosts;
	uint32_t host_count;
	/* Hosts by the time of their next turn. */
	struct heap due;
	/* Calls of gw_progress() so far. */
	uint64_t turns;
	/* Longest time from an event until the process of the host runs, drawn evenly from 0 on; 0: none. */
	uint64_t wake_ns;
	struct rng rng;
	/* Called after each turn of a host; null: nothing is. */
	void (*ran)(void *arg, uint32_t host);
	void *arg;
};

/* Builds the network with no context on it. 0 or -errno; after an error there is nothing to close. */
int world_build(struct world *world, const struct sim_attr *sim, const struct sim_shape_attr *shape,
		const struct sim_host_attr *host);
/* Opens the context of one host, which can be done once. The errors of gw_context_open(). */
int world_context_open(struct world *world, uint32_t host, const struct gw_context_attr *attr);
/* Both of these, with a context of the same attributes on every host. */
int world_open(struct world *world, const struct sim_attr *sim, const struct sim_shape_attr *shape,
	       const struct sim_host_attr *host, const struct gw_context_attr *ctx);
/* Closes the contexts that are open, then the network. */
void world_close(struct world *world);

/* Schedules a host's turn for now, because a call from outside may have given it work. */
void world_touch(struct world *world, uint32_t host);

/* Lets every host make progress until none has anything left to do at this time. For callers who do not know which hosts
 * got work; it takes a turn of each host. */
void world_settle(struct world *world);

/* Moves the time to the next event, not past `until_ns`, and runs the hosts concerned. False, with the time at
 * `until_ns`, when there is no event before that. */
bool world_step(struct world *world, uint64_t until_ns);

/* When the next event is due; UINT64_MAX when none is. */
uint64_t world_next_ns(const struct world *world);

/* Ends the host's process without a message to its peers, and closes its context. */
void world_kill(struct world *world, uint32_t host);
/* Stops the host's process, or lets it go on. */
void world_stall(struct world *world, uint32_t host, bool stalled);

/* Makes a queue pair on each of two hosts and connects them. 0 or -errno. */
int world_connect(struct world *world, uint32_t a, uint32_t b, const struct gw_qp_attr *attr_a,
		  const struct gw_qp_attr *attr_b, struct gw_qp **qp_a, struct gw_qp **qp_b);

#endif

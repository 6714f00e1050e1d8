/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * world.h: contexts on a simulated network, driven in virtual time.
 *
 * The driver keeps every host's next deadline in a heap and goes from moment to moment: packets that arrive, hosts they
 * wake, timers, and things the test itself has planned.
 */
#ifndef SIMULATION_WORLD_H
#define SIMULATION_WORLD_H

#include <godwit/scheme.h>

#include "base/heap.h"
#include "fabric/sim/sim.h"

struct world;

struct world_host {
	struct gw_context *ctx; /* null once killed or closed */
	struct heap_node due;
	uint32_t index;
	bool stalled; /* makes no progress: a process that was stopped */
};

struct world {
	struct sim *sim;
	struct world_host *hosts;
	uint32_t host_count;
	struct heap due;
	uint64_t turns; /* calls of gw_progress() */
};

int world_open(struct world *world, const struct sim_attr *sim, const struct sim_shape_attr *shape,
	       const struct sim_host_attr *host, const struct gw_context_attr *ctx);
void world_close(struct world *world);

/* Something was asked of the host from outside: its turn comes now. */
void world_touch(struct world *world, uint32_t host);

/* Goes to the next moment at which anything happens, not past `until_ns`. False when nothing is left before that. */
bool world_step(struct world *world, uint64_t until_ns);

/* The host's process dies: no word to anybody. Its context is closed, as the kernel would. */
void world_kill(struct world *world, uint32_t host);
void world_stall(struct world *world, uint32_t host, bool stalled);

/* A connected queue pair between two hosts. */
int world_connect(struct world *world, uint32_t a, uint32_t b, const struct gw_qp_attr *attr_a,
		  const struct gw_qp_attr *attr_b, struct gw_qp **qp_a, struct gw_qp **qp_b);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * paths.h: the middle of the star as several paths side by side, as between the leaves of a real network. A flow takes
 * one of them for good, and each can lose packets, or everything, by itself.
 *
 * A real switch hashes the addresses and ports of a flow. Here the flows of a host (TCP and UDP, by source port) take the
 * paths in turn as they appear: as even as a hash can be, and the same in every run of a program that opens its
 * flows in the same order. What is neither TCP nor UDP takes path 0. A path adds no time and has no rate.
 */
#ifndef LAB_PATHS_H
#define LAB_PATHS_H

#include "base/rng.h"
#include "packet.h"
#include "plan.h"

struct paths {
	unsigned count;
	struct link links[LAB_PATHS_MAX];
	uint8_t *taken;		      /* by host and flow: one more than the path, or 0 */
	unsigned next[LAB_HOSTS_MAX]; /* that a host's next flow takes */
};

/* Seeds are drawn only where there are several. -ENOMEM. */
int paths_open(struct paths *paths, const struct lab_plan *plan, struct rng *seeds);
void paths_close(struct paths *paths);

/* Which one a packet of this host takes. */
unsigned paths_find(struct paths *paths, unsigned host, const struct packet *packet);

/* Whether a packet of `bytes` comes through at `now_ns`. */
bool paths_pass(struct paths *paths, unsigned path, uint64_t now_ns, uint32_t bytes);

#endif

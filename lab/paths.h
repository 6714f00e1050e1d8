/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * paths.h: several parallel paths between the uplinks and the downlinks, as between the leaf switches of a real network. A
 * flow always takes the same path, and each path can lose packets, or all of them, independently.
 *
 * A real switch hashes the addresses and ports of a flow. Here the flows of a host (TCP and UDP, by both ports) are
 * assigned to the paths in turn as they appear: evenly, and the same in every run of a program that opens its flows in the
 * same order. Other protocols take path 0. A path has no delay and no rate limit.
 */
#ifndef LAB_PATHS_H
#define LAB_PATHS_H

#include "base/rng.h"
#include "packet.h"
#include "config.h"

struct paths {
	/* number of paths */
	unsigned count;
	struct link links[LAB_PATHS_MAX];
	/* for each host and flow: the number of its path + 1; 0: none yet */
	uint8_t *taken;
	/* for each host: flows seen so far */
	unsigned next[LAB_HOSTS_MAX];
};

/* Draws seeds only if there are several paths. Returns 0 or -ENOMEM. */
int paths_open(struct paths *paths, const struct lab_config *config, struct rng *seeds);
void paths_close(struct paths *paths);

/* Returns the path that a packet of this host takes. */
unsigned paths_find(struct paths *paths, unsigned host, const struct packet *packet);

/* Returns false if the path loses a packet of `bytes` at `now_ns`. */
bool paths_pass(struct paths *paths, unsigned path, uint64_t now_ns, uint32_t bytes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* paths.c: a table with one byte for every flow that a host can have. Its pages are touched only as flows appear. */
#include "paths.h"

#include <errno.h>
#include <stdlib.h>

int paths_open(struct paths *paths, const struct lab_config *config, struct rng *seeds)
{
	*paths = (struct paths){ .count = config->path_count };
	if (paths->count == 1)
		return 0;
	paths->taken = calloc(config->hosts, PACKET_FLOWS);
	if (!paths->taken)
		return -ENOMEM;
	for (unsigned i = 0; i < paths->count; i++)
		link_init(&paths->links[i], &config->paths[i].attr, rng_u64(seeds));
	return 0;
}

void paths_close(struct paths *paths)
{
	free(paths->taken);
}

unsigned paths_find(struct paths *paths, unsigned host, const struct packet *packet)
{
	uint8_t *taken;
	int flow;

	if (paths->count == 1)
		return 0;
	flow = packet_flow(packet);
	if (flow < 0)
		return 0;
	taken = &paths->taken[(size_t)host * PACKET_FLOWS + (size_t)flow];
	if (!*taken)
		*taken = (uint8_t)(1 + paths->next[host]++ % paths->count);
	return *taken - 1U;
}

bool paths_pass(struct paths *paths, unsigned path, uint64_t now_ns, uint32_t bytes)
{
	return paths->count == 1 || link_enter(&paths->links[path], now_ns, bytes).copies > 0;
}

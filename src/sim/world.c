/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver of simulated contexts; see world.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/list.h"
#include "message/private.h"
#include "sim/world.h"

/* The host's context, or null. Its owner may have closed it with gw_context_close(), of which only the fabric hears. */
static struct gw_context *context_of(struct world *world, struct world_host *host)
{
	if (host->ctx && sim_closed(world->sim, host->index))
		host->ctx = NULL;
	return host->ctx;
}

static uint64_t to_world_ns(const struct world *world, const struct world_host *host,
			    uint64_t local_ns)
{
	uint64_t ahead = gw_now_ns(host->ctx) - sim_now_ns(world->sim);

	if (local_ns == UINT64_MAX)
		return local_ns;
	return local_ns > ahead ? local_ns - ahead : 0;
}

static void reschedule(struct world *world, struct world_host *host)
{
	uint64_t now = sim_now_ns(world->sim);
	uint64_t at;

	if (!context_of(world, host) || host->stalled)
		at = UINT64_MAX;
	else
		at = to_world_ns(world, host, gw_private_deadline_ns(host->ctx));
	if (at == UINT64_MAX)
		heap_remove(&world->due, &host->due);
	else
		heap_update(&world->due, &host->due, at < now ? now : at);
}

/* Returns whether there was anything to do. A host that did something may have more to do at the same time. */
static bool run(struct world *world, struct world_host *host)
{
	bool worked = false;
	int work;

	host->waking = false;
	if (!context_of(world, host) || host->stalled)
		return false;
	do {
		world->turns++;
		work = gw_progress(host->ctx);
		worked |= work > 0;
	} while (work > 0 && !gw_private_quiet(host->ctx));
	reschedule(world, host);
	if (world->ran)
		world->ran(world->arg, (uint32_t)(host - world->hosts));
	return worked;
}

int world_build(struct world *world, const struct sim_attr *sim, const struct sim_shape_attr *shape,
		const struct sim_host_attr *host)
{
	int error;

	*world = (struct world){ .sim = NULL };
	rng_seed(&world->rng, sim->seed);
	error = sim_create(sim, &world->sim);
	if (error)
		return error;
	heap_init(&world->due);
	world->hosts = calloc(shape->hosts, sizeof(*world->hosts));
	error = world->hosts ? sim_build(world->sim, shape, host) : -ENOMEM;
	if (!error)
		error = heap_reserve(&world->due, shape->hosts);
	if (error)
		goto free_world;
	for (uint32_t i = 0; i < shape->hosts; i++)
		world->hosts[i].index = i;
	world->host_count = shape->hosts;
	return 0;

free_world:
	heap_destroy(&world->due);
	sim_destroy(world->sim);
	free(world->hosts);
	return error;
}

int world_context_open(struct world *world, uint32_t host, const struct gw_context_attr *attr)
{
	struct fabric *fabric = sim_host(world->sim, host);

	if (!fabric)
		return -EINVAL;
	if (world->hosts[host].ctx || sim_closed(world->sim, host))
		return -EBUSY;
	return gw_private_context_open(fabric, attr, &world->hosts[host].ctx);
}

int world_open(struct world *world, const struct sim_attr *sim, const struct sim_shape_attr *shape,
	       const struct sim_host_attr *host, const struct gw_context_attr *ctx)
{
	int error = world_build(world, sim, shape, host);

	if (error)
		return error;
	for (uint32_t i = 0; !error && i < shape->hosts; i++)
		error = world_context_open(world, i, ctx);
	if (error)
		world_close(world);
	return error;
}

void world_close(struct world *world)
{
	for (uint32_t i = 0; i < world->host_count; i++)
		if (context_of(world, &world->hosts[i]))
			gw_context_close(world->hosts[i].ctx);
	heap_destroy(&world->due);
	sim_destroy(world->sim);
	free(world->hosts);
}

void world_touch(struct world *world, uint32_t host)
{
	struct world_host *h = &world->hosts[host];

	if (!context_of(world, h) || h->stalled)
		return;
	heap_update(&world->due, &h->due, sim_now_ns(world->sim));
}

void world_settle(struct world *world)
{
	bool worked = true;

	while (worked) {
		worked = false;
		for (uint32_t i = 0; i < world->host_count; i++)
			worked |= run(world, &world->hosts[i]);
	}
}

uint64_t world_next_ns(const struct world *world)
{
	const struct heap_node *node = heap_min(&world->due);
	uint64_t at = sim_next_ns(world->sim);

	return node && node->key < at ? node->key : at;
}

/* Runs a host because of an event, at once or after the time that its process takes to wake. */
static void wake(struct world *world, struct world_host *host)
{
	uint64_t at = sim_now_ns(world->sim);

	if (!world->wake_ns || host->waking) {
		run(world, host);
		return;
	}
	if (!context_of(world, host) || host->stalled)
		return;
	host->waking = true;
	heap_update(&world->due, &host->due, at + rng_below(&world->rng, world->wake_ns));
}

bool world_step(struct world *world, uint64_t until_ns)
{
	uint64_t at = world_next_ns(world);
	struct heap_node *node;
	int64_t woken;

	if (at > until_ns) {
		sim_run_until(world->sim, until_ns);
		return false;
	}
	sim_run_until(world->sim, at);
	while ((woken = sim_woken(world->sim)) >= 0)
		if (!world->hosts[woken].waking)
			wake(world, &world->hosts[woken]);
	while ((node = heap_min(&world->due)) && node->key <= at) {
		heap_remove(&world->due, node);
		wake(world, container_of(node, struct world_host, due));
	}
	return true;
}

void world_kill(struct world *world, uint32_t host)
{
	struct world_host *h = &world->hosts[host];

	if (!context_of(world, h))
		return;
	/* A host that is dead sends nothing, so that the peers hear of no close. */
	sim_kill(world->sim, host);
	gw_context_close(h->ctx);
	h->ctx = NULL;
	heap_remove(&world->due, &h->due);
}

void world_stall(struct world *world, uint32_t host, bool stalled)
{
	world->hosts[host].stalled = stalled;
	if (stalled)
		heap_remove(&world->due, &world->hosts[host].due);
	else
		world_touch(world, host);
}

int world_connect(struct world *world, uint32_t a, uint32_t b, const struct gw_qp_attr *attr_a,
		  const struct gw_qp_attr *attr_b, struct gw_qp **qp_a, struct gw_qp **qp_b)
{
	struct gw_qp_info info_a, info_b;
	int error = gw_qp_create(world->hosts[a].ctx, attr_a, qp_a);

	if (!error)
		error = gw_qp_create(world->hosts[b].ctx, attr_b, qp_b);
	if (!error)
		error = gw_qp_info(*qp_a, &info_a);
	if (!error)
		error = gw_qp_info(*qp_b, &info_b);
	if (!error)
		error = gw_qp_connect(*qp_a, &info_b);
	if (!error)
		error = gw_qp_connect(*qp_b, &info_a);
	return error;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Topologies: the nodes of a network, the links between them, and the routes. Routes are computed and not stored, because
 * routing tables for thousands of hosts would take more memory than anything else.
 *
 *	pair    host 0 - host 1                        links 0: from 0 to 1, 1: from 1 to 0
 *	star    hosts - one switch                     link 2h: host h to the switch, 2h + 1: back
 *	ring    hosts - site switch, sites in a ring   then for site s, 2s: to the next site, 2s + 1: to the previous one
 *	clos    hosts - leaf, every leaf - every spine then 2 (leaf * spines + spine): leaf to spine, + 1: back
 *
 * Nodes are numbered: hosts first, then leaves (sites, the switch), then spines.
 */
#include <errno.h>
#include <stdlib.h>

#include "fabric/sim/network.h"

static uint32_t leaves(const struct sim_shape_attr *shape)
{
	return shape->shape == SIM_STAR ? 1 : shape->leaves;
}

static uint32_t leaf_of(const struct sim_shape_attr *shape, uint32_t host)
{
	return (uint32_t)((uint64_t)host * leaves(shape) / shape->hosts);
}

static uint32_t wire_count(const struct sim_shape_attr *shape)
{
	switch (shape->shape) {
	case SIM_PAIR:
		return 2;
	case SIM_STAR:
		return 2 * shape->hosts;
	case SIM_RING:
		return 2 * shape->hosts + 2 * shape->leaves;
	case SIM_CLOS:
		return 2 * shape->hosts + 2 * shape->leaves * shape->spines;
	}
	return 0;
}

/* Where lanes differ, each lane of each host has a link from the host to itself. These links come after all others. */
static uint32_t lane_wires(const struct sim_shape_attr *shape)
{
	return shape->uneven ? SIM_LANES_MAX * shape->hosts : 0;
}

struct wire *lane_wire(struct sim *sim, uint32_t host, uint32_t lane)
{
	if (!sim->shape.uneven)
		return NULL;
	return &sim->wires[wire_count(&sim->shape) + SIM_LANES_MAX * host + lane];
}

static bool sane(const struct sim_shape_attr *shape)
{
	if (shape->hosts < 2 || (shape->shape == SIM_PAIR && shape->hosts != 2))
		return false;
	if (shape->shape == SIM_RING)
		return shape->leaves >= 2 && shape->leaves <= shape->hosts;
	if (shape->shape == SIM_CLOS)
		return shape->leaves >= 1 && shape->spines >= 1 && shape->leaves <= shape->hosts;
	return true;
}

/* Makes the link with this index, which ends at node `to`. */
static void lay(struct sim *sim, uint32_t index, uint32_t to, const struct link_attr *attr)
{
	struct wire *wire = &sim->wires[index];

	link_init(&wire->link, attr, rng_u64(&sim->rng));
	wire->to_node = to;
}

static void lay_all(struct sim *sim)
{
	const struct sim_shape_attr *shape = &sim->shape;
	uint32_t leaf = shape->hosts, next = 2 * shape->hosts;

	for (uint32_t i = 0; i < lane_wires(shape); i++) {
		struct link_attr attr = shape->lane[i % SIM_LANES_MAX];

		attr.rate_bps = 0;
		lay(sim, wire_count(shape) + i, i / SIM_LANES_MAX, &attr);
	}
	if (shape->shape == SIM_PAIR) {
		lay(sim, 0, 1, &shape->edge);
		lay(sim, 1, 0, &shape->edge);
		return;
	}
	for (uint32_t host = 0; host < shape->hosts; host++) {
		lay(sim, 2 * host, leaf + leaf_of(shape, host), &shape->edge);
		lay(sim, 2 * host + 1, host, &shape->edge);
	}
	for (uint32_t i = 0; shape->shape == SIM_RING && i < shape->leaves; i++) {
		lay(sim, next + 2 * i, leaf + (i + 1) % shape->leaves, &shape->core);
		lay(sim, next + 2 * i + 1, leaf + (i + shape->leaves - 1) % shape->leaves,
		    &shape->core);
	}
	for (uint32_t i = 0; shape->shape == SIM_CLOS && i < shape->leaves * shape->spines; i++) {
		uint32_t spine = leaf + shape->leaves + i % shape->spines;

		lay(sim, next + 2 * i, spine, &shape->core);
		lay(sim, next + 2 * i + 1, leaf + i / shape->spines, &shape->core);
	}
}

int sim_build(struct sim *sim, const struct sim_shape_attr *shape, const struct sim_host_attr *host)
{
	int error;

	if (sim->hosts || !sane(shape))
		return -EINVAL;
	sim->shape = *shape;
	sim->wire_count = wire_count(shape) + lane_wires(shape);
	sim->wires = calloc(sim->wire_count, sizeof(*sim->wires));
	sim->hosts = calloc(shape->hosts, sizeof(struct sim_endpoint *));
	if (!sim->wires || !sim->hosts)
		return -ENOMEM;
	lay_all(sim);
	for (uint32_t i = 0; i < shape->hosts; i++) {
		error = endpoint_open(sim, i, i, host);
		if (error)
			return error;
	}
	return heap_reserve(&sim->due, (size_t)sim->wire_count + shape->hosts + sim->packets.count);
}

/* Returns the link of the shorter way round the ring. Where both ways are equally long the packet's entropy decides. */
static struct wire *around(struct sim *sim, uint32_t site, uint32_t target, uint32_t entropy)
{
	uint32_t sites = sim->shape.leaves;
	uint32_t ahead = (target + sites - site) % sites;
	bool forward = 2 * ahead < sites || (2 * ahead == sites && entropy & 1);

	return &sim->wires[2 * sim->shape.hosts + 2 * site + (forward ? 0 : 1)];
}

struct wire *route(struct sim *sim, uint32_t node, uint32_t to, uint32_t entropy)
{
	const struct sim_shape_attr *shape = &sim->shape;
	uint32_t core = 2 * shape->hosts;
	uint32_t leaf, target;

	if (shape->shape == SIM_PAIR)
		return &sim->wires[node];
	if (node < shape->hosts)
		return &sim->wires[2 * node];
	leaf = node - shape->hosts;
	target = leaf_of(shape, to);
	/* The node is a spine. */
	if (leaf >= leaves(shape))
		return &sim->wires[core + 2 * (target * shape->spines + leaf - leaves(shape)) + 1];
	if (leaf == target)
		return &sim->wires[2 * to + 1];
	if (shape->shape == SIM_RING)
		return around(sim, leaf, target, entropy);
	return &sim->wires[core + 2 * (leaf * shape->spines + entropy % shape->spines)];
}

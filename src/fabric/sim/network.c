/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events and time. The packets on a link arrive in the order in which they entered it, except where jitter or reordering
 * change that. So each link keeps its packets in a queue, and only the arrival time of the first is in the heap of events.
 * The heap then grows with the number of links and not with the number of packets, which makes millions of packets a second
 * possible. A packet that would arrive before the last one in the queue gets a place of its own in the heap.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/sim/network.h"

#define DEFAULT_PAYLOAD 4096
/* Largest control datagram. Control packets have content in scale runs, too. */
#define CONTROL_MAX   1024
#define PACKETS_TEST  (1u << 16)
#define PACKETS_SCALE (1u << 21)
/* Windows of all hosts together. Each channel of each host keeps some 20 receives posted, so that 64 ranks which are all connected
 * with each other on 4 tracks have 400,000. Memory that was never used costs nothing. */
#define WINDOWS (1u << 20)

int sim_create(const struct sim_attr *attr, struct sim **out)
{
	struct sim *sim = calloc(1, sizeof(*sim));
	uint32_t packets = attr->no_payload ? PACKETS_SCALE : PACKETS_TEST;
	uint32_t payload;

	if (!sim)
		return -ENOMEM;
	sim->attr = *attr;
	if (!sim->attr.payload)
		sim->attr.payload = DEFAULT_PAYLOAD;
	payload = sim->attr.no_payload || sim->attr.payload < CONTROL_MAX ? CONTROL_MAX
									  : sim->attr.payload;
	sim->now_ns = attr->start_ns;
	rng_seed(&sim->rng, attr->seed);
	heap_init(&sim->due);
	list_init(&sim->woken);
	list_init(&sim->members);
	if (pool_init(&sim->packets, sizeof(struct packet), packets) ||
	    pool_init(&sim->payloads, payload, packets) ||
	    pool_init(&sim->windows, sizeof(struct sim_window), WINDOWS)) {
		sim_destroy(sim);
		return -ENOMEM;
	}
	*out = sim;
	return 0;
}

void sim_destroy(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->host_count; i++)
		endpoint_free(sim->hosts[i]);
	free(sim->hosts);
	free(sim->wires);
	heap_destroy(&sim->due);
	pool_destroy(&sim->packets);
	pool_destroy(&sim->payloads);
	pool_destroy(&sim->windows);
	free(sim);
}

struct packet *packet_new(struct sim *sim, bool payload)
{
	struct packet *packet = pool_get(&sim->packets);

	if (!packet)
		return NULL;
	if (payload) {
		packet->payload = pool_get(&sim->payloads);
		if (!packet->payload) {
			pool_put(&sim->packets, packet);
			return NULL;
		}
	}
	return packet;
}

void packet_free(struct sim *sim, struct packet *packet)
{
	if (packet->payload)
		pool_put(&sim->payloads, packet->payload);
	pool_put(&sim->packets, packet);
}

struct packet *packet_copy(struct sim *sim, const struct packet *packet)
{
	struct packet *copy = packet_new(sim, packet->payload != NULL);
	uint8_t *payload;

	if (!copy)
		return NULL;
	payload = copy->payload;
	*copy = *packet;
	copy->payload = payload;
	copy->loose = (struct heap_node){ 0 };
	if (payload && packet->payload)
		memcpy(payload, packet->payload, packet->length);
	return copy;
}

void sim_observe(struct sim *sim, sim_observer *observer, void *arg)
{
	sim->observer = observer;
	sim->observer_arg = arg;
}

void observe(struct sim *sim, enum sim_sight what, const struct packet *packet)
{
	struct sim_seen seen = { .what = what };

	if (!sim->observer)
		return;
	if (packet) {
		seen.again = packet->again;
		seen.length = packet->length;
		seen.control = packet->kind == PACKET_CONTROL ? packet->payload : NULL;
	}
	sim->observer(sim->observer_arg, &seen);
}

static void enqueue(struct sim *sim, struct wire *wire, struct packet *packet, uint64_t at_ns)
{
	packet->at_ns = at_ns;
	packet->node = wire->to_node;
	packet->next = NULL;
	if (wire->tail && at_ns < wire->tail->at_ns) {
		heap_insert(&sim->due, &packet->loose, at_ns);
		return;
	}
	if (wire->tail) {
		wire->tail->next = packet;
	} else {
		wire->head = packet;
		heap_insert(&sim->due, &wire->due, at_ns);
	}
	wire->tail = packet;
}

uint32_t packet_entropy(const struct packet *packet)
{
	uint32_t value = packet->from * 0x9e3779b1u ^ packet->to * 0x85ebca6bu;

	return (value >> 16) + packet->qpn * 31 + packet->lane;
}

void packet_enter(struct sim *sim, struct packet *packet, struct wire *wire)
{
	struct link_verdict verdict = link_enter(&wire->link, sim->now_ns, packet->bytes);
	struct packet *copy;

	packet->ce |= verdict.ce;
	packet->corrupt |= verdict.corrupt;
	if (!verdict.copies ||
	    (sim->attr.path_payload && packet->length > sim->attr.path_payload)) {
		observe(sim, SIM_LOST, packet);
		packet_free(sim, packet);
		return;
	}
	if (verdict.copies == 2 && (copy = packet_copy(sim, packet)))
		enqueue(sim, wire, copy, verdict.at_ns[1]);
	enqueue(sim, wire, packet, verdict.at_ns[0]);
}

static struct wire *first_wire(struct sim *sim, struct packet *packet, uint32_t node)
{
	struct wire *wire = NULL;

	if (packet->kind != PACKET_GROUP && !packet->on_lane)
		wire = lane_wire(sim, packet->from, packet->lane);
	packet->on_lane = true;
	return wire ? wire : route(sim, node, packet->to, packet_entropy(packet));
}

void packet_launch(struct sim *sim, struct packet *packet, uint32_t node)
{
	packet_enter(sim, packet, first_wire(sim, packet, node));
}

void endpoint_wake(struct sim_endpoint *endpoint)
{
	if (endpoint->woken || endpoint->dead)
		return;
	endpoint->woken = true;
	list_add_tail(&endpoint->sim->woken, &endpoint->wake);
}

int64_t sim_woken(struct sim *sim)
{
	struct list *item = list_first(&sim->woken);
	struct sim_endpoint *endpoint;

	if (!item)
		return -1;
	endpoint = container_of(item, struct sim_endpoint, wake);
	list_del(item);
	endpoint->woken = false;
	return endpoint->host;
}

static void mix(struct sim *sim, const struct packet *packet)
{
	uint64_t value = sim->hash ^ sim->now_ns;

	value = (value ^ packet->node) * UINT64_C(0x9e3779b97f4a7c15);
	value ^= (uint64_t)packet->imm << 32 | (packet->qpn ^ packet->length);
	value *= UINT64_C(0xbf58476d1ce4e5b9);
	sim->hash = value ^ value >> 29;
}

static void arrive(struct sim *sim, struct packet *packet)
{
	sim->events++;
	mix(sim, packet);
	if (packet->kind == PACKET_GROUP && packet->node >= sim->host_count)
		multicast_launch(sim, packet, packet->node);
	else if (packet->kind == PACKET_GROUP || packet->node == packet->to)
		endpoint_arrive(sim->hosts[packet->node], packet);
	else
		packet_launch(sim, packet, packet->node);
}

/* Handles the first event of the heap. The address of its heap node tells what it belongs to: a link, a packet, a host. */
static void fire(struct sim *sim, struct heap_node *node)
{
	char *at = (char *)node;
	char *wires = (char *)sim->wires;

	if (at >= wires && at < wires + sim->wire_count * sizeof(struct wire)) {
		struct wire *wire = container_of(node, struct wire, due);
		struct packet *packet = wire->head;

		wire->head = packet->next;
		if (wire->head) {
			/* The next packet of this link is needed many events from now: it is in the cache by then. */
			__builtin_prefetch(wire->head->next);
			heap_update(&sim->due, &wire->due, wire->head->at_ns);
		} else {
			heap_remove(&sim->due, &wire->due);
			wire->tail = NULL;
		}
		arrive(sim, packet);
		return;
	}
	heap_remove(&sim->due, node);
	if (pool_owns_live(&sim->packets, container_of(node, struct packet, loose))) {
		arrive(sim, container_of(node, struct packet, loose));
	} else {
		endpoint_read(container_of(node, struct sim_endpoint, read_due));
	}
}

uint64_t sim_next_ns(const struct sim *sim)
{
	const struct heap_node *node = heap_min(&sim->due);

	return node ? node->key : UINT64_MAX;
}

void sim_run_until(struct sim *sim, uint64_t until_ns)
{
	struct heap_node *node;

	while ((node = heap_min(&sim->due)) && node->key <= until_ns) {
		if (node->key > sim->now_ns)
			sim->now_ns = node->key;
		fire(sim, node);
	}
	if (until_ns > sim->now_ns)
		sim->now_ns = until_ns;
}

struct fabric *sim_host(struct sim *sim, uint32_t host)
{
	return host < sim->host_count ? &sim->hosts[host]->fabric : NULL;
}

uint32_t sim_links(const struct sim *sim)
{
	return sim->wire_count;
}

struct link *sim_link(struct sim *sim, uint32_t index)
{
	return index < sim->wire_count ? &sim->wires[index].link : NULL;
}

struct link *sim_lane(struct sim *sim, uint32_t host, uint32_t lane)
{
	struct wire *wire =
		host < sim->host_count && lane < SIM_LANES_MAX ? lane_wire(sim, host, lane) : NULL;

	return wire ? &wire->link : NULL;
}

void sim_path_payload(struct sim *sim, uint32_t payload)
{
	sim->attr.path_payload = payload;
}

uint64_t sim_now_ns(const struct sim *sim)
{
	return sim->now_ns;
}

uint64_t sim_events(const struct sim *sim)
{
	return sim->events;
}

uint64_t sim_hash(const struct sim *sim)
{
	return sim->hash;
}

uint32_t sim_packets(const struct sim *sim)
{
	return pool_used(&sim->packets);
}

bool sim_closed(const struct sim *sim, uint32_t host)
{
	return sim->hosts[host]->closed;
}

void sim_kill(struct sim *sim, uint32_t host)
{
	struct sim_endpoint *endpoint = sim->hosts[host];

	endpoint->dead = true;
	endpoint_forget(endpoint);
	if (endpoint->woken) {
		list_del(&endpoint->wake);
		endpoint->woken = false;
	}
}

void sim_jump(struct sim *sim, uint32_t host, uint64_t by_ns)
{
	sim->hosts[host]->jump_ns += by_ns;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A simulated host as a fabric: registration, queue pairs, windows, and sending.
 *
 * A NIC host does not read memory when a write is posted but a little later (endpoint_read). If a layer above gives the
 * memory back too early, wrong bytes arrive, and the tests notice.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/sim/network.h"
#include "base/bytes.h"

#define DEFAULT_QUEUE 4096
#define WINDOW_MOST   (DEFAULT_QUEUE / 2)
#define CONTROL_MAX   1024
#define ADDRESS_SIZE  12
/* Headers of a data packet and of a control datagram in bytes, with IPv4, UDP and ICRC. */
#define WIRE_DATA    64
#define WIRE_CONTROL 52
/* Bits of the generation that a NIC's completion shows. */
#define NIC_GENERATION 2
/* caps.wake_ns, as the fabrics have it that are simulated: sockets, and a NIC. */
#define WAKE_NS	    50000
#define NIC_WAKE_NS 25000

static struct sim_qp *sim_qp(const struct fabric_qp *qp)
{
	return (struct sim_qp *)(uintptr_t)qp;
}

static uint64_t within(struct sim_endpoint *endpoint, uint64_t limit_ns)
{
	return limit_ns ? rng_below(&endpoint->rng, limit_ns + 1) : 0;
}

static void sim_close(struct fabric *fabric)
{
	struct sim_endpoint *endpoint = endpoint_of(fabric);

	endpoint->closed = true;
	/* The endpoint is freed with the network, because packets under way still name this host. */
	if (!endpoint->dead)
		sim_kill(endpoint->sim, endpoint->host);
}

static uint64_t sim_clock_ns(const struct fabric *fabric)
{
	return local_ns(endpoint_of(fabric));
}

static int sim_entropy(struct fabric *fabric, void *buffer, size_t length)
{
	struct rng *rng = &endpoint_of(fabric)->rng;

	rng_fill(rng, buffer, length);
	/* In one case of four, numbers close to the largest: counters that start there wrap soon. */
	if (rng_chance(rng, 0.25) && length % sizeof(uint32_t) == 0)
		for (size_t i = 0; i < length; i += sizeof(uint32_t)) {
			uint32_t value = UINT32_MAX - (uint32_t)rng_below(rng, 8);

			memcpy((char *)buffer + i, &value, sizeof(value));
		}
	return 0;
}

static int sim_mr_register(struct fabric *fabric, void *addr, size_t length, struct fabric_mr **out)
{
	(void)fabric;
	(void)addr;
	(void)length;
	*out = NULL;
	return 0;
}

static void sim_mr_deregister(struct fabric *fabric, struct fabric_mr *mr)
{
	(void)fabric;
	(void)mr;
}

static int sim_qp_create(struct fabric *fabric, const struct fabric_qp_attr *attr,
			 struct fabric_qp **out)
{
	struct sim_endpoint *endpoint = endpoint_of(fabric);
	struct sim_qp *qp;

	if (endpoint->qp_count == endpoint->qp_room) {
		uint32_t room = endpoint->qp_room ? 2 * endpoint->qp_room : 16;
		struct sim_qp **qps = realloc(endpoint->qps, room * sizeof(struct sim_qp *));

		if (!qps)
			return -ENOMEM;
		endpoint->qps = qps;
		endpoint->qp_room = room;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp->windows = calloc(attr->slots, sizeof(struct sim_window *));
	if (!qp->windows) {
		free(qp);
		return -ENOMEM;
	}
	qp->endpoint = endpoint;
	qp->user = attr->user;
	qp->split = attr->split;
	qp->late = attr->late;
	qp->slots = attr->slots;
	qp->qpn = endpoint->qp_count;
	sends_done_init(&qp->sent, attr->user);
	endpoint->qps[endpoint->qp_count++] = qp;
	*out = (struct fabric_qp *)qp;
	return 0;
}

/* Drops the posted writes of a queue pair that is being destroyed: their memory may no longer be read. */
static void forget_unread(struct sim_endpoint *endpoint, const struct sim_qp *qp)
{
	struct packet **place = &endpoint->unread;

	endpoint->unread_tail = NULL;
	while (*place) {
		struct packet *packet = *place;

		if (packet->from_qp == qp) {
			*place = packet->next;
			packet_free(endpoint->sim, packet);
		} else {
			endpoint->unread_tail = packet;
			place = &packet->next;
		}
	}
	if (!endpoint->unread)
		heap_remove(&endpoint->sim->due, &endpoint->read_due);
}

static void sim_qp_destroy(struct fabric_qp *fabric_qp)
{
	struct sim_qp *qp = sim_qp(fabric_qp);
	struct sim_endpoint *endpoint = qp->endpoint;

	for (uint32_t slot = 0; slot < qp->slots; slot++) {
		if (!qp->windows[slot])
			continue;
		list_del(&qp->windows[slot]->event);
		pool_put(&endpoint->sim->windows, qp->windows[slot]);
	}
	forget_unread(endpoint, qp);
	list_del(&qp->sent.link);
	endpoint->qps[qp->qpn] = NULL;
	free(qp->windows);
	free(qp);
}

static size_t sim_qp_address(const struct fabric_qp *fabric_qp, uint8_t *out)
{
	const struct sim_qp *qp = sim_qp(fabric_qp);

	put_be32(out, qp->endpoint->host);
	put_be32(out + 4, qp->qpn);
	put_be32(out + 8, 0);
	return ADDRESS_SIZE;
}

static int sim_qp_connect(struct fabric_qp *fabric_qp, const uint8_t *address, size_t length,
			  uint32_t payload)
{
	struct sim_qp *qp = sim_qp(fabric_qp);

	if (length < ADDRESS_SIZE)
		return -EPROTONOSUPPORT;
	qp->peer_host = get_be32(address);
	qp->peer_qpn = get_be32(address + 4);
	if (qp->peer_host >= qp->endpoint->sim->host_count || qp->peer_host == qp->endpoint->host)
		return -ENETUNREACH;
	qp->payload = payload;
	return 0;
}

/* A NIC host cannot promise a key, because its windows open late. */
static int sim_promise(struct fabric_qp *fabric_qp, uint32_t slot, uint32_t *rkey)
{
	struct sim_qp *qp = sim_qp(fabric_qp);

	if (qp->endpoint->attr.nic)
		return -EOPNOTSUPP;
	*rkey = promise_make(&qp->promise, slot, (uint32_t)rng_u64(&qp->endpoint->rng));
	return 0;
}

static int sim_expose(struct fabric_qp *fabric_qp, uint32_t slot, uint32_t generation,
		      struct fabric_mr *mr, void *addr, uint64_t length, uint32_t payload)
{
	struct sim_qp *qp = sim_qp(fabric_qp);
	struct sim_endpoint *endpoint = qp->endpoint;
	struct sim_window *window;

	(void)mr;
	if (qp->windows[slot])
		return -EBUSY;
	window = pool_get(&endpoint->sim->windows);
	if (!window)
		return -EAGAIN;
	window->qp = qp;
	window->addr = addr;
	window->length = length;
	window->slot = slot;
	window->generation = generation;
	window->payload = payload;
	window->rkey = promise_keep(&qp->promise, slot, (uint32_t)rng_u64(&endpoint->rng));
	window->fails = endpoint->attr.nic && endpoint->attr.expose_fails > 0 &&
			rng_chance(&endpoint->rng, endpoint->attr.expose_fails);
	qp->windows[slot] = window;
	list_init(&window->event);
	window_change(window, false, within(endpoint, endpoint->attr.fence_ns));
	return 0;
}

static int sim_recut(struct fabric_qp *fabric_qp, uint32_t slot, uint32_t generation,
		     uint32_t payload, uint32_t *rkey)
{
	struct sim_qp *qp = sim_qp(fabric_qp);
	struct sim_window *window = qp->windows[slot];

	if (!window)
		return -ENOENT;
	window->generation = generation;
	window->payload = payload;
	*rkey = window->rkey = (uint32_t)rng_u64(&qp->endpoint->rng);
	return 0;
}

static int sim_fence(struct fabric_qp *fabric_qp, uint32_t slot)
{
	struct sim_qp *qp = sim_qp(fabric_qp);
	struct sim_window *window = qp->windows[slot];

	if (!window || window->fails)
		return -ENOENT;
	if (!qp->endpoint->attr.nic) {
		qp->windows[slot] = NULL;
		list_del(&window->event);
		pool_put(&qp->endpoint->sim->windows, window);
		return 1;
	}
	window_change(window, true, within(qp->endpoint, qp->endpoint->attr.fence_ns));
	return 0;
}

static struct packet *make(struct sim_qp *qp, enum packet_kind kind, uint32_t length, bool carry)
{
	struct sim_endpoint *endpoint = qp->endpoint;
	struct packet *packet = packet_new(endpoint->sim, carry);

	if (!packet) {
		endpoint->busy = true;
		endpoint->fabric.counters[FABRIC_TX_BUSY]++;
		return NULL;
	}
	packet->kind = (uint8_t)kind;
	packet->from = endpoint->host;
	packet->from_qp = qp;
	packet->to = qp->peer_host;
	packet->qpn = qp->peer_qpn;
	packet->length = length;
	packet->bytes = length + (kind == PACKET_DATA ? WIRE_DATA : WIRE_CONTROL);
	return packet;
}

static void post_unread(struct sim_endpoint *endpoint, struct packet *packet)
{
	struct sim *sim = endpoint->sim;

	packet->at_ns = sim->now_ns + within(endpoint, endpoint->attr.read_ns);
	if (endpoint->unread) {
		if (packet->at_ns < endpoint->unread_tail->at_ns)
			packet->at_ns = endpoint->unread_tail->at_ns;
		endpoint->unread_tail->next = packet;
	} else {
		endpoint->unread = packet;
		heap_insert(&sim->due, &endpoint->read_due, packet->at_ns);
	}
	endpoint->unread_tail = packet;
}

void endpoint_read(struct sim_endpoint *endpoint)
{
	struct sim *sim = endpoint->sim;
	struct packet *packet;

	while ((packet = endpoint->unread) && packet->at_ns <= sim->now_ns) {
		struct sim_qp *qp = packet->from_qp;

		endpoint->unread = packet->next;
		packet->next = NULL;
		if (packet->payload)
			memcpy(packet->payload, packet->source, packet->length);
		sends_done_add(&endpoint->sent, &qp->sent, 1);
		endpoint_wake(endpoint);
		if (endpoint->dead)
			packet_free(sim, packet);
		else
			packet_launch(sim, packet, endpoint->node);
	}
	if (endpoint->unread)
		heap_insert(&sim->due, &endpoint->read_due, endpoint->unread->at_ns);
	else
		endpoint->unread_tail = NULL;
}

static int sim_write(struct fabric_qp *fabric_qp, unsigned lane, const struct fabric_target *target,
		     const struct fabric_write *writes, unsigned count)
{
	struct sim_qp *qp = sim_qp(fabric_qp);
	struct sim_endpoint *endpoint = qp->endpoint;
	struct sim *sim = endpoint->sim;
	unsigned done;

	endpoint->busy = false;
	for (done = 0; done < count; done++) {
		const struct fabric_write *write = &writes[done];
		struct packet *packet = make(qp, PACKET_DATA, write->length, !sim->attr.no_payload);

		if (!packet)
			break;
		packet->lane = (uint8_t)lane;
		packet->again = write->again;
		packet->imm = fabric_imm(&qp->split, target->slot, write->packet, write->user);
		packet->rkey = target->rkey;
		packet->va = write->va;
		endpoint->fabric.counters[FABRIC_TX_DATA]++;
		endpoint->fabric.counters[FABRIC_TX_BYTES] += packet->bytes;
		if (endpoint->dead) {
			packet_free(sim, packet);
		} else if (endpoint->attr.nic) {
			packet->source = write->data;
			post_unread(endpoint, packet);
		} else {
			if (packet->payload)
				memcpy(packet->payload, write->data, write->length);
			packet_launch(sim, packet, endpoint->node);
		}
	}
	return (int)done;
}

static void sim_control_by(struct fabric_qp *fabric_qp, unsigned lane)
{
	struct sim_qp *qp = sim_qp(fabric_qp);

	qp->control_lane = (uint8_t)(lane % qp->endpoint->attr.lanes);
}

static int sim_control(struct fabric_qp *fabric_qp, const void *data, size_t length)
{
	struct sim_qp *qp = sim_qp(fabric_qp);
	struct sim_endpoint *endpoint = qp->endpoint;
	struct packet *packet = make(qp, PACKET_CONTROL, (uint32_t)length, true);

	if (!packet)
		return -EAGAIN;
	packet->lane = qp->control_lane;
	memcpy(packet->payload, data, length);
	endpoint->fabric.counters[FABRIC_TX_CONTROL]++;
	endpoint->fabric.counters[FABRIC_TX_BYTES] += packet->bytes;
	if (endpoint->dead)
		packet_free(endpoint->sim, packet);
	else
		packet_launch(endpoint->sim, packet, endpoint->node);
	return 0;
}

static const struct fabric_ops sim_ops = {
	.name = "sim",
	.close = sim_close,
	.now_ns = sim_clock_ns,
	.entropy = sim_entropy,
	.mr_register = sim_mr_register,
	.mr_deregister = sim_mr_deregister,
	.qp_create = sim_qp_create,
	.qp_destroy = sim_qp_destroy,
	.qp_address = sim_qp_address,
	.qp_connect = sim_qp_connect,
	.recut = sim_recut,
	.promise = sim_promise,
	.expose = sim_expose,
	.fence = sim_fence,
	.write = sim_write,
	.control = sim_control,
	.control_by = sim_control_by,
	.poll = sim_poll,
	.deadline_ns = sim_deadline_ns,
	.group = &sim_group_ops,
};

static int open_queues(struct sim_endpoint *endpoint)
{
	uint32_t size = 1;

	while (size < endpoint->attr.queue)
		size *= 2;
	for (uint32_t i = 0; i <= endpoint->attr.lanes; i++) {
		struct queue *queue = &endpoint->queues[i];

		queue->arrivals = malloc(size * sizeof(*queue->arrivals));
		if (!queue->arrivals)
			return -ENOMEM;
		ring_init(&queue->ring, size);
	}
	return 0;
}

int endpoint_open(struct sim *sim, uint32_t host, uint32_t node, const struct sim_host_attr *attr)
{
	struct sim_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	struct fabric_caps *caps;

	if (!endpoint)
		return -ENOMEM;
	sim->hosts[host] = endpoint;
	sim->host_count = host + 1;
	endpoint->fabric.ops = &sim_ops;
	endpoint->sim = sim;
	endpoint->attr = *attr;
	endpoint->host = host;
	endpoint->node = node;
	endpoint->rng = rng_split(&sim->rng);
	list_init(&endpoint->wake);
	list_init(&endpoint->changing);
	list_init(&endpoint->sent);
	list_init(&endpoint->members);
	if (!endpoint->attr.lanes)
		endpoint->attr.lanes = 1;
	if (endpoint->attr.lanes > SIM_LANES_MAX)
		return -EINVAL;
	if (!endpoint->attr.queue)
		endpoint->attr.queue = DEFAULT_QUEUE;
	caps = &endpoint->fabric.caps;
	caps->max_payload = sim->attr.payload;
	caps->max_control = CONTROL_MAX;
	caps->max_group = sim->attr.payload;
	if (!endpoint->attr.nic)
		memcpy(caps->rungs, sim->attr.rungs, sizeof(caps->rungs));
	/* Half of a queue, because packets of several lanes and their repeats share it. */
	caps->buffer = caps->buffer_most = endpoint->attr.queue / 2;
	caps->buffer_packet = 1;
	if (!endpoint->attr.window_most)
		endpoint->attr.window_most = WINDOW_MOST;
	if (!attr->nic && caps->buffer_most < endpoint->attr.window_most)
		caps->buffer_most = endpoint->attr.window_most;
	caps->lanes = endpoint->attr.lanes;
	caps->copies = !attr->nic;
	caps->wake_ns = attr->nic ? NIC_WAKE_NS : WAKE_NS;
	if (attr->nic) {
		caps->generation_bits = NIC_GENERATION;
		caps->lifetime_ns = attr->lifetime_ns;
	}
	return open_queues(endpoint);
}

void endpoint_free(struct sim_endpoint *endpoint)
{
	members_forget(endpoint);
	for (uint32_t i = 0; i < endpoint->qp_count; i++)
		if (endpoint->qps[i])
			sim_qp_destroy((struct fabric_qp *)endpoint->qps[i]);
	for (uint32_t i = 0; i <= SIM_LANES_MAX; i++)
		free(endpoint->queues[i].arrivals);
	free(endpoint->qps);
	free(endpoint);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving on a simulated host: the checks on arrival, and what a poll returns.
 *
 * The completions of data wait in one queue for each lane, control in another, each with a time from which it is visible.
 * A window that closes takes no packet after its closing time. Its fence is reported only when every completion from before
 * that time was polled: a completion reported after the fence could be taken for one of the slot's next message.
 */
#include <errno.h>
#include <string.h>

#include "fabric/sim/network.h"

static uint64_t visible_at(struct sim_endpoint *endpoint, const struct queue *queue)
{
	uint64_t at = endpoint->sim->now_ns;
	uint64_t delay = endpoint->attr.completion_ns;

	if (at < queue->drained_ns)
		at = queue->drained_ns;
	at += endpoint->attr.drain_ns;

	if (endpoint->attr.nic && delay)
		at += rng_below(&endpoint->rng, delay + 1);
	/* An entry becomes visible no earlier than the one before it. */
	if (!ring_empty(&queue->ring)) {
		const struct arrival *last =
			&queue->arrivals[(queue->ring.tail - 1) & queue->ring.mask];

		if (at < last->visible_ns)
			at = last->visible_ns;
	}
	return at;
}

static struct arrival *append(struct sim_endpoint *endpoint, struct queue *queue)
{
	uint64_t at = visible_at(endpoint, queue);
	struct arrival *arrival;

	if (ring_full(&queue->ring)) {
		endpoint->fabric.counters[FABRIC_DROP_OVERRUN]++;
		return NULL;
	}
	arrival = &queue->arrivals[ring_push_index(&queue->ring)];
	queue->put++;
	memset(arrival, 0, sizeof(*arrival));
	arrival->visible_ns = at;
	if (endpoint->attr.drain_ns)
		queue->drained_ns = at;
	/* A kernel reports the time of arrival of a packet, the completion of a NIC does not. */
	if (!endpoint->attr.nic)
		arrival->event.at_ns = endpoint->sim->now_ns + endpoint->jump_ns;
	return arrival;
}

static bool is_shut(const struct sim_endpoint *endpoint, const struct sim_window *window)
{
	return window->closing && endpoint->sim->now_ns >= window->at_ns;
}

static struct sim_window *find_window(struct sim_endpoint *endpoint, const struct sim_qp *qp,
				      const struct packet *packet)
{
	uint32_t slot = fabric_imm_slot(&qp->split, packet->imm);
	uint64_t *counters = endpoint->fabric.counters;
	struct sim_window *window = slot < qp->slots ? qp->windows[slot] : NULL;

	if (!window || window->fails || is_shut(endpoint, window)) {
		counters[FABRIC_DROP_SLOT]++;
		fabric_late(endpoint->attr.nic ? NULL : qp->late);
		return NULL;
	}
	if (window->rkey != packet->rkey) {
		counters[FABRIC_DROP_RKEY]++;
		fabric_late(endpoint->attr.nic ? NULL : qp->late);
		return NULL;
	}
	if (packet->va > window->length || packet->length > window->length - packet->va ||
	    packet->va != (uint64_t)fabric_imm_packet(&qp->split, packet->imm) * window->payload) {
		counters[FABRIC_DROP_OFFSET]++;
		return NULL;
	}
	return window;
}

static void arrive_data(struct sim_endpoint *endpoint, struct sim_qp *qp,
			const struct packet *packet)
{
	struct sim_window *window = find_window(endpoint, qp, packet);
	struct arrival *arrival;

	if (!window)
		return;
	/* Without room for the completion the packet is dropped before it is placed, as a NIC does that has no receive
	 * request left. */
	arrival = append(endpoint, &endpoint->queues[packet->lane % endpoint->attr.lanes]);
	if (!arrival)
		return;
	if (window->closing)
		observe(endpoint->sim, SIM_LATE_LANDING, packet);
	if (packet->payload)
		memcpy(window->addr + packet->va, packet->payload, packet->length);
	endpoint->fabric.counters[FABRIC_RX_DATA]++;
	arrival->qpn = qp->qpn;
	arrival->event.type = FABRIC_DATA;
	arrival->event.user = qp->user;
	arrival->event.lane = packet->lane;
	/* The completion of a UC queue pair does not show congestion marks. */
	arrival->event.ce = packet->ce && !endpoint->attr.nic;
	arrival->event.slot = window->slot;
	arrival->event.generation = endpoint->attr.nic ? 0 : window->generation;
	arrival->event.data.packet = fabric_imm_packet(&qp->split, packet->imm);
	arrival->event.data.length = packet->length;
	arrival->event.data.user_bits = fabric_imm_user(&qp->split, packet->imm);
}

static bool arrive_control(struct sim_endpoint *endpoint, struct sim_qp *qp, struct packet *packet)
{
	struct arrival *arrival = append(endpoint, &endpoint->queues[endpoint->attr.lanes]);

	if (!arrival)
		return false;
	endpoint->fabric.counters[FABRIC_RX_CONTROL]++;
	arrival->qpn = qp->qpn;
	arrival->packet = packet;
	arrival->event.type = FABRIC_CONTROL;
	arrival->event.user = qp->user;
	arrival->event.ce = packet->ce;
	arrival->event.control.bytes = packet->payload;
	arrival->event.control.length = packet->length;
	return true;
}

static bool arrive_group(struct sim_endpoint *endpoint, struct packet *packet)
{
	struct arrival seen = { 0 }, *arrival;

	if (!multicast_arrive(endpoint, packet, &seen))
		return false;
	arrival = append(endpoint, &endpoint->queues[endpoint->attr.lanes]);
	if (!arrival)
		return false;
	endpoint->fabric.counters[FABRIC_RX_DATA]++;
	seen.visible_ns = arrival->visible_ns;
	seen.packet = packet;
	*arrival = seen;
	return true;
}

void endpoint_arrive(struct sim_endpoint *endpoint, struct packet *packet)
{
	struct sim_qp *qp = packet->qpn < endpoint->qp_count ? endpoint->qps[packet->qpn] : NULL;
	bool kept = false;

	if (endpoint->dead) {
		packet_free(endpoint->sim, packet);
		return;
	}
	endpoint->fabric.counters[FABRIC_RX_BYTES] += packet->bytes;
	endpoint->fabric.counters[FABRIC_RX_CE] += packet->ce && !endpoint->attr.nic;
	if (packet->corrupt)
		endpoint->fabric.counters[FABRIC_DROP_ICRC]++;
	else if (packet->kind == PACKET_GROUP)
		kept = arrive_group(endpoint, packet);
	else if (!qp || !qp->payload)
		endpoint->fabric.counters[FABRIC_DROP_QPN]++;
	else if (packet->from != qp->peer_host)
		endpoint->fabric.counters[FABRIC_DROP_STRANGER]++;
	else if (packet->kind == PACKET_DATA)
		arrive_data(endpoint, qp, packet);
	else
		kept = arrive_control(endpoint, qp, packet);
	if (!kept)
		packet_free(endpoint->sim, packet);
	endpoint_wake(endpoint);
}

void window_change(struct sim_window *window, bool closing, uint64_t after_ns)
{
	struct sim_endpoint *endpoint = window->qp->endpoint;

	window->closing = closing;
	window->at_ns = endpoint->sim->now_ns + after_ns;
	window->marked = false;
	list_del(&window->event);
	list_add_tail(&endpoint->changing, &window->event);
	endpoint_wake(endpoint);
}

/* Whether every completion from before the window was closed has been polled. */
static bool drained(const struct sim_endpoint *endpoint, const struct sim_window *window)
{
	for (uint32_t i = 0; i < endpoint->attr.lanes; i++)
		if ((int32_t)(endpoint->queues[i].taken - window->marks[i]) < 0)
			return false;
	return true;
}

static bool may_tell(struct sim_endpoint *endpoint, struct sim_window *window)
{
	if (window->at_ns > endpoint->sim->now_ns)
		return false;
	if (!window->closing || endpoint->attr.undrained)
		return true;
	if (!window->marked) {
		window->marked = true;
		for (uint32_t i = 0; i < endpoint->attr.lanes; i++)
			window->marks[i] = endpoint->queues[i].put;
		if (!drained(endpoint, window))
			observe(endpoint->sim, SIM_LATE_FENCE, NULL);
	}
	return drained(endpoint, window);
}

static int poll_windows(struct sim_endpoint *endpoint, struct fabric_event *events, int most)
{
	struct list *item, *after;
	int n = 0;

	list_for_each_safe (item, after, &endpoint->changing) {
		struct sim_window *window = container_of(item, struct sim_window, event);
		struct fabric_event *event = &events[n];

		if (n == most)
			break;
		if (!may_tell(endpoint, window))
			continue;
		list_del(item);
		memset(event, 0, sizeof(*event));
		event->type = window->closing ? FABRIC_FENCED : FABRIC_EXPOSED;
		event->user = window->qp->user;
		event->slot = window->slot;
		event->generation = window->generation;
		n++;
		if (window->fails) {
			event->type = FABRIC_EXPOSE_FAILED;
			event->status = -EIO;
		}
		if (window->closing || window->fails) {
			window->qp->windows[window->slot] = NULL;
			pool_put(&endpoint->sim->windows, window);
		} else {
			event->exposed.va = 0;
			event->exposed.rkey = window->rkey;
		}
	}
	return n;
}

static int poll_queue(struct sim_endpoint *endpoint, struct queue *queue,
		      struct fabric_event *events, int most)
{
	int n = 0;

	while (n < most && !ring_empty(&queue->ring)) {
		struct arrival *arrival = &queue->arrivals[ring_peek_index(&queue->ring)];

		if (arrival->visible_ns > endpoint->sim->now_ns)
			break;
		ring_pop_index(&queue->ring);
		queue->taken++;
		if (arrival->packet) {
			arrival->packet->next = endpoint->holding;
			endpoint->holding = arrival->packet;
		}
		/* The queue pair may have been destroyed, or the group left, since the packet arrived. */
		if (arrival->member ? member_stays(endpoint, arrival->member)
				    : endpoint->qps[arrival->qpn] != NULL)
			events[n++] = arrival->event;
	}
	return n;
}

static void give_back(struct sim_endpoint *endpoint)
{
	while (endpoint->holding) {
		struct packet *packet = endpoint->holding;

		endpoint->holding = packet->next;
		packet_free(endpoint->sim, packet);
	}
}

void endpoint_forget(struct sim_endpoint *endpoint)
{
	give_back(endpoint);
	for (uint32_t i = 0; i <= endpoint->attr.lanes; i++) {
		struct queue *queue = &endpoint->queues[i];

		while (!ring_empty(&queue->ring)) {
			struct arrival *arrival = &queue->arrivals[ring_pop_index(&queue->ring)];

			if (arrival->packet)
				packet_free(endpoint->sim, arrival->packet);
		}
	}
}

int sim_poll(struct fabric *fabric, struct fabric_event *events)
{
	struct sim_endpoint *endpoint = endpoint_of(fabric);
	int share = FABRIC_EVENTS / (int)(endpoint->attr.lanes + 2);
	bool left = false;
	int n;

	give_back(endpoint);
	if (endpoint->dead)
		return 0;
	/* Fences come last, so that they are reported after the completions of the same slot. */
	n = sends_done_poll(&endpoint->sent, events, share / 2);
	for (uint32_t i = 0; i <= endpoint->attr.lanes; i++) {
		n += poll_queue(endpoint, &endpoint->queues[i], events + n, share);
		left |= !ring_empty(&endpoint->queues[i].ring);
	}
	endpoint->fabric.emptied |= !left;
	n += poll_windows(endpoint, events + n, share / 2);
	return n;
}

uint64_t sim_deadline_ns(const struct fabric *fabric)
{
	const struct sim_endpoint *endpoint = endpoint_of(fabric);
	uint64_t at = UINT64_MAX;
	struct list *item;

	if (endpoint->dead)
		return at;
	if (!list_empty(&endpoint->sent))
		return 0;
	for (uint32_t i = 0; i <= endpoint->attr.lanes; i++) {
		const struct queue *queue = &endpoint->queues[i];

		if (!ring_empty(&queue->ring) &&
		    queue->arrivals[ring_peek_index(&queue->ring)].visible_ns < at)
			at = queue->arrivals[ring_peek_index(&queue->ring)].visible_ns;
	}
	list_for_each (item, &endpoint->changing) {
		const struct sim_window *window = container_of(item, struct sim_window, event);

		/* A fence that waits for completions has no time of its own: it is reported after they were polled. */
		if (window->at_ns < at && (!window->marked || drained(endpoint, window)))
			at = window->at_ns;
	}
	if (endpoint->busy && endpoint->sim->now_ns + SIM_BUSY_RETRY_NS < at)
		at = endpoint->sim->now_ns + SIM_BUSY_RETRY_NS;
	return at == UINT64_MAX ? at : at + endpoint->jump_ns;
}

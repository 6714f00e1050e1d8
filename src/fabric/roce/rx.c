/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving. Every datagram is checked to the end before a byte of it is placed: a whole packet of a kind we take, for a
 * queue pair of ours, from its peer, with a right ICRC, under the key of a window that is open now, exactly where its
 * packet number says. Whatever fails is dropped and counted by reason, and nothing else happens.
 */
#include <errno.h>
#include <string.h>

#include "fabric/roce/endpoint.h"

/* Room for the count of datagrams that the socket had to drop. */
#define CMSG_ROOM CMSG_SPACE(sizeof(uint32_t))

struct batch {
	struct mmsghdr messages[RX_BATCH];
	struct iovec parts[RX_BATCH];
	union address from[RX_BATCH];
	_Alignas(struct cmsghdr) uint8_t control[RX_BATCH][CMSG_ROOM];
};

static bool icrc_right(const struct roce_qp *qp, const union address *from, const void *bytes,
		       size_t length)
{
	struct icrc_match match;
	struct icrc_flow flow;

	if (address_port(from) == address_port(&qp->peer))
		return icrc_verify(&qp->from_peer, bytes, length, 0, qp->peer_max_id, &match) !=
		       ICRC_BAD;
	/* NICs vary the source port for the sake of the network's hashing. */
	return !icrc_flow_init(&from->any, &qp->endpoint->local.any, &flow) &&
	       icrc_verify(&flow, bytes, length, 0, qp->peer_max_id, &match) != ICRC_BAD;
}

static bool take_data(struct roce_qp *qp, const struct roce_packet *packet,
		      struct fabric_event *event)
{
	struct endpoint *endpoint = qp->endpoint;
	uint32_t slot = fabric_imm_slot(&qp->split, packet->imm);
	uint32_t number = fabric_imm_packet(&qp->split, packet->imm);
	struct window *window;

	if (slot >= qp->slots || !qp->windows[slot]) {
		drop(endpoint, FABRIC_DROP_SLOT);
		return false;
	}
	window = pool_at(&endpoint->windows, qp->windows[slot] - 1);
	if (!window->open || window->rkey != packet->reth.rkey) {
		drop(endpoint, FABRIC_DROP_RKEY);
		return false;
	}
	if (!packet->payload_length || packet->payload_length > qp->payload) {
		drop(endpoint, FABRIC_DROP_LENGTH);
		return false;
	}
	if (packet->reth.va != (uint64_t)number * qp->payload || packet->reth.va > window->length ||
	    packet->payload_length > window->length - packet->reth.va) {
		drop(endpoint, FABRIC_DROP_OFFSET);
		return false;
	}
	memcpy(window->addr + packet->reth.va, packet->payload, packet->payload_length);
	endpoint->fabric.counters[FABRIC_RX_DATA]++;
	event->type = FABRIC_DATA;
	event->slot = slot;
	event->generation = window->generation;
	event->data.packet = number;
	event->data.length = (uint32_t)packet->payload_length;
	event->data.user_bits = fabric_imm_user(&qp->split, packet->imm);
	return true;
}

static bool take_control(struct roce_qp *qp, const struct roce_packet *packet,
			 struct fabric_event *event)
{
	struct endpoint *endpoint = qp->endpoint;

	if (packet->deth.qkey != qp->qkey) {
		drop(endpoint, FABRIC_DROP_QKEY);
		return false;
	}
	endpoint->fabric.counters[FABRIC_RX_CONTROL]++;
	event->type = FABRIC_CONTROL;
	event->control.bytes = packet->payload;
	event->control.length = (uint32_t)packet->payload_length;
	return true;
}

static enum fabric_counter opcode_reason(const struct roce_packet *packet)
{
	return packet->kind == ROCE_UC_MULTI ? FABRIC_DROP_MULTIPACKET : FABRIC_DROP_OPCODE;
}

/* True when the datagram made an event. */
static bool take(struct endpoint *endpoint, const union address *from, const uint8_t *bytes,
		 size_t length, bool forwarded, struct fabric_event *event)
{
	struct roce_packet packet;
	struct roce_qp *qp;
	int error = roce_decode(bytes, length, &packet);

	if (share_probe(endpoint, from, bytes, length))
		return false;
	endpoint->fabric.counters[FABRIC_RX_BYTES] += length;
	if (error) {
		drop(endpoint, error == -EPROTO ? FABRIC_DROP_VERSION : FABRIC_DROP_MALFORMED);
		return false;
	}
	qp = qp_lookup(endpoint, packet.dest_qpn);
	if (!qp || !qp->payload) {
		if (qp || forwarded ||
		    !share_forward(endpoint, from, bytes, length, packet.dest_qpn))
			drop(endpoint, FABRIC_DROP_QPN);
		return false;
	}
	if (!same_host(from, &qp->peer)) {
		drop(endpoint, FABRIC_DROP_STRANGER);
		return false;
	}
	if (!icrc_right(qp, from, bytes, length)) {
		drop(endpoint, FABRIC_DROP_ICRC);
		return false;
	}
	memset(event, 0, sizeof(*event));
	event->user = qp->user;
	if (packet.kind == ROCE_UC_WRITE_IMM)
		return take_data(qp, &packet, event);
	if (packet.kind == ROCE_UD_SEND)
		return take_control(qp, &packet, event);
	drop(endpoint, opcode_reason(&packet));
	return false;
}

static void note_overruns(struct endpoint *endpoint, struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		uint32_t dropped;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SO_RXQ_OVFL)
			continue;
		memcpy(&dropped, CMSG_DATA(c), sizeof(dropped));
		endpoint->fabric.counters[FABRIC_DROP_OVERRUN] +=
			(uint32_t)(dropped - endpoint->overruns);
		endpoint->overruns = dropped;
	}
}

static int from_windows(struct endpoint *endpoint, struct fabric_event *events, int most)
{
	struct list *item;
	int n = 0;

	while (n < most && (item = list_first(&endpoint->events))) {
		struct window *window = container_of(item, struct window, event);
		struct fabric_event *event = &events[n++];

		list_del(item);
		memset(event, 0, sizeof(*event));
		event->type = window->tells;
		event->user = window->qp->user;
		event->slot = window->slot;
		event->generation = window->generation;
		if (window->tells == FABRIC_EXPOSED) {
			event->exposed.va =
				0; /* windows are addressed from zero: no address of ours leaves */
			event->exposed.rkey = window->rkey;
		} else {
			pool_put(&endpoint->windows, window);
		}
	}
	return n;
}

static int from_socket(struct endpoint *endpoint, struct fabric_event *events, int most)
{
	struct batch batch;
	int count, n = 0;

	most = most < RX_BATCH ? most : RX_BATCH;
	for (int i = 0; i < most; i++) {
		struct msghdr *message = &batch.messages[i].msg_hdr;

		batch.parts[i] =
			(struct iovec){ endpoint->rx + (size_t)i * RX_DATAGRAM, RX_DATAGRAM };
		*message = (struct msghdr){ .msg_name = &batch.from[i],
					    .msg_namelen = sizeof(batch.from[i]),
					    .msg_iov = &batch.parts[i],
					    .msg_iovlen = 1,
					    .msg_control = batch.control[i],
					    .msg_controllen = CMSG_ROOM };
	}
	count = recvmmsg(endpoint->fd, batch.messages, (unsigned)most, MSG_DONTWAIT, NULL);
	for (int i = 0; i < count; i++) {
		struct msghdr *message = &batch.messages[i].msg_hdr;

		note_overruns(endpoint, message);
		if (message->msg_flags & MSG_TRUNC) {
			drop(endpoint, FABRIC_DROP_MALFORMED);
			continue;
		}
		n += take(endpoint, &batch.from[i], message->msg_iov->iov_base,
			  batch.messages[i].msg_len, false, &events[n]);
	}
	return n;
}

/* Datagrams that landed at a process with which the port is shared. Its buffers are the ones the socket left over. */
static int from_others(struct endpoint *endpoint, struct fabric_event *events, int most)
{
	int n = 0;

	for (int i = 0; i < RX_BATCH && n < most; i++) {
		uint8_t *bytes = endpoint->rx + (size_t)(RX_BATCH + i) * RX_DATAGRAM;
		union address from;
		size_t length = share_take(endpoint, bytes, RX_DATAGRAM, &from);

		if (!length)
			break;
		n += take(endpoint, &from, bytes, length, true, &events[n]);
	}
	return n;
}

int roce_poll(struct fabric *fabric, struct fabric_event *events)
{
	struct endpoint *endpoint = endpoint_of(fabric);
	int n;

	if (endpoint->faults)
		faults_release(endpoint, fabric->ops->now_ns(fabric));
	n = from_windows(endpoint, events, FABRIC_EVENTS / 4);
	n += from_socket(endpoint, events + n, FABRIC_EVENTS - n);
	n += from_others(endpoint, events + n, FABRIC_EVENTS - n);
	return n;
}

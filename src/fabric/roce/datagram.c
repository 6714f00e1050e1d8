/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data as UD datagrams (SEND ONLY WITH IMMEDIATE), to and from a NIC that has no UC queue pairs. They have no RETH: the
 * immediate names slot and packet, from which the place follows, and the payload begins with the window's key, four
 * bytes, which keeps late packets out as the key in a RETH does. The sender is known by its queue pair's number, and has
 * to know our Q_Key.
 */
#include <string.h>

#include "fabric/address.h"
#include "fabric/roce/tx.h"
#include "base/bytes.h"

_Static_assert(ROCE_BTH_SIZE + ROCE_DETH_SIZE + ROCE_IMM_SIZE + ADDRESS_UD_KEY_SIZE <=
		       ROCE_HEADERS_MAX,
	       "the key goes behind the headers");

/* Builds a packet. The key is copied behind the headers, so that the data can stay where it is; being four bytes long it
 * does not change the padding. */
static void build(struct frame *frame, const struct roce_qp *qp, struct icrc_flow *flow,
		  const struct fabric_target *target, const struct fabric_write *write,
		  uint32_t psn)
{
	uint32_t imm = fabric_imm(&qp->split, target->slot, write->packet, write->user);
	struct roce_packet packet;
	size_t headers;

	roce_ud_send_imm(&packet, qp->peer_qpn, psn, qp->peer_qkey, qp->qpn, imm, write->data,
			 write->length);
	headers = roce_encode(&packet, frame->headers, sizeof(frame->headers));
	put_be32(frame->headers + headers, target->rkey);
	frame_finish(frame, headers + ADDRESS_UD_KEY_SIZE, flow, packet.payload,
		     packet.payload_length, 0);
}

int datagram_write(struct roce_qp *qp, unsigned lane, const struct fabric_target *target,
		   const struct fabric_write *writes, unsigned count)
{
	struct roce_endpoint *endpoint = qp->endpoint;
	struct mmsghdr messages[TX_BATCH];
	struct frame frames[TX_BATCH];
	struct icrc_flow flow;
	unsigned done;
	int fd;

	fd = lane_flow(qp, lane < endpoint->lanes ? lane : 0, &flow);
	count = count < TX_BATCH ? count : TX_BATCH;
	for (unsigned i = 0; i < count; i++) {
		build(&frames[i], qp, &flow, target, &writes[i], qp->psn + i);
		frame_address(&frames[i], &qp->peer, &messages[i].msg_hdr);
	}
	done = frames_push(endpoint, fd, messages, count);
	if (done < count)
		endpoint->blocked_fd = fd;
	endpoint->fabric.counters[FABRIC_TX_DATA] += done;
	qp->psn += done;
	return (int)done;
}

/* Lane of the peer's that has this queue pair number; -1: none. */
static int lane_by_number(const struct roce_qp *qp, uint32_t number)
{
	for (int lane = 0; lane < FABRIC_LANES_MAX && number; lane++)
		if (qp->peer_lanes[lane] == number)
			return lane;
	return -1;
}

/* The window and the offset that a packet goes to. Null, with the reason counted, where it may not land. */
static struct roce_window *place_of(struct roce_qp *qp, const struct roce_packet *packet,
				    uint64_t *offset)
{
	struct roce_endpoint *endpoint = qp->endpoint;
	uint32_t slot = fabric_imm_slot(&qp->split, packet->imm);
	size_t length = packet->payload_length - ADDRESS_UD_KEY_SIZE;
	struct roce_window *window;

	if (slot >= qp->slots || !qp->windows[slot]) {
		drop(endpoint, FABRIC_DROP_SLOT);
		fabric_late(qp->late);
		return NULL;
	}
	window = pool_at(&endpoint->windows, qp->windows[slot] - 1);
	if (window->rkey != get_be32(packet->payload)) {
		drop(endpoint, FABRIC_DROP_RKEY);
		fabric_late(qp->late);
		return NULL;
	}
	if (!length || length > window->payload) {
		drop(endpoint, FABRIC_DROP_LENGTH);
		return NULL;
	}
	*offset = (uint64_t)fabric_imm_packet(&qp->split, packet->imm) * window->payload;
	if (*offset > window->length || length > window->length - *offset) {
		drop(endpoint, FABRIC_DROP_OFFSET);
		return NULL;
	}
	return window;
}

bool datagram_take(struct roce_qp *qp, const struct roce_packet *packet, struct fabric_event *event)
{
	struct roce_endpoint *endpoint = qp->endpoint;
	int lane = lane_by_number(qp, packet->deth.src_qpn);
	struct roce_window *window;
	uint64_t offset;

	if (packet->deth.qkey != qp->qkey) {
		drop(endpoint, FABRIC_DROP_QKEY);
		return false;
	}
	if (lane < 0) {
		drop(endpoint, FABRIC_DROP_STRANGER);
		return false;
	}
	if (packet->payload_length < ADDRESS_UD_KEY_SIZE) {
		drop(endpoint, FABRIC_DROP_LENGTH);
		return false;
	}
	window = place_of(qp, packet, &offset);
	if (!window)
		return false;
	event->data.length = (uint32_t)packet->payload_length - ADDRESS_UD_KEY_SIZE;
	memcpy(window->addr + offset, packet->payload + ADDRESS_UD_KEY_SIZE, event->data.length);
	endpoint->fabric.counters[FABRIC_RX_DATA]++;
	event->type = FABRIC_DATA;
	event->lane = (uint8_t)lane;
	event->slot = window->slot;
	event->generation = window->generation;
	event->data.packet = fabric_imm_packet(&qp->split, packet->imm);
	event->data.user_bits = fabric_imm_user(&qp->split, packet->imm);
	return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving data as UD datagrams, for devices without UC or whose windows do not keep late writes out. A datagram lies in a
 * cell: 40 bytes with the network header, the window's key, and the data. Software makes the checks that the user-space
 * fabric makes, and copies the data to the place that the packet number names. Congestion marks can be seen here.
 */
#include <arpa/inet.h>
#include <string.h>

#include "fabric/verbs/endpoint.h"
#include "base/bytes.h"

#define ECN_MASK 0x3
#define ECN_CE	 0x3
/* Offset of an IPv4 header in the 40 bytes before a datagram: the second half. */
#define IPV4_IN_GRH	20
#define IPV4_TOS_OFFSET (IPV4_IN_GRH + 1)

static bool marked(const struct verbs_endpoint *endpoint, const uint8_t *grh)
{
	uint8_t traffic_class;

	if (endpoint->gid.raw[10] == 0xff && endpoint->gid.raw[11] == 0xff)
		traffic_class = grh[IPV4_TOS_OFFSET];
	else
		traffic_class = (uint8_t)(get_be16(grh) >> 4);
	return (traffic_class & ECN_MASK) == ECN_CE;
}

static bool place(struct verbs_qp *qp, const uint8_t *packet, uint32_t length, uint32_t imm,
		  struct fabric_event *event)
{
	struct verbs_endpoint *endpoint = qp->endpoint;
	uint32_t slot = fabric_imm_slot(&qp->split, imm);
	uint32_t number = fabric_imm_packet(&qp->split, imm);
	uint64_t offset = (uint64_t)number * qp->payload;
	struct verbs_window *window = slot < qp->slots ? qp->windows[slot] : NULL;

	if (!window || window->state != WINDOW_OPEN) {
		drop(endpoint, FABRIC_DROP_SLOT);
		fabric_late(qp->late);
		return false;
	}
	if (get_be32(packet) != window->key) {
		drop(endpoint, FABRIC_DROP_RKEY);
		fabric_late(qp->late);
		return false;
	}
	length -= KEY_SIZE;
	if (!length || length > qp->payload) {
		drop(endpoint, FABRIC_DROP_LENGTH);
		return false;
	}
	if (offset > window->length || length > window->length - offset) {
		drop(endpoint, FABRIC_DROP_OFFSET);
		return false;
	}
	memcpy(window->addr + offset, packet + KEY_SIZE, length);
	event->generation = window->generation;
	event->slot = slot;
	event->data.packet = number;
	event->data.length = length;
	event->data.user_bits = fabric_imm_user(&qp->split, imm);
	return true;
}

bool ud_take(struct queue *queue, const struct ibv_wc *wc, struct fabric_event *event)
{
	struct verbs_endpoint *endpoint = queue->endpoint;
	struct verbs_qp *qp = queue->owner;
	const uint8_t *cell = supply_cell(queue->supply, wr_argument(wc->wr_id));

	if (!qp->payload) {
		drop(endpoint, FABRIC_DROP_QPN);
		return false;
	}
	if (wc->src_qp != qp->peer.qpn[queue->lane]) {
		drop(endpoint, FABRIC_DROP_STRANGER);
		return false;
	}
	if (!(wc->wc_flags & IBV_WC_WITH_IMM) || wc->byte_len < GRH_SIZE + KEY_SIZE) {
		drop(endpoint, FABRIC_DROP_OPCODE);
		return false;
	}
	memset(event, 0, sizeof(*event));
	if (!place(qp, cell + GRH_SIZE, wc->byte_len - GRH_SIZE, ntohl(wc->imm_data), event))
		return false;
	event->type = FABRIC_DATA;
	event->user = qp->user;
	event->lane = queue->lane;
	event->ce = marked(endpoint, cell);
	return true;
}

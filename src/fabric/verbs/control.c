/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control datagrams, on a UD queue pair. Each lies in a cell of registered memory. Bytes to be sent are copied into a cell,
 * so that the caller may reuse its memory at once. Every eighth send asks for a completion, which stands for the seven
 * before it as well. Events point into the cells of received datagrams until the next poll.
 */
#include <errno.h>
#include <string.h>

#include "fabric/verbs/endpoint.h"

#define SIGNAL_EVERY 8u

int verbs_control(struct fabric_qp *fabric_qp, const void *data, size_t length)
{
	struct verbs_qp *qp = verbs_qp(fabric_qp);
	struct verbs_endpoint *endpoint = qp->endpoint;
	struct queue *queue = qp->control;
	uint8_t *cell = queue->send_cells + (size_t)queue->send_next * queue->send_cell_size;
	struct ibv_sge piece = { (uintptr_t)cell, (uint32_t)length, queue->mr->lkey };
	struct ibv_send_wr request = {
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = { .ah = qp->ah,
			   .remote_qpn = qp->peer.control_qpn,
			   .remote_qkey = qp->peer.qkey },
	};
	struct ibv_send_wr *bad;

	if (!queue->send_room || !list_empty(&queue->broken) || length > queue->send_cell_size) {
		endpoint->fabric.counters[FABRIC_TX_BUSY]++;
		return -EAGAIN;
	}
	memcpy(cell, data, length);
	queue->unsignalled++;
	if (queue->unsignalled == SIGNAL_EVERY)
		request.send_flags = IBV_SEND_SIGNALED;
	request.wr_id = wr_id(queue->endpoint, queue->seat, REQUEST_CONTROL, queue->unsignalled);
	if (ibv_post_send(queue->qp, &request, &bad)) {
		queue_break(queue, "it takes no datagrams");
		return -EAGAIN;
	}
	if (queue->unsignalled == SIGNAL_EVERY)
		queue->unsignalled = 0;
	queue->send_next = queue->send_next + 1 < queue->sends ? queue->send_next + 1 : 0;
	queue->send_room--;
	endpoint->fabric.counters[FABRIC_TX_CONTROL]++;
	endpoint->fabric.counters[FABRIC_TX_BYTES] += length;
	return 0;
}

void control_done(struct queue *queue, uint32_t count)
{
	queue->send_room += count;
	if (queue->send_room > queue->sends)
		queue->send_room = queue->sends; /* in error each send completes by itself */
}

void lend(const struct supply *supply, uint32_t cell)
{
	struct verbs_endpoint *endpoint = supply->endpoint;

	endpoint->lent[endpoint->lent_count++] =
		(struct lent_cell){ supply->seat, cell, endpoint->seats[supply->seat].epoch };
}

bool control_take(struct queue *queue, const struct ibv_wc *wc, struct fabric_event *event)
{
	struct verbs_endpoint *endpoint = queue->endpoint;
	uint32_t cell = wr_argument(wc->wr_id);
	struct verbs_qp *qp = queue->owner;

	if (!qp || !qp->payload || wc->byte_len < GRH_SIZE) {
		drop(endpoint, FABRIC_DROP_QPN);
		supply_spend(queue->supply, cell);
		return false;
	}
	/* The NIC has checked the Q_Key. */
	if (wc->src_qp != qp->peer.control_qpn) {
		drop(endpoint, FABRIC_DROP_STRANGER);
		supply_spend(queue->supply, cell);
		return false;
	}
	lend(queue->supply, cell);
	memset(event, 0, sizeof(*event));
	event->type = FABRIC_CONTROL;
	event->user = qp->user;
	event->control.bytes = supply_cell(queue->supply, cell) + GRH_SIZE;
	event->control.length = wc->byte_len - GRH_SIZE;
	endpoint->fabric.counters[FABRIC_RX_CONTROL]++;
	endpoint->fabric.counters[FABRIC_RX_BYTES] += event->control.length;
	return true;
}

void control_take_back(struct verbs_endpoint *endpoint)
{
	for (uint32_t i = 0; i < endpoint->lent_count; i++) {
		const struct lent_cell *lent = &endpoint->lent[i];
		const struct seat *seat = &endpoint->seats[lent->seat];

		if (seat->epoch != lent->epoch)
			continue;
		if (seat->queue)
			supply_spend(seat->queue->supply, lent->cell);
		else if (seat->supply)
			supply_spend(seat->supply, lent->cell);
	}
	endpoint->lent_count = 0;
}

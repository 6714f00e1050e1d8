/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing. Each call posts one batch: a linked list of requests, of which the last asks for a completion. The batches of
 * all lanes are in one ring in the order of posting, and are reported done in that order, since FABRIC_SENT is a count.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "fabric/verbs/endpoint.h"
#include "base/bytes.h"

struct posting {
	struct ibv_send_wr requests[POST_BATCH];
	struct ibv_sge pieces[2 * POST_BATCH];
};

static void fill_uc(const struct fabric_target *target, const struct fabric_write *write,
		    struct ibv_send_wr *request)
{
	request->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	request->wr.rdma.remote_addr = write->va;
	request->wr.rdma.rkey = target->rkey;
}

/* A UD datagram begins with the window's key: NICs do not check it, the peer's software does. */
static void fill_ud(struct verbs_qp *qp, struct queue *queue, const struct fabric_target *target,
		    struct ibv_send_wr *request, struct ibv_sge *pieces)
{
	uint8_t *cell = queue->send_cells + (size_t)queue->send_next * queue->send_cell_size;

	queue->send_next = queue->send_next + 1 < queue->sends ? queue->send_next + 1 : 0;
	put_be32(cell, target->rkey);
	pieces[1] = pieces[0];
	pieces[0] = (struct ibv_sge){ (uintptr_t)cell, KEY_SIZE, queue->mr->lkey };
	request->opcode = IBV_WR_SEND_WITH_IMM;
	request->num_sge = 2;
	request->wr.ud.ah = qp->ah;
	request->wr.ud.remote_qpn = qp->peer.qpn[queue->lane];
	request->wr.ud.remote_qkey = qp->peer.qkey;
}

static void fill(struct verbs_qp *qp, struct queue *queue, const struct fabric_target *target,
		 const struct fabric_write *writes, unsigned count, struct posting *posting)
{
	for (unsigned i = 0; i < count; i++) {
		const struct fabric_write *write = &writes[i];
		struct ibv_send_wr *request = &posting->requests[i];
		struct ibv_sge *pieces = &posting->pieces[2 * i];

		memset(request, 0, sizeof(*request));
		pieces[0] = (struct ibv_sge){ (uintptr_t)write->data, write->length,
					      ((struct ibv_mr *)write->mr)->lkey };
		request->wr_id = wr_id(queue->endpoint, queue->seat, REQUEST_WRITE, qp->batch_tail);
		request->sg_list = pieces;
		request->num_sge = 1;
		request->imm_data =
			htonl(fabric_imm(&qp->split, target->slot, write->packet, write->user));
		if (queue->kind == QUEUE_UC)
			fill_uc(target, write, request);
		else
			fill_ud(qp, queue, target, request, pieces);
		if (i + 1 < count)
			request->next = request + 1;
		else
			request->send_flags = IBV_SEND_SIGNALED;
	}
}

static int busy(struct verbs_endpoint *endpoint)
{
	endpoint->fabric.counters[FABRIC_TX_BUSY]++;
	return 0;
}

int verbs_write(struct fabric_qp *fabric_qp, unsigned lane, const struct fabric_target *target,
		const struct fabric_write *writes, unsigned count)
{
	struct verbs_qp *qp = verbs_qp(fabric_qp);
	struct verbs_endpoint *endpoint = qp->endpoint;
	struct queue *queue = qp->lane[lane % qp->lanes];
	struct ibv_send_wr *bad = NULL;
	struct posting posting;
	int error;

	if (count > POST_BATCH)
		count = POST_BATCH;
	if (count > queue->send_room)
		count = queue->send_room;
	if (endpoint->ud)
		count = rate_limit_allow(&endpoint->rate_limit, writes, count, endpoint->now_ns);
	if (!count || !list_empty(&queue->broken) || qp->batch_tail - qp->batch_head == BATCHES)
		return busy(endpoint);
	fill(qp, queue, target, writes, count, &posting);
	error = ibv_post_send(queue->qp, posting.requests, &bad);
	if (error) {
		/* There is room by our count, so that something is wrong with the queue pair. */
		count = bad ? (unsigned)(bad - posting.requests) : 0;
		queue_break(queue, "it takes no writes");
		if (!count)
			return busy(endpoint);
	}
	qp->batches[qp->batch_tail % BATCHES] =
		(struct batch){ .count = (uint16_t)count, .lane = queue->lane };
	qp->batch_tail++;
	queue->send_room -= count;
	if (endpoint->ud)
		rate_limit_sent(&endpoint->rate_limit, writes, count, endpoint->now_ns);
	endpoint->fabric.counters[FABRIC_TX_DATA] += count;
	for (unsigned i = 0; i < count; i++)
		endpoint->fabric.counters[FABRIC_TX_BYTES] += writes[i].length;
	return (int)count;
}

static void report(struct verbs_qp *qp)
{
	while (qp->batch_head != qp->batch_tail && qp->batches[qp->batch_head % BATCHES].done)
		sends_done_add(&qp->endpoint->sent, &qp->sent,
			       qp->batches[qp->batch_head++ % BATCHES].count);
}

void write_done(struct verbs_qp *qp, uint32_t number)
{
	struct batch *batch = &qp->batches[number % BATCHES];

	/* In error each request of a batch completes: only the first completion counts. */
	if (batch->done)
		return;
	batch->done = true;
	qp->lane[batch->lane]->send_room += batch->count;
	report(qp);
}

void write_abandon(struct verbs_qp *qp, unsigned lane)
{
	for (uint32_t i = qp->batch_head; i != qp->batch_tail; i++)
		if (qp->batches[i % BATCHES].lane == lane)
			qp->batches[i % BATCHES].done = true;
	report(qp);
}

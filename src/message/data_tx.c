/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pump: turns puts into packets.
 *
 * Queue pairs with something to send stand in a ring (ctx->senders) and are served a batch each in turn. Within one, the
 * send at the head of sends_ready goes first: messages leave in order, except that repairs overtake. A queue pair whose
 * gate is shut leaves the ring and comes back when the gate opens.
 */
#include "message/trace.h"

#define BATCH	       64	   /* packets a turn, */
#define BATCH_BYTES    (64u << 10) /* and bytes: all of it gets one time of sending */
#define PACKETS_A_TURN 256	   /* before the rest of gw_progress() gets its chance again */

/* The user bits of a packet: the slot's generation, then a piece of the immediate (piece i in packets i, i + n, ...). */
static uint32_t user_bits(const struct gw_qp *qp, const struct gw_send *send, uint32_t packet)
{
	uint32_t bits = 0;

	if (qp->generation_bits)
		bits = send->target.generation & ((1u << qp->generation_bits) - 1);
	if (qp->fragment_bits && send->imm) {
		uint32_t pieces = (32u + qp->fragment_bits - 1) / qp->fragment_bits;
		uint64_t piece = (uint64_t)send->imm >> packet % pieces * qp->fragment_bits;

		return bits << qp->fragment_bits |
		       (uint32_t)(piece & ((1u << qp->fragment_bits) - 1));
	}
	return bits << qp->fragment_bits;
}

static unsigned fill(struct gw_qp *qp, const struct gw_send *send, struct fabric_write *writes,
		     uint32_t most)
{
	const struct put *put = send->head;
	const uint8_t *data = put->addr;
	uint32_t n = put->packets < most ? put->packets : most;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t packet = put->packet + i;

		writes[i].data = data;
		writes[i].mr = put->mr->fabric_mr;
		writes[i].length = i + 1 == put->packets ? put->tail : send->payload;
		writes[i].packet = packet;
		writes[i].user = user_bits(qp, send, packet);
		writes[i].again = packet < send->high_water;
		writes[i].va = send->va + (uint64_t)packet * send->payload;
		data += send->payload;
	}
	return n;
}

void data_sent(struct gw_qp *qp, struct gw_send *send, uint32_t n, uint32_t lane, bool copied)
{
	struct put *put = send->head;
	uint32_t number = 0;

	TRACE_QP(qp, "tx data msn=%u packets=%u+%u payload=%u lane=%d%s", send->msn, put->packet, n,
		 send->payload, (int)lane, put->packet < send->high_water ? " again" : "");
	gate_left(qp, n,
		  n == put->packets ? (uint64_t)(n - 1) * send->payload + put->tail
				    : (uint64_t)n * send->payload);
	qp->feedback.sent_ns = qp->feedback.leave_ns;
	if (!copied)
		size_sent(qp);
	if (qp->path && lane < qp->path->count)
		number = path_sent(qp->path, lane, n, qp->ctx->now) - n;
	for (uint32_t i = 0, run; i < n; i += run) {
		uint32_t packet = put->packet + i;
		bool again = packet < send->high_water;

		/* As many as are alike: sent for the first time or not, and as long. */
		run = n - i;
		if (again && run > send->high_water - packet)
			run = send->high_water - packet;
		if (run > 1 && i + run == put->packets && put->tail != send->payload)
			run--;
		feedback_sent(qp, send->msn, packet, run,
			      i + 1 == put->packets ? put->tail : send->payload, again, lane,
			      number + i + 1);
		if (!again) {
			send->high_water = packet + run;
			if (!copied)
				order_sent(qp, send, packet + run - 1);
		}
	}
	send->last_sequence = qp->feedback.sequence;
	put->addr += (uint64_t)n * send->payload;
	put->packet += n;
	put->packets -= n;
	if (!copied) {
		qp->tx.written += n;
		send->mark = qp->tx.written;
	}
	if (qp->ctx->fabric->caps.copies)
		qp->tx.flushed = qp->tx.written;
	if (!put->packets)
		put_done(send);
	if (!send->head) {
		list_del(&send->link);
		send_check(send);
	}
}

void data_flushed(struct gw_qp *qp, uint32_t count_)
{
	struct list *item;

	qp->tx.flushed += count_;
	while ((item = list_first(&qp->tx.flushing))) {
		struct gw_send *send = container_of(item, struct gw_send, link);

		if (qp->tx.flushed < send->mark)
			break;
		send_end(send, send->status);
	}
}

/* The lane that the next packets take, and how many of them. */
static uint32_t choose_lane(struct gw_qp *qp, const struct gw_send *send, uint32_t *most)
{
	const struct put *put = send->head;

	if (!qp->path)
		return 0;
	if (put->packet >= send->high_water)
		return path_spray(qp->path, qp->ctx->now, most);
	*most = PATH_TURN;
	return path_repeat(qp->path, feedback_lane(qp, send->msn, put->packet));
}

/* Packets in a turn of one queue pair: a batch as the fabric sends it, so that none of them leaves alone. */
static uint32_t turn_packets(const struct gw_qp *qp, uint32_t payload)
{
	const struct fabric_ops *ops = qp->ctx->fabric->ops;
	uint32_t most = BATCH_BYTES / payload, batch = BATCH;

	if (ops->batch)
		batch = ops->batch(qp->fabric_qp, payload);
	if (most > BATCH)
		most = BATCH;
	if (most > batch)
		most = batch;
	return most ? most : 1;
}

/* One batch of one queue pair. Sets *blocked when the network has no room, for this is then true of all. */
static uint32_t serve(struct gw_qp *qp, bool *blocked)
{
	struct fabric_write writes[BATCH];
	struct gw_send *send = container_of(list_first(&qp->tx.ready), struct gw_send, link);
	uint32_t most = turn_packets(qp, send->payload);
	uint32_t allowed;
	unsigned n, lane;
	int taken;

	/* Sending takes time, and a round trip starts when its packet leaves, not when the turn began. */
	qp->ctx->now = gw_now_ns(qp->ctx);
	allowed = feedback_allow(qp, send->payload, most, true);
	if (!allowed)
		return 0;
	send->target.depart_ns = qp->feedback.leave_ns > qp->ctx->now ? qp->feedback.leave_ns : 0;
	lane = choose_lane(qp, send, &most);
	n = fill(qp, send, writes, allowed < most ? allowed : most);
	taken = qp->ctx->fabric->ops->write(qp->fabric_qp, lane, &send->target, writes, n);
	if (taken <= 0) {
		*blocked = true;
		return 0;
	}
	data_sent(qp, send, (uint32_t)taken, lane, false);
	return (uint32_t)taken;
}

int data_send(struct gw_context *ctx)
{
	uint32_t total = 0;
	bool blocked = false;
	struct list *item;

	while (!blocked && total < PACKETS_A_TURN && (item = list_first(&ctx->senders))) {
		struct gw_qp *qp = container_of(item, struct gw_qp, data_link);
		uint32_t n;

		list_del(item);
		if (list_empty(&qp->tx.ready)) {
			qp->feedback.idle = true;
			qp->feedback.dry = qp->feedback.sequence;
			continue;
		}
		n = serve(qp, &blocked);
		total += n;
		if ((n || blocked) && qp->state == QP_CONNECTED && list_empty(&qp->data_link))
			list_add_tail(&ctx->senders, &qp->data_link);
		qp_arm(qp);
	}
	return (int)total;
}

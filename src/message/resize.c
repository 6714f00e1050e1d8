/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that a shrinking path catches, at both ends. The decision is size.c's.
 *
 * The sender holds back every open message whose packets are larger than the floor, forgets the grants that no send has
 * taken yet, and asks (CONTROL_SIZE_CUT) until it has new ones. The receiver gives each such receive a new key and a new
 * generation, translates its bitmap and names it again in a GRANT. Both are idempotent, so that a lost datagram costs a
 * repetition and no state.
 *
 * The first pass counts as over for a message that is cut: the receiver's scheme sees all holes as provable and names
 * them, in the new numbering. A message is cut at most once, since nothing is smaller than the floor.
 */
#include <errno.h>

#include "base/bitmap.h"
#include "base/log.h"
#include "base/serial.h"
#include "message/state.h"

/* ---- the sender ------------------------------------------------------------------------------------------------ */

/* Whether data of this send may still have to leave in packets that do not arrive. */
static bool is_caught(const struct gw_qp *qp, const struct gw_send *send)
{
	return !send_is_ended(send) && !send_is_answered(send) && send->payload > qp->size.floor &&
	       (send->head || !send_is_closing(send));
}

static void hold(struct gw_send *send)
{
	send->held = true;
	/* A one-shot send goes on where it stopped; of a stream the receiver asks for what is missing. */
	if (!send->stream && send->head)
		send->resume = (uint64_t)send->head->packet * send->payload;
	put_drop_all(send);
	list_del(&send->link);
}

/* Drops the grants that no send has taken, from the first large one on: the peer will repeat them with smaller packets. */
static void forget_grants(struct gw_qp *qp)
{
	uint32_t msn = qp->tx.matched, first = qp->tx.grants_seen;
	struct list *item, *next;

	qp->tx.cut_until = qp->tx.grants_seen;
	for (item = qp->tx.grants.next; item != &qp->tx.grants; item = next, msn++) {
		struct grant *grant = container_of(item, struct grant, link);

		next = item->next;
		if (first == qp->tx.grants_seen && grant->payload <= qp->size.floor)
			continue;
		if (first == qp->tx.grants_seen)
			first = msn;
		list_del(item);
		pool_put(&qp->ctx->grants, grant);
	}
	qp->tx.grants_seen = first;
}

void resize_hold(struct gw_qp *qp)
{
	for (uint32_t i = 0; qp->tx.sends && i <= qp->tx.mask; i++) {
		struct gw_send *send =
			qp->tx.sends[i] ? pool_at(&qp->ctx->sends, qp->tx.sends[i] - 1) : NULL;

		if (send && is_caught(qp, send))
			hold(send);
	}
	forget_grants(qp);
}

static struct gw_send *first_held(struct gw_qp *qp)
{
	for (uint32_t msn = qp->tx.results_seen; msn != qp->tx.matched; msn++) {
		struct gw_send *send = send_find(qp, msn);

		if (send && send->held && !send_is_ended(send) && !send_is_answered(send))
			return send;
	}
	return NULL;
}

bool resize_waits(struct gw_qp *qp)
{
	return first_held(qp) || serial_before(qp->tx.grants_seen, qp->tx.cut_until);
}

uint32_t resize_first(struct gw_qp *qp)
{
	const struct gw_send *send = first_held(qp);

	return send ? send->msn : qp->tx.grants_seen;
}

/* The rest of a one-shot send, from the packet in which it was interrupted. */
static void resume(struct gw_send *send)
{
	uint64_t offset = send->resume - send->resume % send->payload;

	send->high_water = (uint32_t)(offset / send->payload);
	if (put_add(send, offset, send->addr + offset, send->length - offset, send->mr))
		send_end(send, -ENOBUFS);
}

void resize_granted(struct gw_qp *qp, uint32_t msn, const struct grant *grant)
{
	struct gw_send *send = send_find(qp, msn);

	if (!send || !send->held || send_is_ended(send) || send_is_answered(send) ||
	    grant->payload != qp->size.floor || grant->capacity < send->length)
		return;
	send->held = false;
	send->target = grant->target;
	send->va = grant->va;
	send->payload = grant->payload;
	send->packets = packets_of(send->length, send->payload);
	if (!send->stream) {
		resume(send);
	} else if (send->handler && send->handler->recut) {
		send->high_water = send->packets;
		if (send->packets)
			order_sent(qp, send, send->packets - 1);
		send->handler->recut(send, send->arg, qp->ctx->now);
	} else if (send_is_closing(send)) {
		send_check(send);
	} else {
		log_warn(
			"the path carries smaller packets than a message was begun with, and its scheme cannot go on with those");
		qp_give_up(qp, -EMSGSIZE);
	}
}

/* ---- the receiver ---------------------------------------------------------------------------------------------- */

/* A new packet has landed if all of its bytes had. From the last one down, in place: a bit is read by packets of its own
 * number or a higher one. */
static void translate(struct gw_recv *recv, uint32_t payload)
{
	uint64_t end = recv->is_announced ? recv->length : recv->capacity;
	uint32_t old_payload = recv->payload, old_packets = recv->capacity_packets;

	/* Before the announcement a packet that is not full says nothing about the bytes behind it. */
	if (!recv->is_announced && recv->short_length)
		bitmap_clear(recv->bits, recv->short_packet);
	recv->short_length = 0;
	recv->payload = payload;
	recv->capacity_packets = packets_of(recv->capacity, payload);
	recv->packets = recv->is_announced ? packets_of(recv->length, payload) : 0;
	recv->landed = recv->highest = 0;
	for (uint32_t i = recv->capacity_packets; i-- > 0;) {
		uint64_t first = (uint64_t)i * payload, last = first + payload;
		bool set = first < end;

		if (last > end)
			last = end;
		for (uint64_t j = first / old_payload; set && j <= (last - 1) / old_payload; j++)
			set = j < old_packets && bitmap_test(recv->bits, (size_t)j);
		if (!set) {
			bitmap_clear(recv->bits, i);
			continue;
		}
		bitmap_set(recv->bits, i);
		recv->landed++;
		if (!recv->highest)
			recv->highest = i + 1;
	}
	recv_rebuild_chunks(recv);
}

void resize_cut(struct gw_qp *qp, uint32_t index)
{
	struct slot *slot = &qp->rx.slots[index];
	struct gw_recv *recv = pool_at(&qp->ctx->recvs, slot->value);

	if (recv_is_completed(recv) || recv->payload <= qp->size.floor ||
	    qp->ctx->fabric->ops->recut(qp->fabric_qp, index, (uint16_t)(slot->generation + 1),
					qp->size.floor, &recv->rkey))
		return;
	slot->generation++;
	/* What landed last had a number of the old size. */
	if (qp->feedback.echo_msn == recv->msn)
		qp->feedback.echo_valid = false;
	translate(recv, qp->size.floor);
	recv->recut = true;
	order_unwatch(recv);
	if (recv->handler && recv->handler->recut)
		recv->handler->recut(recv, recv->arg, qp->ctx->now);
	if (!recv_is_completed(recv) && list_empty(&recv->touched))
		list_add_tail(&qp->ctx->touched, &recv->touched);
}

bool resize_asked(struct gw_qp *qp, uint8_t epoch, const struct control_size *size)
{
	struct size *s = &qp->size;

	if (size->payload != s->floor || s->floor == s->ceiling || !qp->ctx->fabric->ops->recut)
		return false;
	if ((int8_t)(epoch - s->applied) < 0 || serial_before(size->msn, qp->rx.results_acked))
		return true; /* overtaken by a later one */
	if (serial_after(size->msn, qp->rx.granted))
		return false;
	if (epoch != s->applied) {
		s->applied = epoch;
		s->named = s->floor;
		for (uint32_t i = 0; i <= qp->rx.mask && qp->state == QP_CONNECTED; i++)
			if (qp->rx.slots[i].state == SLOT_OPEN)
				resize_cut(qp, i);
	}
	qp->rx.grants_again = true;
	qp->rx.grants_from = size->msn;
	qp_owe(qp, OWE_GRANT);
	return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives: a buffer, a bitmap, and the slot that ties them to packets.
 *
 *	posted      waits for its slot, msn mod slots            SLOT_FREE, or still busy with an older message
 *	exposing    the fabric is opening a window               SLOT_EXPOSING
 *	open        granted; packets land and set bits           SLOT_OPEN
 *	completed   bits are frozen; the fabric is fencing       SLOT_COMPLETED
 *	released    fenced: the memory is the caller's           SLOT_FENCED
 *	result acknowledged by the sender, slot rests            SLOT_RESTING, then SLOT_FREE
 *
 * What packets do to an open one is in arrival.c.
 */
#include <errno.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/serial.h"
#include "base/zero.h"
#include "message/trace.h"

/* Bytes of receives that may be granted and not announced while packet sizes are being tried. */
#define GRANTED_AHEAD (UINT64_C(1) << 20)
/* Of the unit in which a slot's rest is counted, 65.5 us. */
#define REST_UNIT_SHIFT 16

static struct slot *slot_of(struct gw_qp *qp, uint32_t msn)
{
	return &qp->rx.slots[msn & qp->rx.mask];
}

struct gw_recv *recv_find(struct gw_qp *qp, uint32_t msn)
{
	const struct slot *slot = slot_of(qp, msn);
	struct gw_recv *recv;

	if (slot->state == SLOT_FREE || slot->state == SLOT_RESTING)
		return NULL;
	recv = pool_at(&qp->ctx->recvs, slot->value);
	return recv->msn == msn ? recv : NULL;
}

void recv_reap(struct gw_recv *recv)
{
	if (!recv->closed || recv->stage != RECV_TOLD || recv->held)
		return;
	if (recv->bits != recv->few_bits)
		arena_put(&recv->ctx->arena, recv->bits, recv->bits_bytes);
	pool_put(&recv->ctx->recvs, recv);
}

static void release(struct gw_recv *recv)
{
	recv_set_stage(recv, RECV_RELEASED);
	recv->mr->users--;
	list_add_tail(&recv->ctx->ended_recvs, &recv->ended_link);
}

void recv_tell(struct gw_recv *recv)
{
	if (!recv->closed && recv->handler && recv->handler->released)
		recv->handler->released(recv, recv->arg, recv->status, recv->ctx->now);
	recv_set_stage(recv, RECV_TOLD);
	recv_reap(recv);
}

/* Freezes the bits and makes the result. */
static void freeze(struct gw_recv *recv)
{
	recv_set_stage(recv, RECV_COMPLETED);
	TRACE_QP(recv->qp, "receive msn=%u completed landed=%u of %u", recv->msn, recv->landed,
		 recv->packets);
	recv->missing = recv->is_announced && !recv->status ? recv->packets - recv->landed
							    : GW_MISSING_UNKNOWN;
	list_del(&recv->touched);
	order_unwatch(recv);
	timer_set(recv->ctx, &recv->timer, NEVER);
	recv->qp->rx.open--;
	recv->qp->rx.results_owed++;
}

static void advance_completed(struct gw_qp *qp)
{
	struct gw_recv *next;

	while (qp->rx.completed != qp->rx.granted && (next = recv_find(qp, qp->rx.completed)) &&
	       recv_is_completed(next))
		qp->rx.completed++;
	qp_owe_soon(qp, OWE_REPORT);
}

/* Grants go out in order; windows may open out of order. The result of a receive that was given up before can be told with
 * its grant. */
static void grant_placed(struct gw_qp *qp)
{
	bool given_up = false;

	while (qp->rx.granted != qp->rx.placed &&
	       slot_of(qp, qp->rx.granted)->state != SLOT_EXPOSING) {
		given_up |= slot_of(qp, qp->rx.granted)->state != SLOT_OPEN;
		qp->rx.granted++;
		qp_owe_grant(qp);
	}
	if (given_up)
		advance_completed(qp);
}

/* Bytes of open receives that have not landed. */
static uint64_t granted_ahead(struct gw_qp *qp)
{
	uint64_t bytes = 0;

	for (uint32_t msn = qp->rx.results_acked; msn != qp->rx.placed; msn++) {
		const struct gw_recv *recv = recv_find(qp, msn);
		uint64_t landed, length;

		if (!recv || recv_is_completed(recv))
			continue;
		landed = (uint64_t)recv->landed * recv->payload;
		length = recv->is_announced ? recv->length : recv->capacity;
		bytes += length > landed ? length - landed : 0;
	}
	return bytes;
}

/* While larger packets are being tried few bytes are granted ahead, for their packets' size is fixed with the grant. One that
 * gets the size of the receive before it would not gain by waiting. The search for a size ends by itself, so that nobody waits
 * for ever who needs the next grant before the last one is filled. */
static bool may_grant(struct gw_qp *qp, const struct gw_recv *recv)
{
	return qp->size.peer_settled || recv->same_size || granted_ahead(qp) < GRANTED_AHEAD;
}

static uint32_t choose_payload(const struct gw_qp *qp, const struct gw_recv *recv)
{
	if (first_receive_covers(qp, recv))
		return qp->size.floor;
	return recv->same_size && qp->rx.payload ? qp->rx.payload : qp->size.named;
}

/* The end of a rest wraps with its unit after three days. A rest is never longer than a lifetime, so that one which seems
 * longer ended long ago. */
uint64_t recv_rest_ns(const struct gw_qp *qp, const struct slot *slot)
{
	uint32_t left = slot->value - (uint32_t)(qp->ctx->now >> REST_UNIT_SHIFT);

	return left <= (qp->lifetime_ns >> REST_UNIT_SHIFT) + 2 ? (uint64_t)left << REST_UNIT_SHIFT
								: 0;
}

/* Gives posted receives their slots, in order, as far as those are free. */
void recv_place(struct gw_qp *qp)
{
	struct fabric *fabric = qp->ctx->fabric;
	struct list *item;

	while (qp->state == QP_CONNECTED && (item = list_first(&qp->rx.waiting))) {
		struct gw_recv *recv = container_of(item, struct gw_recv, link);
		struct slot *slot = slot_of(qp, recv->msn);
		uint32_t payload;

		if (slot->state == SLOT_RESTING && !recv_rest_ns(qp, slot))
			slot->state = SLOT_FREE;
		if (slot->state != SLOT_FREE || (!recv_is_completed(recv) && !may_grant(qp, recv)))
			return;
		if (recv_is_completed(recv)) {
			/* Given up before its turn: its number is used up without a window. */
			list_del(item);
			slot->generation++;
			slot->state = SLOT_FENCED;
			slot->value = pool_index(&qp->ctx->recvs, recv);
			qp->rx.placed++;
			grant_placed(qp);
			continue;
		}
		payload = choose_payload(qp, recv);
		/* A generation counts once its window was accepted: a NIC tells only four apart. */
		if (fabric->ops->expose(qp->fabric_qp, recv->msn & qp->rx.mask,
					(uint16_t)(slot->generation + 1), recv->mr->fabric_mr,
					recv->addr, recv->capacity, payload))
			return; /* out of windows for now: tried again when one is given back */
		list_del(item);
		recv->payload = qp->rx.payload = payload;
		recv->capacity_packets = packets_of(recv->capacity, payload);
		slot->generation++;
		slot->state = SLOT_EXPOSING;
		slot->value = pool_index(&qp->ctx->recvs, recv);
		qp->rx.placed++;
		if (first_receive_covers(qp, recv))
			first_receive_exposed(qp, recv);
	}
}

/* Closes the window of a slot: its memory is the caller's when that is done, which may be at once. */
static void fence(struct gw_qp *qp, uint32_t index)
{
	if (qp->ctx->fabric->ops->fence(qp->fabric_qp, index) > 0)
		recv_fenced(qp, index);
}

void recv_exposed(struct gw_qp *qp, const struct fabric_event *event)
{
	struct slot *slot = &qp->rx.slots[event->slot];
	struct gw_recv *recv;

	if (slot->state != SLOT_EXPOSING || slot->generation != (uint16_t)event->generation)
		return;
	recv = pool_at(&qp->ctx->recvs, slot->value);
	recv->va = event->exposed.va;
	recv->rkey = event->exposed.rkey;
	slot->state = SLOT_OPEN;
	if (recv_is_completed(recv)) {
		/* Given up while the window opened: nobody was told of it, so that closing it is all there is to do. */
		slot->state = SLOT_COMPLETED;
		fence(qp, event->slot);
	} else if (recv->payload > qp->size.named) {
		resize_cut(qp, event->slot); /* the peer asked for smaller packets meanwhile */
	}
	grant_placed(qp);
}

static void start_rest(struct gw_qp *qp, struct slot *slot)
{
	struct gw_recv *recv = pool_at(&qp->ctx->recvs, slot->value);

	recv->held = false;
	recv->qp = NULL;
	slot->state = SLOT_FREE;
	if (qp->lifetime_ns) {
		slot->state = SLOT_RESTING;
		slot->value = (uint32_t)((qp->ctx->now + qp->lifetime_ns) >> REST_UNIT_SHIFT) + 1;
	}
	recv_reap(recv);
}

void recv_fenced(struct gw_qp *qp, uint32_t index)
{
	struct slot *slot = &qp->rx.slots[index];
	struct gw_recv *recv;

	if (slot->state != SLOT_COMPLETED)
		return;
	slot->state = SLOT_FENCED;
	recv = pool_at(&qp->ctx->recvs, slot->value);
	release(recv);
	if (qp->state == QP_GONE) {
		start_rest(qp, slot);
		return;
	}
	if (serial_before(recv->msn, qp->rx.results_acked)) {
		start_rest(qp, slot);
		recv_place(qp);
		qp_arm(qp);
	}
}

/* The fabric cannot open the window: the receive ends with the reason, and its number is used up without a grant. */
void recv_expose_failed(struct gw_qp *qp, const struct fabric_event *event)
{
	struct slot *slot = &qp->rx.slots[event->slot];
	struct gw_recv *recv;

	if (slot->state != SLOT_EXPOSING || slot->generation != (uint16_t)event->generation)
		return;
	recv = pool_at(&qp->ctx->recvs, slot->value);
	if (!recv_is_completed(recv)) {
		recv->status = event->status;
		freeze(recv);
	}
	slot->state = SLOT_COMPLETED;
	grant_placed(qp);
	recv_fenced(qp, event->slot);
}

/* The sender knows every result below `results`: their slots may go on. */
void recv_results_acked(struct gw_qp *qp, uint32_t results)
{
	while (qp->rx.results_acked != results) {
		struct slot *slot = slot_of(qp, qp->rx.results_acked);

		if (slot->state == SLOT_FENCED)
			start_rest(qp, slot);
		qp->rx.results_owed--;
		qp->rx.results_acked++;
	}
	recv_place(qp);
}

/* Bytes of bits for so many packets, and of those for their chunks. */
static size_t bits_bytes(const struct gw_qp *qp, uint64_t packets)
{
	uint64_t chunks = (packets + qp->rx.chunk_packets - 1) / qp->rx.chunk_packets;

	return (bitmap_words(packets) + bitmap_words(chunks) + 1) * sizeof(uint64_t);
}

/* Gets bits for packets of the floor's size: there are never more. */
static int make_bits(struct gw_recv *recv)
{
	struct gw_qp *qp = recv->qp;
	uint64_t packets = (recv->capacity + qp->size.floor - 1) / qp->size.floor;
	uint64_t own_packets = (recv->capacity + qp->size.own_floor - 1) / qp->size.own_floor;

	if (packets > UINT64_C(1) << qp->split.packet_bits)
		return -EMSGSIZE;
	recv->bits_bytes = bits_bytes(qp, packets);
	if (recv->bits_bytes > bits_bytes(qp, own_packets) &&
	    !arena_has_spare(qp->ctx, recv->bits_bytes))
		return -ENOBUFS;
	/* A small message's time is what its calls take, and the arena's are among the longest. */
	recv->bits = recv->bits_bytes <= sizeof(recv->few_bits)
			     ? recv->few_bits
			     : arena_get(&qp->ctx->arena, recv->bits_bytes);
	if (!recv->bits)
		return -ENOBUFS;
	recv->chunks = recv->bits + bitmap_words(packets);
	recv->chunk_packets = qp->rx.chunk_packets;
	return 0;
}

int gw_recv_post(struct gw_qp *qp, const struct gw_recv_attr *attr, struct gw_recv **out)
{
	struct gw_recv *recv;
	int error = qp_usable(qp);

	if (error)
		return error;
	if (!attr || !out || !attr->mr || attr->flags & ~(GW_RECV_SPARSE | GW_RECV_SAME_SIZE) ||
	    !array_is_zero(attr->reserved))
		return -EINVAL;
	if (!mr_covers(attr->mr, qp->ctx, attr->addr, attr->length))
		return -EFAULT;
	if (qp->rx.posted == qp->rx.first_msn && attr->length < qp->rx.first_bytes)
		return -EINVAL;
	recv = pool_get(&qp->ctx->recvs);
	if (!recv)
		return -ENOBUFS;
	recv->ctx = qp->ctx;
	recv->qp = qp;
	recv->capacity = attr->length;
	error = make_bits(recv);
	if (error) {
		pool_put(&qp->ctx->recvs, recv);
		return error;
	}
	qp_busy(qp);
	recv->handler = attr->handler;
	recv->arg = attr->arg;
	recv->mr = attr->mr;
	recv->mr->users++;
	recv->addr = attr->addr;
	recv->tag = attr->tag;
	recv->sparse = attr->flags & GW_RECV_SPARSE;
	recv->same_size = attr->flags & GW_RECV_SAME_SIZE;
	recv->pieces = qp->fragment_bits ? (32u + qp->fragment_bits - 1) / qp->fragment_bits : 0;
	recv->msn = qp->rx.posted++;
	recv->timer.kind = TIMER_RECV;
	recv->held = true;
	list_init(&recv->touched);
	list_init(&recv->ended_link);
	list_add_tail(&qp->rx.waiting, &recv->link);
	qp->rx.open++;
	*out = recv;
	recv_place(qp);
	qp_arm(qp);
	return 0;
}

int gw_recv_complete(struct gw_recv *recv)
{
	struct gw_qp *qp;

	if (!recv)
		return -EINVAL;
	if (!recv_valid(recv))
		return -ESTALE;
	if (recv_is_completed(recv))
		return -EALREADY;
	qp = recv->qp;
	freeze(recv);
	if (recv_find(qp, recv->msn) != recv) {
		release(recv); /* still waiting for its slot: never exposed */
		return 0;
	}
	advance_completed(qp);
	if (slot_of(qp, recv->msn)->state == SLOT_OPEN) {
		slot_of(qp, recv->msn)->state = SLOT_COMPLETED;
		fence(qp, recv->msn & qp->rx.mask);
	}
	return 0;
}

/* The queue pair is over. Without a fence from its end one is asked for, and the release follows it. */
void recv_detach(struct gw_recv *recv, int status, bool fenced)
{
	struct gw_qp *qp = recv->qp;
	struct slot *slot = slot_of(qp, recv->msn);

	list_del(&recv->link);
	if (!recv_is_completed(recv)) {
		recv->status = status;
		freeze(recv);
	}
	if (!fenced) {
		if (slot->state == SLOT_OPEN) {
			slot->state = SLOT_COMPLETED;
			fence(qp, recv->msn & qp->rx.mask);
		} else if (slot->state == SLOT_FENCED) {
			start_rest(qp, slot);
		}
		return;
	}
	recv->held = false;
	recv->qp = NULL;
	if (!recv_is_released(recv))
		release(recv);
	else
		recv_reap(recv);
}

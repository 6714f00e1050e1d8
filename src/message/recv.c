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
 * Two levels of bits: one a packet, and one a chunk, set when all packets of the chunk are. A chunk is a power of two
 * of packets, 64 at most, and so never crosses a word: completing one is a mask and a comparison.
 */
#include <errno.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/serial.h"
#include "message/state.h"

bool recv_valid(const struct gw_recv *recv)
{
	return recv->ctx && pool_owns_live(&recv->ctx->recvs, recv) && !recv->closed;
}

static struct slot *slot_of(struct gw_qp *qp, uint32_t msn)
{
	return &qp->slots[msn & qp->slots_mask];
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
	if (!recv->closed || !recv->told || recv->held)
		return;
	arena_put(&recv->ctx->arena, recv->bits, recv->bits_bytes);
	pool_put(&recv->ctx->recvs, recv);
}

static void release(struct gw_recv *recv)
{
	recv->released = true;
	recv->mr->users--;
	list_add_tail(&recv->ctx->ended_recvs, &recv->ended_link);
}

void recv_tell(struct gw_recv *recv)
{
	if (!recv->closed && recv->handler && recv->handler->released)
		recv->handler->released(recv, recv->arg, recv->status, recv->ctx->now);
	recv->told = true;
	recv_reap(recv);
}

static void advance_completed(struct gw_qp *qp)
{
	struct gw_recv *next;

	while (qp->completed != qp->recv_granted && (next = recv_find(qp, qp->completed)) &&
	       next->completed)
		qp->completed++;
	qp_owe(qp, OWE_REPORT);
}

/* Grants go out in order; windows may open out of order. */
static void grant_placed(struct gw_qp *qp)
{
	while (qp->recv_granted != qp->recv_placed &&
	       slot_of(qp, qp->recv_granted)->state != SLOT_EXPOSING) {
		qp->recv_granted++;
		qp_owe(qp, OWE_GRANT);
	}
	if (qp->results_owed)
		advance_completed(qp);
}

/* Gives posted receives their slots, in order, as far as those are free. */
void recv_place(struct gw_qp *qp)
{
	struct fabric *fabric = qp->ctx->fabric;
	struct list *item;

	while (qp->state == QP_CONNECTED && (item = list_first(&qp->recvs_waiting))) {
		struct gw_recv *recv = container_of(item, struct gw_recv, link);
		struct slot *slot = slot_of(qp, recv->msn);

		if (slot->state == SLOT_RESTING &&
		    (int32_t)((uint32_t)(qp->ctx->now >> REST_UNIT_SHIFT) - slot->value) >= 0)
			slot->state = SLOT_FREE;
		if (slot->state != SLOT_FREE)
			return;
		slot->generation++;
		if (recv->completed) {
			/* Given up before its turn: its number is used up without a window. */
			list_del(item);
			slot->state = SLOT_FENCED;
			slot->value = pool_index(&qp->ctx->recvs, recv);
			qp->recv_placed++;
			grant_placed(qp);
			continue;
		}
		if (fabric->ops->expose(qp->fabric_qp, recv->msn & qp->slots_mask, slot->generation,
					recv->mr->fabric_mr, recv->addr, recv->capacity))
			return; /* out of windows for now: tried again when one is given back */
		list_del(item);
		slot->state = SLOT_EXPOSING;
		slot->value = pool_index(&qp->ctx->recvs, recv);
		qp->recv_placed++;
	}
}

void recv_exposed(struct gw_qp *qp, const struct fabric_event *event)
{
	struct slot *slot = &qp->slots[event->slot];
	struct gw_recv *recv;

	if (slot->state != SLOT_EXPOSING || slot->generation != (uint16_t)event->generation)
		return;
	recv = pool_at(&qp->ctx->recvs, slot->value);
	recv->va = event->exposed.va;
	recv->rkey = event->exposed.rkey;
	slot->state = SLOT_OPEN;
	if (recv->completed) {
		/* Given up while the window opened: nobody was told of it, so that closing it is all there is to do. */
		slot->state = SLOT_COMPLETED;
		qp->ctx->fabric->ops->fence(qp->fabric_qp, event->slot);
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
	struct slot *slot = &qp->slots[index];
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
	if (serial_before(recv->msn, qp->results_acked)) {
		start_rest(qp, slot);
		recv_place(qp);
		qp_arm(qp);
	}
}

/* The sender knows every result below `results`: their slots may go on. */
void recv_results_acked(struct gw_qp *qp, uint32_t results)
{
	while (qp->results_acked != results) {
		struct slot *slot = slot_of(qp, qp->results_acked);

		if (slot->state == SLOT_FENCED)
			start_rest(qp, slot);
		qp->results_owed--;
		qp->results_acked++;
	}
	recv_place(qp);
}

static uint32_t expected_length(const struct gw_recv *recv, uint32_t payload, uint32_t packet)
{
	if (packet + 1 < recv->packets)
		return payload;
	return (uint32_t)(recv->length - (uint64_t)packet * payload);
}

/* Whether a packet of this length can belong to the message. Before the announcement one short packet is believed to
 * be the last; the announcement will tell. */
static bool shape_fits(struct gw_recv *recv, const struct gw_qp *qp, uint32_t packet,
		       uint32_t length)
{
	if (recv->is_announced)
		return packet < recv->packets &&
		       length == expected_length(recv, qp->payload, packet);
	if (packet >= recv->capacity_packets || !length || length > qp->payload)
		return false;
	if (length == qp->payload)
		return recv->short_packet != packet || !recv->short_length;
	if (recv->short_length)
		return recv->short_packet == packet && recv->short_length == length;
	if (bitmap_test(recv->bits, packet))
		return false;
	recv->short_packet = packet;
	recv->short_length = length;
	return true;
}

static void coalesce(struct gw_recv *recv, uint32_t chunk)
{
	uint32_t first = chunk * recv->chunk_packets;
	uint32_t last = first + recv->chunk_packets;

	if (recv->is_announced && last > recv->packets)
		last = recv->packets;
	if (first < last && last <= recv->capacity_packets &&
	    bitmap_range_full(recv->bits, first, last - first))
		bitmap_set(recv->chunks, chunk);
}

static void collect_fragment(struct gw_recv *recv, const struct gw_qp *qp, uint32_t packet,
			     uint32_t user)
{
	uint32_t piece;

	if (!recv->pieces || recv->is_announced)
		return;
	piece = packet % recv->pieces;
	recv->fragments |= 1u << piece;
	recv->fragment_value |= (uint32_t)((uint64_t)(user & ((1u << qp->fragment_bits) - 1))
					   << piece * qp->fragment_bits);
}

static bool generation_matches(const struct gw_qp *qp, const struct slot *slot,
			       const struct fabric_event *event)
{
	uint8_t bits = qp->ctx->fabric->caps.generation_bits;

	if (!bits)
		return (uint16_t)event->generation == slot->generation;
	return event->data.user_bits >> qp->fragment_bits ==
	       (slot->generation & ((1u << qp->generation_bits) - 1));
}

void recv_land(struct gw_qp *qp, const struct fabric_event *event)
{
	struct slot *slot = &qp->slots[event->slot & qp->slots_mask];
	uint32_t packet = event->data.packet;
	struct gw_recv *recv;

	if (qp->state != QP_CONNECTED)
		return;
	qp->heard_at = qp->ctx->now;
	qp->feedback.probes_unanswered = 0;
	if (slot->state != SLOT_OPEN && slot->state != SLOT_COMPLETED) {
		qp->feedback.late++;
		count(qp->ctx, COUNT_LATE);
		return;
	}
	if (!generation_matches(qp, slot, event)) {
		count(qp->ctx, COUNT_DROP_GENERATION);
		return;
	}
	recv = pool_at(&qp->ctx->recvs, slot->value);
	if (recv->completed) {
		qp->feedback.late++;
		count(qp->ctx, COUNT_LATE);
		return;
	}
	if (!shape_fits(recv, qp, packet, event->data.length)) {
		count(qp->ctx, COUNT_DROP_SHAPE);
		return;
	}
	feedback_landed(qp, recv->msn, packet, event->data.length, event->ce);
	if (bitmap_test_and_set(recv->bits, packet)) {
		qp->feedback.duplicate++;
		count(qp->ctx, COUNT_DUPLICATE);
		return;
	}
	count(qp->ctx, COUNT_LANDED);
	recv->landed++;
	if (packet >= recv->highest)
		recv->highest = packet + 1;
	collect_fragment(recv, qp, packet, event->data.user_bits);
	coalesce(recv, packet / recv->chunk_packets);
	if (list_empty(&recv->touched))
		list_add_tail(&qp->ctx->touched, &recv->touched);
}

void recv_announce(struct gw_recv *recv, const struct control_announce_entry *entry)
{
	struct gw_qp *qp = recv->qp;
	uint32_t short_packet = recv->short_packet;

	/* Too late for one that is completed: its result is final, and the sender may have forgotten what it sent. */
	if (recv->completed)
		return;
	recv->is_announced = true;
	recv->length = entry->length;
	recv->scheme = entry->scheme;
	recv->has_imm = entry->has_imm;
	recv->imm = entry->imm;
	recv->geometry[0] = entry->geometry[0];
	recv->geometry[1] = entry->geometry[1];
	if (entry->length > recv->capacity) {
		recv->length = 0;
		recv->status = -EMSGSIZE;
		gw_recv_complete(recv);
		return;
	}
	recv->packets = (uint32_t)((entry->length + qp->payload - 1) / qp->payload);
	/* What landed on trust is looked at again. */
	if (recv->short_length &&
	    (short_packet >= recv->packets ||
	     recv->short_length != expected_length(recv, qp->payload, short_packet))) {
		bitmap_clear(recv->bits, short_packet);
		bitmap_clear(recv->chunks, short_packet / recv->chunk_packets);
		count(qp->ctx, COUNT_DROP_SHAPE);
	}
	if (recv->packets && bitmap_test(recv->bits, recv->packets - 1) && !recv->short_length &&
	    expected_length(recv, qp->payload, recv->packets - 1) != qp->payload) {
		bitmap_clear(recv->bits, recv->packets - 1);
		count(qp->ctx, COUNT_DROP_SHAPE);
	}
	recv->landed = (uint32_t)bitmap_count(recv->bits, recv->packets);
	if (recv->highest > recv->packets) {
		uint32_t chunks = (recv->packets + recv->chunk_packets - 1) / recv->chunk_packets;

		bitmap_clear_range(recv->bits, recv->packets, recv->highest - recv->packets);
		bitmap_clear_range(recv->chunks, chunks,
				   (recv->highest - 1) / recv->chunk_packets + 1 - chunks);
		recv->highest = recv->packets;
	}
	if (recv->packets)
		coalesce(recv, (recv->packets - 1) / recv->chunk_packets);
	if (recv->handler && recv->handler->announced)
		recv->handler->announced(recv, recv->arg, qp->ctx->now);
	if (!recv->completed && list_empty(&recv->touched))
		list_add_tail(&recv->ctx->touched, &recv->touched);
}

int gw_recv_post(struct gw_qp *qp, const struct gw_recv_attr *attr, struct gw_recv **out)
{
	struct gw_recv *recv;
	size_t bit_words, chunk_words;
	uint64_t packets;
	int error = qp_usable(qp);

	if (error)
		return error;
	if (!attr || !out || !attr->mr)
		return -EINVAL;
	for (size_t i = 0; i < sizeof(attr->reserved) / sizeof(attr->reserved[0]); i++)
		if (attr->reserved[i])
			return -EINVAL;
	if (!mr_covers(attr->mr, qp->ctx, attr->addr, attr->length))
		return -EFAULT;
	packets = (attr->length + qp->payload - 1) / qp->payload;
	if (packets > UINT64_C(1) << qp->split.packet_bits)
		return -EMSGSIZE;
	recv = pool_get(&qp->ctx->recvs);
	if (!recv)
		return -ENOBUFS;
	bit_words = bitmap_words(packets);
	chunk_words = bitmap_words((packets + qp->chunk_packets - 1) / qp->chunk_packets);
	recv->bits_bytes = (bit_words + chunk_words + 1) * sizeof(uint64_t);
	recv->bits = arena_get(&qp->ctx->arena, recv->bits_bytes);
	if (!recv->bits) {
		pool_put(&qp->ctx->recvs, recv);
		return -ENOBUFS;
	}
	qp_busy(qp);
	recv->chunks = recv->bits + bit_words;
	recv->ctx = qp->ctx;
	recv->qp = qp;
	recv->handler = attr->handler;
	recv->arg = attr->arg;
	recv->mr = attr->mr;
	recv->mr->users++;
	recv->addr = attr->addr;
	recv->capacity = attr->length;
	recv->capacity_packets = (uint32_t)packets;
	recv->chunk_packets = qp->chunk_packets;
	recv->pieces = qp->fragment_bits ? (32u + qp->fragment_bits - 1) / qp->fragment_bits : 0;
	recv->msn = qp->recv_posted++;
	recv->timer.kind = TIMER_RECV;
	recv->held = true;
	list_init(&recv->touched);
	list_init(&recv->ended_link);
	list_add_tail(&qp->recvs_waiting, &recv->link);
	qp->recvs_open++;
	*out = recv;
	recv_place(qp);
	qp_arm(qp);
	return 0;
}

/* Freezes the bits and makes the result. */
static void freeze(struct gw_recv *recv)
{
	recv->completed = true;
	recv->missing = recv->is_announced && !recv->status ? recv->packets - recv->landed
							    : GW_MISSING_UNKNOWN;
	list_del(&recv->touched);
	timer_set(recv->ctx, &recv->timer, NEVER);
	recv->qp->recvs_open--;
	recv->qp->results_owed++;
}

int gw_recv_complete(struct gw_recv *recv)
{
	struct gw_qp *qp;

	if (!recv)
		return -EINVAL;
	if (!recv_valid(recv))
		return -ESTALE;
	if (recv->completed)
		return -EALREADY;
	qp = recv->qp;
	freeze(recv);
	if (recv_find(qp, recv->msn) != recv) {
		release(recv); /* still waiting for its slot: never exposed */
		return 0;
	}
	if (slot_of(qp, recv->msn)->state == SLOT_OPEN) {
		slot_of(qp, recv->msn)->state = SLOT_COMPLETED;
		qp->ctx->fabric->ops->fence(qp->fabric_qp, recv->msn & qp->slots_mask);
	}
	advance_completed(qp);
	return 0;
}

/* The queue pair is over. Without a fence from its end one is asked for, and the release follows it. */
void recv_detach(struct gw_recv *recv, int status, bool fenced)
{
	struct gw_qp *qp = recv->qp;
	struct slot *slot = slot_of(qp, recv->msn);

	list_del(&recv->link);
	if (!recv->completed) {
		recv->status = status;
		freeze(recv);
	}
	if (!fenced) {
		if (slot->state == SLOT_OPEN) {
			slot->state = SLOT_COMPLETED;
			qp->ctx->fabric->ops->fence(qp->fabric_qp, recv->msn & qp->slots_mask);
		} else if (slot->state == SLOT_FENCED) {
			start_rest(qp, slot);
		}
		return;
	}
	recv->held = false;
	recv->qp = NULL;
	if (!recv->released)
		release(recv);
	else
		recv_reap(recv);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Landing: what a packet and an announcement do to a receive.
 *
 * Packets come singly or in runs: what follows a packet in one batch is mostly the next packet. The part of a run that is next in
 * order and new is taken in one step, and the rest packet by packet.
 *
 * Two levels of bits: one a packet, and one a chunk, set when all packets of the chunk are. A chunk is a power of two
 * of packets, 64 at most, and so never crosses a word: completing one is a mask and a comparison.
 *
 * Before the announcement the message's length is not known and never inferred. What lands then lands on trust, and is
 * looked at again when the announcement comes.
 */
#include <errno.h>

#include <string.h>

#include "base/bitmap.h"
#include "base/lines.h"
#include "base/serial.h"
#include "message/trace.h"

static uint32_t expected_length(const struct gw_recv *recv, uint32_t packet)
{
	if (packet + 1 < recv->packets)
		return recv->payload;
	return (uint32_t)(recv->length - (uint64_t)packet * recv->payload);
}

/* Whether a packet of this length can belong to the message. Before the announcement one short packet is believed to
 * be the last; the announcement will tell. */
static bool shape_fits(struct gw_recv *recv, uint32_t packet, uint32_t length)
{
	if (recv->is_announced)
		return packet < recv->packets && length == expected_length(recv, packet);
	if (packet >= recv->capacity_packets || !length || length > recv->payload)
		return false;
	if (length == recv->payload)
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
	uint64_t mask;

	if (recv->is_announced && last > recv->packets)
		last = recv->packets;
	if (first >= last || last > recv->capacity_packets)
		return;
	mask = UINT64_MAX >> (BITMAP_WORD_BITS - (last - first)) << first % BITMAP_WORD_BITS;
	if ((recv->bits[first / BITMAP_WORD_BITS] & mask) == mask)
		bitmap_set(recv->chunks, chunk);
}

void recv_rebuild_chunks(struct gw_recv *recv)
{
	uint32_t chunks = (recv->capacity_packets + recv->chunk_packets - 1) / recv->chunk_packets;

	bitmap_clear_range(recv->chunks, 0, chunks);
	for (uint32_t i = 0; i < chunks; i++)
		coalesce(recv, i);
}

static void collect_fragments(struct gw_recv *recv, const struct gw_qp *qp, uint32_t packet,
			      uint32_t packets, uint32_t user)
{
	if (!recv->pieces || recv->is_announced)
		return;
	for (uint32_t i = 0; i < packets && i < recv->pieces; i++) {
		uint32_t piece = (packet + i) % recv->pieces;

		recv->fragments |= 1u << piece;
		recv->fragment_value |=
			(uint32_t)((uint64_t)(user & ((1u << qp->fragment_bits) - 1))
				   << piece * qp->fragment_bits);
	}
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

/* Sets the bits of packets that are new, or of one that may not be. False when it was set before. */
static bool set_bits(struct gw_qp *qp, struct gw_recv *recv, uint32_t packet, uint32_t packets)
{
	uint32_t last = packet + packets - 1;

	if (bitmap_test_and_set(recv->bits, packet)) {
		qp->feedback.duplicate++;
		count(qp->ctx, COUNT_DUPLICATE);
		return false;
	}
	if (packets > 1)
		bitmap_set_range(recv->bits, packet + 1, packets - 1);
	qp->ctx->counters[COUNT_LANDED] += packets;
	recv->landed += packets;
	if (last >= recv->highest)
		recv->highest = last + 1;
	for (uint32_t chunk = packet / recv->chunk_packets;;) {
		coalesce(recv, chunk++);
		if (chunk * recv->chunk_packets > last)
			break;
	}
	if (list_empty(&recv->touched))
		list_add_tail(&qp->ctx->touched, &recv->touched);
	return true;
}

/* How many packets of a run, from this one on, are taken in one step: those next in order that are new and full, or one. No bit
 * is set from `highest` on. */
static uint32_t step(const struct gw_recv *recv, uint32_t packet, uint32_t left, uint32_t length)
{
	uint32_t end = recv->is_announced ? recv->packets : recv->capacity_packets;

	if (left == 1 || packet != recv->highest || length != recv->payload ||
	    (recv->short_length && !recv->is_announced) || packet + 1 >= end)
		return 1;
	/* The last one may have to be shorter. */
	return left < end - 1 - packet ? left : end - 1 - packet;
}

static void land(struct gw_qp *qp, struct gw_recv *recv, uint32_t packet, uint32_t packets,
		 const struct fabric_event *event)
{
	bool fresh;

	if (!shape_fits(recv, packet, event->data.length)) {
		count(qp->ctx, COUNT_DROP_SHAPE);
		return;
	}
	TRACE_QP(qp, "rx data msn=%u packets=%u+%u bytes=%u lane=%u%s", recv->msn, packet, packets,
		 event->data.length, event->lane, event->ce ? " marked" : "");
	feedback_landed(qp, recv->msn, packet + packets - 1, packets,
			(uint64_t)packets * event->data.length, event->ce);
	if (packet != recv->highest)
		estimate_gap(qp, recv, packet);
	fresh = set_bits(qp, recv, packet, packets);
	order_landed(qp, recv, packet, packets, event, fresh);
	if (fresh)
		collect_fragments(recv, qp, packet, packets, event->data.user_bits);
}

void recv_land(struct gw_qp *qp, const struct fabric_event *event)
{
	struct slot *slot = &qp->rx.slots[event->slot & qp->rx.mask];
	uint32_t packet = event->data.packet, left = event->data.more + 1, packets;
	struct gw_recv *recv;

	if (qp->state != QP_CONNECTED)
		return;
	qp->control.heard_at = qp->ctx->now;
	qp->feedback.probes_unanswered = 0;
	if (slot->state != SLOT_OPEN && slot->state != SLOT_COMPLETED) {
		qp->feedback.late += left;
		qp->ctx->counters[COUNT_LATE] += left;
		return;
	}
	if (!generation_matches(qp, slot, event)) {
		qp->ctx->counters[COUNT_DROP_GENERATION] += left;
		return;
	}
	recv = pool_at(&qp->ctx->recvs, slot->value);
	if (recv_is_completed(recv)) {
		qp->feedback.late += left;
		qp->ctx->counters[COUNT_LATE] += left;
		return;
	}
	for (; left; packet += packets, left -= packets) {
		packets = step(recv, packet, left, event->data.length);
		land(qp, recv, packet, packets, event);
	}
}

bool recv_land_inline(struct gw_qp *qp, const struct control_data *data)
{
	struct gw_recv *recv = recv_find(qp, data->msn);

	if (!serial_before(data->msn, qp->rx.granted))
		return false; /* not granted, so not sendable */
	if (!recv || recv_is_completed(recv) ||
	    qp->rx.slots[data->msn & qp->rx.mask].state != SLOT_OPEN) {
		qp->feedback.late++;
		count(qp->ctx, COUNT_LATE);
		return true;
	}
	if (data->packet >= recv->capacity_packets ||
	    !shape_fits(recv, data->packet, data->length) ||
	    data->length > recv->capacity - (uint64_t)data->packet * recv->payload) {
		count(qp->ctx, COUNT_DROP_SHAPE);
		return true;
	}
	/* Only the NIC writes there. The sender takes it for lost, and its repeat goes through the NIC. */
	if (recv->mr->unreachable) {
		count(qp->ctx, COUNT_DROP_UNREACHABLE);
		return true;
	}
	feedback_landed(qp, recv->msn, data->packet, 1, data->length, false);
	if (set_bits(qp, recv, data->packet, 1))
		lines_copy(recv->addr + (uint64_t)data->packet * recv->payload, data->bytes,
			   data->length);
	return true;
}

/* The scheme that says so looks at the receive itself: it is not called for it. */
int gw_recv_rebuilt(struct gw_recv *recv, uint32_t packet)
{
	if (!recv)
		return -EINVAL;
	if (!recv_valid(recv))
		return -ESTALE;
	if (recv_is_completed(recv))
		return -EALREADY;
	if (!recv->is_announced)
		return -EAGAIN;
	if (packet >= recv->packets)
		return -ERANGE;
	if (bitmap_test_and_set(recv->bits, packet))
		return -EALREADY;
	count(recv->ctx, COUNT_REBUILT);
	recv->landed++;
	if (packet >= recv->highest)
		recv->highest = packet + 1;
	coalesce(recv, packet / recv->chunk_packets);
	return 0;
}

void recv_announce(struct gw_recv *recv, const struct control_announce_entry *entry)
{
	struct gw_qp *qp = recv->qp;
	uint32_t short_packet = recv->short_packet;

	/* Too late for one that is completed: its result is final, and the sender may have forgotten what it sent. */
	if (recv_is_completed(recv))
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
	recv->packets = packets_of(entry->length, recv->payload);
	/* What landed on trust is looked at again. */
	if (recv->short_length && (short_packet >= recv->packets ||
				   recv->short_length != expected_length(recv, short_packet))) {
		bitmap_clear(recv->bits, short_packet);
		bitmap_clear(recv->chunks, short_packet / recv->chunk_packets);
		count(qp->ctx, COUNT_DROP_SHAPE);
	}
	if (recv->packets && bitmap_test(recv->bits, recv->packets - 1) &&
	    (!recv->short_length || short_packet != recv->packets - 1) &&
	    expected_length(recv, recv->packets - 1) != recv->payload) {
		bitmap_clear(recv->bits, recv->packets - 1);
		bitmap_clear(recv->chunks, (recv->packets - 1) / recv->chunk_packets);
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
	while (recv->highest && !bitmap_test(recv->bits, recv->highest - 1))
		recv->highest--;
	if (recv->packets)
		coalesce(recv, (recv->packets - 1) / recv->chunk_packets);
	if (recv->handler && recv->handler->announced)
		recv->handler->announced(recv, recv->arg, qp->ctx->now);
	if (!recv_is_completed(recv) && list_empty(&recv->touched))
		list_add_tail(&recv->ctx->touched, &recv->touched);
}

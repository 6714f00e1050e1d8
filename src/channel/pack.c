/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packs: small sends and notices share buffers of the channel's own, each sent as one message under Selective Repeat.
 *
 * An operation that owes the peer a record stands in line (ch->lines) until a pack has room, then in that pack's list
 * until the peer has read it, unless the record is TAKEN: that nothing waits for. While fewer than two packs are on their way
 * the next one leaves at once, so that a lone small send waits for nothing. Otherwise records gather until the pack is worth a message
 * (GATHER_BYTES; while packs are plenty) or half full, an earlier one is answered, or a part of a round trip has passed since the last but one left. A pack of data is answered when
 * every record in it has met its receive: that is how a send ends, unless it asked to end when it was copied (GW_OP_BUFFERED).
 * Data leaves one pack to the notices, so that a receiver that posts nothing can still be told things.
 */
#include <errno.h>

#include "channel/state.h"

/* Records gather for 1 / GATHER_SHARE of a round trip at most, and for GATHER_NS at least. */
#define GATHER_SHARE 16
#define GATHER_NS    UINT64_C(50000)
/* Bytes with which a pack leaves: some packets, beside which its header and its answer cost little. */
#define GATHER_BYTES 8192u

static struct list *line(struct gw_op *op)
{
	return &op->ch->lines[op->owes & OWES(RECORD_DATA) ? GROUP_DATA : GROUP_NOTICE];
}

void pack_owe(struct gw_op *op, enum record_kind kind)
{
	op->owes |= OWES(kind);
	if (op->packed)
		return; /* in line again when its pack is answered */
	list_del(&op->record);
	list_add_tail(line(op), &op->record);
}

static struct pack *take_pack(struct gw_channel *ch, enum pack_group group)
{
	uint32_t busy = ch->packs_busy[GROUP_DATA] + ch->packs_busy[GROUP_NOTICE];

	if (busy + (group == GROUP_DATA) >= ch->packs_max)
		return NULL;
	for (uint32_t i = 0; i < ch->pack_count; i++) {
		struct pack *pack = &ch->packs[i];

		if (pack->busy)
			continue;
		pack->busy = true;
		pack->group = (uint8_t)group;
		pack->used = 0;
		ch->packs_busy[group]++;
		return pack;
	}
	return NULL;
}

/* The operation's record was read by the peer; data has met its receive. */
static void answered(struct gw_op *op)
{
	uint32_t packed = op->packed;
	struct bounce *bounce = op->refused;

	op->packed = 0;
	if (packed & OWES(RECORD_DATA))
		op->met = true;
	if (packed & OWES(RECORD_DATA) && !op->ended) {
		op->moved = op->total;
		op_end(op, 0);
	}
	if (packed & OWES(RECORD_REFUSED) && bounce) {
		op->refused = NULL;
		bounce->held--;
		bounce_done(bounce);
	}
	if (op->owes)
		list_add_tail(line(op), &op->record);
	op_check(op);
}

static void pack_done(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct pack *pack = arg;
	struct gw_channel *ch = pack->ch;
	struct list *item;

	(void)now;
	settle_follows(ch);
	gw_send_close(pack->send);
	pack->send = NULL;
	if (!channel_broken(ch, result->status)) {
		ch->packs_out[pack->group]--;
		ch->packs_busy[pack->group]--;
		pack->busy = false;
		while ((item = list_first(&pack->records))) {
			list_del(item);
			answered(container_of(item, struct gw_op, record));
		}
	}
	settle(ch);
}

static bool send_pack(struct gw_channel *ch, enum pack_group group)
{
	struct pack *pack = ch->filling[group];
	struct gw_transfer_attr attr = { .addr = pack->addr,
					 .length = pack->used,
					 .mr = ch->mr,
					 .done = pack_done,
					 .arg = pack };

	if (gw_transfer_send(ch->qp[SMALL], &gw_selective_repeat, &attr, &pack->send)) {
		channel_retry(ch);
		return false;
	}
	ch->filling[group] = NULL;
	ch->packs_out[group]++;
	ch->pack_left_ns[group][1] = ch->pack_left_ns[group][0];
	ch->pack_left_ns[group][0] = gw_now_ns(ch->ctx);
	pack->number = (uint32_t)ch->stats.packs++;
	return true;
}

static bool make_room(struct gw_channel *ch, enum pack_group group, size_t bytes)
{
	if (ch->filling[group] && ch->filling[group]->used + bytes > ch->pack_bytes &&
	    !send_pack(ch, group))
		return false;
	if (!ch->filling[group])
		ch->filling[group] = take_pack(ch, group);
	return ch->filling[group] != NULL;
}

/* A deadline here is no sign of silence there. */
static uint16_t told_status(const struct gw_op *op)
{
	return (uint16_t)(op->failure == -ETIMEDOUT ? ECANCELED : -op->failure);
}

static void write_record(struct pack *pack, struct gw_op *op, enum record_kind kind)
{
	struct record record = { .seq = op->seq, .kind = (uint8_t)kind };

	if (kind == RECORD_DATA) {
		record.label = op->label;
		record.length = (uint32_t)op->length;
		record.data = op->addr;
		if (op->ch->flags & GW_CHANNEL_CRC) {
			record.flags = RECORD_CRC_GIVEN;
			record.crc = crc_of(0, op->addr, op->length);
		}
	} else if (kind == RECORD_CRC) {
		record.crc = op->crc;
	} else if (kind == RECORD_ENDED || kind == RECORD_REFUSED) {
		record.status = told_status(op);
	}
	pack->used += (uint32_t)record_put(pack->addr + pack->used, &record);
	op->ch->stats.records++;
}

/* Whether the pack that is being filled leaves, rather than waits for more records. */
static bool leaves(struct gw_channel *ch, enum pack_group group)
{
	struct gw_estimate path;
	uint64_t due, wait_ns = GATHER_NS;

	if (ch->packs_out[group] < PACKS_AT_ONCE || ch->filling[group]->used >= ch->pack_bytes / 2)
		return true;
	/* Not the last packs, which would then be missing for a round trip. */
	if (ch->filling[group]->used >= GATHER_BYTES && ch->packs_out[group] < ch->packs_max / 2)
		return true;
	if (!gw_qp_estimate(ch->qp[SMALL], &path) && path.rtt_ns / GATHER_SHARE > wait_ns)
		wait_ns = path.rtt_ns / GATHER_SHARE;
	due = ch->pack_left_ns[group][PACKS_AT_ONCE - 1] + wait_ns;
	if (gw_now_ns(ch->ctx) >= due)
		return true;
	if (due < ch->pack_at) {
		ch->pack_at = due;
		channel_arm(ch);
	}
	return false;
}

static void end_copied(struct gw_op *op)
{
	if (op->ended)
		return;
	op->copied = true;
	op->ch->unanswered++;
	op->moved = op->total;
	op_end(op, 0);
}

static void fill_group(struct gw_channel *ch, enum pack_group group)
{
	struct list *item;

	if (!ch->filling[group] && list_empty(&ch->lines[group]))
		return;
	while ((item = list_first(&ch->lines[group]))) {
		struct gw_op *op = container_of(item, struct gw_op, record);
		size_t bytes = (size_t)__builtin_popcount(op->owes) * RECORD_HEADER;
		struct pack *pack;

		if (group == GROUP_DATA)
			bytes += op->length;
		if (!make_room(ch, group, bytes))
			return;
		pack = ch->filling[group];
		for (int kind = RECORD_DATA; kind <= RECORD_TAKEN; kind++)
			if (op->owes & OWES(kind))
				write_record(pack, op, (enum record_kind)kind);
		/* Nothing waits for the answer to TAKEN: the receive's place is free for the next one. */
		op->packed = op->owes & ~OWES(RECORD_TAKEN);
		op->owes = 0;
		list_del(item);
		if (op->buffered && op->packed & OWES(RECORD_DATA))
			end_copied(op);
		if (op->packed)
			list_add_tail(&pack->records, item);
		else
			op_check(op);
	}
	if (ch->filling[group] && leaves(ch, group))
		send_pack(ch, group);
}

void pack_fill(struct gw_channel *ch)
{
	if (!ch->qp[SMALL] || !ch->connected)
		return;
	fill_group(ch, GROUP_NOTICE);
	fill_group(ch, GROUP_DATA);
}

uint32_t pack_span(const struct gw_channel *ch)
{
	uint32_t span = 0;

	for (uint32_t i = 0; i < ch->pack_count; i++) {
		uint32_t since = (uint32_t)ch->stats.packs - ch->packs[i].number;

		if (ch->packs[i].send && since > span)
			span = since;
	}
	return span;
}

/* The receiver of one of our sends says what became of it. */
void pack_heard(struct gw_channel *ch, const struct record *record)
{
	struct gw_op *op = ch->sends[record->seq & ch->mask];

	if (!op || op->seq != record->seq)
		return;
	if (record->kind == RECORD_REFUSED) {
		op_fail(op, -(int)record->status);
	} else if (op->packed & OWES(RECORD_DATA) && !op->ended) {
		op->moved = op->total;
		op_end(op, 0);
	}
	op->met = true;
	op_check(op);
}

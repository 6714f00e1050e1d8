/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large sends: bound to the peer's buffers as their grants become known.
 *
 * Nothing is posted before its grant is there, for the grant's tag says which operation the buffer belongs to, and the
 * next send posted gets exactly that one. The tag is the operation's number and two bits (state.h). Of the first grant that nobody has taken:
 *
 *	it belongs to the first large send        a part of that leaves
 *	to an earlier operation                   which went small or ended: an empty message gives the buffer back
 *	to a later one                            the peer has no buffer for the first large send: ask why
 *	to one that is not posted yet             it waits; clear-to-send then costs no round trip
 *
 * If there is no grant for a large send that follows a small one, its receive may be withheld: ask for it.
 */
#include <errno.h>
#include <isa-l.h>

#include <godwit/auto.h>

#include "channel/state.h"

#define ASK_FIRST_NS   UINT64_C(100000000)
#define ASK_LIMIT_NS   UINT64_C(5000000000)
#define ASK_SPARING_NS UINT64_C(60000000000)
#define CRC_STEP       (UINT64_C(1) << 30)

uint32_t crc_of(uint32_t crc, const uint8_t *data, uint64_t length)
{
	while (length) {
		uint64_t step = length < CRC_STEP ? length : CRC_STEP;

		crc = crc32_gzip_refl(crc, data, step);
		data += step;
		length -= step;
	}
	return crc;
}

/* How far the grant's operation is ahead of this one: 30 bits of their numbers are compared. */
static int32_t ahead(const struct gw_grant *grant, uint32_t seq)
{
	return (int32_t)((grant->tag >> TAG_BITS << TAG_BITS) - (seq << TAG_BITS));
}

static void free_part(struct part *part)
{
	list_del(&part->link);
	list_del(&part->all);
	pool_put(&part->ch->part_pool, part);
}

static void part_done(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct part *part = arg;
	struct gw_channel *ch = part->ch;
	struct gw_op *op = part->op;
	uint64_t length = part->length;

	(void)now;
	gw_send_close(part->send);
	coder_put(ch, false, part->coder);
	free_part(part);
	if (!channel_lost(ch, result->status)) {
		if (op && !op->failure && result->status)
			op_fail(op, result->status);
		if (op && !op->failure) {
			op->moved += length;
			op->met = true;
		}
		if (op && list_empty(&op->parts) && (op->failure || op->moved == op->length))
			op_end(op, op->failure);
		if (op)
			op_check(op);
	}
	settle(ch);
}

/* The next part of `op`, or with none an empty message. `coded`: its receive has another one for parity behind it. */
static int send_part(struct gw_channel *ch, struct gw_op *op, uint64_t length, uint32_t imm,
		     bool coded)
{
	const struct gw_scheme *scheme = &gw_selective_repeat;
	struct part *part = pool_get(&ch->part_pool);
	struct gw_transfer_attr attr = {
		.length = length, .flags = GW_SEND_IMM, .imm = imm, .done = part_done, .arg = part
	};
	int error = -ENOBUFS;

	if (!part)
		return error;
	part->ch = ch;
	part->op = op;
	part->length = length;
	list_init(&part->link);
	if (op) {
		part->offset = op->bound;
		attr.addr = op->addr + op->bound;
		attr.mr = op->mr;
	}
	if (op && coded) {
		scheme = &gw_auto;
		attr.options = part->coder = coder_get(ch, false);
	} else if (op && !ch->peer_eager && op->scheme) {
		/* The eager buffer was posted before its receive, and so knows no scheme but Selective Repeat. */
		scheme = op->scheme;
		attr.options = op->options;
	}
	error = coded && op && !part->coder
			? -EBUSY
			: gw_transfer_send(ch->qp[BULK], scheme, &attr, &part->send);
	if (error) {
		coder_put(ch, false, part->coder);
		pool_put(&ch->part_pool, part);
		return error;
	}
	ch->peer_eager = false;
	list_add_tail(&ch->parts, &part->all);
	if (op)
		list_add_tail(&op->parts, &part->link);
	return 0;
}

static int skip(struct gw_channel *ch)
{
	int error = send_part(ch, NULL, 0, PART_SKIP, false);

	if (!error)
		ch->stats.skips++;
	return error;
}

static int bind_part(struct gw_op *op, const struct gw_grant *grant)
{
	struct gw_channel *ch = op->ch;
	uint64_t left = op->length - op->bound;
	uint64_t length = left < grant->capacity ? left : grant->capacity;
	uint32_t imm = (length == left ? PART_LAST : PART_MORE) | (uint32_t)op->label << PART_LABEL;
	int error;

	/* The eager buffer is granted before its receive is posted. */
	if (!ch->peer_eager)
		op->met = true;
	if (!length || (length < left && grant->tag & TAG_LAST)) {
		error = skip(ch);
		if (!error)
			op_fail(op, -EMSGSIZE);
		return error;
	}
	if (ch->flags & GW_CHANNEL_CRC)
		imm |= PART_CRC;
	if (!op->scheme && coders_wanted(ch, length))
		imm |= PART_CODE;
	/* A receive under gw_auto also takes what is sent under Selective Repeat alone, but with a second message. */
	error = send_part(ch, op, length, imm,
			  grant->tag & TAG_CODED &&
				  (!op->scheme || op->scheme == &gw_selective_repeat));
	/* Busy: the scheme's memory serves the part before. */
	if (error && error != -ENOBUFS && error != -EBUSY) {
		op_fail(op, error);
		return 0;
	}
	if (error)
		return error;
	ch->stats.parts++;
	if (imm & PART_CRC)
		op->crc = crc_of(op->crc, op->addr + op->bound, length);
	op->bound += length;
	if (op->bound == op->length) {
		list_del(&op->link);
		if (imm & PART_CRC)
			pack_owe(op, RECORD_CRC);
	}
	return 0;
}

/* Waiting for a grant that may never come: the receive may be too small for a large message, or given up. */
static void await(struct gw_channel *ch, bool overtaken)
{
	struct list *item = list_first(&ch->bulk_sends);
	struct gw_op *op;

	if (!item) {
		ch->ask_at = NEVER;
		return;
	}
	op = container_of(item, struct gw_op, link);
	if ((overtaken || (op->follows_small && !op->bound)) && !op->asked) {
		op->asked = true;
		pack_owe(op, RECORD_ASK);
		pack_fill(ch);
	}
	if (ch->ask_at == NEVER) {
		ch->ask_wait_ns = ASK_FIRST_NS;
		ch->ask_at = gw_now_ns(ch->ctx) + ASK_FIRST_NS;
	}
}

void bulk_ask(struct gw_channel *ch, uint64_t now)
{
	struct list *item = list_first(&ch->bulk_sends);

	if (!item || now < ch->ask_at)
		return;
	/* One pack that waits for its receive holds up all that are SMALL_SLOTS behind it. Questions must not use those up:
	 * the receive may be waiting for a notice. */
	if (pack_span(ch) > SMALL_SLOTS / 2 && now - ch->asked_at < ASK_SPARING_NS) {
		ch->ask_at = ch->asked_at + ASK_SPARING_NS;
		return;
	}
	ch->asked_at = now;
	pack_owe(container_of(item, struct gw_op, link), RECORD_ASK);
	ch->ask_wait_ns = ch->ask_wait_ns < ASK_LIMIT_NS / 2 ? 2 * ch->ask_wait_ns : ASK_LIMIT_NS;
	ch->ask_at = now + ch->ask_wait_ns;
}

void bulk_bind(struct gw_channel *ch)
{
	struct gw_grant grant;
	bool overtaken = false;
	int error = 0;

	if (!ch->qp[BULK])
		return;
	while (!error && !overtaken && !gw_qp_next_grant(ch->qp[BULK], &grant)) {
		struct list *item = list_first(&ch->bulk_sends);
		struct gw_op *op = item ? container_of(item, struct gw_op, link) : NULL;
		uint32_t first = op ? op->seq : ch->send_next;

		if (op && !ahead(&grant, first)) {
			error = bind_part(op, &grant);
			ch->ask_at = NEVER;
		} else if (ahead(&grant, first) < 0) {
			error = skip(ch);
		} else if (op) {
			overtaken = true;
		} else {
			break; /* for a send that is still to come */
		}
	}
	if (error)
		channel_retry(ch);
	await(ch, overtaken);
}

void bulk_abort(struct gw_op *op)
{
	struct list *item;

	list_for_each (item, &op->parts)
		gw_stream_abort(container_of(item, struct part, link)->send);
}

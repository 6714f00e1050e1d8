/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large receives: posted in parts, each tagged with the operation's number, as many at once as the peer may be granted.
 *
 * Which of them the message fills is known from the announcements: the last part says that it is, and the receives
 * behind it are withdrawn. When the message turns out to be a small one, all of them are. A receive ends when nothing of
 * it is posted any more, for only then is its memory the caller's.
 *
 * After a run of small messages nothing is posted until it is wanted (state.h).
 */
#include <errno.h>

#include <godwit/auto.h>

#include "base/log.h"
#include "base/serial.h"
#include "channel/state.h"

#define PART_FIRST (UINT64_C(1) << 20)
/* Small messages in a row after which receives are withheld, and the longest round trip at which they are: the first large
 * message then waits for one. */
#define SMALL_RUN   8
#define WITHHOLD_NS UINT64_C(1000000)

void recv_check(struct gw_op *op)
{
	if (op->ended || !list_empty(&op->parts))
		return;
	if (op->failure)
		op_end(op, op->failure);
	else if (!op->matched || eager_awaited(op))
		return;
	else if (op->moved != op->total)
		op_end(op, -EPROTO);
	else if (!op->crc_wanted)
		op_end(op, 0);
	else if (op->crc_known)
		op_end(op, crc_of(0, op->addr, op->total) == op->crc ? 0 : -EBADMSG);
	op_check(op);
}

static uint64_t landed_bytes(const struct part *part)
{
	struct gw_recv_status status;
	uint64_t length = part->length, bytes;

	if (!part->recv || gw_recv_status(part->recv, &status))
		return 0;
	if (status.flags & GW_RECV_ANNOUNCED)
		length = status.length;
	bytes = (uint64_t)status.landed * status.payload;
	return bytes < length ? bytes : length;
}

uint64_t bulk_landed(const struct gw_op *op)
{
	const struct list *item;
	uint64_t bytes = 0;

	list_for_each (item, &op->parts)
		bytes += landed_bytes(container_of(item, struct part, link));
	return bytes;
}

void bulk_withdraw(struct gw_op *op)
{
	struct list *item;

	if (!op->seq)
		eager_drop(op->ch);
	list_for_each (item, &op->parts)
		gw_transfer_finish_recv(container_of(item, struct part, link)->recv, -ECANCELED, 0);
}

static void withdraw_after(struct gw_op *op, uint64_t offset)
{
	struct list *item;

	list_for_each (item, &op->parts) {
		struct part *part = container_of(item, struct part, link);

		if (part->offset > offset)
			gw_transfer_finish_recv(part->recv, -ECANCELED, 0);
	}
}

/* False when an honest peer would not have said it. */
static bool announced_part(struct part *part, uint32_t imm, uint64_t length)
{
	struct gw_op *op = part->op;

	part->kind = imm & PART_KIND;
	if (part->kind != PART_SKIP) {
		op->ch->peer_codes = (imm & PART_CODE) != 0;
		op->label = (uint16_t)(imm >> PART_LABEL);
		bulk_wanted(op->ch, op->seq);
	}
	switch (part->kind) {
	case PART_SKIP:
		return !length;
	case PART_MORE:
		return length == part->length;
	case PART_LAST:
		if (op->matched || !length)
			return false;
		op->matched = true;
		op->total = part->offset + length;
		op->crc_wanted = (imm & PART_CRC) != 0;
		list_del(&op->link);
		withdraw_after(op, part->offset);
		return true;
	}
	return false;
}

static void announced(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct part *part = ((struct gw_transfer *)gw_recv_state(recv))->arg;
	struct gw_channel *ch = part->ch;
	const struct gw_scheme *scheme = part->scheme;
	struct gw_recv_status status;
	uint32_t imm = 0;

	if (gw_recv_status(recv, &status))
		return;
	if (gw_recv_imm(recv, &imm) || !announced_part(part, imm, status.length)) {
		channel_fail(ch, -EPROTO);
		settle(ch);
		return;
	}
	if (part->kind != PART_SKIP && status.scheme != scheme->id) {
		log_error(
			"receive %u is under %s, and its sender uses another scheme (%u): name the same at both ends",
			part->op->seq, scheme->name, status.scheme);
		op_fail(part->op, -EPROTONOSUPPORT);
		return;
	}
	for (uint32_t i = 0; i < ch->scheme_count; i++)
		if (&ch->schemes[i].receiving == scheme && ch->schemes[i].scheme->recv.announced)
			ch->schemes[i].scheme->recv.announced(recv, arg, now);
}

void bulk_listen(struct scheme_entry *entry, const struct gw_scheme *scheme)
{
	entry->scheme = scheme;
	entry->receiving = *scheme;
	entry->receiving.recv.announced = announced;
}

static void part_over(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct part *part = arg;
	struct gw_channel *ch = part->ch;
	struct gw_op *op = part->op;
	bool filled = part->kind == PART_MORE || part->kind == PART_LAST;

	(void)now;
	/* Of a part that fails, what has landed is at least counted. */
	if (result->status)
		op->moved += landed_bytes(part);
	if (op->part && part->kind != PART_SKIP)
		op->part(op->arg, result->status || result->missing ? part->recv : NULL,
			 part->offset, part->length);
	gw_recv_close(part->recv);
	coder_put(ch, true, part->coder);
	list_del(&part->link);
	list_del(&part->all);
	pool_put(&ch->part_pool, part);
	ch->recv_parts--;
	if (!channel_lost(ch, result->status)) {
		if (filled && !result->status)
			op->moved += result->length;
		else if (filled)
			op_fail(op, result->status);
		recv_check(op);
		op_check(op);
		bulk_post(ch);
	}
	settle(ch);
}

/* A part's packets have the size that was known when it was granted: short ones while larger packets are being tried. */
static uint64_t part_most(const struct gw_channel *ch, bool coded)
{
	struct gw_estimate path;

	if (coded && ch->part_bytes > CODED_PART)
		return CODED_PART;

	if (ch->part_bytes > PART_FIRST && !gw_qp_estimate(ch->qp[BULK], &path) &&
	    !path.payload_settled)
		return PART_FIRST;
	return ch->part_bytes;
}

/* A receive that names no scheme is under gw_auto if the peer would code and there is a member left for it. */
static void choose_scheme(struct part *part)
{
	struct gw_channel *ch = part->ch;

	part->scheme = part->op->scheme;
	if (part->scheme)
		return;
	part->coder = ch->peer_codes ? coder_get(ch, true) : NULL;
	part->scheme = scheme_receiving(ch, part->coder ? &gw_auto : &gw_selective_repeat);
}

static int post_part(struct gw_op *op)
{
	struct gw_channel *ch = op->ch;
	struct part *part = pool_get(&ch->part_pool);
	uint64_t left = op->length - op->bound, most;
	struct gw_transfer_attr attr = { .addr = op->addr + op->bound,
					 .mr = op->mr,
					 .done = part_over,
					 .arg = part,
					 .options = op->options };
	int error = -ENOBUFS;

	if (!part)
		return error;
	part->ch = ch;
	part->op = op;
	part->offset = op->bound;
	choose_scheme(part);
	most = part_most(ch, part->coder);
	attr.length = part->length = left < most ? left : most;
	attr.tag = op->seq << TAG_BITS | (attr.length == left ? TAG_LAST : 0);
	if (part->coder) {
		attr.options = part->coder;
		attr.tag |= TAG_CODED;
	}
	if (part->scheme)
		error = gw_transfer_recv(ch->qp[BULK], part->scheme, &attr, &part->recv);
	if (error) {
		coder_put(ch, true, part->coder);
		pool_put(&ch->part_pool, part);
		return error;
	}
	list_add_tail(&ch->parts, &part->all);
	list_add_tail(&op->parts, &part->link);
	ch->recv_parts++;
	op->bound += part->length;
	if (op->bound == op->length)
		list_del(&op->link);
	return 0;
}

/* One that has begun goes on. */
static bool is_withheld(const struct gw_op *op)
{
	return op->ch->withholding && !op->bound && serial_after(op->seq, op->ch->wanted_seq);
}

void bulk_post(struct gw_channel *ch)
{
	struct list *item;

	while (ch->qp[BULK] && ch->recv_parts < ch->slots && (item = list_first(&ch->bulk_recvs))) {
		struct gw_op *op = container_of(item, struct gw_op, link);
		int error;

		if (is_withheld(op))
			return;
		error = post_part(op);
		if (error == -ENOBUFS || error == -EBUSY) {
			channel_retry(ch);
			return;
		}
		if (error)
			op_fail(op, error);
	}
}

void bulk_unused(struct gw_channel *ch)
{
	struct gw_estimate path;

	/* Numbers wrap: it stays close to those in use. */
	if (serial_before(ch->wanted_seq, ch->recv_oldest - 1))
		ch->wanted_seq = ch->recv_oldest - 1;
	if (++ch->small_run == SMALL_RUN)
		ch->withholding = !gw_qp_estimate(ch->qp[SMALL], &path) && path.rtt_ns &&
				  path.rtt_ns < WITHHOLD_NS;
}

void bulk_wanted(struct gw_channel *ch, uint32_t seq)
{
	if (serial_after(seq, ch->wanted_seq))
		ch->wanted_seq = seq;
	ch->small_run = 0;
	ch->withholding = false;
	bulk_post(ch);
}

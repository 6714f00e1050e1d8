/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The eager buffer: where the first large message begins to land before anything was heard.
 *
 * The first bytes of receive 0 are posted with the connect, into a buffer of the channel's own, and promised in its
 * description (gw_qp_attr.first_bytes). So the first large send of the peer leaves at once, as far as they go, and not
 * when a grant has come and the path was tried. The receive copies them out, once in a channel's life; its other parts
 * begin behind them.
 *
 * To the sender it is a buffer like any other, of operation 0: a part goes there, or an empty message gives it back. To
 * the receiver it is a bounce: what came waits there for its receive, and is answered when that took or refused it.
 */
#include <errno.h>
#include <string.h>

#include "base/lines.h"
#include "channel/state.h"

static struct gw_op *first_receive(const struct gw_channel *ch)
{
	struct gw_op *op = ch->recvs[0];

	return op && !op->seq ? op : NULL;
}

static void take(struct gw_op *op)
{
	struct gw_channel *ch = op->ch;
	bool last = ch->eager_kind == PART_LAST;
	uint64_t room = last ? op->length : op->length - 1; /* a further part has a byte at least */

	op->label = ch->eager_label;
	if (op->failure || !op->length || ch->eager_length > room) {
		bounce_refuse(op, &ch->eager, -EMSGSIZE);
		return;
	}
	if (ch->flags & GW_CHANNEL_LINES)
		lines_copy(op->addr, ch->eager.addr, ch->eager_length);
	else
		memcpy(op->addr, ch->eager.addr, ch->eager_length);
	op->moved += ch->eager_length;
	if (last) {
		/* A sender that gave up meanwhile learns no result of the message, and this receive may be over
		 * when its notice comes. */
		pack_owe(op, RECORD_TAKEN);
		op->matched = true;
		op->total = ch->eager_length;
		op->crc_wanted = ch->eager_crc;
		list_del(&op->link);
		bulk_withdraw(op);
	}
	recv_check(op);
}

void eager_meet(struct gw_channel *ch)
{
	struct gw_op *op = first_receive(ch);

	if (!ch->eager.waiting || !op)
		return;
	ch->eager_met = true;
	ch->eager.waiting = 0;
	take(op);
	bounce_done(&ch->eager);
}

/* All of it is there. */
int eager_read(struct gw_channel *ch, uint64_t length)
{
	const struct gw_op *op = first_receive(ch);
	uint32_t imm;

	if (gw_recv_imm(ch->eager.recv, &imm))
		return -EPROTO;
	ch->eager_kind = (uint8_t)(imm & PART_KIND);
	ch->eager_crc = (imm & PART_CRC) != 0;
	ch->eager_label = (uint16_t)(imm >> PART_LABEL);
	ch->eager_length = length;
	if (ch->eager_kind == PART_SKIP && !length) {
		ch->eager_met = true;
		return 0;
	}
	if (!length || (ch->eager_kind != PART_LAST && ch->eager_kind != PART_MORE) ||
	    (ch->eager_kind == PART_MORE && length != ch->eager_bytes) ||
	    (op ? op->matched && ch->eager_kind == PART_LAST : ch->recv_next != 0))
		return -EPROTO;
	ch->eager.waiting = 1;
	eager_meet(ch);
	return 0;
}

bool eager_awaited(const struct gw_op *op)
{
	return !op->seq && op->ch->eager.recv && !op->ch->eager_met;
}

void eager_bind(struct gw_op *op)
{
	struct gw_channel *ch = op->ch;

	if (!op->seq && ch->eager.recv)
		op->bound = op->length < ch->eager_bytes ? op->length : ch->eager_bytes;
}

void eager_drop(struct gw_channel *ch)
{
	if (!ch->eager.recv || ch->eager_met)
		return;
	ch->eager_met = true;
	gw_transfer_finish_recv(ch->eager.recv, -ECANCELED, 0);
}

static void over(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct gw_channel *ch = ((struct bounce *)arg)->ch;
	struct gw_op *op = first_receive(ch);

	(void)now;
	gw_recv_close(ch->eager.recv);
	ch->eager.recv = NULL;
	if (!channel_lost(ch, result->status) && op)
		recv_check(op);
	settle(ch);
}

int eager_post(struct gw_channel *ch)
{
	struct gw_transfer_attr attr = { .addr = ch->eager.addr,
					 .length = ch->eager_bytes,
					 .mr = ch->mr,
					 .done = over,
					 .arg = &ch->eager };

	return gw_transfer_recv(ch->qp[BULK], &ch->bouncing, &attr, &ch->eager.recv);
}

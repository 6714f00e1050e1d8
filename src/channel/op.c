/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations: how they end. An operation ends once for its user (`ended`, then `told`), when its memory is free; it is
 * given back when the peer's end of it is over as well (`finished`) and the user has closed the handle.
 *
 * Ends are told from a list, one place only (settle), as the last thing that a turn's callback does: the user may close
 * the channel in it.
 */
#include <errno.h>

#include "base/log.h"
#include "channel/state.h"

bool op_valid(const struct gw_op *op)
{
	return op->ch && pool_owns_live(&op->ch->ops, op) && !op->closed;
}

static void fill_result(const struct gw_op *op, struct gw_op_result *out)
{
	bool known = op->receiving ? op->matched : !op->failure;

	*out = (struct gw_op_result){ .status = op->failure,
				      .label = op->receiving ? op->label : 0,
				      .length = known ? op->total : 0,
				      .moved = op->moved };
}

void op_end(struct gw_op *op, int status)
{
	struct gw_channel *ch = op->ch;

	if (op->ended)
		return;
	op->ended = true;
	op->failure = status;
	heap_remove(&ch->deadlines, &op->deadline);
	if (status) {
		ch->stats.failed++;
	} else if (op->receiving) {
		ch->stats.receives++;
		ch->stats.received_bytes += op->total;
	} else {
		ch->stats.sends++;
		ch->stats.sent_bytes += op->total;
	}
	list_add_tail(&ch->ended, &op->end);
	channel_kick(ch);
}

/* Numbers below `oldest` are over. */
static void forget(struct gw_op **table, uint32_t mask, uint32_t seq, uint32_t *oldest,
		   uint32_t next)
{
	table[seq & mask] = NULL;
	while (*oldest != next && !table[*oldest & mask])
		++*oldest;
}

void op_check(struct gw_op *op)
{
	struct gw_channel *ch = op->ch;

	if (op->ended && !op->finished && list_empty(&op->parts) && !owes_anything(op) &&
	    !op->refused && (op->receiving ? op->matched : op->met)) {
		op->finished = true;
		if (op->copied)
			ch->unanswered--;
		if (op->receiving)
			forget(ch->recvs, ch->mask, op->seq, &ch->recv_oldest, ch->recv_next);
		else
			forget(ch->sends, ch->mask, op->seq, &ch->send_oldest, ch->send_next);
	}
	if (op->finished && op->told && op->closed)
		pool_put(&ch->ops, op);
}

void op_fail(struct gw_op *op, int status)
{
	if (op->ended || op->failure)
		return;
	op->failure = status;
	list_del(&op->link);
	if (op->receiving) {
		bulk_withdraw(op);
		recv_check(op);
		return;
	}
	if (op->packed & OWES(RECORD_DATA)) {
		/* The peer may have it or get it; nothing can be taken back. */
		op_end(op, status);
		return;
	}
	/* It may be ahead of its receive: its number is taken until `met`. */
	op->owes = 0;
	pack_owe(op, RECORD_ENDED);
	bulk_abort(op);
	if (list_empty(&op->parts))
		op_end(op, status);
}

/* The channel is over, and its queue pairs with it. */
void op_drop(struct gw_op *op)
{
	list_del(&op->link);
	list_del(&op->record);
	list_init(&op->parts);
	op->owes = op->packed = 0;
	op->refused = NULL;
	op->met = true;
	if (!op->ended)
		op_end(op, op->ch->status);
	op->matched = true;
	op_check(op);
}

void op_expire(struct gw_channel *ch, uint64_t now)
{
	struct heap_node *node;

	while ((node = heap_min(&ch->deadlines)) && node->key <= now) {
		heap_remove(&ch->deadlines, node);
		op_fail(container_of(node, struct gw_op, deadline), -ETIMEDOUT);
	}
}

void settle(struct gw_channel *ch)
{
	bool closed = false;
	struct list *item;

	/* Taken back before this returns, unless the channel is gone by then. */
	/* cppcheck-suppress autoVariables */
	ch->closed = &closed;
	bulk_bind(ch); /* one that ended may have stood before others */
	pack_fill(ch);
	while ((item = list_first(&ch->ended))) {
		struct gw_op *op = container_of(item, struct gw_op, end);
		struct gw_op_result result;

		list_del(item);
		fill_result(op, &result);
		if (op->done && !op->closed)
			op->done(op, op->arg, &result);
		if (closed)
			return;
		op->told = true;
		op_check(op);
	}
	if (ch->status && ch->connected && !ch->gone_told) {
		ch->gone_told = true;
		if (ch->handler && ch->handler->gone)
			ch->handler->gone(ch, ch->arg, ch->status, gw_now_ns(ch->ctx));
		if (closed)
			return;
	}
	ch->closed = NULL;
	ch->kicked = false;
	channel_arm(ch);
}

int gw_op_test(const struct gw_op *op, struct gw_op_result *out)
{
	if (!op)
		return -EINVAL;
	if (!op_valid(op))
		return -ESTALE;
	if (!op->ended)
		return 0;
	if (out)
		fill_result(op, out);
	return 1;
}

int gw_op_wait(struct gw_op *op, uint64_t timeout_ns)
{
	struct gw_context *ctx;
	uint64_t start, passed = 0;
	int error = gw_op_test(op, NULL);

	if (error)
		return error < 0 ? error : 0;
	ctx = op->ch->ctx;
	start = gw_now_ns(ctx);
	do {
		error = gw_wait(ctx, timeout_ns - passed);
		if (error < 0)
			return error;
		error = gw_op_test(op, NULL);
		if (error)
			return error < 0 ? error : 0;
		passed = gw_now_ns(ctx) - start;
	} while (passed < timeout_ns);
	return -ETIMEDOUT;
}

int gw_op_cancel(struct gw_op *op)
{
	if (!op)
		return -EINVAL;
	if (!op_valid(op))
		return -ESTALE;
	if (op->ended)
		return -EALREADY;
	op_fail(op, -ECANCELED);
	channel_kick(op->ch);
	return 0;
}

int gw_op_close(struct gw_op *op)
{
	if (!op)
		return -EINVAL;
	if (!op_valid(op))
		return -ESTALE;
	if (!op->ended)
		return -EBUSY;
	op->closed = true;
	op_check(op);
	return 0;
}

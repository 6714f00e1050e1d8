/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting: an operation gets its number and goes the way that its size says. */
#include <errno.h>

#include "base/zero.h"
#include "channel/state.h"

static int check(const struct gw_channel *ch, const struct gw_op_attr *attr, const void *out)
{
	if (!ch || !attr || !out)
		return -EINVAL;
	if (ch->status)
		return ch->status;
	if (!array_is_zero(attr->reserved) || (attr->length && !attr->addr))
		return -EINVAL;
	if (attr->flags & ~(uint64_t)GW_OP_BUFFERED)
		return -EINVAL;
	if (attr->options && !attr->scheme)
		return -EINVAL;
	return attr->length > ch->small_bytes && !attr->mr ? -EINVAL : 0;
}

const struct gw_scheme *scheme_receiving(struct gw_channel *ch, const struct gw_scheme *scheme)
{
	uint32_t i = 0;

	while (i < ch->scheme_count && ch->schemes[i].scheme != scheme)
		i++;
	if (i == SCHEMES_MAX)
		return NULL;
	if (i == ch->scheme_count) {
		bulk_listen(&ch->schemes[i], scheme);
		ch->scheme_count++;
	}
	return &ch->schemes[i].receiving;
}

static int make(struct gw_channel *ch, const struct gw_op_attr *attr, bool receiving,
		struct gw_op **out)
{
	const struct gw_scheme *scheme = attr->scheme;
	struct gw_op *op;

	if (scheme && receiving && !(scheme = scheme_receiving(ch, scheme)))
		return -ENOBUFS;
	op = pool_get(&ch->ops);
	if (!op)
		return -ENOBUFS;
	op->ch = ch;
	op->scheme = scheme;
	op->options = attr->options;
	op->addr = attr->addr;
	op->length = attr->length;
	op->mr = attr->mr;
	op->done = attr->done;
	op->part = attr->part;
	op->arg = attr->arg;
	op->label = receiving ? 0 : attr->label;
	op->receiving = receiving;
	op->buffered = !receiving && attr->flags & GW_OP_BUFFERED;
	list_init(&op->link);
	list_init(&op->record);
	list_init(&op->end);
	list_init(&op->parts);
	if (attr->deadline_ns)
		heap_insert(&ch->deadlines, &op->deadline, attr->deadline_ns);
	*out = op;
	return 0;
}

int gw_channel_send(struct gw_channel *ch, const struct gw_op_attr *attr, struct gw_op **out)
{
	int error = check(ch, attr, out);
	struct gw_op *op;

	if (error)
		return error;
	if (ch->send_next - ch->send_oldest >= ch->send_window)
		return -ENOBUFS;
	error = make(ch, attr, false, &op);
	if (error)
		return error;
	op->total = attr->length;
	op->seq = ch->send_next++;
	ch->sends[op->seq & ch->mask] = op;
	*out = op;
	if (op->length <= ch->small_bytes) {
		pack_owe(op, RECORD_DATA);
		pack_fill(ch);
	} else {
		op->follows_small = ch->sent_small;
		list_add_tail(&ch->bulk_sends, &op->link);
	}
	ch->sent_small = op->length <= ch->small_bytes;
	/* Also for a small one: buffers that were granted for it in vain are given back. */
	bulk_bind(ch);
	channel_arm(ch);
	return 0;
}

int gw_channel_recv(struct gw_channel *ch, const struct gw_op_attr *attr, struct gw_op **out)
{
	int error = check(ch, attr, out);
	struct gw_op *op;

	if (error)
		return error;
	if (ch->recv_next - ch->recv_oldest > ch->mask)
		return -ENOBUFS;
	error = make(ch, attr, true, &op);
	if (error)
		return error;
	op->seq = ch->recv_next++;
	ch->recvs[op->seq & ch->mask] = op;
	*out = op;
	if (bounce_early(op)) {
		pack_fill(ch);
	} else if (op->length > ch->small_bytes) {
		eager_bind(op);
		if (op->bound < op->length)
			list_add_tail(&ch->bulk_recvs, &op->link);
		bulk_post(ch);
	}
	eager_meet(ch);
	channel_arm(ch);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounces: the buffers that the peer's packs land in, and what their records do.
 *
 * A bounce is read when its pack is whole, and its receive is completed, which is the peer's answer, when every record
 * in it has met its receive: one that came early waits in place, and the ring of bounces is what holds the peer back.
 * Packs may be read in any order, for each record says which operation it is about.
 *
 * A record that contradicts what this end knows ends the channel: an honest peer cannot send it, and what it would do
 * (deliver something twice) must not happen.
 */
#include <errno.h>
#include <string.h>

#include "base/lines.h"
#include "channel/state.h"

void bounce_done(struct bounce *bounce)
{
	if (bounce->read && !bounce->waiting && !bounce->held && bounce->recv)
		gw_transfer_finish_recv(bounce->recv, 0, 0);
}

static struct gw_op *posted(const struct gw_channel *ch, uint32_t seq)
{
	struct gw_op *op = ch->recvs[seq & ch->mask];

	return op && op->seq == seq ? op : NULL;
}

static bool is_early(const struct gw_channel *ch, uint32_t seq)
{
	return (int32_t)(seq - ch->recv_next) >= 0;
}

/* Data that the receive does not take: its sender is to know before it hears that the pack was read. */
void bounce_refuse(struct gw_op *op, struct bounce *bounce, int status)
{
	op->matched = true;
	pack_owe(op, RECORD_REFUSED);
	if (bounce) {
		op->refused = bounce;
		bounce->held++;
	}
	op_fail(op, status);
}

static void take_data(struct gw_op *op, struct bounce *bounce, const struct early *what)
{
	op->label = what->label;
	if (op->failure || what->length > op->length) {
		bounce_refuse(op, bounce, -EMSGSIZE);
		return;
	}
	op->matched = true;
	list_del(&op->link);
	bulk_unused(op->ch);
	if (what->length && op->ch->flags & GW_CHANNEL_LINES)
		lines_copy(op->addr, what->data, what->length);
	else if (what->length)
		memcpy(op->addr, what->data, what->length);
	op->total = op->moved = what->length;
	if (bounce->waiting)
		pack_owe(op, RECORD_TAKEN);
	if (what->flags & RECORD_CRC_GIVEN && crc_of(0, op->addr, op->total) != what->crc) {
		op_fail(op, -EBADMSG);
		return;
	}
	bulk_withdraw(op);
	recv_check(op);
}

static void send_ended(struct gw_op *op, uint16_t status)
{
	op->matched = true;
	pack_owe(op, RECORD_TAKEN);
	op_fail(op, -(int)status);
}

bool bounce_early(struct gw_op *op)
{
	struct early *early = &op->ch->early[op->seq & op->ch->mask];
	struct early what = *early;

	*early = (struct early){ 0 };
	if (what.status) {
		send_ended(op, what.status);
	} else if (what.bounce) {
		what.bounce->waiting--;
		take_data(op, what.bounce, &what);
		bounce_done(what.bounce);
	}
	return what.status || what.bounce;
}

static int read_about_send(struct bounce *bounce, const struct record *record)
{
	struct gw_channel *ch = bounce->ch;
	bool ended = record->kind == RECORD_ENDED;
	struct early what = { .bounce = ended ? NULL : bounce,
			      .data = record->data,
			      .length = record->length,
			      .crc = record->crc,
			      .label = record->label,
			      .flags = record->flags,
			      .status = ended ? record->status : 0 };
	struct early *early = &ch->early[record->seq & ch->mask];
	struct gw_op *op = posted(ch, record->seq);

	if (is_early(ch, record->seq)) {
		if (record->seq - ch->recv_next > ch->mask || early->bounce || early->status)
			return -EPROTO;
		*early = what; /* bounce->waiting counts data already */
		return 0;
	}
	if (ended) {
		if (op && !(op->matched && op->ended))
			send_ended(op, record->status);
		return 0;
	}
	if (!op || op->matched)
		return -EPROTO;
	take_data(op, bounce, &what);
	return 0;
}

static void read_crc(struct gw_op *op, uint32_t crc)
{
	if (op->crc_known)
		return;
	op->crc_known = true;
	op->crc = crc;
	recv_check(op);
}

static int read_record(struct bounce *bounce, const struct record *record)
{
	struct gw_channel *ch = bounce->ch;
	struct gw_op *op = posted(ch, record->seq);

	switch ((enum record_kind)record->kind) {
	case RECORD_DATA:
	case RECORD_ENDED:
		return read_about_send(bounce, record);
	case RECORD_CRC:
		if (op)
			read_crc(op, record->crc);
		break;
	case RECORD_ASK:
		bulk_wanted(ch, record->seq);
		if (op && !op->matched && (op->failure || op->length <= ch->small_bytes))
			bounce_refuse(op, NULL, -EMSGSIZE);
		break;
	case RECORD_REFUSED:
	case RECORD_TAKEN:
		pack_heard(ch, record);
		break;
	}
	return 0;
}

static int read_pack(struct bounce *bounce, size_t size)
{
	const struct gw_channel *ch = bounce->ch;
	struct record record;
	size_t offset = 0;
	int more;

	/* How many have to wait is known before the first is taken. */
	while ((more = record_next(bounce->addr, size, &offset, &record)) > 0)
		if (record.kind == RECORD_DATA && is_early(ch, record.seq))
			bounce->waiting++;
	if (more < 0)
		return -EPROTO;
	for (offset = 0; (more = record_next(bounce->addr, size, &offset, &record)) > 0;) {
		int error = read_record(bounce, &record);

		if (error)
			return error;
	}
	return more < 0 ? -EPROTO : 0; /* who changes a pack after it is whole is not honest */
}

/* Packets landed or the announcement came in this turn. */
static void look(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct bounce *bounce = ((struct gw_transfer *)gw_recv_state(recv))->arg;
	struct gw_channel *ch = bounce->ch;
	struct gw_recv_status status;

	if (bounce->read || gw_recv_status(recv, &status) || status.flags & GW_RECV_COMPLETED)
		return;
	if (!(status.flags & GW_RECV_FULL)) {
		gw_selective_repeat.recv.progress(recv, arg, now);
		return;
	}
	settle_follows(ch);
	if (bounce == &ch->eager ? eager_read(ch, status.length)
				 : read_pack(bounce, (size_t)status.length)) {
		channel_fail(ch, -EPROTO);
	} else {
		bounce->read = true;
		bounce_done(bounce);
	}
	settle(ch);
}

void bounce_listen(struct gw_channel *ch)
{
	ch->bouncing = gw_selective_repeat;
	ch->bouncing.recv.progress = look;
}

static int post_one(struct bounce *bounce);

static void bounce_over(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct bounce *bounce = arg;
	struct gw_channel *ch = bounce->ch;

	(void)now;
	settle_follows(ch);
	gw_recv_close(bounce->recv);
	bounce->recv = NULL;
	if (!channel_broken(ch, result->status) && post_one(bounce))
		channel_retry(ch);
	settle(ch);
}

static int post_one(struct bounce *bounce)
{
	struct gw_channel *ch = bounce->ch;
	struct gw_transfer_attr attr = { .addr = bounce->addr,
					 .length = ch->bounce_bytes,
					 .mr = ch->mr,
					 .done = bounce_over,
					 .arg = bounce };

	bounce->read = false;
	return gw_transfer_recv(ch->qp[SMALL], &ch->bouncing, &attr, &bounce->recv);
}

int bounce_post(struct gw_channel *ch)
{
	for (uint32_t i = 0; i < ch->pack_count; i++) {
		int error = ch->bounces[i].recv ? 0 : post_one(&ch->bounces[i]);

		if (error)
			return error;
	}
	return 0;
}

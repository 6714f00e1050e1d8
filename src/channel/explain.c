/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For people: what a channel is doing or why it is gone, and its numbers. The reader has just been woken up: name the
 * peer, the operation, and how many bytes are missing.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "channel/state.h"

#define PEER_TEXT 80

struct text {
	char *at;
	/* bytes left in the text, the final zero included */
	size_t left;
	size_t length;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *text, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text->at, text->left, format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	if ((size_t)length >= text->left)
		length = (int)text->left - 1;
	text->at += length;
	text->left -= (size_t)length;
	text->length += (size_t)length;
}

static const struct gw_op *oldest(struct gw_op *const *table, uint32_t mask, uint32_t from,
				  uint32_t to)
{
	for (uint32_t seq = from; seq != to; seq++)
		if (table[seq & mask] && !table[seq & mask]->ended)
			return table[seq & mask];
	return NULL;
}

/* A receiver sees what lands. A sender knows only what the receiver has confirmed, a part at a time. */
static void say_op(struct text *text, const char *what, const struct gw_op *op)
{
	uint64_t moved;

	if (!op)
		return;
	moved = op->moved + bulk_landed(op);
	say(text, "; oldest %s: number %" PRIu32, what, op->seq);
	if (op->receiving && !op->matched)
		say(text, ", up to %" PRIu64 " bytes, of which %" PRIu64 " came", op->length,
		    moved);
	else
		say(text, ", %" PRIu64 " of %" PRIu64 " bytes %s", op->total - moved, op->total,
		    op->receiving ? "missing" : "not confirmed");
}

static uint32_t open_in(struct gw_op *const *table, uint32_t mask, uint32_t from, uint32_t to)
{
	uint32_t count = 0;

	for (uint32_t seq = from; seq != to; seq++)
		count += table[seq & mask] && !table[seq & mask]->ended;
	return count;
}

/* Bytes of all open sends that the receiver has not confirmed. */
static uint64_t unconfirmed(const struct gw_channel *ch)
{
	uint64_t bytes = 0;

	for (uint32_t seq = ch->send_oldest; seq != ch->send_next; seq++) {
		const struct gw_op *op = ch->sends[seq & ch->mask];

		bytes += op && !op->ended ? op->total - op->moved : 0;
	}
	return bytes;
}

static void say_open(struct text *text, const struct gw_channel *ch)
{
	uint32_t sends = open_in(ch->sends, ch->mask, ch->send_oldest, ch->send_next);
	uint32_t recvs = open_in(ch->recvs, ch->mask, ch->recv_oldest, ch->recv_next);

	if (sends || recvs)
		say(text, "open: %" PRIu32 " sends, %" PRIu32 " receives", sends, recvs);
	else
		say(text, "nothing is open");
	if (ch->unanswered)
		say(text, "; %" PRIu32 " sends that ended when they were copied not confirmed",
		    ch->unanswered);
	if (sends > 1)
		say(text, "; %" PRIu64 " bytes of all sends not confirmed", unconfirmed(ch));
	say_op(text, "send", oldest(ch->sends, ch->mask, ch->send_oldest, ch->send_next));
	say_op(text, "receive", oldest(ch->recvs, ch->mask, ch->recv_oldest, ch->recv_next));
}

static void peer_name(const struct gw_channel *ch, char *name)
{
	if (!ch->qp[BULK] || gw_qp_peer(ch->qp[BULK], name, PEER_TEXT) <= 0)
		snprintf(name, PEER_TEXT, "the peer");
}

static const char *reason(int status)
{
	switch (status) {
	case -ETIMEDOUT:
		return "fell silent";
	case -ECONNRESET:
		return "closed the channel";
	case -EPROTO:
		return "broke the protocol";
	case -EMSGSIZE:
		return "gets no large packets any more";
	}
	return "is lost";
}

/* Whether the end cuts nothing off: no send is open, and of no receive has anything come. */
static bool at_rest(const struct gw_channel *ch)
{
	if (oldest(ch->sends, ch->mask, ch->send_oldest, ch->send_next))
		return false;
	for (uint32_t seq = ch->recv_oldest; seq != ch->recv_next; seq++) {
		const struct gw_op *op = ch->recvs[seq & ch->mask];

		if (op && !op->ended && (op->matched || op->moved || bulk_landed(op)))
			return false;
	}
	return true;
}

void explain_end(struct gw_channel *ch, int status)
{
	struct text text = { .at = ch->why, .left = sizeof(ch->why) };
	char peer[PEER_TEXT];

	peer_name(ch, peer);
	say(&text, "%s %s; ", peer, reason(status));
	say_open(&text, ch);
	/* A peer that leaves when all is done is nothing to wake anybody for, nor are receives posted in advance. */
	if (ch->flags & GW_CHANNEL_QUIET || (status == -ECONNRESET && at_rest(ch)))
		log_info("channel: %s", ch->why);
	else
		log_warn("channel: %s", ch->why);
}

static void say_lanes(struct text *text, const struct gw_channel *ch)
{
	struct gw_lane lane;

	for (uint32_t i = 0; !gw_qp_lane(ch->qp[BULK], i, &lane); i++)
		if (lane.retired && lane.landed)
			say(text, "; lane %" PRIu32 " is out of use: it lost %.1f %%", i,
			    100 * lane.loss);
		else if (lane.retired)
			say(text, "; lane %" PRIu32 " is out of use: nothing arrives on it", i);
}

int gw_channel_explain(const struct gw_channel *ch, char *out, size_t size)
{
	struct text text = { .at = out, .left = size };
	char peer[PEER_TEXT], control[CC_TEXT_SIZE];

	if (!ch || !out || !size)
		return -EINVAL;
	out[0] = '\0';
	if (!ch->connected) {
		say(&text, "not connected");
	} else if (ch->status) {
		say(&text, "%s", ch->why);
	} else {
		peer_name(ch, peer);
		say(&text, "to %s: ", peer);
		say_open(&text, ch);
		if (!list_empty(&ch->bulk_sends))
			say(&text, "; large sends wait for the peer to post receives");
		if (!list_empty(&ch->lines[GROUP_DATA]))
			say(&text, "; small sends wait for the peer to post receives");
		if (!ch->cap_bps)
			say(&text, "; stopped: the rate is set to 0");
		say_lanes(&text, ch);
		cc_explain(&ch->governor.cc, control, sizeof(control));
		say(&text, "; %s", control);
	}
	return (int)text.length;
}

int gw_channel_stats(const struct gw_channel *ch, struct gw_channel_stats *out)
{
	struct gw_estimate bulk, small;

	if (!ch || !out)
		return -EINVAL;
	*out = ch->stats;
	out->sends_open = open_in(ch->sends, ch->mask, ch->send_oldest, ch->send_next);
	out->unanswered = ch->unanswered;
	out->receives_open = open_in(ch->recvs, ch->mask, ch->recv_oldest, ch->recv_next);
	if (ch->status)
		return 0;
	out->rate_bps = ch->governor.pacer.bucket.rate_bps;
	out->window_bytes = cc_limits(&ch->governor.cc).window_bytes;
	out->in_flight_bytes = governor_in_flight(&ch->governor);
	if (!gw_qp_estimate(ch->qp[BULK], &bulk) && !gw_qp_estimate(ch->qp[SMALL], &small)) {
		out->rtt_ns = bulk.rtt_ns ? bulk.rtt_ns : small.rtt_ns;
		out->loss = bulk.loss > small.loss ? bulk.loss : small.loss;
	}
	return 0;
}

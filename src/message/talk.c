/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Talking: the control datagrams that one end owes the other.
 *
 * What is owed is a set of bits (qp->owed), paid once in each turn of gw_progress(), in one datagram where it fits: on a
 * short path it is datagrams that cost, not bytes. Statements are cumulative: a grant
 * datagram holds every grant that the peer has not acknowledged, as far as one fits, and likewise announcements and
 * results. So it is enough to repeat on a timer, and a lost datagram is nothing special. A datagram that the fabric has
 * no room for counts as lost.
 */
#include <errno.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/serial.h"
#include "constants/protocol.h"
#include "message/letter.h"

#define CLOSE_COPIES	  3
#define REPORT_RUNS	  8
#define DATA_TOLD_MAX	  512 /* bytes */
#define PROBE_BUSY_MIN_NS UINT64_C(5000000)
#define PROBE_BUSY_MAX_NS UINT64_C(200000000)
#define REPEAT_LIMIT_NS	  UINT64_C(1000000000)

/* The first of [acked, end) to put in: all of them when they fit one datagram, else those not told yet. */
static uint32_t start_of(const struct gw_qp *qp, uint32_t acked, uint32_t told, uint32_t end,
			 uint32_t entry_size)
{
	uint32_t fit = (qp->control_max - CONTROL_HEADER_SIZE - CONTROL_GRANT_SIZE) / entry_size;

	return end - acked <= fit || serial_before(told, acked) ? acked : told;
}

static void say_grants(struct gw_qp *qp, struct letter *letter)
{
	uint32_t msn = start_of(qp, qp->grants_acked, qp->grants_told, qp->recv_granted,
				CONTROL_GRANT_ENTRY_SIZE);

	if (qp->grants_again && serial_before(qp->grants_from, msn))
		msn = qp->grants_from;
	qp->grants_again = false;
	while (msn != qp->recv_granted) {
		letter_begin(letter, CONTROL_GRANT);
		control_put_grant(&letter->writer, msn);
		for (; msn != qp->recv_granted; msn++) {
			const struct gw_recv *recv = recv_find(qp, msn);
			struct control_grant_entry entry = { .slot = (uint16_t)(msn &
										qp->slots_mask) };

			entry.generation = qp->slots[entry.slot].generation;
			if (recv) {
				entry.rkey = recv->rkey;
				entry.address = recv->va;
				entry.capacity = recv->capacity;
				entry.tag = recv->tag;
				entry.payload = recv->payload;
			}
			if (control_put_grant_entry(&letter->writer, &entry))
				break;
		}
		letter_end(letter);
	}
	qp->grants_told = qp->recv_granted;
}

/* A message that is one small packet travels with its announcement: one datagram in place of two. A repeat goes its
 * usual way. */
static void say_data(struct gw_qp *qp, struct letter *letter, struct gw_send *send)
{
	const struct put *put = send->head;
	struct control_data data = { .msn = send->msn };

	if (!put || send->packets != 1 || send->length > DATA_TOLD_MAX || send->high_water ||
	    put->mr->unreachable || !feedback_allow(qp, send->payload, 1))
		return;
	data.length = (uint16_t)send->length;
	data.bytes = put->addr;
	letter_begin(letter, CONTROL_DATA);
	if (!control_put_data(&letter->writer, &data)) {
		letter_end(letter);
		pump_sent(qp, send, 1, PATH_NONE, true);
	}
}

static void say_announcements(struct gw_qp *qp, struct letter *letter)
{
	uint32_t msn = start_of(qp, qp->announce_acked, qp->announce_told, qp->send_matched,
				CONTROL_ANNOUNCE_ENTRY_SIZE);
	uint32_t fresh = qp->announce_told;

	while (msn != qp->send_matched) {
		letter_begin(letter, CONTROL_ANNOUNCE);
		control_put_announce(&letter->writer, msn);
		for (; msn != qp->send_matched; msn++) {
			const struct gw_send *send = send_find(qp, msn);
			struct control_announce_entry entry = { 0 };

			if (send) {
				entry.length = send->length;
				entry.imm = send->imm;
				entry.has_imm = (send->flags & GW_SEND_IMM) != 0;
				entry.scheme = send->scheme;
				memcpy(entry.geometry, send->geometry, sizeof(entry.geometry));
			}
			if (control_put_announce_entry(&letter->writer, &entry))
				break;
		}
		letter_end(letter);
	}
	qp->announce_told = qp->send_matched;
	for (; fresh != qp->announce_told && qp->state == QP_CONNECTED; fresh++) {
		struct gw_send *send = send_find(qp, fresh);

		if (send)
			say_data(qp, letter, send);
	}
}

static bool put_result(struct gw_qp *qp, struct letter *letter, struct gw_recv *recv)
{
	struct control_result result = { .msn = recv->msn, .missing = recv->missing };

	if (control_put_result(&letter->writer, &result))
		return false;
	recv->told_round = qp->results_round;
	return true;
}

/* Those never told first, then the others in turn: behind one that stays open there may be more than a datagram holds. */
static void put_results(struct gw_qp *qp, struct letter *letter)
{
	uint32_t open = qp->recv_granted - qp->results_acked;

	if (!++qp->results_round)
		qp->results_round = 1;
	for (uint32_t i = 0; i < open; i++) {
		struct gw_recv *recv = recv_find(qp, qp->results_acked + i);

		if (recv && recv->completed && !recv->told_round && !put_result(qp, letter, recv))
			return;
	}
	if (qp->results_turn - qp->results_acked >= open)
		qp->results_turn = qp->results_acked;
	for (uint32_t i = 0; i < open; i++) {
		uint32_t turn = (qp->results_turn - qp->results_acked + i) % open;
		struct gw_recv *recv = recv_find(qp, qp->results_acked + turn);

		if (!recv || !recv->completed || recv->told_round == qp->results_round)
			continue;
		if (!put_result(qp, letter, recv)) {
			qp->results_turn = recv->msn;
			return;
		}
	}
}

static void put_runs(struct gw_qp *qp, struct letter *letter)
{
	const struct gw_recv *recv = recv_find(qp, qp->feedback.echo_msn);
	struct bitmap_run run;
	size_t cursor = 0;

	if (!recv || recv->completed)
		return;
	for (int i = 0;
	     i < REPORT_RUNS && bitmap_next_hole(recv->bits, recv->highest, &cursor, &run); i++) {
		struct control_run entry = { (uint32_t)run.first, (uint32_t)run.count };

		if (control_put_run(&letter->writer, &entry))
			return;
	}
}

static void say_report(struct gw_qp *qp, struct letter *letter)
{
	const struct feedback *f = &qp->feedback;
	struct control_report report = { .landed = f->landed,
					 .duplicate = f->duplicate,
					 .late = f->late,
					 .ce = f->ce,
					 .overrun = (uint32_t)qp->ctx->overruns,
					 .hold_ns = CONTROL_NO_ECHO,
					 .runs_msn = f->echo_msn };
	const struct order_lanes *lanes = qp->order.lanes;
	struct control_lane all = { f->landed, f->ce };
	/* Afresh: what this turn took until here is part of it. */
	uint64_t hold = gw_now_ns(qp->ctx) - f->echo_time;

	if (f->echo_valid && hold < CONTROL_NO_ECHO) {
		report.echo_msn = f->echo_msn;
		report.echo_packet = f->echo_packet;
		report.hold_ns = (uint32_t)hold;
	}
	letter_begin(letter, CONTROL_REPORT);
	control_put_report(&letter->writer, &report);
	for (uint32_t i = 0; lanes && i < lanes->count; i++) {
		struct control_lane lane = { lanes->landed[i], lanes->ce[i] };

		control_put_lane(&letter->writer, &lane);
	}
	if (!lanes)
		control_put_lane(&letter->writer, &all);
	put_results(qp, letter);
	put_runs(qp, letter);
	control_put_holes(&letter->writer, f->holes.runs, f->holes.packets);
	letter_end(letter);
	count(qp->ctx, COUNT_REPORTS_SENT);
	feedback_reporting(qp);
}

static void say_credit(struct gw_qp *qp, struct letter *letter)
{
	struct control_credit credit = { window_share(qp->ctx) };

	letter_begin(letter, CONTROL_CREDIT);
	control_put_credit(&letter->writer, &credit);
	letter_end(letter);
	qp->feedback.advertised = credit.window_packets;
}

/* Often where there is traffic, for queues come and go within milliseconds and an old round trip makes a receiver name
 * holes again too soon; seldom where there is none. */
static uint64_t probe_interval(const struct gw_qp *qp)
{
	const struct feedback *f = &qp->feedback;
	uint64_t limit = qp->peer_timeout_ns / 5;
	uint64_t interval = limit;

	if (!f->rtt_ns) {
		interval = gw_qp_patience_ns(qp)
			   << (f->probes_unanswered < 5 ? f->probes_unanswered : 5);
	} else if (f->sent + f->landed != f->activity) {
		interval = 4 * f->rtt_ns;
		if (interval < PROBE_BUSY_MIN_NS)
			interval = PROBE_BUSY_MIN_NS;
		if (interval > PROBE_BUSY_MAX_NS)
			interval = PROBE_BUSY_MAX_NS;
	}
	/* Half-way to giving a peer up it is worth a few packets more to be sure, by every way there is. */
	if (qp->ctx->now - qp->heard_at > qp->peer_timeout_ns / 2)
		limit /= 4 * (qp->path ? qp->path->count : 1);
	return interval < limit ? interval : limit;
}

static void say_probe(struct gw_qp *qp, struct letter *letter)
{
	struct feedback *f = &qp->feedback;
	struct control_probe probe = { .kind = CONTROL_PROBE_REQUEST, .time_ns = qp->ctx->now };
	uint64_t again;

	f->probe_at = f->probe_later = qp->ctx->now + probe_interval(qp);
	/* Where there are several ways it may be that this one is broken: the next is tried soon, unless an answer comes. */
	again = qp->ctx->now +
		(gw_qp_patience_ns(qp) << (f->probes_unanswered < 5 ? f->probes_unanswered : 5));
	if (qp->path && again < f->probe_at)
		f->probe_at = again;
	f->activity = f->sent + f->landed;
	probe.id = ++f->probe_id;
	/* Asked in vain: by another way. */
	if (f->probes_unanswered)
		lanes_turn_control(qp);
	f->probes_unanswered++;
	letter_begin(letter, CONTROL_PROBE);
	control_put_probe(&letter->writer, &probe);
	letter_end(letter);
}

static void say_reply(struct gw_qp *qp, struct letter *letter)
{
	const struct feedback *f = &qp->feedback;
	struct control_probe probe = { .kind = CONTROL_PROBE_REPLY,
				       .id = f->reply_id,
				       .time_ns = f->reply_time };
	uint64_t hold = qp->ctx->now - f->reply_since;

	probe.hold_ns = hold > UINT32_MAX ? UINT32_MAX : (uint32_t)hold;
	letter_begin(letter, CONTROL_PROBE);
	control_put_probe(&letter->writer, &probe);
	letter_end(letter);
}

/* As long on the wire as a full data packet, by the lane that is tried. */
static void say_size_probe(struct gw_qp *qp, struct letter *letter, uint32_t lane, uint32_t payload)
{
	struct control_size size = { .kind = CONTROL_SIZE_PROBE,
				     .lane = (uint8_t)lane,
				     .payload = payload };
	size_t length = payload + qp->ctx->fabric->caps.probe_extra;

	letter_open(letter, qp, length);
	letter_begin(letter, CONTROL_SIZE);
	control_put_size(&letter->writer, &size, length);
	letter_end(letter);
	letter_send(letter);
}

static void say_sizes(struct gw_qp *qp, struct letter *letter)
{
	const struct fabric_ops *ops = qp->ctx->fabric->ops;
	uint32_t payloads[FABRIC_RUNGS + 1];

	if (qp->size.state == SIZE_CUTTING) {
		struct control_size cut = { .kind = CONTROL_SIZE_CUT,
					    .payload = qp->size.floor,
					    .msn = resize_first(qp) };

		letter_begin(letter, CONTROL_SIZE);
		control_put_size(&letter->writer, &cut, 0);
		letter_end(letter);
		return;
	}
	if (qp->size.state != SIZE_PROBING && qp->size.state != SIZE_DOUBTED)
		return;
	letter_send(letter);
	for (uint32_t lane = 0; lane < FABRIC_LANES_MAX; lane++) {
		unsigned n = size_lane_used(qp, lane) ? size_probes(qp, lane, payloads) : 0;

		if (n && qp->path && ops->control_by)
			ops->control_by(qp->fabric_qp, lane);
		for (unsigned i = 0; i < n; i++)
			say_size_probe(qp, letter, lane, payloads[i]);
	}
	if (qp->path && ops->control_by)
		ops->control_by(qp->fabric_qp, qp->control_lane);
	letter_open(letter, qp, qp->control_max);
}

static void say_arrived(struct gw_qp *qp, struct letter *letter)
{
	for (uint32_t lane = 0; lane < FABRIC_LANES_MAX; lane++) {
		struct control_size size = { .kind = CONTROL_SIZE_ARRIVED,
					     .lane = (uint8_t)lane,
					     .payload = qp->size.arrived[lane] };

		if (!size.payload)
			continue;
		qp->size.arrived[lane] = 0;
		letter_begin(letter, CONTROL_SIZE);
		control_put_size(&letter->writer, &size, 0);
		letter_end(letter);
	}
}

/* On a long path an answer cannot come soon, a lost datagram costs a whole round trip, and one more costs nothing: there the
 * first repeat does not wait for the answer. */
static uint64_t repeat_wait(const struct gw_qp *qp)
{
	bool far = qp->feedback.rtt_min_ns >= FAR_NS;

	if (far && !qp->repeats)
		return qp->feedback.rtt_min_ns / EARLY_SHARE;
	return gw_qp_patience_ns(qp) << (qp->repeats - far);
}

static void set_repeat(struct gw_qp *qp)
{
	uint64_t wait = repeat_wait(qp);

	if (qp->grants_acked == qp->recv_granted && qp->announce_acked == qp->send_matched &&
	    !qp->results_owed) {
		qp->repeat_at = NEVER;
		qp->repeats = 0;
		return;
	}
	if (qp->repeat_at == NEVER)
		qp->repeat_at = qp->ctx->now + (wait < REPEAT_LIMIT_NS ? wait : REPEAT_LIMIT_NS);
}

void talk(struct gw_qp *qp)
{
	struct letter letter;
	uint32_t owed, window;

	if (qp->grants_fresh) {
		qp->grants_fresh = false;
		if (qp->handler && qp->handler->granted)
			qp->handler->granted(qp, qp->arg, qp->ctx->now);
	}
	send_match(qp);
	if (qp->state != QP_CONNECTED)
		return;
	if (!qp->owed) {
		qp_arm(qp);
		return; /* there was a grant to match, and no more */
	}
	owed = qp->owed |= qp->owed_soon;
	qp->owed &= OWE_ACK;
	qp->owed_soon = 0;
	qp->soon_at = NEVER;
	/* With the grant, and so answered before what the grant brings stands in the way. */
	if (owed & OWE_GRANT && qp->feedback.probe_at <= qp->ctx->now)
		owed |= OWE_PROBE;
	letter_open(&letter, qp, qp->control_max);
	if (owed & OWE_ANNOUNCE)
		say_announcements(qp, &letter);
	if (owed & OWE_GRANT)
		say_grants(qp, &letter);
	if (owed & OWE_REPORT)
		say_report(qp, &letter);
	if (owed & OWE_PROBE)
		say_probe(qp, &letter);
	if (owed & OWE_REPLY)
		say_reply(qp, &letter);
	if (owed & OWE_ARRIVED)
		say_arrived(qp, &letter);
	if (owed & OWE_SIZE)
		say_sizes(qp, &letter);
	window = window_share(qp->ctx);
	if ((qp->owed & OWE_ACK && letter_empty(&letter)) ||
	    (owed & OWE_REPORT && (window < qp->feedback.advertised - qp->feedback.advertised / 8 ||
				   window > qp->feedback.advertised + qp->feedback.advertised / 8)))
		say_credit(qp, &letter);
	letter_send(&letter);
	qp->owed &= ~OWE_ACK;
	set_repeat(qp);
	qp_arm(qp);
}

/* Nobody answers it: some copies, so that one arrives. */
void talk_close(struct gw_qp *qp, int reason, const char *text)
{
	struct control_close close = { .reason = (uint16_t)reason,
				       .text_length = (uint16_t)strlen(text),
				       .text = (const uint8_t *)text };
	struct letter letter;

	for (int i = 0; i < CLOSE_COPIES; i++) {
		letter_open(&letter, qp, qp->control_max);
		if (qp->results_owed)
			say_report(qp, &letter); /* the last chance to say that something arrived */
		letter_begin(&letter, CONTROL_CLOSE);
		control_put_close(&letter.writer, &close);
		letter_end(&letter);
		letter_send(&letter);
	}
}

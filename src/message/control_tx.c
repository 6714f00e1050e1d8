/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control datagrams to the peer: encoding what is owed to it.
 *
 * What is owed is a set of bits (qp->control.owed), paid once in each turn of gw_progress(), in one datagram where it fits: on a
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
#include "message/control_datagram.h"

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
	uint32_t fit = (qp->control.max - CONTROL_HEADER_SIZE - CONTROL_GRANT_SIZE) / entry_size;

	return end - acked <= fit || serial_before(told, acked) ? acked : told;
}

static void put_grants(struct gw_qp *qp, struct control_datagram *datagram)
{
	uint32_t msn = start_of(qp, qp->rx.grants_acked, qp->rx.grants_told, qp->rx.granted,
				CONTROL_GRANT_ENTRY_SIZE);

	if (qp->rx.grants_again && serial_before(qp->rx.grants_from, msn))
		msn = qp->rx.grants_from;
	qp->rx.grants_again = false;
	while (msn != qp->rx.granted) {
		control_datagram_begin(datagram, CONTROL_GRANT);
		control_put_grant(&datagram->writer, msn);
		for (; msn != qp->rx.granted; msn++) {
			const struct gw_recv *recv = recv_find(qp, msn);
			struct control_grant_entry entry = { .slot = (uint16_t)(msn &
										qp->rx.mask) };

			entry.generation = qp->rx.slots[entry.slot].generation;
			if (recv) {
				entry.rkey = recv->rkey;
				entry.address = recv->va;
				entry.capacity = recv->capacity;
				entry.tag = recv->tag;
				entry.payload = recv->payload;
			}
			if (control_put_grant_entry(&datagram->writer, &entry))
				break;
		}
		control_datagram_end(datagram);
	}
	qp->rx.grants_told = qp->rx.granted;
}

/* A message that is one small packet travels with its announcement: one datagram in place of two. A repeat goes its
 * usual way. */
static void put_data(struct gw_qp *qp, struct control_datagram *datagram, struct gw_send *send)
{
	const struct put *put = send->head;
	struct control_data data = { .msn = send->msn };

	if (!put || send->packets != 1 || send->length > DATA_TOLD_MAX || send->high_water ||
	    put->mr->unreachable || !feedback_allow(qp, send->payload, 1, false))
		return;
	data.length = (uint16_t)send->length;
	data.bytes = put->addr;
	control_datagram_begin(datagram, CONTROL_DATA);
	if (!control_put_data(&datagram->writer, &data)) {
		control_datagram_end(datagram);
		data_sent(qp, send, 1, PATH_NONE, true);
	}
}

static void put_announcements(struct gw_qp *qp, struct control_datagram *datagram)
{
	uint32_t msn = start_of(qp, qp->tx.announce_acked, qp->tx.announce_told, qp->tx.matched,
				CONTROL_ANNOUNCE_ENTRY_SIZE);
	uint32_t fresh = qp->tx.announce_told;

	while (msn != qp->tx.matched) {
		control_datagram_begin(datagram, CONTROL_ANNOUNCE);
		control_put_announce(&datagram->writer, msn);
		for (; msn != qp->tx.matched; msn++) {
			const struct gw_send *send = send_find(qp, msn);
			struct control_announce_entry entry = { 0 };

			if (send) {
				entry.length = send->length;
				entry.imm = send->imm;
				entry.has_imm = (send->flags & GW_SEND_IMM) != 0;
				entry.scheme = send->scheme;
				memcpy(entry.geometry, send->geometry, sizeof(entry.geometry));
			}
			if (control_put_announce_entry(&datagram->writer, &entry))
				break;
		}
		control_datagram_end(datagram);
	}
	qp->tx.announce_told = qp->tx.matched;
	for (; fresh != qp->tx.announce_told && qp->state == QP_CONNECTED; fresh++) {
		struct gw_send *send = send_find(qp, fresh);

		if (send)
			put_data(qp, datagram, send);
	}
}

static bool put_result(struct gw_qp *qp, struct control_datagram *datagram, struct gw_recv *recv)
{
	struct control_result result = { .msn = recv->msn, .missing = recv->missing };

	if (control_put_result(&datagram->writer, &result))
		return false;
	recv->told_round = qp->rx.results_round;
	return true;
}

/* Those never told first, then the others in turn: behind one that stays open there may be more than a datagram holds. As a rule
 * those that are owed are the oldest, so that the search ends after as many. */
static void put_results(struct gw_qp *qp, struct control_datagram *datagram)
{
	uint32_t open = qp->rx.granted - qp->rx.results_acked;
	uint32_t owed = 0, fresh = 0;

	if (!++qp->rx.results_round)
		qp->rx.results_round = 1;
	for (uint32_t i = 0; i < open && owed < qp->rx.results_owed; i++) {
		struct gw_recv *recv = recv_find(qp, qp->rx.results_acked + i);

		if (!recv || !recv_is_completed(recv))
			continue;
		owed++;
		if (recv->told_round)
			continue;
		if (!put_result(qp, datagram, recv))
			return;
		fresh++;
	}
	if (fresh == owed)
		return;
	if (qp->rx.results_turn - qp->rx.results_acked >= open)
		qp->rx.results_turn = qp->rx.results_acked;
	for (uint32_t i = 0; i < open && owed; i++) {
		uint32_t turn = (qp->rx.results_turn - qp->rx.results_acked + i) % open;
		struct gw_recv *recv = recv_find(qp, qp->rx.results_acked + turn);

		if (!recv || !recv_is_completed(recv))
			continue;
		owed--;
		if (recv->told_round == qp->rx.results_round)
			continue;
		if (!put_result(qp, datagram, recv)) {
			qp->rx.results_turn = recv->msn;
			return;
		}
	}
}

static void put_runs(struct gw_qp *qp, struct control_datagram *datagram)
{
	const struct gw_recv *recv = recv_find(qp, qp->feedback.echo_msn);
	struct bitmap_run run;
	size_t cursor = 0;

	if (!recv || recv_is_completed(recv))
		return;
	for (int i = 0;
	     i < REPORT_RUNS && bitmap_next_hole(recv->bits, recv->highest, &cursor, &run); i++) {
		struct control_run entry = { (uint32_t)run.first, (uint32_t)run.count };

		if (control_put_run(&datagram->writer, &entry))
			return;
	}
}

static void put_report(struct gw_qp *qp, struct control_datagram *datagram)
{
	const struct feedback *f = &qp->feedback;
	struct control_report report = {
		.landed = f->landed,
		.duplicate = f->duplicate,
		.late = f->late,
		.ce = f->ce,
		.overrun = (uint32_t)qp->ctx->fabric->counters[FABRIC_DROP_OVERRUN],
		.hold_ns = CONTROL_NO_ECHO,
		.runs_msn = f->echo_msn
	};
	const struct order_lanes *lanes = qp->order.lanes;
	struct control_lane all = { f->landed, f->ce };
	/* Afresh: what this turn took until here is part of it. */
	uint64_t now = gw_now_ns(qp->ctx);
	uint64_t hold = now - f->echo_time;

	if (f->echo_valid && hold < CONTROL_NO_ECHO) {
		report.echo_msn = f->echo_msn;
		report.echo_packet = f->echo_packet;
		report.hold_ns = (uint32_t)hold;
	}
	control_datagram_begin(datagram, CONTROL_REPORT);
	control_put_report(&datagram->writer, &report);
	for (uint32_t i = 0; lanes && i < lanes->count; i++) {
		struct control_lane lane = { lanes->landed[i], lanes->ce[i] };

		control_put_lane(&datagram->writer, &lane);
	}
	if (!lanes)
		control_put_lane(&datagram->writer, &all);
	put_results(qp, datagram);
	put_runs(qp, datagram);
	if (!control_put_holes(&datagram->writer, f->holes.runs, f->holes.packets))
		control_put_clock(&datagram->writer, (uint32_t)(now / 1000));
	control_datagram_end(datagram);
	count(qp->ctx, COUNT_REPORTS_SENT);
	feedback_reporting(qp);
}

static void put_credit(struct gw_qp *qp, struct control_datagram *datagram)
{
	struct control_credit credit = { credit_packets(qp) };

	control_datagram_begin(datagram, CONTROL_CREDIT);
	control_put_credit(&datagram->writer, &credit);
	control_datagram_end(datagram);
	qp->feedback.advertised = credit.window_packets;
	qp->credit.told = qp->ctx->credit.round;
}

/* Whether the peer is to be told its credit: with a report or a grant when it changed by an eighth, and with one report in
 * each round trip, for it may have been lost. */
static bool credit_due(const struct gw_qp *qp, uint32_t owed)
{
	uint32_t told = qp->feedback.advertised, packets;

	if (owed & OWE_REPORT && qp->credit.told != qp->ctx->credit.round)
		return true;
	if (!(owed & (OWE_REPORT | OWE_GRANT)))
		return false;
	packets = credit_packets(qp);
	return packets < told - told / 8 || packets > told + told / 8;
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
	/* At 40 % loss each way a third of all probes are answered: it takes some 70 of them in the rest of the timeout to
	 * tell a dead peer from an unlucky one. */
	if (qp->ctx->now - qp->control.heard_at > qp->peer_timeout_ns / 4)
		limit = qp->peer_timeout_ns / 128;
	return interval < limit ? interval : limit;
}

static void put_probe(struct gw_qp *qp, struct control_datagram *datagram)
{
	struct feedback *f = &qp->feedback;
	struct control_probe probe = { .kind = CONTROL_PROBE_REQUEST, .time_ns = reach_ask(qp) };
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
	control_datagram_begin(datagram, CONTROL_PROBE);
	control_put_probe(&datagram->writer, &probe);
	control_datagram_end(datagram);
}

static void put_reply(struct gw_qp *qp, struct control_datagram *datagram)
{
	struct feedback *f = &qp->feedback;
	struct control_probe probe = { .kind = CONTROL_PROBE_REPLY,
				       .id = f->reply_id,
				       .time_ns = f->reply_time };
	uint64_t hold = qp->ctx->now - f->reply_since;

	if (!f->replied_ns)
		f->replied_ns = qp->ctx->now;
	probe.hold_ns = hold > UINT32_MAX ? UINT32_MAX : (uint32_t)hold;
	control_datagram_begin(datagram, CONTROL_PROBE);
	control_put_probe(&datagram->writer, &probe);
	control_datagram_end(datagram);
}

/* As long on the wire as a full data packet, by the lane that is tried. */
static void put_size_probe(struct gw_qp *qp, struct control_datagram *datagram, uint32_t lane,
			   uint32_t payload)
{
	struct control_size size = { .kind = CONTROL_SIZE_PROBE,
				     .lane = (uint8_t)lane,
				     .payload = payload };
	size_t length = payload + qp->ctx->fabric->caps.probe_extra;

	control_datagram_open(datagram, qp, length);
	control_datagram_begin(datagram, CONTROL_SIZE);
	control_put_size(&datagram->writer, &size, length);
	control_datagram_end(datagram);
	control_datagram_send(datagram);
}

static void put_sizes(struct gw_qp *qp, struct control_datagram *datagram)
{
	const struct fabric_ops *ops = qp->ctx->fabric->ops;
	uint32_t payloads[FABRIC_RUNGS + 1];

	if (qp->size.state == SIZE_CUTTING) {
		struct control_size cut = { .kind = CONTROL_SIZE_CUT,
					    .payload = qp->size.floor,
					    .msn = resize_first(qp) };

		control_datagram_begin(datagram, CONTROL_SIZE);
		control_put_size(&datagram->writer, &cut, 0);
		control_datagram_end(datagram);
		return;
	}
	if (qp->size.state != SIZE_PROBING && qp->size.state != SIZE_DOUBTED)
		return;
	control_datagram_send(datagram);
	for (uint32_t lane = 0; lane < FABRIC_LANES_MAX; lane++) {
		unsigned n = size_lane_asked(qp, lane) ? size_probes(qp, lane, payloads) : 0;

		if (n && qp->path && ops->control_by)
			ops->control_by(qp->fabric_qp, lane);
		for (unsigned i = 0; i < n; i++)
			put_size_probe(qp, datagram, lane, payloads[i]);
	}
	if (qp->path && ops->control_by)
		ops->control_by(qp->fabric_qp, qp->control.lane);
	control_datagram_open(datagram, qp, qp->control.max);
}

static void put_arrived(struct gw_qp *qp, struct control_datagram *datagram)
{
	for (uint32_t lane = 0; lane < FABRIC_LANES_MAX; lane++) {
		struct control_size size = { .kind = CONTROL_SIZE_ARRIVED,
					     .lane = (uint8_t)lane,
					     .payload = qp->size.arrived[lane] };

		if (!size.payload)
			continue;
		qp->size.arrived[lane] = 0;
		control_datagram_begin(datagram, CONTROL_SIZE);
		control_put_size(&datagram->writer, &size, 0);
		control_datagram_end(datagram);
	}
}

/* The first repeat on a long path is the second copy, and does not wait for an answer. */
static uint64_t repeat_wait(const struct gw_qp *qp)
{
	uint64_t second = second_copy_ns(qp->feedback.rtt_min_ns);

	if (second && !qp->control.repeats)
		return second;
	return gw_qp_patience_ns(qp) << (qp->control.repeats - (second != 0));
}

void control_set_repeat(struct gw_qp *qp)
{
	uint64_t wait = repeat_wait(qp);

	if (qp->rx.grants_acked == qp->rx.granted && qp->tx.announce_acked == qp->tx.matched &&
	    !qp->rx.results_owed) {
		qp->control.repeat_at = NEVER;
		qp->control.repeats = 0;
		return;
	}
	if (qp->control.repeat_at == NEVER) {
		qp->control.repeat_at =
			qp->ctx->now + (wait < REPEAT_LIMIT_NS ? wait : REPEAT_LIMIT_NS);
		if (!qp->control.repeats)
			qp->control.first_ns = qp->ctx->now;
	}
}

void control_send_owed(struct gw_qp *qp)
{
	struct control_datagram datagram;
	uint32_t owed;

	owed = qp->control.owed |= qp->control.owed_soon;
	qp->control.owed &= OWE_ACK;
	qp->control.owed_soon = 0;
	qp->control.soon_at = NEVER;
	/* With the grant, and so answered before what the grant brings stands in the way. */
	if (owed & OWE_GRANT && qp->feedback.probe_at <= qp->ctx->now)
		owed |= OWE_PROBE;
	owed = reach_payable(qp, owed);
	control_datagram_open(&datagram, qp, qp->control.max);
	if (owed & OWE_ANNOUNCE)
		put_announcements(qp, &datagram);
	if (owed & OWE_GRANT)
		put_grants(qp, &datagram);
	/* Before the report, whose losses it may explain. */
	if (credit_due(qp, owed))
		put_credit(qp, &datagram);
	if (owed & OWE_REPORT)
		put_report(qp, &datagram);
	if (owed & OWE_PROBE)
		put_probe(qp, &datagram);
	if (owed & OWE_REPLY)
		put_reply(qp, &datagram);
	if (owed & OWE_ARRIVED)
		put_arrived(qp, &datagram);
	if (owed & OWE_SIZE)
		put_sizes(qp, &datagram);
	if (reach_payable(qp, qp->control.owed) & OWE_ACK && control_datagram_is_empty(&datagram))
		put_credit(qp, &datagram);
	control_datagram_send(&datagram);
	qp->control.owed &= ~OWE_ACK;
}

/* Nobody will answer: some copies, so that one arrives. */
static void tell_results(struct gw_qp *qp)
{
	struct control_datagram datagram;

	for (int i = 0; i < CLOSE_COPIES && qp->rx.results_owed; i++) {
		control_datagram_open(&datagram, qp, qp->control.max);
		put_report(qp, &datagram);
		control_datagram_send(&datagram);
	}
}

/* The results are told before: a report that shared a datagram with the first CLOSE might not fit, and be lost alone. */
void control_send_close(struct gw_qp *qp)
{
	struct control_close close = { 0 };
	struct control_datagram datagram;

	tell_results(qp);
	for (int i = 0; i < CLOSE_COPIES; i++) {
		control_datagram_open(&datagram, qp, qp->control.max);
		control_datagram_begin(&datagram, CONTROL_CLOSE);
		control_put_close(&datagram.writer, &close);
		control_datagram_end(&datagram);
		control_datagram_send(&datagram);
	}
}

int gw_qp_tell_results(struct gw_qp *qp)
{
	if (!qp)
		return -EINVAL;
	if (!qp_valid(qp))
		return -ESTALE;
	if (qp->state == QP_CONNECTED)
		tell_results(qp);
	return 0;
}

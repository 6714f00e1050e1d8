/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Talking: the control datagrams that one end owes the other.
 *
 * What is owed is a set of bits (qp->owed), paid once in each turn of gw_progress(). Statements are cumulative: a grant
 * datagram holds every grant that the peer has not acknowledged, as far as one fits, and likewise announcements and
 * results. So it is enough to repeat on a timer, and a lost datagram is nothing special. A datagram that the fabric has
 * no room for counts as lost.
 */
#include <errno.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/serial.h"
#include "message/state.h"

#define CONTROL_BUFFER	  9216 /* one that is padded fills a jumbo frame */
#define REPORT_RUNS	  8
#define PROBE_BUSY_MIN_NS UINT64_C(5000000)
#define PROBE_BUSY_MAX_NS UINT64_C(200000000)
#define REPEAT_LIMIT_NS	  UINT64_C(1000000000)

struct datagram {
	struct control_writer writer;
	uint8_t bytes[CONTROL_BUFFER];
};

static void begin_long(struct gw_qp *qp, struct datagram *d, enum control_type type, size_t size)
{
	struct control_header header = { .token = qp->peer_token,
					 .sequence = qp->control_sequence++,
					 .announced = qp->announced,
					 .granted = qp->grants_seen,
					 .completed = qp->completed,
					 .results = qp->results_seen };

	control_begin(&d->writer, d->bytes, size < CONTROL_BUFFER ? size : CONTROL_BUFFER, type,
		      &header);
}

static void begin(struct gw_qp *qp, struct datagram *d, enum control_type type)
{
	begin_long(qp, d, type, qp->control_max);
}

static int emit(struct gw_qp *qp, struct datagram *d)
{
	size_t length = control_end(&d->writer);
	int error;

	if (!length)
		return 0;
	error = qp->ctx->fabric->ops->control(qp->fabric_qp, d->bytes, length);
	if (error)
		return error;
	count(qp->ctx, COUNT_CONTROL_SENT);
	qp->ctx->counters[COUNT_CONTROL_BYTES] += length;
	qp->owed &= ~OWE_ACK; /* every datagram carries the cumulative numbers */
	return 0;
}

/* The first of [acked, end) to put in: all of them when they fit one datagram, else those not told yet. */
static uint32_t start_of(const struct gw_qp *qp, uint32_t acked, uint32_t told, uint32_t end,
			 uint32_t entry_size)
{
	uint32_t fit = (qp->control_max - CONTROL_HEADER_SIZE - CONTROL_GRANT_SIZE) / entry_size;

	return end - acked <= fit || serial_before(told, acked) ? acked : told;
}

static void say_grants(struct gw_qp *qp)
{
	uint32_t msn = start_of(qp, qp->grants_acked, qp->grants_told, qp->recv_granted,
				CONTROL_GRANT_ENTRY_SIZE);
	struct datagram d;

	while (msn != qp->recv_granted) {
		begin(qp, &d, CONTROL_GRANT);
		control_put_grant(&d.writer, msn);
		for (; msn != qp->recv_granted; msn++) {
			const struct gw_recv *recv = recv_find(qp, msn);
			struct control_grant_entry entry = { .slot = (uint16_t)(msn &
										qp->slots_mask) };

			entry.generation = qp->slots[entry.slot].generation;
			if (recv) {
				entry.rkey = recv->rkey;
				entry.address = recv->va;
				entry.capacity = recv->capacity;
			}
			if (control_put_grant_entry(&d.writer, &entry))
				break;
		}
		emit(qp, &d);
	}
	qp->grants_told = qp->recv_granted;
}

static void say_announcements(struct gw_qp *qp)
{
	uint32_t msn = start_of(qp, qp->announce_acked, qp->announce_told, qp->send_matched,
				CONTROL_ANNOUNCE_ENTRY_SIZE);
	struct datagram d;

	while (msn != qp->send_matched) {
		begin(qp, &d, CONTROL_ANNOUNCE);
		control_put_announce(&d.writer, msn);
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
			if (control_put_announce_entry(&d.writer, &entry))
				break;
		}
		emit(qp, &d);
	}
	qp->announce_told = qp->send_matched;
}

static void put_results(struct gw_qp *qp, struct datagram *d)
{
	for (uint32_t msn = qp->results_acked; msn != qp->recv_granted; msn++) {
		const struct gw_recv *recv = recv_find(qp, msn);
		struct control_result result = { .msn = msn };

		if (!recv || !recv->completed)
			continue;
		result.missing = recv->missing;
		if (control_put_result(&d->writer, &result))
			return;
	}
}

static void put_runs(struct gw_qp *qp, struct datagram *d)
{
	const struct gw_recv *recv = recv_find(qp, qp->feedback.echo_msn);
	struct bitmap_run run;
	size_t cursor = 0;

	if (!recv || recv->completed)
		return;
	for (int i = 0;
	     i < REPORT_RUNS && bitmap_next_hole(recv->bits, recv->highest, &cursor, &run); i++) {
		struct control_run entry = { (uint32_t)run.first, (uint32_t)run.count };

		if (control_put_run(&d->writer, &entry))
			return;
	}
}

static void say_report(struct gw_qp *qp)
{
	const struct feedback *f = &qp->feedback;
	struct control_report report = { .landed = f->landed,
					 .duplicate = f->duplicate,
					 .late = f->late,
					 .ce = f->ce,
					 .overrun = (uint32_t)qp->ctx->overruns,
					 .hold_ns = CONTROL_NO_ECHO,
					 .runs_msn = f->echo_msn };
	struct control_lane lane = { f->landed, f->ce };
	uint64_t hold = qp->ctx->now - f->echo_time;
	struct datagram d;

	if (f->echo_valid && hold < CONTROL_NO_ECHO) {
		report.echo_msn = f->echo_msn;
		report.echo_packet = f->echo_packet;
		report.hold_ns = (uint32_t)hold;
	}
	begin(qp, &d, CONTROL_REPORT);
	control_put_report(&d.writer, &report);
	control_put_lane(&d.writer, &lane);
	put_results(qp, &d);
	put_runs(qp, &d);
	emit(qp, &d);
	count(qp->ctx, COUNT_REPORTS_SENT);
	feedback_reporting(qp);
}

static void say_credit(struct gw_qp *qp)
{
	struct control_credit credit = { window_share(qp->ctx) };
	struct datagram d;

	begin(qp, &d, CONTROL_CREDIT);
	control_put_credit(&d.writer, &credit);
	if (!emit(qp, &d))
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
	/* Half-way to giving a peer up it is worth a few packets more to be sure. */
	if (qp->ctx->now - qp->heard_at > qp->peer_timeout_ns / 2)
		limit /= 4;
	return interval < limit ? interval : limit;
}

static void say_probe(struct gw_qp *qp)
{
	struct feedback *f = &qp->feedback;
	struct control_probe probe = { .kind = CONTROL_PROBE_REQUEST, .time_ns = qp->ctx->now };
	struct datagram d;

	f->probe_at = qp->ctx->now + probe_interval(qp);
	f->activity = f->sent + f->landed;
	probe.id = ++f->probe_id;
	f->probes_unanswered++;
	begin(qp, &d, CONTROL_PROBE);
	control_put_probe(&d.writer, &probe);
	emit(qp, &d);
}

static void say_reply(struct gw_qp *qp)
{
	const struct feedback *f = &qp->feedback;
	struct control_probe probe = { .kind = CONTROL_PROBE_REPLY,
				       .id = f->reply_id,
				       .time_ns = f->reply_time };
	uint64_t hold = qp->ctx->now - f->reply_since;
	struct datagram d;

	probe.hold_ns = hold > UINT32_MAX ? UINT32_MAX : (uint32_t)hold;
	begin(qp, &d, CONTROL_PROBE);
	control_put_probe(&d.writer, &probe);
	emit(qp, &d);
}

/* As long on the wire as a full packet of ours. */
static void say_reach(struct gw_qp *qp)
{
	struct control_reach reach = { CONTROL_REACH_REQUEST, qp->tx_payload };
	size_t length = qp->tx_payload + qp->ctx->fabric->caps.probe_extra;
	struct datagram d;

	if (qp->reach != REACH_SEEKING)
		return;
	begin_long(qp, &d, CONTROL_REACH, length);
	control_put_reach(&d.writer, &reach, length);
	emit(qp, &d);
}

static void say_reached(struct gw_qp *qp)
{
	struct control_reach reach = { CONTROL_REACH_REPLY, qp->payload };
	struct datagram d;

	begin(qp, &d, CONTROL_REACH);
	control_put_reach(&d.writer, &reach, 0);
	emit(qp, &d);
}

static void set_repeat(struct gw_qp *qp)
{
	uint64_t wait = gw_qp_patience_ns(qp) << qp->repeats;

	if (qp->grants_acked == qp->recv_granted && qp->announce_acked == qp->send_matched &&
	    !qp->results_owed) {
		qp->repeat_at = NEVER;
		qp->repeats = 0;
		return;
	}
	if (qp->repeat_at == NEVER)
		qp->repeat_at = qp->ctx->now + (wait < REPEAT_LIMIT_NS ? wait : REPEAT_LIMIT_NS);
}

void talk_announce(struct gw_qp *qp)
{
	send_match(qp);
	if (qp->state != QP_CONNECTED || !(qp->owed & OWE_ANNOUNCE))
		return;
	qp->owed &= ~OWE_ANNOUNCE;
	say_announcements(qp);
}

void talk(struct gw_qp *qp)
{
	uint32_t owed, window;

	send_match(qp);
	if (qp->state != QP_CONNECTED)
		return;
	owed = qp->owed;
	qp->owed &= OWE_ACK;
	if (owed & OWE_GRANT)
		say_grants(qp);
	if (owed & OWE_ANNOUNCE)
		say_announcements(qp);
	if (owed & OWE_REPORT)
		say_report(qp);
	if (owed & OWE_PROBE)
		say_probe(qp);
	if (owed & OWE_REPLY)
		say_reply(qp);
	if (owed & OWE_REACH)
		say_reach(qp);
	if (owed & OWE_REACHED)
		say_reached(qp);
	window = window_share(qp->ctx);
	if (qp->owed & OWE_ACK ||
	    (owed & OWE_REPORT && (window < qp->feedback.advertised - qp->feedback.advertised / 8 ||
				   window > qp->feedback.advertised + qp->feedback.advertised / 8)))
		say_credit(qp);
	qp->owed &= ~OWE_ACK;
	set_repeat(qp);
	qp_arm(qp);
}

void talk_close(struct gw_qp *qp, int reason, const char *text)
{
	struct control_close close = { .reason = (uint16_t)reason,
				       .text_length = (uint16_t)strlen(text),
				       .text = (const uint8_t *)text };
	struct datagram d;

	begin(qp, &d, CONTROL_CLOSE);
	control_put_close(&d.writer, &close);
	emit(qp, &d);
}

int gw_recv_nack(struct gw_recv *recv, const struct gw_nack *nack)
{
	struct control_nack body;
	struct datagram d;

	if (!recv || !nack || nack->count > GW_NACK_RUNS_MAX || (nack->count && !nack->runs) ||
	    nack->reserved)
		return -EINVAL;
	if (!recv_valid(recv))
		return -ESTALE;
	if (recv->completed || !recv->qp)
		return -EALREADY;
	body = (struct control_nack){ .msn = recv->msn,
				      .round = nack->round,
				      .below = nack->below };
	begin(recv->qp, &d, CONTROL_NACK);
	control_put_nack(&d.writer, &body);
	for (uint32_t i = 0; i < nack->count; i++) {
		struct control_run run = { nack->runs[i].first, nack->runs[i].count };
		int error = control_put_run(&d.writer, &run);

		if (error == -EINVAL)
			return error;
		if (error)
			break;
	}
	return emit(recv->qp, &d);
}

static int say_scheme(struct gw_qp *qp, uint32_t msn, enum control_side side, uint8_t scheme,
		      const void *data, size_t length)
{
	struct control_scheme body = { .msn = msn,
				       .side = (uint8_t)side,
				       .scheme = scheme,
				       .payload_length = (uint16_t)length,
				       .payload = data };
	struct datagram d;

	if (length > GW_CONTROL_MAX)
		return -EMSGSIZE;
	begin(qp, &d, CONTROL_SCHEME);
	if (control_put_scheme(&d.writer, &body))
		return -EMSGSIZE;
	return emit(qp, &d);
}

int gw_send_control(struct gw_send *send, const void *data, size_t length)
{
	if (!send || (!data && length))
		return -EINVAL;
	if (!send_valid(send))
		return -ESTALE;
	if (!send->qp || send->ended || send->result)
		return -EALREADY;
	if (!send->granted)
		return -EAGAIN;
	return say_scheme(send->qp, send->msn, CONTROL_TO_RECEIVER, send->scheme, data, length);
}

int gw_recv_control(struct gw_recv *recv, const void *data, size_t length)
{
	if (!recv || (!data && length))
		return -EINVAL;
	if (!recv_valid(recv))
		return -ESTALE;
	if (!recv->qp || recv->completed)
		return -EALREADY;
	if (!serial_before(recv->msn, recv->qp->recv_granted))
		return -EAGAIN;
	return say_scheme(recv->qp, recv->msn, CONTROL_TO_SENDER, recv->scheme, data, length);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feedback: what the receiving end tells about arrivals, whatever the scheme, and what the sending end learns from it.
 *
 * The receiver counts, and now and then reports: totals, and an echo, the latest packet that landed and how long ago.
 * The sender keeps a log of what it sent and when (a direct-mapped table by message and packet; an entry overwritten is
 * merely an echo not recognised). An echo found in it gives a round-trip time, unless that packet was sent twice, and
 * the position in the order of sending that the receiver has reached: what was sent later is in flight. That many are
 * held under the window, the packets the receiver can buffer. A window that stays full for too long was lost with all it
 * held, and is given up.
 *
 * Reports are paid for by data: one per cent of the bytes that landed.
 */
#include <errno.h>

#include "base/serial.h"
#include "constants/protocol.h"
#include "message/trace.h"

struct sent_record {
	uint32_t msn;
	uint32_t packet;
	uint32_t sequence;
	uint32_t times : 2;   /* sent; 0: entry unused */
	uint32_t lane : 4;    /* NO_LANE: inside control */
	uint32_t number : 26; /* of those sent on the lane; wraps */
	uint64_t at;
};

#define NO_LANE		    15u
#define LOG_MIN		    256u
#define LOG_MAX		    16384u
#define REPORT_COST	    140 /* bytes on the wire, near enough */
#define REPORT_BUDGET_MAX   (4 * REPORT_COST)
#define REPORT_DELAY_MIN_NS UINT64_C(100000)
#define REPORT_DELAY_MAX_NS UINT64_C(5000000)
#define PATIENCE_UNKNOWN_NS UINT64_C(50000000)
#define STALL_BACKOFF_MAX   6u
#define STALLS_DOUBT	    4u
/* A third of a second, as QUIC assumes, and four deviations of half of that. */
#define STALL_UNKNOWN_NS UINT64_C(1000000000)
#define STALL_LIMIT_NS	 UINT64_C(1000000000)

static uint32_t log_size(const struct gw_qp *qp)
{
	uint32_t size = LOG_MIN;

	while (size < LOG_MAX && size < 2 * qp->feedback.window)
		size *= 2;
	return size;
}

static struct sent_record *record(const struct feedback *f, uint32_t msn, uint32_t packet)
{
	/* An odd multiplier spreads messages; packets of one message stay neighbours. */
	return &f->log[(packet + msn * 0x9e3779b1u) & f->log_mask];
}

void feedback_stop(struct gw_qp *qp)
{
	struct feedback *f = &qp->feedback;

	if (f->log)
		arena_put(&qp->ctx->arena, f->log, (f->log_mask + 1) * sizeof(*f->log));
	f->log = NULL;
}

/* The log is got with the first send, and a larger one when the window grows: a queue pair that only receives needs none.
 * What the old one knows is carried over, for behind a gate a whole window waits for one echo to be recognised. */
int feedback_start(struct gw_qp *qp)
{
	struct feedback *f = &qp->feedback;
	struct sent_record *old = f->log;
	uint32_t old_size = old ? f->log_mask + 1 : 0;

	for (uint32_t size = log_size(qp); size >= LOG_MIN && size > old_size; size /= 2) {
		struct sent_record *log = arena_get(&qp->ctx->arena, size * sizeof(*log));

		if (!log)
			continue;
		f->log = log;
		f->log_mask = size - 1;
		for (uint32_t i = 0; i < old_size; i++)
			if (old[i].times)
				*record(f, old[i].msn, old[i].packet) = old[i];
		if (old)
			arena_put(&qp->ctx->arena, old, old_size * sizeof(*old));
		return 0;
	}
	return f->log ? 0 : -ENOBUFS;
}

uint64_t gw_qp_patience_ns(const struct gw_qp *qp)
{
	const struct feedback *f;
	uint64_t patience;

	if (!qp || !qp->feedback.rtt_ns)
		return PATIENCE_UNKNOWN_NS;
	f = &qp->feedback;
	patience = f->rtt_ns + (4 * f->rtt_var_ns > f->rtt_ns / PATIENCE_SHARE
					? 4 * f->rtt_var_ns
					: f->rtt_ns / PATIENCE_SHARE);
	return patience < PATIENCE_MIN_NS ? PATIENCE_MIN_NS : patience;
}

uint64_t gw_qp_answer_ns(const struct gw_qp *qp)
{
	const struct feedback *f;
	uint64_t answer;

	if (!qp || !qp->feedback.rtt_ns)
		return PATIENCE_UNKNOWN_NS;
	f = &qp->feedback;
	answer = f->rtt_ns + (2 * f->rtt_var_ns > f->rtt_ns / ANSWER_SHARE
				      ? 2 * f->rtt_var_ns
				      : f->rtt_ns / ANSWER_SHARE);
	return answer < ANSWER_MIN_NS ? ANSWER_MIN_NS : answer;
}

/* How long a full window is waited for: longer each time in vain, up to a second or twice the patience. */
static uint64_t stall_ns(const struct gw_qp *qp)
{
	/* Before the first sample the round trip may be a long one, and what is in flight is then no more than late. */
	uint64_t patience = qp->feedback.rtt_ns ? 2 * gw_qp_patience_ns(qp) : STALL_UNKNOWN_NS;
	uint64_t limit = patience > STALL_LIMIT_NS ? patience : STALL_LIMIT_NS;
	uint32_t shift =
		qp->feedback.stalls < STALL_BACKOFF_MAX ? qp->feedback.stalls : STALL_BACKOFF_MAX;

	return patience << shift < limit ? patience << shift : limit;
}

uint32_t feedback_allow(struct gw_qp *qp, uint32_t payload, uint32_t want)
{
	struct feedback *f = &qp->feedback;
	uint32_t in_flight = f->sequence - f->echoed;

	if (in_flight >= f->window) {
		if (f->stall_at == NEVER)
			f->stall_at = qp->ctx->now + stall_ns(qp);
		return 0;
	}
	if (want > f->window - in_flight)
		want = f->window - in_flight;
	if (qp->gate) {
		uint32_t allowed = gate_allow(qp, in_flight, payload);

		if (want > allowed)
			want = allowed;
		/* Waiting for the gate, in vain: what would open it may have been lost with all that was in flight. */
		if (!want && in_flight && f->gate_at == NEVER) {
			if (f->stall_at == NEVER)
				f->stall_at = qp->ctx->now + stall_ns(qp);
			/* Its window may be smaller than what pays for a report: ask for one, but not each time that
			 * a round trip of microseconds brings an answer. */
			if (qp->ctx->now < f->asked_ns + REPORT_DELAY_MIN_NS) {
				f->gate_at = f->asked_ns + REPORT_DELAY_MIN_NS;
			} else if (!f->probes_unanswered) {
				f->asked_ns = qp->ctx->now;
				qp_owe(qp, OWE_PROBE);
			}
		}
	}
	return want;
}

void feedback_reopen(struct gw_qp *qp)
{
	qp->feedback.gate_at = NEVER;
	if (!list_empty(&qp->tx.ready) && list_empty(&qp->data_link))
		list_add_tail(&qp->ctx->senders, &qp->data_link);
}

static void reopen(struct gw_qp *qp)
{
	qp->feedback.stall_at = NEVER;
	feedback_reopen(qp);
}

/* The receiver can buffer more or less than it said before. */
void feedback_credit(struct gw_qp *qp, uint32_t window)
{
	bool more = window > qp->feedback.window;

	qp->feedback.window = window;
	gate_credit(qp);
	if (qp->feedback.log)
		feedback_start(qp);
	if (more)
		reopen(qp);
}

void feedback_stalled(struct gw_qp *qp)
{
	struct feedback *f = &qp->feedback;

	count(qp->ctx, COUNT_STALLS);
	TRACE_QP(qp, "stall in_flight=%u", f->sequence - f->echoed);
	if (++f->stalls >= STALLS_DOUBT && qp->path)
		path_stalled(qp->path);
	f->echoed = f->sequence;
	f->echo_at_loss = f->sequence;
	f->peer_landed_at_echo = f->peer_landed;
	gate_timeout(qp);
	qp_owe(qp, OWE_PROBE);
	reopen(qp);
}

/* What it had under way then does not land any more, and is not lost: parity that was not needed, a repeat too many. */
void feedback_ended(struct gw_qp *qp, const struct gw_send *send)
{
	struct feedback *f = &qp->feedback;
	uint32_t last = f->sequence - (uint32_t)(qp->tx.written - send->mark);

	if (!send->mark || !serial_after(last, f->echoed))
		return;
	f->echo_at_loss += last - f->echoed;
	f->told_sequence += last - f->echoed;
}

uint32_t feedback_lane(const struct gw_qp *qp, uint32_t msn, uint32_t packet)
{
	const struct sent_record *r = record(&qp->feedback, msn, packet);

	if (!r->times || r->msn != msn || r->packet != packet || r->lane == NO_LANE)
		return PATH_NONE;
	return r->lane;
}

void feedback_sent(struct gw_qp *qp, uint32_t msn, uint32_t packet, bool again, uint32_t lane,
		   uint32_t number)
{
	struct feedback *f = &qp->feedback;
	struct sent_record *r = record(f, msn, packet);

	f->sequence++;
	f->sent++;
	count(qp->ctx, COUNT_SENT);
	if (again) {
		f->retransmitted++;
		count(qp->ctx, COUNT_RETRANSMITTED);
	}
	r->msn = msn;
	r->packet = packet;
	r->sequence = f->sequence;
	r->times = again ? 2 : 1;
	r->lane = lane < FABRIC_LANES_MAX ? lane & 7u : NO_LANE;
	r->number = number & ((1u << 26) - 1);
	r->at = qp->ctx->now;
}

void feedback_rtt(struct gw_qp *qp, uint64_t sample_ns)
{
	struct feedback *f = &qp->feedback;
	uint64_t error;

	if (!sample_ns)
		sample_ns = 1;
	if (!f->rtt_ns) {
		f->rtt_ns = f->rtt_min_ns = sample_ns;
		f->rtt_var_ns = sample_ns / 2;
		return;
	}
	error = sample_ns > f->rtt_ns ? sample_ns - f->rtt_ns : f->rtt_ns - sample_ns;
	/* Decay first, then add: the other way round it settles at 7/8 of the truth. */
	f->rtt_var_ns = f->rtt_var_ns - f->rtt_var_ns / 4 + error / 4;
	f->rtt_ns = f->rtt_ns - f->rtt_ns / 8 + sample_ns / 8;
	if (sample_ns < f->rtt_min_ns)
		f->rtt_min_ns = sample_ns;
}

void feedback_reported(struct gw_qp *qp, const struct control_message *message)
{
	const struct control_report *report = &message->report;
	struct feedback *f = &qp->feedback;
	struct sent_record *r;
	uint64_t elapsed, rtt_ns = 0;

	if (qp->path)
		lanes_told(qp, message);
	/* Something arrives, whichever packet it was. */
	if (report->landed != f->heard_landed) {
		f->heard_landed = report->landed;
		f->stalls = 0;
		size_landed(qp);
	}
	estimate_holes(f, report);
	/* After a cut the same packet has another number. */
	if (!f->log || report->hold_ns == CONTROL_NO_ECHO ||
	    message->header.epoch_applied != qp->size.epoch)
		return;
	r = record(f, report->echo_msn, report->echo_packet);
	if (!r->times || r->msn != report->echo_msn || r->packet != report->echo_packet)
		return;
	elapsed = qp->ctx->arrived > r->at ? qp->ctx->arrived - r->at : 0;
	if (qp->path && r->times == 1 && r->lane != NO_LANE)
		lanes_echoed(qp, r->lane, r->number,
			     elapsed > report->hold_ns ? elapsed - report->hold_ns : 0);
	if (!serial_after(r->sequence, f->echoed))
		return;
	/* Sent again so lately that it must be an earlier one that landed: where in the order that was is forgotten. */
	if (r->times > 1 && elapsed < f->rtt_min_ns)
		return;
	f->echoed = r->sequence;
	f->peer_landed = report->landed;
	f->peer_ce = report->ce;
	f->stalls = 0;
	if (r->times == 1 && elapsed > report->hold_ns)
		feedback_rtt(qp, rtt_ns = elapsed - report->hold_ns);
	if (r->times == 1) {
		estimate_loss(f);
		estimate_rate(f, r->msn, qp->ctx->now - report->hold_ns);
	}
	gate_report(qp, rtt_ns);
	reopen(qp);
}

static uint64_t report_delay(const struct feedback *f)
{
	uint64_t delay = f->rtt_ns / 4;

	if (f->budget < REPORT_COST * 100)
		return REPORT_DELAY_POOR_NS;
	if (delay < REPORT_DELAY_MIN_NS)
		return REPORT_DELAY_MIN_NS;
	return delay > REPORT_DELAY_MAX_NS ? REPORT_DELAY_MAX_NS : delay;
}

void feedback_landed(struct gw_qp *qp, uint32_t msn, uint32_t packet, uint32_t bytes, bool ce)
{
	struct feedback *f = &qp->feedback;

	f->landed++;
	f->ce += ce;
	credit_used(qp);
	f->echo_msn = msn;
	f->echo_packet = packet;
	f->echo_time = qp->ctx->arrived;
	f->echo_valid = true;
	f->unreported++;
	/* In hundredths of a byte, so that small packets count too. */
	f->budget += (int32_t)bytes;
	if (f->budget > REPORT_BUDGET_MAX * 100)
		f->budget = REPORT_BUDGET_MAX * 100;
	if (f->unreported >= f->advertised / 4 ||
	    (f->unreported >= REPORT_EVERY && f->budget >= REPORT_COST * 100)) {
		qp_owe(qp, OWE_REPORT);
	} else if (qp->ctx->now + report_delay(f) < f->report_at) {
		f->report_at = qp->ctx->now + report_delay(f);
		qp_arm(qp);
	}
}

/* A report is about to leave: settles the account. */
void feedback_reporting(struct gw_qp *qp)
{
	struct feedback *f = &qp->feedback;

	f->unreported = 0;
	f->report_at = NEVER;
	f->budget -= REPORT_COST * 100;
	if (f->budget < 0)
		f->budget = 0;
}

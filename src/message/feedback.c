/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feedback: what the receiving end tells about arrivals, whatever the scheme, and what the sending end learns from it.
 *
 * The receiver counts, and now and then reports: totals, and an echo, the latest packet that landed and how long ago.
 * The sender keeps a log of what it sent and when (a direct-mapped table by message and packet; an entry overwritten is
 * merely an echo not recognised). An echo found in it gives a round-trip time, unless that packet was sent twice, and
 * the position in the order of sending that the receiver has reached: what was sent later is in flight. That many are
 * held under the window, the packets the receiver can buffer.
 *
 * If the window stays full and no echo comes for a probe timeout (PTO), a probe is sent and two packets beyond the window,
 * with back-off. Nothing in flight is forgotten, since only an echo or a result says what became of it. After three probe
 * timeouts without an arrival the gate is told of a timeout, and an echo of anything sent before undoes that.
 *
 * When a receiver reports is in report.c, what is known of the round trip in round_trip.c.
 */
#include <errno.h>

#include "base/serial.h"
#include "constants/protocol.h"
#include "message/trace.h"

struct sent_record {
	uint32_t msn;
	uint32_t packet;
	uint32_t sequence;
	/* times that the packet was sent; 0: entry unused */
	uint32_t times : 2;
	/* lane of the last time; NO_LANE: inside control */
	uint32_t lane : 4;
	/* number among the packets of that lane; wraps */
	uint32_t number : 26;
	/* when it was sent, in ns; wraps */
	uint64_t at : 48;
	/* bytes of data in it, at most BYTES_MOST */
	uint64_t bytes : 16;
};

#define NO_LANE	   15u
#define AT_MASK	   ((UINT64_C(1) << 48) - 1)
#define BYTES_MOST UINT16_MAX
#define LOG_MIN	   256u
#define LOG_MAX	   16384u
#define LOG_SHARE  16u
/* Longest back-off of the probe timeout, unless the timeout itself is longer. */
#define PTO_LIMIT_NS UINT64_C(1000000000)
#define PTO_SHIFT    6u
/* Packets that leave beyond the window after a probe timeout. */
#define PTO_PACKETS 2u
/* Packets in flight, for each that arrived, that an echo of a packet sent more than once can account for. */
#define ECHO_COVERS 16u
/* Requests for a report that are under way at a time where more than this share is lost, and times that so many wait
 * equally long. */
#define ASK_LOSS     0.05
#define ASKS_AT_ONCE 4u
#define ASKS_EQUAL   3u
/* Probe timeouts in a row before the gate is told, and before all lanes are tried. */
#define PTOS_LOST  3u
#define PTOS_LANES 4u

/* Entries for what is in flight, so that few records are overwritten before their echo, and for no more: the log of a queue pair
 * with small messages then stays in the cache. What the window allows is enough in any case. */
static uint32_t log_size(const struct gw_qp *qp, uint32_t in_flight)
{
	uint32_t size = LOG_MIN;

	while (size < LOG_MAX && size < 2 * qp->feedback.window && size < LOG_SHARE * in_flight)
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

/* The log is got with the first send, and a larger one when more is in flight: a queue pair that only receives needs none.
 * What the old one knows is carried over, for behind a gate a whole window waits for one echo to be recognised. */
int feedback_start(struct gw_qp *qp)
{
	struct feedback *f = &qp->feedback;
	struct sent_record *old = f->log;
	uint32_t old_size = old ? f->log_mask + 1 : 0;

	for (uint32_t size = log_size(qp, f->sequence - f->echoed);
	     size >= LOG_MIN && size > old_size; size /= 2) {
		struct sent_record *log = NULL;

		/* The window is what the peer says. */
		if (size == LOG_MIN || arena_has_spare(qp->ctx, size * sizeof(*log)))
			log = arena_get(&qp->ctx->arena, size * sizeof(*log));
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

bool feedback_pays_since(const struct gw_qp *qp, uint32_t sequence)
{
	return (uint64_t)(qp->feedback.sequence - sequence) * qp->tx.payload >=
	       2 * REPORT_COST * 100;
}

/* Starts the clock of the next probe timeout, unless it runs. */
static void wait_for_echo(struct gw_qp *qp)
{
	struct feedback *f = &qp->feedback;
	uint64_t pto_ns = feedback_pto_ns(qp);
	uint64_t limit_ns = pto_ns > PTO_LIMIT_NS ? pto_ns : PTO_LIMIT_NS;
	uint64_t wait_ns = pto_ns << (f->timeouts < PTO_SHIFT ? f->timeouts : PTO_SHIFT);

	if (f->timeout_at == NEVER)
		f->timeout_at = (f->sent_ns > qp->ctx->now ? f->sent_ns : qp->ctx->now) +
				(wait_ns < limit_ns ? wait_ns : limit_ns);
}

/* Returns how long to wait after a request for a report before the next. Where much is lost several are under way. After
 * a few in vain the wait doubles each time. While the peer is heard data pays for requests before the answer; without that there
 * would be more and more of them on a slow link that many queue pairs share. */
static uint64_t ask_wait_ns(const struct gw_qp *qp)
{
	const struct feedback *f = &qp->feedback;
	uint32_t at_once = (double)f->path.loss > ASK_LOSS && !qp->path ? ASKS_AT_ONCE : 1;
	uint32_t few = ASKS_EQUAL * at_once;
	uint32_t shift = f->probes_unanswered > few ? f->probes_unanswered - few : 0;
	uint64_t answer_ns =
		f->rtt_ns ? f->rtt_ns + 4 * f->rtt_var_ns + f->hold_ns : gw_qp_patience_ns(qp);
	uint64_t wait_ns = answer_ns / at_once;

	if (f->answered_ns >= f->asked_ns ||
	    (!f->probes_unanswered && feedback_pays_since(qp, f->asked_sequence)) ||
	    wait_ns < REPORT_DELAY_MIN_NS)
		wait_ns = REPORT_DELAY_MIN_NS;
	return wait_ns << (shift < PTO_SHIFT ? shift : PTO_SHIFT);
}

/* Waiting for the gate, whose window may be smaller than what pays for a report: asks for one, but not each time that a round
 * trip of microseconds brings an answer, and again when none comes. */
static void ask_for_report(struct gw_qp *qp)
{
	struct feedback *f = &qp->feedback;

	if (qp->ctx->now >= f->asked_ns + ask_wait_ns(qp)) {
		f->asked_ns = qp->ctx->now;
		f->asked_sequence = f->sequence;
		qp_owe(qp, OWE_PROBE);
	}
	f->gate_at = f->asked_ns + ask_wait_ns(qp);
}

uint32_t feedback_allow(struct gw_qp *qp, uint32_t payload, uint32_t want, bool early)
{
	struct feedback *f = &qp->feedback;
	uint32_t in_flight = f->sequence - f->echoed;
	uint32_t room = f->window > in_flight ? f->window - in_flight : 0;

	f->leave_ns = qp->ctx->now;
	if (LOG_SHARE * in_flight > f->log_mask && f->log_mask < LOG_MAX - 1)
		feedback_start(qp);
	if (in_flight >= f->window)
		f->idle = true; /* for the controller: it is not the path that holds data back */
	if (!qp->reach.proven)
		return 0; /* reach.c asks again */
	if (room && qp->gate) {
		uint32_t allowed = gate_allow(qp, in_flight, payload, early);

		if (room > allowed)
			room = allowed;
		if (f->gate_at != NEVER)
			return want < room ? want : room;
	}
	if (!room && in_flight) {
		if (f->beyond)
			return want < f->beyond ? want : f->beyond;
		wait_for_echo(qp);
		if (in_flight < f->window)
			ask_for_report(qp);
	}
	return want < room ? want : room;
}

void feedback_reopen(struct gw_qp *qp)
{
	qp->feedback.gate_at = NEVER;
	if (!list_empty(&qp->tx.ready) && list_empty(&qp->data_link))
		list_add_tail(&qp->ctx->senders, &qp->data_link);
}

static void reopen(struct gw_qp *qp)
{
	qp->feedback.timeout_at = NEVER;
	feedback_reopen(qp);
}

/* The receiver can buffer more or less than it said before. */
void feedback_credit(struct gw_qp *qp, uint32_t window)
{
	bool more = window > qp->feedback.window;

	qp->feedback.window = window;
	gate_credit(qp);
	if (more)
		reopen(qp);
}

void feedback_timeout(struct gw_qp *qp)
{
	struct feedback *f = &qp->feedback;

	count(qp->ctx, COUNT_STALLS);
	f->timeouts++;
	TRACE_QP(qp, "probe timeout %u in_flight=%u", f->timeouts, f->sequence - f->echoed);
	if (f->timeouts == PTOS_LOST) {
		f->timed_out = true;
		f->timeout_sequence = f->sequence;
		gate_timeout(qp);
	}
	if (f->timeouts >= PTOS_LANES && qp->path)
		path_stalled(qp->path);
	f->beyond = PTO_PACKETS;
	qp_owe(qp, OWE_PROBE);
	reopen(qp);
}

void feedback_answered(struct gw_qp *qp, uint64_t asked_ns)
{
	struct feedback *f = &qp->feedback;

	if (!qp->gate)
		return;
	/* All that is in flight left before the probe, and should have been echoed: it is lost or very late. A probe timeout
	 * would tell no more, only later. */
	if (f->timeout_at != NEVER && asked_ns > f->sent_ns &&
	    qp->ctx->now - f->sent_ns > (f->rtt_ns + 4 * f->rtt_var_ns) << f->in_vain) {
		f->beyond = PTO_PACKETS;
		/* A host that reads its data later than its control is not asked to take ever more of it. */
		f->in_vain += f->in_vain < PTO_SHIFT;
	}
	/* A probe may overtake the packets that it was sent about: whoever still waits for the gate asks again. */
	feedback_reopen(qp);
}

/* Nothing sent up to `sequence` is in flight any more. */
static void account(struct feedback *f, uint32_t sequence)
{
	f->echoed = sequence;
	f->echoed_arrived = f->peer_arrived;
}

void feedback_forget(struct gw_qp *qp)
{
	struct feedback *f = &qp->feedback;

	account(f, f->sequence);
	estimate_restart(f);
	reopen(qp);
}

void feedback_ended(struct gw_qp *qp, const struct gw_send *send)
{
	struct feedback *f = &qp->feedback;

	if (!send->high_water || !serial_after(send->last_sequence, f->echoed))
		return;
	account(f, send->last_sequence);
	reopen(qp);
}

/* Returns when the packet of a record was sent; later than now if the host still holds it. */
static uint64_t sent_at(const struct gw_qp *qp, const struct sent_record *r)
{
	uint64_t age = (qp->ctx->now - r->at) & AT_MASK;

	return age > AT_MASK / 2 ? qp->ctx->now + (AT_MASK + 1 - age) : qp->ctx->now - age;
}

uint32_t feedback_lane(const struct gw_qp *qp, uint32_t msn, uint32_t packet)
{
	const struct sent_record *r = record(&qp->feedback, msn, packet);

	if (!r->times || r->msn != msn || r->packet != packet || r->lane == NO_LANE)
		return PATH_NONE;
	return r->lane;
}

void feedback_sent(struct gw_qp *qp, uint32_t msn, uint32_t packet, uint32_t packets,
		   uint32_t bytes, bool again, uint32_t lane, uint32_t number)
{
	struct feedback *f = &qp->feedback;
	struct sent_record next = { .msn = msn,
				    .packet = packet,
				    .sequence = f->sequence + 1,
				    .times = again ? 2 : 1,
				    .lane = lane < FABRIC_LANES_MAX ? lane & 7u : NO_LANE,
				    .at = f->leave_ns & AT_MASK,
				    .bytes = (bytes < BYTES_MOST ? bytes : BYTES_MOST) &
					     BYTES_MOST };

	f->sequence += packets;
	f->sent += packets;
	f->beyond -= f->beyond < packets ? f->beyond : packets;
	qp->ctx->counters[COUNT_SENT] += packets;
	if (again) {
		f->retransmitted += packets;
		qp->ctx->counters[COUNT_RETRANSMITTED] += packets;
	}
	for (uint32_t i = 0; i < packets; i++) {
		next.number = (number + i) & ((1u << 26) - 1);
		*record(f, msn, packet + i) = next;
		next.packet++;
		next.sequence++;
	}
}

/* Takes the totals of a report. False: it is older than another that came before it. */
static bool take_totals(struct gw_qp *qp, const struct control_report *report)
{
	struct feedback *f = &qp->feedback;
	uint32_t arrived = report->landed + report->late;

	if (serial_before(arrived, f->peer_arrived))
		return false;
	if (arrived != f->peer_arrived) {
		/* Something arrives, whichever packet it was. */
		f->timeouts = 0;
		f->in_vain = 0;
		size_landed(qp);
	}
	f->peer_arrived = arrived;
	f->peer_ce = report->ce;
	estimate_overrun(f, report->overrun);
	return true;
}

/* A packet sent before the last timeout has arrived: the timeout was wrong, and the round trip varies more than was known. */
static void undo_timeout(struct gw_qp *qp)
{
	struct feedback *f = &qp->feedback;

	f->timed_out = false;
	f->rtt_var_ns *= 2;
	gate_undo_timeout(qp);
}

/* Returns up to which packet nothing is in flight any more after the echo of this one. Which of several sendings arrived is not
 * known. The latest counts, but where control overtakes data it is often an earlier one, and then one arrival would make up for a
 * whole window in flight. So the echo makes up for no more packets than a path may lose for each that arrived. */
static uint32_t echoed_by(const struct feedback *f, const struct sent_record *r)
{
	uint32_t most = f->echoed + ECHO_COVERS * (f->peer_arrived - f->echoed_arrived);

	return r->times > 1 && serial_after(r->sequence, most) ? most : r->sequence;
}

void feedback_reported(struct gw_qp *qp, const struct control_message *message)
{
	const struct control_report *report = &message->report;
	struct feedback *f = &qp->feedback;
	struct sent_record *r;
	uint64_t at, elapsed, rtt_ns = 0, return_queue_ns = 0;
	bool newer;

	if (qp->path)
		lanes_told(qp, message);
	estimate_holes(f, report);
	if (!take_totals(qp, report))
		return;
	/* After a cut the same packet has another number. */
	if (!f->log || report->hold_ns == CONTROL_NO_ECHO ||
	    message->header.epoch_applied != qp->size.epoch)
		return;
	r = record(f, report->echo_msn, report->echo_packet);
	if (!r->times || r->msn != report->echo_msn || r->packet != report->echo_packet)
		return;
	at = sent_at(qp, r);
	elapsed = qp->ctx->arrived > at ? qp->ctx->arrived - at : 0;
	/* Sent again so lately that it must be an earlier one that landed: where in the order that was is forgotten. And an echo
	 * that was told again is not news. */
	if ((r->times > 1 && elapsed < f->rtt_min_ns) || r->sequence == f->sampled)
		return;
	f->sampled = r->sequence;
	if (qp->path && at > qp->path->landed_sent_ns)
		qp->path->landed_sent_ns = at;
	newer = serial_after(r->sequence, f->echoed);
	if (f->timed_out && newer && !serial_after(r->sequence, f->timeout_sequence))
		undo_timeout(qp);
	if (r->times == 1) {
		if (elapsed > report->hold_ns)
			rtt_ns = elapsed - report->hold_ns;
		if (qp->path && r->lane != NO_LANE)
			lanes_echoed(qp, r->lane, r->number, rtt_ns);
		estimate_loss(qp, r->sequence);
		estimate_order(f, at);
	}
	if (newer) {
		account(f, echoed_by(f, r));
		f->timed_out = false;
		if (rtt_ns)
			estimate_rate(qp, r->msn, r->sequence, qp->ctx->now - report->hold_ns);
	}
	if (rtt_ns) {
		feedback_rtt(qp, rtt_ns);
		return_queue_ns = estimate_return_queue(qp, report, rtt_ns);
	}
	gate_report(qp, rtt_ns, return_queue_ns, r->bytes);
	f->beyond = 0;
	reopen(qp);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a queue pair has something to do. Whatever changes its state calls qp_schedule(), or qp_owe() where the peer is to be
 * told; gw_progress() then calls qp_run() once: sends are matched with grants, and the control that is owed leaves. Data
 * follows in turns among all queue pairs (data_tx.c). What is due later has one timer, set to the nearest of all times.
 */
#include <errno.h>

#include "constants/protocol.h"
#include "message/state.h"

#define GRANT_NS      UINT64_C(500000)
#define GRANTS_PLENTY 4
/* Probes asked in vain before silence counts. */
#define PROBES_BEFORE_GONE 3

void qp_schedule(struct gw_qp *qp)
{
	if (qp->state == QP_CONNECTED && list_empty(&qp->run_link))
		list_add_tail(&qp->ctx->runnable, &qp->run_link);
}

void qp_run(struct gw_qp *qp)
{
	if (qp->tx.grants_fresh) {
		qp->tx.grants_fresh = false;
		if (qp->handler && qp->handler->granted)
			qp->handler->granted(qp, qp->arg, qp->ctx->now);
	}
	send_match(qp);
	if (qp->state != QP_CONNECTED)
		return;
	if (qp->control.owed)
		control_send_owed(qp);
	control_set_repeat(qp);
	qp_arm(qp);
}

void qp_owe(struct gw_qp *qp, uint32_t what)
{
	if (qp->state != QP_CONNECTED)
		return;
	qp->control.owed |= what;
	qp_schedule(qp);
}

static void owe_within(struct gw_qp *qp, uint32_t what, uint64_t ns)
{
	uint64_t at = qp->ctx->now + ns;

	if (qp->state != QP_CONNECTED)
		return;
	qp->control.owed_soon |= what;
	if (at < qp->control.soon_at) {
		qp->control.soon_at = at;
		qp_arm(qp);
	}
}

/* A sender may wait for a result; nobody waits for an acknowledgement. */
void qp_owe_soon(struct gw_qp *qp, uint32_t what)
{
	uint64_t wait = qp->feedback.rtt_min_ns / RESULT_WAIT_SHARE;

	owe_within(qp, what,
		   what != OWE_ACK && wait < RESULT_WAIT_MAX_NS ? wait : RESULT_WAIT_MAX_NS);
}

/* A peer that has many left can wait a little for more. */
void qp_owe_grant(struct gw_qp *qp)
{
	uint32_t unused = qp->rx.granted - qp->rx.announced;

	if (unused > (qp->rx.granted - qp->rx.results_acked) / 2 && unused >= GRANTS_PLENTY)
		owe_within(qp, OWE_GRANT, GRANT_NS);
	else
		qp_owe(qp, OWE_GRANT);
}

void qp_tell_again(struct gw_qp *qp)
{
	qp->rx.grants_told = qp->rx.grants_acked;
	qp->tx.announce_told = qp->tx.announce_acked;
	if (qp->rx.grants_acked != qp->rx.granted)
		qp_owe(qp, OWE_GRANT);
	if (qp->tx.announce_acked != qp->tx.matched)
		qp_owe(qp, OWE_ANNOUNCE);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t rest_ends(const struct gw_qp *qp)
{
	const struct slot *slot = &qp->rx.slots[qp->rx.placed & qp->rx.mask];

	if (list_empty(&qp->rx.waiting) || slot->state != SLOT_RESTING)
		return NEVER;
	return qp->ctx->now + recv_rest_ns(qp, slot);
}

static void set_timer(struct gw_qp *qp)
{
	uint64_t at = earlier(qp->control.repeat_at, rest_ends(qp));

	at = earlier(at, qp->control.soon_at);
	at = earlier(at, qp->feedback.report_at);
	at = earlier(at, qp->feedback.timeout_at);
	at = earlier(at, qp->feedback.gate_at);
	at = earlier(at, size_due(qp));
	if (qp_waits(qp)) {
		at = earlier(at, qp->feedback.probe_at);
		at = earlier(at, qp->control.heard_at + qp->peer_timeout_ns);
	}
	timer_set(qp->ctx, &qp->timer, at);
}

/* A small message changes some of these times ten times in a turn, and nothing looks at the timer before timers fire or the
 * turn ends. */
void qp_arm(struct gw_qp *qp)
{
	if (qp->state != QP_CONNECTED)
		return;
	if (!qp->ctx->busy)
		set_timer(qp);
	else if (list_empty(&qp->arm_link))
		list_add_tail(&qp->ctx->unarmed, &qp->arm_link);
}

void qp_arm_all(struct gw_context *ctx)
{
	struct list *item;

	while ((item = list_first(&ctx->unarmed))) {
		list_del(item);
		set_timer(container_of(item, struct gw_qp, arm_link));
	}
}

/* A peer that is silent for `peer_timeout_ns` is taken for dead. If this process itself was not scheduled for that long, it
 * sends a probe first and waits for one more part of the time; so it does if the owner knows better. */
static bool fell_silent(struct gw_qp *qp, uint64_t now)
{
	uint64_t grace;

	if (!qp_waits(qp) || now < qp->control.heard_at + qp->peer_timeout_ns)
		return false;
	if (qp->feedback.probes_unanswered < PROBES_BEFORE_GONE)
		grace = qp->peer_timeout_ns / 8;
	else if (qp->handler && qp->handler->silent && qp->handler->silent(qp, qp->arg, now))
		grace = qp->peer_timeout_ns / 4;
	else
		return true;
	qp->control.heard_at = now - qp->peer_timeout_ns + grace;
	qp_owe(qp, OWE_PROBE);
	return false;
}

void qp_timer(struct gw_qp *qp)
{
	struct feedback *feedback = &qp->feedback;
	uint64_t now = qp->ctx->now;

	if (fell_silent(qp, now)) {
		count(qp->ctx, COUNT_PEERS_GONE);
		qp_gone(qp, -ETIMEDOUT);
		return;
	}
	if (now >= qp->control.repeat_at) {
		if (qp->control.repeats < BACKOFF_LIMIT)
			qp->control.repeats++;
		lanes_turn_control(qp);
		qp->control.repeat_at = NEVER;
		if (qp->rx.grants_acked != qp->rx.granted)
			count(qp->ctx, COUNT_GRANT_REPEATS);
		if (qp->tx.announce_acked != qp->tx.matched)
			count(qp->ctx, COUNT_ANNOUNCE_REPEATS);
		qp_tell_again(qp);
		if (qp->rx.results_owed) {
			count(qp->ctx, COUNT_RESULT_REPEATS);
			qp_owe(qp, OWE_REPORT);
		}
	}
	if (now >= qp->control.soon_at)
		qp_owe(qp, qp->control.owed_soon);
	if (now >= feedback->report_at) {
		feedback->report_at = NEVER;
		qp_owe(qp, OWE_REPORT);
	}
	if (now >= feedback->gate_at)
		feedback_reopen(qp);
	if (now >= feedback->timeout_at)
		feedback_timeout(qp);
	if (qp->state != QP_CONNECTED)
		return;
	if (now >= feedback->probe_at && qp_waits(qp))
		qp_owe(qp, OWE_PROBE);
	if (now >= size_due(qp))
		size_timer(qp);
	if (qp->state != QP_CONNECTED)
		return;
	recv_place(qp);
	qp_arm(qp);
}

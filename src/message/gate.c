/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gate: whoever decides when data leaves. The queue pair asks it how much may go, and tells it what went and what
 * became of it. It differences the receiver's totals, so that a report that was lost is made up for by the next; losses are
 * counted in estimate.c.
 */
#include <errno.h>

#include "base/serial.h"
#include "message/state.h"

/* Packets are handed over at most 1 / AHEAD_SHARE of a round trip before they leave: a gate that changes its mind cannot call
 * them back, and they count as in flight. */
#define AHEAD_SHARE 8

/* Returns how long before they leave packets may be handed over; 0: not before. */
static uint64_t ahead_ns(const struct gw_qp *qp, bool *room)
{
	const struct fabric_ops *ops = qp->ctx->fabric->ops;
	uint64_t most = qp->feedback.rtt_min_ns / AHEAD_SHARE, ahead;

	if (!ops->ahead_ns || !most || !(qp->gate->flags & GW_GATE_AHEAD))
		return 0;
	ahead = ops->ahead_ns(qp->fabric_qp, qp->ctx->now, room);
	return ahead < most ? ahead : most;
}

/* Returns when to ask again for packets that may leave at this time: early enough for the host to have some left until this
 * process wakes, but not for each of them. */
static uint64_t ask_early(uint64_t leave_ns, uint64_t ahead, uint64_t now)
{
	uint64_t soonest = now + ahead / 4;

	if (leave_ns - ahead / 2 > soonest)
		return leave_ns - ahead / 2;
	return leave_ns < soonest ? leave_ns : soonest;
}

static uint32_t ask(struct gw_qp *qp, uint32_t in_flight, uint32_t payload, uint64_t leave_ns,
		    uint64_t *again_ns)
{
	*again_ns = NEVER;
	qp->feedback.leave_ns = leave_ns;
	return qp->gate->allow(qp->gate_arg, in_flight, payload, leave_ns, again_ns);
}

uint32_t gate_allow(struct gw_qp *qp, uint32_t in_flight, uint32_t payload, bool early)
{
	uint64_t now = qp->ctx->now, again_ns, ahead;
	bool room = false;
	uint32_t allowed;

	if (!qp->gate->allow)
		return UINT32_MAX;
	allowed = ask(qp, in_flight, payload, now, &again_ns);
	if (!allowed && early && again_ns != NEVER && (ahead = ahead_ns(qp, &room))) {
		if (!room || again_ns > now + ahead)
			again_ns = ask_early(again_ns, ahead, now);
		else
			allowed = ask(qp, in_flight, payload, again_ns, &again_ns);
	}
	qp->feedback.gate_at = allowed ? NEVER : again_ns;
	return allowed;
}

void gate_left(struct gw_qp *qp, uint32_t packets, uint64_t bytes)
{
	if (qp->gate && qp->gate->sent)
		qp->gate->sent(qp->gate_arg, packets, bytes, qp->feedback.leave_ns);
}

void gate_report(struct gw_qp *qp, uint64_t rtt_ns, uint64_t return_queue_ns, uint32_t rtt_bytes)
{
	struct feedback *f = &qp->feedback;
	struct gw_path_report report = { .delivered_packets = f->peer_arrived - f->told_arrived,
					 .marked_packets = f->peer_ce - f->told_ce,
					 .rtt_ns = rtt_ns,
					 .return_queue_ns = return_queue_ns,
					 .rtt_bytes = rtt_bytes,
					 .in_flight_packets = f->sequence - f->echoed,
					 .payload = qp->tx.payload,
					 .idle = f->idle };

	if (!qp->gate || !qp->gate->report)
		return;
	if (f->untold_lost >= 1) {
		report.lost_packets = (uint32_t)f->untold_lost;
		f->untold_lost -= (double)report.lost_packets;
		report.lost_packets -= lanes_excused(qp, (uint32_t)report.lost_packets);
	}
	if (f->untold_sent >= 1) {
		report.counted_packets = (uint64_t)f->untold_sent;
		f->untold_sent -= (double)report.counted_packets;
	}
	f->told_arrived = f->peer_arrived;
	f->told_ce = f->peer_ce;
	f->idle = list_empty(&qp->tx.ready);
	qp->gate->report(qp->gate_arg, &report, qp->ctx->now);
}

void gate_timeout(struct gw_qp *qp)
{
	if (qp->gate && qp->gate->timeout)
		qp->gate->timeout(qp->gate_arg, qp->ctx->now);
}

void gate_undo_timeout(struct gw_qp *qp)
{
	if (qp->gate && qp->gate->undo_timeout)
		qp->gate->undo_timeout(qp->gate_arg, qp->ctx->now);
}

void gate_credit(struct gw_qp *qp)
{
	if (qp->gate && qp->gate->credit)
		qp->gate->credit(qp->gate_arg, qp->feedback.window, qp->ctx->now);
}

void gate_cnp(struct gw_qp *qp)
{
	qp->feedback.cnps++;
	if (qp->gate && qp->gate->cnp)
		qp->gate->cnp(qp->gate_arg, qp->ctx->now);
}

int gw_qp_set_gate(struct gw_qp *qp, const struct gw_gate *gate, void *arg)
{
	if (!qp)
		return -EINVAL;
	if (!qp_valid(qp))
		return -ESTALE;
	qp->gate = gate;
	qp->gate_arg = arg;
	qp->feedback.told_arrived = qp->feedback.peer_arrived;
	qp->feedback.untold_lost = qp->feedback.untold_sent = 0;
	qp->feedback.told_ce = qp->feedback.peer_ce;
	if (qp->state == QP_CONNECTED)
		gate_credit(qp);
	feedback_reopen(qp);
	return 0;
}

int gw_qp_reopen(struct gw_qp *qp)
{
	int error = qp_usable(qp);

	if (error)
		return error;
	feedback_reopen(qp);
	return 0;
}

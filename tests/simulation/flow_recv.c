/* SPDX-License-Identifier: BSD-3-Clause */
/* The receives of a flow: posted as planned, and checked against the plan when they end. */
#include <errno.h>

#include "message/state.h"
#include "simulation/flow.h"

static void received(struct message *m, int status)
{
	struct flow *flow = m->flow;
	struct run *run = flow->run;
	struct gw_recv_status what;

	if (m->received) {
		run_fail(run, "message %u: the release was reported twice", m->index);
		return;
	}
	m->received = true;
	flow->ended_recvs++;
	if (run->trace)
		run_note(run, "%u -> %u: receive %u released with %d", flow->plan->from,
			 flow->plan->to, m->index, status);
	if (gw_recv_status(m->recv, &what)) {
		run_fail(run, "message %u: no status", m->index);
		return;
	}
	message_check(m, &what);
	m->whole = what.flags & GW_RECV_FULL;
	if (what.flags & GW_RECV_ANNOUNCED && what.length != m->plan->length)
		run_fail(run, "message %u: length %lu instead of %lu", m->index,
			 (unsigned long)what.length, (unsigned long)m->plan->length);
	if (status == -EMSGSIZE) {
		run_saw(run, SIGHT_RECEIVE_TOO_SMALL);
		if (m->plan->capacity >= m->plan->length)
			run_fail(run,
				 "message %u: the receive failed as too small, and is large enough",
				 m->index);
	} else if (m->plan->mode == MODE_BOUNDED) {
		message_check_bounded(m, status);
	} else if (status && !run->scenario->may_fail) {
		run_fail(run, "message %u: the receive ended with %d", m->index, status);
	} else if (!status && !message_is_raw(m->plan) && !m->whole) {
		run_fail(run, "message %u: an exact message has holes", m->index);
	} else if (!status && !m->whole) {
		run_saw(run, m->plan->receive_early ? SIGHT_COMPLETED_EARLY
						    : SIGHT_COMPLETED_WITH_HOLES);
	}
	if (!m->plan->length)
		run_saw(run, SIGHT_EMPTY_MESSAGE);
	m->sum = message_sum(m);
	if (gw_recv_close(m->recv))
		run_fail(run, "message %u: the receive does not close", m->index);
	m->recv = NULL;
	flow_post_recvs(flow);
}

static void raw_announced(struct gw_recv *recv, void *arg, uint64_t now)
{
	const struct message *m = arg;

	gw_recv_timer(recv, now + m->plan->hold_ns);
}

static void raw_progress(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct message *m = arg;
	struct gw_recv_status status;
	uint32_t imm;

	(void)now;
	gw_recv_status(recv, &status);
	if (!(status.flags & GW_RECV_ANNOUNCED) && !gw_recv_imm(recv, &imm)) {
		run_saw(m->flow->run, SIGHT_IMM_FROM_PACKETS);
		message_check_imm(m, recv);
	}
	if (status.flags & GW_RECV_FULL)
		gw_recv_complete(recv);
}

static void raw_timer(struct gw_recv *recv, void *arg, uint64_t now)
{
	(void)arg;
	(void)now;
	gw_recv_complete(recv);
}

static void raw_released(struct gw_recv *recv, void *arg, int status, uint64_t now)
{
	(void)recv;
	(void)now;
	received(arg, status);
}

static void exact_received(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	(void)now;
	received(arg, result->status);
}

static const struct gw_recv_handler raw_handler = { .announced = raw_announced,
						    .progress = raw_progress,
						    .timer = raw_timer,
						    .released = raw_released };

static int post_recv(struct message *m)
{
	struct gw_recv_attr raw = { .addr = message_target(m),
				    .length = m->plan->capacity,
				    .mr = m->target_mr,
				    .handler = &raw_handler,
				    .arg = m };
	struct gw_transfer_attr exact = { .addr = message_target(m),
					  .length = m->plan->capacity,
					  .mr = m->target_mr,
					  .done = exact_received,
					  .arg = m };

	struct gw_bounded_options bounded = { .deadline_ns = m->plan->deadline_ns,
					      .floor_ppm = m->plan->floor_ppm,
					      .outcome = &m->outcome,
					      .line = m->plan->in_line ? &m->flow->line : NULL };

	switch (m->plan->mode) {
	case MODE_EXACT:
		return gw_transfer_recv(m->flow->rx, &gw_selective_repeat, &exact, &m->recv);
	case MODE_ERASURE:
		exact.options = m->erasure[1];
		return gw_transfer_recv(m->flow->rx, &gw_erasure, &exact, &m->recv);
	case MODE_AUTO:
		exact.options = m->erasure[1];
		return gw_transfer_recv(m->flow->rx, &gw_auto, &exact, &m->recv);
	case MODE_BOUNDED:
		exact.options = &bounded;
		return gw_transfer_recv(m->flow->rx, &gw_bounded, &exact, &m->recv);
	default:
		return gw_recv_post(m->flow->rx, &raw, &m->recv);
	}
}

void flow_post_recvs(struct flow *flow)
{
	struct run *run = flow->run;

	while (!flow->rx_over && flow->rx && flow->posted_recvs < flow->plan->messages &&
	       flow->posted_recvs - flow->ended_recvs < flow->plan->recvs_open) {
		struct message *m = &flow->message[flow->posted_recvs];
		int error = post_recv(m);

		if (error) {
			flow->rx_over = true;
			if (!run->scenario->may_fail)
				run_fail(run, "message %u: the receive was refused with %d",
					 m->index, error);
			return;
		}
		if (flow->posted_recvs >= run->scenario->qp.slots)
			run_saw(run, SIGHT_SLOT_WRAPPED);
		if (flow->rx->rx.posted < flow->rx->rx.first_msn)
			run_saw(run, SIGHT_MSN_WRAPPED);
		flow->posted_recvs++;
		if (m->plan->receive_early)
			gw_recv_complete(m->recv);
	}
}

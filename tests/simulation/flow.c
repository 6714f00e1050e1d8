/* SPDX-License-Identifier: BSD-3-Clause */
/* Flows: post messages as planned, and report to the run what breaks an invariant. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "message/state.h"
#include "simulation/flow.h"

static void post_sends(struct flow *flow);
static void post_recvs(struct flow *flow);

/* ---- sending --------------------------------------------------------------------------------------------------- */

static void sent(struct message *m, int status)
{
	struct flow *flow = m->flow;
	const struct scenario *scenario = flow->run->scenario;

	if (m->sent) {
		run_fail(flow->run, "message %u: the end of the send was reported twice", m->index);
		return;
	}
	m->sent = true;
	flow->ended_sends++;
	memset(m->source, ~MARGIN_BYTE, m->plan->length);
	if (flow->run->trace)
		run_note(flow->run, "%u -> %u: send %u ended with %d", flow->plan->from,
			 flow->plan->to, m->index, status);
	if (status == -EMSGSIZE && m->plan->capacity >= m->plan->length)
		run_fail(
			flow->run,
			"message %u: the send failed for a small receive, and the receive is large enough",
			m->index);
	else if (status && status != -EMSGSIZE && !scenario->may_fail &&
		 !(m->plan->mode == MODE_BOUNDED && status == -ECANCELED))
		run_fail(flow->run, "message %u: the send ended with %d", m->index, status);
	if (m->send && gw_send_close(m->send))
		run_fail(flow->run, "message %u: the send does not close", m->index);
	m->send = NULL;
	post_sends(flow);
}

static void raw_sent(struct gw_send *send, void *arg, int status, uint64_t now)
{
	(void)send;
	(void)now;
	sent(arg, status);
}

static void exact_sent(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	(void)now;
	message_saw_choice(arg);
	sent(arg, result->status);
}

/* Puts the message in short ranges, every other message backwards, with some ranges left out where the plan says so. */
static void stream_more(struct gw_send *send, struct message *m)
{
	uint32_t payload = 0, packets;

	gw_send_payload(send, &payload);
	packets = (uint32_t)((m->plan->length + payload - 1) / payload);
	for (;;) {
		uint32_t run = 1 + m->cursor * 7 % 3;
		uint32_t first;
		uint64_t length;
		int error;

		if (m->cursor >= packets) {
			if (!m->plan->stream_twice || m->second)
				break;
			m->second = true;
			m->cursor = 0;
			if (!packets)
				break;
		}
		if (run > packets - m->cursor)
			run = packets - m->cursor;
		first = m->index % 2 ? packets - m->cursor - run : m->cursor;
		length = (uint64_t)run * payload;
		if ((uint64_t)first * payload + length > m->plan->length)
			length = m->plan->length - (uint64_t)first * payload;
		if (!m->plan->gaps || m->cursor % m->plan->gaps) {
			error = gw_stream_put(send, (uint64_t)first * payload,
					      m->source + (uint64_t)first * payload, length,
					      m->source_mr);
			if (error == -EAGAIN)
				return;
			if (error == -EALREADY)
				break; /* the receiver has completed the message */
			if (error)
				run_fail(m->flow->run, "message %u: a put was refused with %d",
					 m->index, error);
		}
		m->cursor += run;
	}
	gw_stream_end(send);
}

static void stream_granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now)
{
	(void)capacity;
	(void)now;
	stream_more(send, arg);
}

static void stream_drained(struct gw_send *send, void *arg, uint64_t now)
{
	(void)now;
	stream_more(send, arg);
}

static void stream_result(struct gw_send *send, void *arg, const struct gw_result *result,
			  uint64_t now)
{
	const struct message *m = arg;

	(void)now;
	if (m->received && m->whole != !result->missing)
		run_fail(m->flow->run, "message %u: the result says %u packets are missing",
			 m->index, result->missing);
	gw_stream_end(send);
}

/* Once more from the start, in smaller packets. */
static void stream_recut(struct gw_send *send, void *arg, uint64_t now)
{
	struct message *m = arg;

	(void)now;
	m->cursor = 0;
	stream_more(send, m);
}

static const struct gw_send_handler one_shot_handler = { .done = raw_sent };
static const struct gw_send_handler stream_handler = { .granted = stream_granted,
						       .drained = stream_drained,
						       .result = stream_result,
						       .done = raw_sent,
						       .recut = stream_recut };

static int post_send(struct message *m)
{
	struct gw_send_attr raw = { .length = m->plan->length, .arg = m };
	struct gw_transfer_attr exact = { .addr = m->source,
					  .length = m->plan->length,
					  .mr = m->source_mr,
					  .done = exact_sent,
					  .arg = m };

	if (m->plan->has_imm) {
		raw.flags = exact.flags = GW_SEND_IMM;
		raw.imm = exact.imm = m->plan->imm;
	}
	switch (m->plan->mode) {
	case MODE_EXACT:
		return gw_transfer_send(m->flow->tx, &gw_selective_repeat, &exact, &m->send);
	case MODE_ERASURE:
		exact.options = m->erasure[0];
		return gw_transfer_send(m->flow->tx, &gw_erasure, &exact, &m->send);
	case MODE_AUTO:
		exact.options = m->erasure[0];
		return gw_transfer_send(m->flow->tx, &gw_auto, &exact, &m->send);
	case MODE_BOUNDED:
		return gw_transfer_send(m->flow->tx, &gw_bounded, &exact, &m->send);
	case MODE_ONE_SHOT:
		raw.addr = m->source;
		raw.mr = m->source_mr;
		raw.handler = &one_shot_handler;
		return gw_send_post(m->flow->tx, &raw, &m->send);
	default:
		raw.handler = &stream_handler;
		return gw_stream_start(m->flow->tx, &raw, &m->send);
	}
}

static void post_sends(struct flow *flow)
{
	while (!flow->tx_over && flow->tx && flow->posted_sends < flow->plan->messages &&
	       flow->posted_sends - flow->ended_sends < flow->plan->sends_open) {
		struct message *m = &flow->message[flow->posted_sends];
		int error = post_send(m);

		if (error) {
			flow->tx_over = true;
			if (!flow->run->scenario->may_fail)
				run_fail(flow->run, "message %u: the send was refused with %d",
					 m->index, error);
			return;
		}
		flow->posted_sends++;
		if (m->plan->send_abandoned) {
			run_saw(flow->run, SIGHT_SEND_ABANDONED);
			gw_send_close(m->send);
			m->send = NULL;
			m->sent = true;
			flow->ended_sends++;
		}
	}
}

/* ---- receiving ------------------------------------------------------------------------------------------------- */

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
	post_recvs(flow);
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

static void post_recvs(struct flow *flow)
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

/* ---- a flow ---------------------------------------------------------------------------------------------------- */

static int prepare(struct flow *flow, uint32_t index)
{
	struct message *m = &flow->message[index];
	struct gw_context *tx = flow->run->world.hosts[flow->plan->from].ctx;
	struct gw_context *rx = flow->run->world.hosts[flow->plan->to].ctx;
	struct rng rng;
	int error;

	m->flow = flow;
	m->plan = &flow->plan->message[index];
	m->index = index;
	m->source = malloc(m->plan->length + 1);
	m->expected = malloc(m->plan->length + 1);
	m->target = malloc(m->plan->capacity + 2 * MARGIN);
	if (!m->source || !m->expected || !m->target)
		return -ENOMEM;
	rng_seed(&rng, flow->run->scenario->seed * 1000003 + index * 131 + flow->plan->from);
	rng_fill(&rng, m->source, m->plan->length + 1);
	memcpy(m->expected, m->source, m->plan->length + 1);
	memset(m->target, MARGIN_BYTE, m->plan->capacity + 2 * MARGIN);
	error = gw_mr_register(tx, m->source, m->plan->length + 1, &m->source_mr);
	if (!error)
		error = gw_mr_register(rx, message_target(m), m->plan->capacity, &m->target_mr);
	return error ? error : message_open_coding(m, tx, rx);
}

int flow_prepare(struct run *run, uint32_t index)
{
	struct flow *flow = &run->flows[index];
	int error = 0;

	flow->run = run;
	flow->plan = &run->scenario->flow[index];
	for (uint32_t i = 0; i < flow->plan->messages && !error; i++)
		error = prepare(flow, i);
	return error;
}

int flow_open(struct run *run, uint32_t index, struct gw_qp *tx, struct gw_qp *rx)
{
	struct flow *flow = &run->flows[index];
	int error = flow_prepare(run, index);

	if (error)
		return error;
	flow->tx = tx;
	flow->rx = rx;
	post_recvs(flow);
	post_sends(flow);
	world_touch(&run->world, flow->plan->from);
	world_touch(&run->world, flow->plan->to);
	return 0;
}

bool flow_finished(const struct flow *flow)
{
	return flow->ended_sends == (flow->tx_over ? flow->posted_sends : flow->plan->messages) &&
	       flow->ended_recvs == (flow->rx_over ? flow->posted_recvs : flow->plan->messages);
}

static bool alive(const struct flow *flow, uint32_t host)
{
	return flow->run->world.hosts[host].ctx != NULL;
}

void flow_close(struct flow *flow)
{
	for (uint32_t i = 0; i < flow->plan->messages; i++) {
		struct message *m = &flow->message[i];

		message_close_coding(m, 0, alive(flow, flow->plan->from));
		message_close_coding(m, 1, alive(flow, flow->plan->to));
		if (alive(flow, flow->plan->from) && gw_mr_deregister(m->source_mr))
			run_fail(flow->run, "message %u: its source is still in use", i);
		if (alive(flow, flow->plan->to) && gw_mr_deregister(m->target_mr))
			run_fail(flow->run, "message %u: its target is still in use", i);
	}
}

void flow_close_qps(struct flow *flow, struct flow *back)
{
	if (flow->tx && alive(flow, flow->plan->from) && gw_qp_close(flow->tx))
		run_fail(flow->run, "a queue pair does not close");
	if (flow->rx && alive(flow, flow->plan->to) && gw_qp_close(flow->rx))
		run_fail(flow->run, "a queue pair does not close");
	flow->tx = flow->rx = back->tx = back->rx = NULL;
}

void flows_host_dies(struct run *run, uint32_t host)
{
	for (uint32_t i = 0; i < run->scenario->flow_count; i++) {
		struct flow *flow = &run->flows[i];

		for (uint32_t j = 0; j < flow->plan->messages; j++) {
			if (flow->plan->from == host)
				flow->message[j].send = NULL;
			if (flow->plan->to == host)
				flow->message[j].recv = NULL;
		}
		if (flow->plan->from == host) {
			flow->tx = NULL;
			flow->tx_over = true;
			flow->ended_sends = flow->posted_sends;
		}
		if (flow->plan->to == host) {
			flow->rx = NULL;
			flow->rx_over = true;
			flow->ended_recvs = flow->posted_recvs;
		}
	}
}

void flows_explain(struct run *run)
{
	size_t used = 0;

	for (uint32_t i = 0; i < run->scenario->flow_count && used < sizeof(run->explanation) - 1;
	     i++) {
		const struct flow *flow = &run->flows[i];

		if (!flow_finished(flow))
			used += (size_t)snprintf(
				run->explanation + used, sizeof(run->explanation) - used,
				"flow %u: sends %u of %u ended, receives %u of %u; ", i,
				flow->ended_sends, flow->posted_sends, flow->ended_recvs,
				flow->posted_recvs);
	}
}

void flows_free(struct run *run)
{
	for (uint32_t i = 0; i < run->scenario->flow_count; i++)
		for (uint32_t m = 0; m < MESSAGES_MAX; m++) {
			/* A run that failed has not closed its coders, and their contexts are closed by now. */
			gw_erasure_abandon(run->flows[i].message[m].erasure[0]);
			gw_erasure_abandon(run->flows[i].message[m].erasure[1]);
			free(run->flows[i].message[m].source);
			free(run->flows[i].message[m].expected);
			free(run->flows[i].message[m].target);
		}
}

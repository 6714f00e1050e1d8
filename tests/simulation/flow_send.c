/* SPDX-License-Identifier: BSD-3-Clause */
/* The sends of a flow: posted as planned; reports to the run what breaks an invariant. */
#include <errno.h>
#include <string.h>

#include "simulation/flow.h"

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
	flow_post_sends(flow);
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

void flow_post_sends(struct flow *flow)
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

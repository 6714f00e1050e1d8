/* SPDX-License-Identifier: BSD-3-Clause */
/* Flows: their memory, their begin and their end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "message/state.h"
#include "simulation/flow.h"

/* Fills a message with bytes that differ from place to place and from message to message. rng_fill() took a fifth of the time
 * of all scenarios. No word follows from the one before it, so that the processor computes several at a time. */
static void fill(uint8_t *out, size_t length, uint64_t start)
{
	uint64_t at = start, word;

	for (; length >= sizeof(word); out += sizeof(word), length -= sizeof(word)) {
		word = (at ^ at >> 32) * UINT64_C(0xd1342543de82ef95);
		memcpy(out, &word, sizeof(word));
		at += UINT64_C(0x9e3779b97f4a7c15);
	}
	memcpy(out, &at, length);
}

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
	fill(m->source, m->plan->length + 1, rng_u64(&rng));
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
	flow_post_recvs(flow);
	flow_post_sends(flow);
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

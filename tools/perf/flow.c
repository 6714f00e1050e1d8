/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is behind a flow: a queue pair, on which a scheme posts, or a channel, with a controller and a pacer.
 *
 * A channel's messages have no immediate: their first bytes carry its contents, four bytes if there are as many. The two
 * flags come first, then the low bits of the sequence.
 */
#include "flow.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "bench.h"
#include "scheme.h"

#define OPERATIONS_LEAST 64

_Static_assert(sizeof(struct gw_channel_info) <= PERF_INFO_MAX, "an end's description");
_Static_assert(sizeof(struct gw_qp_info) <= PERF_INFO_MAX, "an end's description");

static void gone(struct perf_flow *flow, int status)
{
	if (!flow->bench->gone)
		flow->bench->gone = status;
	perf_bench_settle(flow->bench);
}

static void qp_gone(struct gw_qp *qp, void *arg, int status, uint64_t now)
{
	(void)qp;
	(void)now;
	gone(arg, status);
}

static void channel_gone(struct gw_channel *channel, void *arg, int status, uint64_t now)
{
	(void)channel;
	(void)now;
	gone(arg, status);
}

static const struct gw_qp_handler qp_handler = { .gone = qp_gone };
static const struct gw_channel_handler channel_handler = { .gone = channel_gone };

/* Twice as many as receives: a slot is taken until the sender has acknowledged the result. */
static uint32_t slots_for(const struct perf_plan *plan)
{
	uint32_t slots = 4;

	while (slots < 2 * perf_plan_messages(plan))
		slots *= 2;
	return slots;
}

/* Operations of a channel: all messages of each direction, and as many that wait for the peer to acknowledge their end. */
static uint32_t operations_for(const struct perf_plan *plan)
{
	uint32_t operations = 4 * perf_plan_messages(plan);

	return operations < OPERATIONS_LEAST ? OPERATIONS_LEAST : operations;
}

int perf_flow_open(struct perf_flow *flow, uint64_t timeout_ns, const char *peer_host,
		   const struct gw_seal *seal)
{
	struct perf_bench *bench = flow->bench;
	const struct perf_plan *plan = &bench->plan;
	struct gw_qp_attr qp = { .slots = slots_for(plan),
				 .peer_timeout_ns = timeout_ns,
				 .handler = &qp_handler,
				 .arg = flow,
				 .peer_host = peer_host,
				 .seal = seal };
	struct gw_channel_attr channel = { .congestion = perf_plan_congestion(plan),
					   .rate_bps = plan->rate_bps,
					   .peer_timeout_ns = timeout_ns,
					   .slots = slots_for(plan),
					   .operations = operations_for(plan),
					   .handler = &channel_handler,
					   .arg = flow,
					   .peer_host = peer_host,
					   .seal = seal };

	return plan->channel ? gw_channel_create(bench->ctx, &channel, &flow->channel)
			     : gw_qp_create(bench->ctx, &qp, &flow->qp);
}

void perf_flow_close(struct perf_flow *flow)
{
	if (flow->governed)
		gw_flow_close(flow->governed);
	if (flow->qp)
		gw_qp_close(flow->qp);
	if (flow->channel)
		gw_channel_close(flow->channel);
}

int perf_flow_info(const struct perf_flow *flow, uint8_t out[PERF_INFO_MAX], size_t *length)
{
	struct gw_channel_info channel;
	struct gw_qp_info qp;
	int rc;

	if (flow->channel) {
		rc = gw_channel_info(flow->channel, &channel);
		*length = sizeof(channel.bytes);
		memcpy(out, channel.bytes, rc ? 0 : sizeof(channel.bytes));
		return rc;
	}
	rc = gw_qp_info(flow->qp, &qp);
	*length = sizeof(qp.bytes);
	memcpy(out, qp.bytes, rc ? 0 : sizeof(qp.bytes));
	return rc;
}

/* Puts a congestion controller and a pacer in front of a queue pair, if the plan asks for one. */
static int govern(struct perf_flow *flow)
{
	const struct perf_plan *plan = &flow->bench->plan;
	struct gw_flow_attr attr = { .congestion = perf_plan_congestion(plan),
				     .rate_bps = plan->rate_bps };

	if (plan->congestion[0] == '\0' && !plan->rate_bps)
		return 0;
	return gw_flow_open(flow->qp, &attr, &flow->governed);
}

int perf_flow_connect(struct perf_flow *flow, const uint8_t *info, size_t length)
{
	struct gw_channel_info channel;
	struct gw_qp_info qp;
	int rc;

	if (length != (flow->channel ? sizeof(channel.bytes) : sizeof(qp.bytes)))
		return -EPROTO;
	if (flow->channel) {
		memcpy(channel.bytes, info, length);
		return gw_channel_connect(flow->channel, &channel);
	}
	memcpy(qp.bytes, info, length);
	rc = gw_qp_connect(flow->qp, &qp);
	return rc ? rc : govern(flow);
}

uint64_t perf_flow_rtt_ns(const struct perf_flow *flow)
{
	struct gw_channel_stats stats;
	struct gw_estimate estimate;

	if (flow->channel)
		return gw_channel_stats(flow->channel, &stats) ? 0 : stats.rtt_ns;
	return gw_qp_estimate(flow->qp, &estimate) ? 0 : estimate.rtt_ns;
}

uint32_t perf_head_bytes(uint64_t size)
{
	assert(size);
	return size < sizeof(uint32_t) ? (uint32_t)size : sizeof(uint32_t);
}

static uint32_t head_sequence(uint32_t bytes)
{
	return PERF_IMM_SEQUENCE >> 8 * (sizeof(uint32_t) - bytes);
}

static void head_write(uint8_t *message, uint64_t size, uint32_t imm)
{
	uint32_t bytes = perf_head_bytes(size);
	uint32_t flags = (imm & ~PERF_IMM_SEQUENCE) >> 8 * (sizeof(uint32_t) - bytes);
	uint32_t head = flags | (imm & head_sequence(bytes));

	for (uint32_t i = 0; i < bytes; i++)
		message[i] = (uint8_t)(head >> 8 * (bytes - 1 - i));
}

uint32_t perf_head_read(const uint8_t *message, uint64_t size, uint32_t *known)
{
	uint32_t bytes = perf_head_bytes(size), head = 0;

	for (uint32_t i = 0; i < bytes; i++)
		head = head << 8 | message[i];
	*known = head_sequence(bytes);
	return (head & ~*known) << 8 * (sizeof(uint32_t) - bytes) | (head & *known);
}

static void sent(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct perf_shot *shot = arg;

	(void)op;
	perf_shot_sent(shot, result->status, gw_now_ns(shot->flow->bench->ctx));
}

static void received(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct perf_shot *shot = arg;
	uint64_t now = gw_now_ns(shot->flow->bench->ctx);
	int status = result->status;

	(void)op;
	if (status == 0 && result->length != shot->flow->bench->plan.size)
		status = -EPROTO;
	perf_shot_received(shot, status, now, now);
}

static const struct gw_scheme *channel_scheme(const struct perf_shot *shot)
{
	const struct perf_scheme *scheme = shot->flow->bench->plan.scheme;

	return scheme->automatic ? NULL : scheme->library;
}

int perf_flow_post_send(struct perf_shot *shot, uint8_t *addr, uint64_t length, uint32_t imm)
{
	struct gw_op_attr attr = { .addr = addr,
				   .length = length,
				   .mr = shot->flow->bench->send_area.mr,
				   .scheme = channel_scheme(shot),
				   .options = shot->erasure,
				   .done = sent,
				   .arg = shot };

	if (!shot->flow->channel)
		return shot->flow->bench->plan.scheme->send(shot, addr, length, imm);
	head_write(addr, length, imm);
	return gw_channel_send(shot->flow->channel, &attr, &shot->op);
}

int perf_flow_post_recv(struct perf_shot *shot, uint8_t *addr, uint64_t length)
{
	struct gw_op_attr attr = { .addr = addr,
				   .length = length,
				   .mr = shot->flow->bench->recv_area.mr,
				   .scheme = channel_scheme(shot),
				   .options = shot->erasure,
				   .done = received,
				   .arg = shot };

	if (!shot->flow->channel)
		return shot->flow->bench->plan.scheme->recv(shot, addr, length);
	return gw_channel_recv(shot->flow->channel, &attr, &shot->op);
}

void perf_shot_close(struct perf_shot *shot)
{
	if (shot->send)
		gw_send_close(shot->send);
	if (shot->recv)
		gw_recv_close(shot->recv);
	if (shot->op)
		gw_op_close(shot->op);
	shot->send = NULL;
	shot->recv = NULL;
	shot->op = NULL;
}

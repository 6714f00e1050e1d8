/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scheme `raw`: every packet is sent once and nothing is repaired. A send ends when its last packet was handed to the
 * fabric, so the sender does not know what was lost; the receiver has to infer it.
 *
 * Messages of a queue pair leave in order. So when packets of a later one have landed, all of this one were sent, and
 * what does not arrive within one patience (gw_qp_patience_ns()) is lost. A message without a later one is given up when
 * nothing was received for a while: for some patiences if the sender has said that it sent everything, or if it sends one
 * message at a time; otherwise for longer, because a sender whose window is full may be silent for a second, and its
 * unsent messages would be counted as lost. Only the oldest open receive needs a timer for that.
 */
#include <stddef.h>

#include <godwit/control.h>

#include "bench.h"
#include "scheme.h"

#define SILENCE_PATIENCES 8
#define SILENCE_MIN_NS	  UINT64_C(20000000)
#define SILENCE_STREAM_NS UINT64_C(1500000000)

static uint64_t silence_ns(const struct perf_flow *flow)
{
	const struct perf_bench *bench = flow->bench;
	uint64_t silence = SILENCE_PATIENCES * gw_qp_patience_ns(flow->qp);
	uint64_t least = bench->phase.peer_sent || bench->plan.test == PERF_LATENCY
				 ? SILENCE_MIN_NS
				 : SILENCE_STREAM_NS;

	return silence > least ? silence : least;
}

static void complete(struct perf_shot *shot)
{
	shot->completed = true;
	gw_recv_complete(shot->recv);
}

static struct perf_shot *oldest_open(struct perf_flow *flow)
{
	for (struct list *item = flow->open_recvs.next; item != &flow->open_recvs;
	     item = item->next) {
		struct perf_shot *shot = container_of(item, struct perf_shot, link);

		if (!shot->completed)
			return shot;
	}
	return NULL;
}

/* Completes receives whose missing packets are known to be lost, oldest first, and sets the timer of the next. */
static void give_up(struct perf_flow *flow, uint64_t now)
{
	uint64_t patience = gw_qp_patience_ns(flow->qp);
	uint64_t silence = silence_ns(flow);
	struct perf_shot *shot;

	while ((shot = oldest_open(flow)) && shot->announced) {
		bool overtaken = flow->newest > shot->sequence + 1;
		uint64_t at = overtaken ? shot->heard_ns + patience : flow->heard_ns + silence;

		if (now < at) {
			gw_recv_timer(shot->recv, at);
			break;
		}
		complete(shot);
	}
}

static void look(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct perf_shot *shot = arg;
	struct perf_flow *flow = shot->flow;
	struct gw_recv_status status;

	if (gw_recv_status(recv, &status))
		return;
	shot->announced = status.flags & GW_RECV_ANNOUNCED;
	shot->heard_ns = flow->heard_ns = now;
	/* An announcement alone is also worth a look, but proves nothing about the messages before it. */
	if (status.landed != shot->landed) {
		shot->landed = status.landed;
		shot->landed_ns = now;
		if (shot->sequence >= flow->newest)
			flow->newest = shot->sequence + 1;
	}
	if (status.flags & GW_RECV_FULL)
		complete(shot);
	give_up(flow, now);
}

static void timer(struct gw_recv *recv, void *arg, uint64_t now)
{
	const struct perf_shot *shot = arg;

	(void)recv;
	give_up(shot->flow, now);
}

static void released(struct gw_recv *recv, void *arg, int status, uint64_t now)
{
	struct perf_shot *shot = arg;

	(void)recv;
	perf_shot_received(shot, status, shot->landed_ns, now);
}

static void all_sent(struct perf_flow *flow, uint64_t now)
{
	flow->heard_ns = now;
	give_up(flow, now);
}

static const struct gw_recv_handler recv_handler = {
	.announced = look,
	.progress = look,
	.timer = timer,
	.released = released,
};

static void done(struct gw_send *send, void *arg, int status, uint64_t now)
{
	(void)send;
	perf_shot_sent(arg, status, now);
}

static const struct gw_send_handler send_handler = { .done = done };

static int raw_send(struct perf_shot *shot, const void *addr, uint64_t length, uint32_t imm)
{
	struct gw_send_attr attr = {
		.addr = addr,
		.length = length,
		.mr = shot->flow->bench->send_area.mr,
		.flags = GW_SEND_IMM,
		.imm = imm,
		.handler = &send_handler,
		.arg = shot,
	};

	return gw_send_post(shot->flow->qp, &attr, &shot->send);
}

static int raw_recv(struct perf_shot *shot, void *addr, uint64_t length)
{
	struct gw_recv_attr attr = {
		.addr = addr,
		.length = length,
		.mr = shot->flow->bench->recv_area.mr,
		.handler = &recv_handler,
		.arg = shot,
	};

	return gw_recv_post(shot->flow->qp, &attr, &shot->recv);
}

const struct perf_scheme perf_raw = {
	.name = "raw", .send = raw_send, .recv = raw_recv, .all_sent = all_sent
};

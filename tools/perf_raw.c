/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scheme `raw`: every packet is sent once and nothing is repaired. A send has ended when its last packet was handed
 * over, so nobody says what was lost; the receiver has to conclude it.
 *
 * Messages of a queue pair leave in order. So when packets of a later one have landed, all of this one were sent, and
 * what does not come within a patience is lost. A message with none after it is given up when nothing at all was heard
 * for some patiences. Only the oldest open receive needs a timer for that.
 */
#include <stddef.h>

#include <godwit/control.h>

#include "perf_bench.h"
#include "perf_scheme.h"

#define SILENCE_PATIENCES 8
#define SILENCE_MIN_NS	  UINT64_C(20000000)

static uint64_t silence_ns(const struct perf_flow *flow)
{
	uint64_t silence = SILENCE_PATIENCES * gw_qp_patience_ns(flow->qp);

	return silence > SILENCE_MIN_NS ? silence : SILENCE_MIN_NS;
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

/* Gives up what has proved lost, oldest first, and has the oldest of the rest watched. */
static void give_up(struct perf_flow *flow, uint64_t now)
{
	uint64_t patience = gw_qp_patience_ns(flow->qp);
	uint64_t silence = silence_ns(flow);
	struct perf_shot *shot;

	while ((shot = oldest_open(flow)) && shot->announced) {
		bool overtaken = (int32_t)(flow->newest - shot->sequence) > 1;

		if ((overtaken && now - shot->heard_ns >= patience) ||
		    now - flow->heard_ns >= silence) {
			complete(shot);
			continue;
		}
		gw_recv_timer(shot->recv, flow->heard_ns + silence);
		break;
	}
}

static void look(struct perf_shot *shot, uint64_t now)
{
	struct gw_recv_status status;

	shot->heard_ns = now;
	shot->flow->heard_ns = now;
	if (gw_recv_status(shot->recv, &status) == 0 && status.flags & GW_RECV_FULL)
		complete(shot);
	give_up(shot->flow, now);
}

static void announced(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct perf_shot *shot = arg;

	(void)recv;
	shot->announced = true;
	look(shot, now);
}

static void landed(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct perf_shot *shot = arg;

	(void)recv;
	shot->landed_ns = now;
	if ((int32_t)(shot->sequence + 1 - shot->flow->newest) > 0)
		shot->flow->newest = shot->sequence + 1;
	look(shot, now);
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

static const struct gw_recv_handler recv_handler = {
	.announced = announced,
	.progress = landed,
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

const struct perf_scheme perf_raw = { .name = "raw", .send = raw_send, .recv = raw_recv };

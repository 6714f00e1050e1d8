/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latency: the client sends a ping and the server answers it, one at a time on each queue pair.
 *
 * Nothing else may delay an answer. So receives are posted well before they are needed, and posted again in batches after
 * the turn in which the answer leaves: posting sends a grant, which would leave before the answer. A ping does not wait for
 * the result of the ping before it: the answer to that one has shown that it arrived.
 */
#include "bench.h"

static void take_sample(struct perf_flow *flow, const struct perf_arrival *arrival,
			uint64_t half_ns)
{
	struct perf_samples *samples = &flow->bench->samples;

	if (arrival->missing_packets || arrival->imm & PERF_IMM_HOLED)
		samples->lost++;
	else
		perf_samples_add(samples, half_ns);
}

static void ping(struct perf_flow *flow, uint64_t now)
{
	const struct perf_samples *samples = &flow->bench->samples;
	bool last = perf_flow_ends(flow, now) || samples->count + 1 >= samples->room;

	flow->ping_ns = now;
	flow->owes =
		list_empty(&flow->idle_sends) || !perf_flow_send(flow, last ? PERF_IMM_LAST : 0);
}

static void pong(struct perf_flow *flow)
{
	flow->owes = list_empty(&flow->idle_sends) || !perf_flow_send(flow, flow->owed_imm);
}

static void begin(struct perf_bench *bench, uint64_t now)
{
	for (uint32_t i = 0; bench->client && i < bench->plan.qps; i++)
		ping(&bench->flows[i], now);
}

/* A send ended: sends the answer that had to wait for a free shot. */
static void sent(struct perf_flow *flow, uint64_t now)
{
	(void)now;
	if (!flow->owes || flow->bench->error)
		return;
	if (flow->bench->client)
		ping(flow, gw_now_ns(flow->bench->ctx));
	else
		pong(flow);
}

static void received(struct perf_flow *flow, const struct perf_arrival *arrival, uint64_t now)
{
	struct perf_bench *bench = flow->bench;

	if (bench->client) {
		/* The turn's own time is from before its work. The next ping leaves at the time that this one ended. */
		now = gw_now_ns(bench->ctx);
		take_sample(flow, arrival, (now - flow->ping_ns) / 2);
		if (!flow->last_sent)
			ping(flow, now);
	} else {
		flow->owed_imm = arrival->imm & PERF_IMM_LAST;
		if (arrival->missing_packets)
			flow->owed_imm |= PERF_IMM_HOLED;
		pong(flow);
	}
	bench->restock_next = true;
}

static void between(struct perf_bench *bench)
{
	bool now = bench->restock_now;

	bench->restock_now = bench->restock_next;
	bench->restock_next = false;
	for (uint32_t i = 0; now && i < bench->plan.qps; i++) {
		struct perf_flow *flow = &bench->flows[i];

		if (flow->idle_recv_count < bench->recv_area.shots_each / 2)
			continue;
		perf_flow_restock(flow);
	}
}

const struct perf_engine perf_pingpong = {
	.begin = begin,
	.sent = sent,
	.received = received,
	.between = between,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/* Bandwidth: as many messages in flight as the depth allows, at all times. */
#include "bench.h"

static void fill(struct perf_flow *flow, uint64_t now)
{
	while (!flow->last_sent && !flow->bench->error && !list_empty(&flow->idle_sends) &&
	       perf_flow_send(flow, perf_flow_ends(flow, now) ? PERF_IMM_LAST : 0))
		;
}

static void begin(struct perf_bench *bench, uint64_t now)
{
	for (uint32_t i = 0; bench->sends && i < bench->plan.qps; i++)
		fill(&bench->flows[i], now);
}

static void received(struct perf_flow *flow, const struct perf_arrival *arrival, uint64_t now)
{
	(void)arrival;
	(void)now;
	perf_flow_restock(flow);
}

const struct perf_engine perf_stream = { .begin = begin, .sent = fill, .received = received };

/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes a bench: limits of the context, memory whose pages are touched in advance, queue pairs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "flow.h"
#include "scheme.h"
#include "tools/meet.h"
#include "tools/report.h"

#define REQUESTS_A_QP	   (3 * PERF_DEPTH_MAX)
#define REQUESTS_A_CHANNEL 256 /* packs and what holds them, each way */
#define REQUESTS_MAX	   (5 * PERF_MESSAGES_MAX)
#define BITMAP_LEAST	   256
#define BYTES_A_BITMAP_BYTE                                                                        \
	64 /* a bit a packet of 256 bytes or more, of several messages, in blocks of a power of two */
#define SEND_LOG_BYTES                                                                             \
	(UINT64_C(512) << 10) /* what the library keeps of packets sent, at the most */
#define ARENA_SLACK	 (UINT64_C(16) << 20)
#define SAMPLES_AT_LEAST 1024
#define PAYLOAD_MAX	 9000 /* more than a packet can hold */

/*
 * Limits that suffice for any plan with as many queue pairs and so much memory. A request that ended keeps its place until
 * the peer has acknowledged that, which is at most one place a slot. Pools and bitmaps take memory only as they are used.
 */
struct gw_context_attr perf_context_limits(const struct perf_plan *plan, uint64_t memory_bytes)
{
	uint64_t requests = (uint64_t)plan->qps * REQUESTS_A_QP * (perf_plan_coded(plan) ? 2 : 1);
	struct gw_context_attr limits = { .max_qps = plan->qps * (plan->channel ? 2 : 1) };

	if (requests > REQUESTS_MAX)
		requests = REQUESTS_MAX;
	if (plan->channel)
		requests += (uint64_t)plan->qps * REQUESTS_A_CHANNEL;
	limits.max_sends = limits.max_recvs = (uint32_t)requests;
	limits.bitmap_bytes = limits.max_qps * SEND_LOG_BYTES + requests * BITMAP_LEAST +
			      memory_bytes / BYTES_A_BITMAP_BYTE + ARENA_SLACK;
	return limits;
}

static int map_area(struct perf_bench *bench, struct report *report, struct perf_area *area,
		    uint32_t shots_each)
{
	const struct perf_plan *plan = &bench->plan;
	uint64_t stride = perf_plan_stride(plan);
	size_t shots = (size_t)shots_each * plan->qps;
	void *memory;
	int rc;

	area->pieces = perf_plan_area(plan, shots_each) / (stride * shots);
	area->shots_each = shots_each;
	area->bytes = area->pieces * stride * shots;
	area->shots = calloc(shots, sizeof(*area->shots));
	/* Every page is there from the start: a fault is no part of what is measured. */
	memory = mmap(NULL, area->bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (!area->shots || memory == MAP_FAILED)
		return report_fail(report, -ENOMEM, "no memory for messages of %zu bytes in all",
				   area->bytes);
	area->memory = memory;
	rc = gw_mr_register(bench->ctx, memory, area->bytes, &area->mr);
	return rc ? report_fail(report, rc, "cannot register memory: %s", strerror(-rc)) : 0;
}

static int place_shots(const struct perf_bench *bench, const struct perf_area *area,
		       struct perf_flow *flow, struct list *idle)
{
	struct gw_erasure_attr code = { .max_length = bench->plan.size, .payload = PAYLOAD_MAX };
	uint64_t stride = perf_plan_stride(&bench->plan);
	int rc = 0;

	list_init(idle);
	for (uint32_t i = 0; i < area->shots_each; i++) {
		size_t number = (size_t)flow->index * area->shots_each + i;
		struct perf_shot *shot = &area->shots[number];

		shot->flow = flow;
		shot->memory = area->memory + number * area->pieces * stride;
		list_add_tail(idle, &shot->link);
		if (rc == 0 && perf_plan_coded(&bench->plan))
			rc = gw_erasure_open(bench->ctx, &code, &shot->erasure);
	}
	return rc;
}

static int open_flows(struct perf_bench *bench, struct report *report,
		      const struct options *options, uint32_t thread, struct gw_rendezvous *met,
		      const struct gw_seal *seal)
{
	bench->flows = calloc(bench->plan.qps, sizeof(*bench->flows));
	if (!bench->flows)
		return report_fail(report, -ENOMEM, "no memory for %u queue pairs",
				   bench->plan.qps);
	for (uint32_t i = 0; i < bench->plan.qps; i++) {
		struct perf_flow *flow = &bench->flows[i];
		int rc;

		flow->bench = bench;
		flow->index = i;
		flow->number = i * bench->plan.threads + thread;
		list_init(&flow->open_recvs);
		rc = place_shots(bench, &bench->send_area, flow, &flow->idle_sends);
		if (rc == 0)
			rc = place_shots(bench, &bench->recv_area, flow, &flow->idle_recvs);
		if (rc)
			return report_fail(report, rc, "no memory for parity: %s", strerror(-rc));
		flow->idle_recv_count = bench->recv_area.shots_each;
		rc = perf_flow_open(flow, options->timeout_ns, gw_rendezvous_remote(met), seal);
		if (rc)
			return report_fail(report, rc, "cannot make %s %u of %u: %s",
					   bench->plan.channel ? "channel" : "queue pair", i + 1,
					   bench->plan.qps, strerror(-rc));
	}
	return 0;
}

static int make_flows(struct perf_bench *bench, struct report *report,
		      const struct options *options, uint32_t thread, struct gw_rendezvous *met)
{
	const struct gw_seal *seal;
	struct gw_seal keys;
	int rc = meet_seal(report, options, met, &keys, &seal);

	if (rc == 0)
		rc = open_flows(bench, report, options, thread, met, seal);
	explicit_bzero(&keys, sizeof(keys));
	return rc;
}

static int make_samples(struct perf_bench *bench, struct report *report)
{
	struct perf_samples *samples = &bench->samples;
	uint64_t count = bench->plan.count;
	void *memory;

	if (bench->plan.test == PERF_LATENCY ? !bench->client : !bench->sends)
		return 0;
	samples->room = count && count * bench->plan.qps < PERF_PINGS_MAX ? count * bench->plan.qps
									  : PERF_PINGS_MAX;
	if (samples->room < SAMPLES_AT_LEAST)
		samples->room = SAMPLES_AT_LEAST;
	memory = mmap(NULL, samples->room * sizeof(*samples->ns), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return report_fail(report, -ENOMEM, "no memory for samples");
	samples->ns = memory;
	return 0;
}

int perf_bench_open(struct perf_bench *bench, struct report *report, const struct options *options,
		    const struct perf_plan *plan, uint32_t thread, bool client,
		    struct gw_rendezvous *met, struct gw_context *ctx)
{
	int rc = 0;

	*bench = (struct perf_bench){
		.ctx = ctx,
		.plan = *plan,
		.engine = plan->test == PERF_LATENCY ? &perf_pingpong : &perf_stream,
		.client = client,
		.sends = client != plan->reverse || plan->both || plan->test == PERF_LATENCY,
		.receives = client == plan->reverse || plan->both || plan->test == PERF_LATENCY,
	};
	if (bench->sends)
		rc = map_area(bench, report, &bench->send_area, plan->depth);
	if (rc == 0 && bench->receives)
		rc = map_area(bench, report, &bench->recv_area, perf_plan_receives(plan));
	if (rc == 0)
		rc = make_samples(bench, report);
	if (rc == 0)
		rc = make_flows(bench, report, options, thread, met);
	if (rc)
		perf_bench_close(bench);
	return rc;
}

/* After the queue pairs were closed: receives that are still open are released only then. A channel closes its own. */
static void close_requests(const struct perf_bench *bench, const struct perf_area *area)
{
	size_t shots = bench->plan.channel ? 0 : (size_t)area->shots_each * bench->plan.qps;

	for (size_t i = 0; area->shots && i < shots; i++)
		perf_shot_close(&area->shots[i]);
}

static void free_area(struct perf_area *area, uint32_t qps)
{
	for (size_t i = 0; area->shots && i < (size_t)area->shots_each * qps; i++) {
		if (area->shots[i].erasure)
			gw_erasure_close(area->shots[i].erasure);
	}
	if (area->mr)
		gw_mr_deregister(area->mr);
	if (area->memory)
		munmap(area->memory, area->bytes);
	free(area->shots);
}

void perf_bench_close(struct perf_bench *bench)
{
	for (uint32_t i = 0; bench->flows && i < bench->plan.qps; i++)
		perf_flow_close(&bench->flows[i]);
	close_requests(bench, &bench->send_area);
	close_requests(bench, &bench->recv_area);
	/* The library forgets them in its next turn. */
	if (bench->ctx)
		gw_progress(bench->ctx);
	free_area(&bench->send_area, bench->plan.qps);
	free_area(&bench->recv_area, bench->plan.qps);
	if (bench->samples.ns)
		munmap(bench->samples.ns, bench->samples.room * sizeof(*bench->samples.ns));
	free(bench->flows);
	memset(bench, 0, sizeof(*bench));
}

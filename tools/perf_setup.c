/* SPDX-License-Identifier: BSD-3-Clause */
/* Making a bench and taking it apart: limits of the context, memory that is there before it is needed, queue pairs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "perf_bench.h"
#include "report.h"
#include "session.h"

#define PAYLOAD_LEAST 256 /* bytes in a packet, at the least, for the size of bitmaps */
#define SEND_LOG_BYTES                                                                             \
	(UINT64_C(512) << 10) /* what the library keeps of packets sent, at the most */
#define ARENA_SLACK	 (UINT64_C(16) << 20)
#define SAMPLES_AT_LEAST 1024

static void peer_gone(struct gw_qp *qp, void *arg, int status, uint64_t now)
{
	struct perf_flow *flow = arg;

	(void)qp;
	(void)now;
	if (!flow->bench->gone)
		flow->bench->gone = status;
}

static const struct gw_qp_handler qp_handler = { .gone = peer_gone };

/* Twice as many as receives: a slot is taken until the sender has acknowledged the result. */
static uint32_t slots_for(const struct perf_plan *plan)
{
	uint32_t slots = 4;

	while (slots < 2 * perf_plan_receives(plan))
		slots *= 2;
	return slots;
}

/* Requests that ended keep their places until the peer knows, so that each queue pair may need a place a slot more. */
static struct gw_context_attr limits_for(const struct perf_plan *plan)
{
	uint32_t slots = slots_for(plan);
	uint64_t requests = (uint64_t)plan->qps * (perf_plan_receives(plan) + slots);
	/* A bit a packet and a little for chunks, in blocks of a power of two. */
	uint64_t bitmap = plan->size / PAYLOAD_LEAST / 8 * 4 + 256;

	return (struct gw_context_attr){
		.max_qps = plan->qps,
		.max_sends = (uint32_t)requests,
		.max_recvs = (uint32_t)requests,
		.bitmap_bytes = plan->qps * SEND_LOG_BYTES + requests * bitmap + ARENA_SLACK,
	};
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

static void place_shots(const struct perf_bench *bench, const struct perf_area *area,
			struct perf_flow *flow, struct list *idle)
{
	uint64_t stride = perf_plan_stride(&bench->plan);

	list_init(idle);
	for (uint32_t i = 0; i < area->shots_each; i++) {
		size_t number = (size_t)flow->index * area->shots_each + i;
		struct perf_shot *shot = &area->shots[number];

		shot->flow = flow;
		shot->memory = area->memory + number * area->pieces * stride;
		list_add_tail(idle, &shot->link);
	}
}

static int make_flows(struct perf_bench *bench, struct report *report,
		      const struct options *options)
{
	struct gw_qp_attr attr = { .slots = slots_for(&bench->plan),
				   .peer_timeout_ns = options->timeout_ns,
				   .handler = &qp_handler };

	bench->flows = calloc(bench->plan.qps, sizeof(*bench->flows));
	if (!bench->flows)
		return report_fail(report, -ENOMEM, "no memory for %u queue pairs",
				   bench->plan.qps);
	for (uint32_t i = 0; i < bench->plan.qps; i++) {
		struct perf_flow *flow = &bench->flows[i];
		int rc;

		flow->bench = bench;
		flow->index = i;
		list_init(&flow->open_recvs);
		place_shots(bench, &bench->send_area, flow, &flow->idle_sends);
		place_shots(bench, &bench->recv_area, flow, &flow->idle_recvs);
		flow->idle_recv_count = bench->recv_area.shots_each;
		attr.arg = flow;
		rc = gw_qp_create(bench->ctx, &attr, &flow->qp);
		if (rc)
			return report_fail(report, rc, "cannot make queue pair %u of %u: %s", i + 1,
					   bench->plan.qps, strerror(-rc));
	}
	return 0;
}

static int make_samples(struct perf_bench *bench, struct report *report)
{
	struct perf_samples *samples = &bench->samples;
	uint64_t count = bench->plan.count;
	void *memory;

	if (bench->plan.test != PERF_LATENCY || !bench->client)
		return 0;
	samples->room = count && count * bench->plan.qps < PERF_PINGS_MAX ? count * bench->plan.qps
									  : PERF_PINGS_MAX;
	if (samples->room < SAMPLES_AT_LEAST)
		samples->room = SAMPLES_AT_LEAST;
	memory = mmap(NULL, samples->room * sizeof(*samples->half_ns), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return report_fail(report, -ENOMEM, "no memory for samples");
	samples->half_ns = memory;
	return 0;
}

int perf_bench_open(struct perf_bench *bench, struct report *report, const struct options *options,
		    const struct perf_plan *plan, bool client, const char *local)
{
	struct gw_context_attr limits = limits_for(plan);
	int rc;

	*bench = (struct perf_bench){
		.plan = *plan,
		.engine = plan->test == PERF_LATENCY ? &perf_pingpong : &perf_stream,
		.client = client,
		.sends = client || plan->both || plan->test == PERF_LATENCY,
		.receives = !client || plan->both || plan->test == PERF_LATENCY,
	};
	rc = session_open_context(report, options, local, &limits, &bench->ctx);
	if (rc == 0 && bench->sends)
		rc = map_area(bench, report, &bench->send_area, plan->depth);
	if (rc == 0 && bench->receives)
		rc = map_area(bench, report, &bench->recv_area, perf_plan_receives(plan));
	if (rc == 0)
		rc = make_samples(bench, report);
	if (rc == 0)
		rc = make_flows(bench, report, options);
	if (rc)
		perf_bench_close(bench);
	return rc;
}

static void free_area(struct perf_area *area)
{
	free(area->shots);
	if (area->memory)
		munmap(area->memory, area->bytes);
}

void perf_bench_close(struct perf_bench *bench)
{
	/* Takes queue pairs, requests and registrations with it, and tells the peer. */
	if (bench->ctx)
		gw_context_close(bench->ctx);
	free_area(&bench->send_area);
	free_area(&bench->recv_area);
	if (bench->samples.half_ns)
		munmap(bench->samples.half_ns,
		       bench->samples.room * sizeof(*bench->samples.half_ns));
	free(bench->flows);
	memset(bench, 0, sizeof(*bench));
}

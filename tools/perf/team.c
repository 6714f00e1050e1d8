/* SPDX-License-Identifier: BSD-3-Clause */
#include "team.h"

#include <string.h>

#include "tools/report.h"
#include "tools/session.h"

/* Flows of a thread, of `flows` in all: flow i belongs to thread i modulo the number of threads. */
static uint32_t share_of(uint32_t flows, uint32_t threads, uint32_t thread)
{
	return (flows - thread + threads - 1) / threads;
}

static struct perf_plan plan_of(const struct perf_plan *plan, uint32_t thread)
{
	struct perf_plan part = *plan;

	part.qps = share_of(plan->qps, plan->threads, thread);
	part.working_set = plan->working_set / plan->qps * part.qps;
	return part;
}

int perf_team_start(struct perf_team *team, struct report *report, const struct options *options,
		    const char *local, const struct perf_plan *plan, uint64_t memory_bytes)
{
	struct perf_plan most = plan_of(plan, 0);
	struct gw_context_attr limits = perf_context_limits(&most, memory_bytes);
	struct gw_service_attr service = { .threads = plan->threads - 1,
					   .spin_ns = plan->poll ? UINT64_MAX : 0 };
	struct options wire = *options;
	int rc;

	wire.lanes = plan->lanes;
	wire.traffic_class = plan->traffic_class;
	wire.icrc = plan->skip_icrc && options->icrc != ICRC_ON ? ICRC_OFF : ICRC_ON;
	rc = session_open_context(report, &wire, local, &limits, &team->ctx);
	if (rc || plan->threads == 1)
		return rc;
	wire.faults.seed++;
	rc = session_open_service(report, &wire, local, &limits, &service, &team->others);
	if (rc)
		perf_team_end(team);
	return rc;
}

void perf_team_end(struct perf_team *team)
{
	if (team->others)
		gw_service_close(team->others);
	if (team->ctx)
		gw_context_close(team->ctx);
	team->others = NULL;
	team->ctx = NULL;
}

struct perf_bench *perf_team_enter(struct perf_team *team, uint32_t thread)
{
	if (thread)
		gw_service_enter(team->others, thread - 1);
	return &team->benches[thread];
}

void perf_team_leave(struct perf_team *team, uint32_t thread)
{
	if (thread)
		gw_service_leave(team->others, thread - 1);
}

int perf_team_each(struct perf_team *team, int (*each)(struct perf_bench *bench, void *arg),
		   void *arg)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < team->plan.threads; i++) {
		rc = each(perf_team_enter(team, i), arg);
		perf_team_leave(team, i);
	}
	return rc;
}

int perf_team_open(struct perf_team *team, struct report *report, const struct options *options,
		   const struct perf_plan *plan, bool client, struct gw_rendezvous *met)
{
	int rc = 0;

	team->plan = *plan;
	for (uint32_t i = 0; rc == 0 && i < plan->threads; i++) {
		struct gw_context *ctx = i ? gw_service_context(team->others, i - 1) : team->ctx;
		struct perf_plan part = plan_of(plan, i);
		struct perf_bench *bench = perf_team_enter(team, i);

		rc = perf_bench_open(bench, report, options, &part, i, client, met, ctx);
		perf_team_leave(team, i);
	}
	if (rc)
		perf_team_close(team);
	return rc;
}

static int close_bench(struct perf_bench *bench, void *arg)
{
	(void)arg;
	perf_bench_close(bench);
	return 0;
}

void perf_team_close(struct perf_team *team)
{
	perf_team_each(team, close_bench, NULL);
}

enum perf_state perf_team_state(const struct perf_team *team)
{
	enum perf_state all = PERF_OVER;

	for (uint32_t i = 0; i < team->plan.threads; i++) {
		enum perf_state state = (enum perf_state)atomic_load(&team->benches[i].state);

		if (state == PERF_FAILED)
			return state;
		if (state == PERF_RUNNING)
			all = state;
	}
	return all;
}

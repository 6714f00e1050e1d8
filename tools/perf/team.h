/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * team.h: the threads of one end. Each has a context and a bench of its own, with every N-th flow.
 *
 * The first is the command's own thread, which also talks to the peer. The others are those of a service: the command's
 * thread enters before it touches their benches.
 */
#ifndef TOOLS_PERF_TEAM_H
#define TOOLS_PERF_TEAM_H

#include <godwit/service.h>

#include "bench.h"

struct perf_team {
	/* what all of them measure; each bench has its part of the flows */
	struct perf_plan plan;
	/* context of the first; null: none is open */
	struct gw_context *ctx;
	/* contexts of the others; null for one thread */
	struct gw_service *others;
	struct perf_bench benches[PERF_THREADS_MAX];
};

/* Opens contexts for this plan and any like it with at most as many queue pairs and so much memory. `options` may insist on
 * an ICRC. */
int perf_team_start(struct perf_team *team, struct report *report, const struct options *options,
		    const char *local, const struct perf_plan *plan, uint64_t memory_bytes);
/* Closes them. */
void perf_team_end(struct perf_team *team);

/* perf_bench_open() and perf_bench_close() for each thread. */
int perf_team_open(struct perf_team *team, struct report *report, const struct options *options,
		   const struct perf_plan *plan, bool client, struct gw_rendezvous *met);
void perf_team_close(struct perf_team *team);

/* The calling thread owns the bench of a thread from one of these to the other. */
struct perf_bench *perf_team_enter(struct perf_team *team, uint32_t thread);
void perf_team_leave(struct perf_team *team, uint32_t thread);

/* Calls `each` for every bench, which the calling thread then owns, until one returns something other than 0; returns that. */
int perf_team_each(struct perf_team *team, int (*each)(struct perf_bench *bench, void *arg),
		   void *arg);

/* PERF_RUNNING as long as any of them is; PERF_FAILED as soon as one is. */
enum perf_state perf_team_state(const struct perf_team *team);

#endif

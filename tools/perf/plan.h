/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is to be measured, for one size of message. The client chooses it and the server is told in a record that says
 * its version first. A plan from the wire is checked like one from the command line, before anything is allocated.
 */
#ifndef TOOLS_PERF_PLAN_H
#define TOOLS_PERF_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perf_scheme;

/* Of the plan and of everything else the two ends of a measurement tell each other. */
#define PERF_VERSION 2

#define PERF_SIZE_MAX	     (UINT64_C(1) << 30)
#define PERF_QPS_MAX	     10000
#define PERF_THREADS_MAX     64
#define PERF_DEPTH_MAX	     512   /* twice as many slots are the most that a queue pair has */
#define PERF_MESSAGES_MAX    16384 /* under way at once; a context remembers so many grants */
#define PERF_COUNT_MAX	     UINT64_C(1000000000)
#define PERF_PINGS_MAX	     (UINT64_C(1) << 24) /* each leaves a sample behind */
#define PERF_SECONDS_MAX     86400
#define PERF_WORKING_SET_MAX (UINT64_C(1) << 40)

#define PERF_NAME_BYTES 16

enum perf_test { PERF_BANDWIDTH, PERF_LATENCY };

struct perf_plan {
	enum perf_test test;
	const struct perf_scheme *scheme;
	/* bytes in a message */
	uint64_t size;
	/* messages on each queue pair; 0: until the time is up */
	uint64_t count;
	/* 0: until `count` messages; with both, whichever comes first */
	uint64_t duration_ns;
	/* bytes that the messages of each direction cycle through; no less than they need */
	uint64_t working_set;
	uint32_t qps;
	/* threads at either end, each with a context and its part of the queue pairs */
	uint32_t threads;
	/* messages in flight on each queue pair */
	uint32_t depth;
	/* source ports that data leaves by, at either end */
	uint32_t lanes;
	uint8_t traffic_class;
	/* the client asks for no ICRC; the server may insist on one */
	bool skip_icrc;
	/* both directions at once */
	bool both;
	/* the server sends and the client receives */
	bool reverse;
	bool verify;
	/* poll without sleeping */
	bool poll;
	/* channels in place of queue pairs */
	bool channel;
	/* cap on the rate; 0: none */
	uint64_t rate_bps;
	/* the controller; empty: a channel's own choice, and none for a queue pair */
	char congestion[PERF_NAME_BYTES + 1];
};

enum { PERF_PLAN_BYTES = 96, PERF_WHY = 200 };

/* "bw", "lat". */
const char *perf_test_name(enum perf_test test);
int perf_test_find(const char *name, enum perf_test *out);

/* The controller's name: the one asked for, or what goes without saying. */
const char *perf_plan_congestion(const struct perf_plan *plan);

/* Whether each message brings memory for parity, and is two of the library. */
bool perf_plan_coded(const struct perf_plan *plan);

/* Receives that are posted on each queue pair: one more than a single message, for what comes next to prove it lost. */
uint32_t perf_plan_receives(const struct perf_plan *plan);

/* Messages of the library's that these are: two each under a code. */
uint32_t perf_plan_messages(const struct perf_plan *plan);

/* From one message's place in memory to the next. */
uint64_t perf_plan_stride(const struct perf_plan *plan);

/* Bytes for `messages` on each queue pair, or the working set where that is more. */
uint64_t perf_plan_area(const struct perf_plan *plan, uint32_t messages);

/* The most that an end needs. */
uint64_t perf_plan_memory(const struct perf_plan *plan);

/* The largest depth up to `most` that this much memory allows; at least 1, whether or not that fits. */
uint32_t perf_plan_fit(const struct perf_plan *plan, uint64_t memory_bytes, uint32_t most);

/* -EINVAL for what cannot be done, or not in this much memory; `why` is then a sentence. */
int perf_plan_check(const struct perf_plan *plan, uint64_t memory_bytes, char why[PERF_WHY]);

void perf_plan_encode(const struct perf_plan *plan, uint8_t out[PERF_PLAN_BYTES]);

/* -EPROTO for what is no plan of this version; `why` is then a sentence. Bounds are perf_plan_check()'s. */
int perf_plan_decode(const uint8_t *in, size_t length, struct perf_plan *out, char why[PERF_WHY]);

#endif

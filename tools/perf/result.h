/* SPDX-License-Identifier: BSD-3-Clause */
/* What one end measured, in numbers that travel: the ends tell each other, so that each can print both. */
#ifndef TOOLS_PERF_RESULT_H
#define TOOLS_PERF_RESULT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "team.h"

enum {
	PERF_COUNTERS_MAX = 128,
	PERF_COUNTER_NAME = 48, /* with its final zero */
	PERF_COUNTER_BYTES = 8 + PERF_COUNTER_NAME,
	PERF_SHARE_BYTES = 16,
	PERF_RESULT_BYTES = 168,
};

/* p99 is told from this many samples on, and p99.9 from that many. */
#define PERF_SAMPLES_P99  100
#define PERF_SAMPLES_P999 1000

struct perf_counter {
	char name[PERF_COUNTER_NAME];
	uint64_t value;
};

/* What one thread moved, both ways. */
struct perf_share {
	uint64_t bytes;
	uint64_t messages;
};

struct perf_result {
	/* what this end received: from when the sender was told to go until the last byte came */
	uint64_t bytes;
	uint64_t messages;
	uint64_t window_ns;
	uint64_t missing_bytes;
	uint64_t missing_packets;
	uint64_t holed_messages;
	/* how evenly, in billionths: Jain's index, and the smallest and largest part over the mean */
	uint64_t jain_ppb;
	uint64_t least_ppb;
	uint64_t most_ppb;
	/* what that took here */
	uint64_t cpu_user_ns;
	uint64_t cpu_system_ns;
	uint64_t elapsed_ns;
	uint64_t rtt_ns;
	/* half round trips, at the client of a latency test; of a bandwidth test, how long a sender's messages took */
	uint64_t samples;
	uint64_t lost_pings;
	uint64_t min_ns;
	uint64_t median_ns;
	uint64_t p99_ns;
	uint64_t p999_ns;
	uint64_t max_ns;
	uint64_t mean_ns;
	/* the library's counters that moved; these travel one by one */
	uint32_t counter_count;
	struct perf_counter counters[PERF_COUNTERS_MAX];
	/* by thread, if there are several; these travel one by one, too */
	uint32_t threads;
	struct perf_share shares[PERF_THREADS_MAX];
};

/* Where things stood when the measurement began. */
struct perf_mark {
	uint64_t now_ns;
	struct rusage usage;
	uint64_t counters[PERF_COUNTERS_MAX];
};

void perf_mark_take(struct perf_team *team, struct perf_mark *out);

/* What came since. Sorts the samples. -ENOMEM */
int perf_result_take(struct perf_team *team, const struct perf_mark *since,
		     struct perf_result *out);

/* 0 when it did not move. */
uint64_t perf_result_counter(const struct perf_result *result, const char *name);

/* Without the counters and shares. */
void perf_result_encode(const struct perf_result *result, uint8_t out[PERF_RESULT_BYTES]);
void perf_share_encode(const struct perf_share *share, uint8_t out[PERF_SHARE_BYTES]);
void perf_counter_encode(const struct perf_counter *counter, uint8_t out[PERF_COUNTER_BYTES]);

/* -EPROTO: no such record. The counters and shares that `out` has stay. */
int perf_result_decode(const uint8_t *in, size_t length, struct perf_result *out);
int perf_share_decode(const uint8_t *in, size_t length, struct perf_share *out);
int perf_counter_decode(const uint8_t *in, size_t length, struct perf_counter *out);

#endif

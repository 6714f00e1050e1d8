/* SPDX-License-Identifier: BSD-3-Clause */
/* All numbers have 8 bytes and are encoded in the order of one table. */
#include "result.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bytes.h"
#include "flow.h"

#define FIELD(name) offsetof(struct perf_result, name)
#define PPB	    1e9

static const size_t fields[] = {
	FIELD(bytes),		FIELD(messages),       FIELD(window_ns),     FIELD(missing_bytes),
	FIELD(missing_packets), FIELD(holed_messages), FIELD(jain_ppb),	     FIELD(least_ppb),
	FIELD(most_ppb),	FIELD(cpu_user_ns),    FIELD(cpu_system_ns), FIELD(elapsed_ns),
	FIELD(rtt_ns),		FIELD(samples),	       FIELD(lost_pings),    FIELD(min_ns),
	FIELD(median_ns),	FIELD(p99_ns),	       FIELD(p999_ns),	     FIELD(max_ns),
	FIELD(mean_ns),
};

#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

_Static_assert(FIELD_COUNT * 8 == PERF_RESULT_BYTES, "a record holds every field");

static unsigned counter_count(void)
{
	unsigned count = gw_counter_count();

	return count < PERF_COUNTERS_MAX ? count : PERF_COUNTERS_MAX;
}

void perf_mark_take(const struct perf_bench *bench, struct perf_mark *out)
{
	for (unsigned i = 0; i < counter_count(); i++)
		gw_counter_read(bench->ctx, i, &out->counters[i]);
	getrusage(RUSAGE_SELF, &out->usage);
	out->now_ns = gw_now_ns(bench->ctx);
}

static uint64_t since_ns(const struct timeval *then, const struct timeval *now)
{
	int64_t us = (now->tv_sec - then->tv_sec) * INT64_C(1000000) + now->tv_usec - then->tv_usec;

	return us > 0 ? (uint64_t)us * 1000 : 0;
}

static void take_counters(const struct perf_mark *since, const struct perf_mark *now,
			  struct perf_result *out)
{
	for (unsigned i = 0; i < counter_count(); i++) {
		struct perf_counter *counter = &out->counters[out->counter_count];

		if (now->counters[i] == since->counters[i])
			continue;
		snprintf(counter->name, sizeof(counter->name), "%s", gw_counter_name(i));
		counter->value = now->counters[i] - since->counters[i];
		out->counter_count++;
	}
}

/* Jain's index is 1 when all got the same and 1/n when one got everything. */
static void take_fairness(const struct perf_bench *bench, struct perf_result *out)
{
	double sum = 0, squares = 0, least = 0, most = 0, mean;
	uint32_t n = bench->plan.qps;

	for (uint32_t i = 0; i < n; i++) {
		double bytes = (double)bench->flows[i].fair_bytes;

		sum += bytes;
		squares += bytes * bytes;
		least = i == 0 || bytes < least ? bytes : least;
		most = bytes > most ? bytes : most;
	}
	if (sum <= 0)
		return;
	mean = sum / n;
	out->jain_ppb = (uint64_t)(sum * sum / (n * squares) * PPB + 0.5);
	out->least_ppb = (uint64_t)(least / mean * PPB + 0.5);
	out->most_ppb = (uint64_t)(most / mean * PPB + 0.5);
}

static void take_rtt(const struct perf_bench *bench, struct perf_result *out)
{
	uint64_t sum = 0, known = 0;

	for (uint32_t i = 0; i < bench->plan.qps; i++) {
		uint64_t rtt_ns = perf_flow_rtt_ns(&bench->flows[i]);

		sum += rtt_ns;
		known += rtt_ns != 0;
	}
	out->rtt_ns = known ? sum / known : 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The nearest rank: the smallest sample that `per_mille` of them do not exceed. */
static uint64_t rank(const struct perf_samples *samples, uint64_t per_mille)
{
	return samples->ns[(samples->count * per_mille + 999) / 1000 - 1];
}

static void take_samples(const struct perf_samples *samples, struct perf_result *out)
{
	uint64_t sum = 0;

	out->samples = samples->count;
	out->lost_pings = samples->lost;
	if (!samples->count)
		return;
	for (uint64_t i = 0; i < samples->count; i++)
		sum += samples->ns[i];
	out->mean_ns = sum / samples->count;
	qsort(samples->ns, samples->count, sizeof(*samples->ns), compare);
	out->min_ns = samples->ns[0];
	out->median_ns = rank(samples, 500);
	out->max_ns = samples->ns[samples->count - 1];
	if (samples->count >= PERF_SAMPLES_P99)
		out->p99_ns = rank(samples, 990);
	if (samples->count >= PERF_SAMPLES_P999)
		out->p999_ns = rank(samples, 999);
}

void perf_result_take(struct perf_bench *bench, const struct perf_mark *since,
		      struct perf_result *out)
{
	const struct perf_phase *phase = &bench->phase;
	struct perf_mark now;

	perf_mark_take(bench, &now);
	*out = (struct perf_result){
		.bytes = phase->bytes,
		.messages = phase->messages,
		.window_ns = phase->last_ns - phase->started_ns,
		.missing_bytes = phase->missing_bytes,
		.missing_packets = phase->missing_packets,
		.holed_messages = phase->holed_messages,
		.cpu_user_ns = since_ns(&since->usage.ru_utime, &now.usage.ru_utime),
		.cpu_system_ns = since_ns(&since->usage.ru_stime, &now.usage.ru_stime),
		.elapsed_ns = now.now_ns - since->now_ns,
	};
	take_counters(since, &now, out);
	take_fairness(bench, out);
	take_rtt(bench, out);
	take_samples(&bench->samples, out);
}

uint64_t perf_result_counter(const struct perf_result *result, const char *name)
{
	for (uint32_t i = 0; i < result->counter_count; i++) {
		if (strcmp(result->counters[i].name, name) == 0)
			return result->counters[i].value;
	}
	return 0;
}

void perf_result_encode(const struct perf_result *result, uint8_t out[PERF_RESULT_BYTES])
{
	for (size_t i = 0; i < FIELD_COUNT; i++) {
		uint64_t value;

		memcpy(&value, (const uint8_t *)result + fields[i], sizeof(value));
		put64(out + 8 * i, value);
	}
}

int perf_result_decode(const uint8_t *in, size_t length, struct perf_result *out)
{
	if (length != PERF_RESULT_BYTES)
		return -EPROTO;
	for (size_t i = 0; i < FIELD_COUNT; i++) {
		uint64_t value = get64(in + 8 * i);

		/* JSON knows no more. */
		if (value > INT64_MAX)
			return -EPROTO;
		memcpy((uint8_t *)out + fields[i], &value, sizeof(value));
	}
	return 0;
}

void perf_counter_encode(const struct perf_counter *counter, uint8_t out[PERF_COUNTER_BYTES])
{
	memset(out, 0, PERF_COUNTER_BYTES);
	put64(out, counter->value);
	memcpy(out + 8, counter->name, strnlen(counter->name, PERF_COUNTER_NAME - 1));
}

int perf_counter_decode(const uint8_t *in, size_t length, struct perf_counter *out)
{
	struct perf_counter counter;

	if (length != PERF_COUNTER_BYTES || in[length - 1] != 0)
		return -EPROTO;
	counter.value = get64(in);
	memcpy(counter.name, in + 8, PERF_COUNTER_NAME);
	if (counter.value > INT64_MAX || counter.name[0] == '\0')
		return -EPROTO;
	for (const char *c = counter.name; *c; c++) {
		if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c) && *c != '_')
			return -EPROTO;
	}
	*out = counter;
	return 0;
}

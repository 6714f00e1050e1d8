/* SPDX-License-Identifier: BSD-3-Clause */
/* All numbers have 8 bytes and are encoded in the order of one table. */
#include "result.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
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

static int add_counters(struct perf_bench *bench, void *arg)
{
	struct perf_mark *mark = arg;
	uint64_t value;

	for (unsigned i = 0; i < counter_count(); i++) {
		if (gw_counter_read(bench->ctx, i, &value) == 0)
			mark->counters[i] += value;
	}
	return 0;
}

void perf_mark_take(struct perf_team *team, struct perf_mark *out)
{
	memset(out->counters, 0, sizeof(out->counters));
	perf_team_each(team, add_counters, out);
	getrusage(RUSAGE_SELF, &out->usage);
	out->now_ns = gw_now_ns(team->ctx);
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

/* Sums over the flows of all threads. */
struct sums {
	/* bytes of each flow when the first had finished: their sum, the sum of their squares, the least and the most */
	double fair, squares, least, most;
	uint32_t flows;
	uint64_t rtt_ns;
	uint64_t rtts;
	uint64_t samples;
	/* when the first thread told the peer to start, and when the last byte came */
	uint64_t started_ns;
	uint64_t last_ns;
	struct perf_result *result;
};

static void add_flow(struct sums *sums, const struct perf_flow *flow)
{
	double bytes = (double)flow->fair_bytes;
	uint64_t rtt_ns = perf_flow_rtt_ns(flow);

	sums->fair += bytes;
	sums->squares += bytes * bytes;
	sums->least = !sums->flows || bytes < sums->least ? bytes : sums->least;
	sums->most = bytes > sums->most ? bytes : sums->most;
	sums->flows++;
	sums->rtt_ns += rtt_ns;
	sums->rtts += rtt_ns != 0;
}

static int add_bench(struct perf_bench *bench, void *arg)
{
	const struct perf_phase *phase = &bench->phase;
	struct sums *sums = arg;
	struct perf_result *result = sums->result;
	struct perf_share *share = &result->shares[result->threads++];

	*share = (struct perf_share){ phase->bytes, phase->messages };
	for (uint32_t i = 0; i < bench->plan.qps; i++) {
		add_flow(sums, &bench->flows[i]);
		share->bytes += bench->flows[i].delivered * bench->plan.size;
		share->messages += bench->flows[i].delivered;
	}
	result->bytes += phase->bytes;
	result->messages += phase->messages;
	result->missing_bytes += phase->missing_bytes;
	result->missing_packets += phase->missing_packets;
	result->holed_messages += phase->holed_messages;
	if (result->threads == 1 || phase->started_ns < sums->started_ns)
		sums->started_ns = phase->started_ns;
	if (phase->last_ns > sums->last_ns)
		sums->last_ns = phase->last_ns;
	sums->samples += bench->samples.count;
	result->lost_pings += bench->samples.lost;
	return 0;
}

/* Jain's index is 1 when all got the same and 1/n when one got everything. */
static void take_fairness(const struct sums *sums, struct perf_result *out)
{
	double mean = sums->fair / sums->flows;

	if (sums->fair <= 0)
		return;
	out->jain_ppb =
		(uint64_t)(sums->fair * sums->fair / (sums->flows * sums->squares) * PPB + 0.5);
	out->least_ppb = (uint64_t)(sums->least / mean * PPB + 0.5);
	out->most_ppb = (uint64_t)(sums->most / mean * PPB + 0.5);
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

static int gather(struct perf_bench *bench, void *arg)
{
	struct perf_samples *all = arg;

	if (bench->samples.count)
		memcpy(all->ns + all->count, bench->samples.ns,
		       bench->samples.count * sizeof(*all->ns));
	all->count += bench->samples.count;
	return 0;
}

int perf_result_take(struct perf_team *team, const struct perf_mark *since, struct perf_result *out)
{
	struct sums sums = { .result = out };
	struct perf_samples all = { 0 };
	struct perf_mark now;

	perf_mark_take(team, &now);
	*out = (struct perf_result){ 0 };
	perf_team_each(team, add_bench, &sums);
	out->window_ns = sums.last_ns - sums.started_ns;
	out->elapsed_ns = now.now_ns - since->now_ns;
	out->cpu_user_ns = since_ns(&since->usage.ru_utime, &now.usage.ru_utime);
	out->cpu_system_ns = since_ns(&since->usage.ru_stime, &now.usage.ru_stime);
	out->rtt_ns = sums.rtts ? sums.rtt_ns / sums.rtts : 0;
	take_counters(since, &now, out);
	take_fairness(&sums, out);
	all.ns = calloc(sums.samples + 1, sizeof(*all.ns));
	if (!all.ns)
		return -ENOMEM;
	perf_team_each(team, gather, &all);
	take_samples(&all, out);
	free(all.ns);
	return 0;
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
		put_be64(out + 8 * i, value);
	}
}

int perf_result_decode(const uint8_t *in, size_t length, struct perf_result *out)
{
	if (length != PERF_RESULT_BYTES)
		return -EPROTO;
	for (size_t i = 0; i < FIELD_COUNT; i++) {
		uint64_t value = get_be64(in + 8 * i);

		/* JSON knows no more. */
		if (value > INT64_MAX)
			return -EPROTO;
		memcpy((uint8_t *)out + fields[i], &value, sizeof(value));
	}
	return 0;
}

void perf_share_encode(const struct perf_share *share, uint8_t out[PERF_SHARE_BYTES])
{
	put_be64(out, share->bytes);
	put_be64(out + 8, share->messages);
}

int perf_share_decode(const uint8_t *in, size_t length, struct perf_share *out)
{
	if (length != PERF_SHARE_BYTES || get_be64(in) > INT64_MAX || get_be64(in + 8) > INT64_MAX)
		return -EPROTO;
	*out = (struct perf_share){ get_be64(in), get_be64(in + 8) };
	return 0;
}

void perf_counter_encode(const struct perf_counter *counter, uint8_t out[PERF_COUNTER_BYTES])
{
	memset(out, 0, PERF_COUNTER_BYTES);
	put_be64(out, counter->value);
	memcpy(out + 8, counter->name, strnlen(counter->name, PERF_COUNTER_NAME - 1));
}

int perf_counter_decode(const uint8_t *in, size_t length, struct perf_counter *out)
{
	struct perf_counter counter;

	if (length != PERF_COUNTER_BYTES || in[length - 1] != 0)
		return -EPROTO;
	counter.value = get_be64(in);
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A receiver counts messages that have arrived, a sender those that the receiver has confirmed; an end that does both counts
 * both. So a large message counts as a whole in the interval in which it ends.
 */
#include "interval.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "tools/session.h"
#include "tools/text.h"

#define GB 1e9
/* an interval that is shorter than a tenth of the others is left out */
#define SHORTEST_SHARE 10

static uint64_t messages_of(const struct perf_bench *bench)
{
	uint64_t messages = bench->phase.messages;

	for (uint32_t i = 0; i < bench->plan.qps; i++)
		messages += bench->flows[i].delivered;
	return messages;
}

static uint64_t bytes_of(const struct perf_bench *bench)
{
	uint64_t bytes = bench->phase.bytes;

	for (uint32_t i = 0; i < bench->plan.qps; i++)
		bytes += bench->flows[i].delivered * bench->plan.size;
	return bytes;
}

static uint64_t repeated_of(const struct perf_bench *bench)
{
	uint64_t value = 0;
	const char *name;

	for (unsigned i = 0; (name = gw_counter_name(i)); i++) {
		if (strcmp(name, "retransmitted_packets") == 0)
			gw_counter_read(bench->ctx, i, &value);
	}
	return value;
}

void perf_intervals_begin(struct perf_intervals *intervals, const struct perf_bench *bench)
{
	char size[TEXT_SIZE];

	if (!intervals->every_ns)
		return;
	intervals->last_ns = bench->phase.started_ns;
	intervals->next_ns = intervals->last_ns + intervals->every_ns;
	intervals->bytes = intervals->messages = 0;
	intervals->repeated = repeated_of(bench);
	if (intervals->entries)
		return;
	printf("%s, at this end:\n%17s %11s %9s %11s %9s\n", text_bytes(bench->plan.size, size),
	       "seconds", "moved", "Gbit/s", "messages/s", "repeated");
	fflush(stdout);
}

bool perf_intervals_due(const struct perf_intervals *intervals, uint64_t now)
{
	return intervals->every_ns && now >= intervals->next_ns;
}

static void append(json_t *entries, const struct perf_bench *bench, double from, double to,
		   const struct perf_intervals *moved)
{
	json_t *entry = json_object();

	json_object_set_new(entry, "size_bytes", json_integer((json_int_t)bench->plan.size));
	json_object_set_new(entry, "start_seconds", json_real(from));
	json_object_set_new(entry, "end_seconds", json_real(to));
	json_object_set_new(entry, "bytes", json_integer((json_int_t)moved->bytes));
	json_object_set_new(entry, "messages", json_integer((json_int_t)moved->messages));
	json_object_set_new(entry, "goodput_gbps",
			    json_real((double)moved->bytes * 8 / (to - from) / GB));
	json_object_set_new(entry, "packets_retransmitted",
			    json_integer((json_int_t)moved->repeated));
	json_array_append_new(entries, entry);
}

void perf_intervals_report(struct perf_intervals *intervals, const struct perf_bench *bench,
			   uint64_t now)
{
	struct perf_intervals at = { .bytes = bytes_of(bench),
				     .messages = messages_of(bench),
				     .repeated = repeated_of(bench) };
	struct perf_intervals moved = { .bytes = at.bytes - intervals->bytes,
					.messages = at.messages - intervals->messages,
					.repeated = at.repeated - intervals->repeated };
	double from = session_seconds(intervals->last_ns - bench->phase.started_ns);
	double to = session_seconds(now - bench->phase.started_ns);
	char size[TEXT_SIZE];

	if (now <= intervals->last_ns)
		return;
	if (intervals->entries) {
		append(intervals->entries, bench, from, to, &moved);
	} else {
		printf("%8.2f-%-8.2f %11s %9.3f %11.0f %9" PRIu64 "\n", from, to,
		       text_bytes(moved.bytes, size), (double)moved.bytes * 8 / (to - from) / GB,
		       (double)moved.messages / (to - from), moved.repeated);
		fflush(stdout);
	}
	intervals->bytes = at.bytes;
	intervals->messages = at.messages;
	intervals->repeated = at.repeated;
	intervals->last_ns = now;
	while (intervals->next_ns <= now)
		intervals->next_ns += intervals->every_ns;
}

void perf_intervals_end(struct perf_intervals *intervals, const struct perf_bench *bench,
			uint64_t now)
{
	if (intervals->every_ns && now - intervals->last_ns > intervals->every_ns / SHORTEST_SHARE)
		perf_intervals_report(intervals, bench, now);
}

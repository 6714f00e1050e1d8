/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A receiver counts messages that have arrived, a sender those that the receiver has confirmed; an end that does both counts
 * both. So a large message counts as a whole in the interval in which it ends.
 */
#include "interval.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "team.h"
#include "tools/output.h"
#include "tools/session.h"
#include "tools/text.h"

#define GB 1e9
/* an interval that is shorter than a tenth of the others is left out */
#define SHORTEST_SHARE 10

/* What a bench has moved, in addition to what others have. */
static int add_moved(struct perf_bench *bench, void *arg)
{
	struct perf_intervals *sum = arg;
	uint64_t value;
	const char *name;

	sum->messages += bench->phase.messages;
	sum->bytes += bench->phase.bytes;
	for (uint32_t i = 0; i < bench->plan.qps; i++) {
		sum->messages += bench->flows[i].delivered;
		sum->bytes += bench->flows[i].delivered * bench->plan.size;
	}
	for (unsigned i = 0; (name = gw_counter_name(i)); i++) {
		if (strcmp(name, "retransmitted_packets") == 0 &&
		    gw_counter_read(bench->ctx, i, &value) == 0)
			sum->repeated += value;
	}
	return 0;
}

void perf_intervals_begin(struct perf_intervals *intervals, struct perf_team *team)
{
	uint64_t started_ns = team->benches[0].phase.started_ns;
	struct perf_intervals before = { 0 };
	char size[TEXT_SIZE];

	if (!intervals->every_ns)
		return;
	intervals->last_ns = started_ns;
	intervals->next_ns = intervals->last_ns + intervals->every_ns;
	intervals->bytes = intervals->messages = 0;
	perf_team_each(team, add_moved, &before);
	intervals->repeated = before.repeated;
	if (intervals->entries)
		return;
	printf("%s, at this end:\n%17s %11s %9s %11s %9s\n", text_bytes(team->plan.size, size),
	       "seconds", "moved", "Gbit/s", "messages/s", "repeated");
	output_flush();
}

bool perf_intervals_due(const struct perf_intervals *intervals, uint64_t now)
{
	return intervals->every_ns && now >= intervals->next_ns;
}

static void append(json_t *entries, const struct perf_team *team, double from, double to,
		   const struct perf_intervals *moved)
{
	json_t *entry = json_object();

	json_object_set_new(entry, "size_bytes", json_integer((json_int_t)team->plan.size));
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

void perf_intervals_report(struct perf_intervals *intervals, struct perf_team *team, uint64_t now)
{
	uint64_t started_ns = team->benches[0].phase.started_ns;
	struct perf_intervals at = { 0 }, moved;
	double from = session_seconds(intervals->last_ns - started_ns);
	double to = session_seconds(now - started_ns);
	char size[TEXT_SIZE];

	if (now <= intervals->last_ns)
		return;
	perf_team_each(team, add_moved, &at);
	moved = (struct perf_intervals){ .bytes = at.bytes - intervals->bytes,
					 .messages = at.messages - intervals->messages,
					 .repeated = at.repeated - intervals->repeated };
	if (intervals->entries) {
		append(intervals->entries, team, from, to, &moved);
	} else {
		printf("%8.2f-%-8.2f %11s %9.3f %11.0f %9" PRIu64 "\n", from, to,
		       text_bytes(moved.bytes, size), (double)moved.bytes * 8 / (to - from) / GB,
		       (double)moved.messages / (to - from), moved.repeated);
		output_flush();
	}
	intervals->bytes = at.bytes;
	intervals->messages = at.messages;
	intervals->repeated = at.repeated;
	intervals->last_ns = now;
	while (intervals->next_ns <= now)
		intervals->next_ns += intervals->every_ns;
}

void perf_intervals_end(struct perf_intervals *intervals, struct perf_team *team, uint64_t now)
{
	if (intervals->every_ns && now - intervals->last_ns > intervals->every_ns / SHORTEST_SHARE)
		perf_intervals_report(intervals, team, now);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* report.c: prints the counters of a lab as JSON. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "lab.h"

/* Packets were late if more than 1 % left later than 1 / LATE_SHARE of a round trip, and at least LATE_MIN_NS. */
#define LATE_SHARE  20
#define LATE_MIN_NS 200000

bool lab_was_late(const struct lab_config *config, const struct switch_counts *counts)
{
	uint64_t bound_ns = config->rtt_ns / LATE_SHARE;

	return counts->late_p99_ns > (bound_ns > LATE_MIN_NS ? bound_ns : LATE_MIN_NS);
}

static json_t *times(uint64_t p50_ns, uint64_t p99_ns, uint64_t max_ns)
{
	return json_pack("{s:f, s:f, s:f}", "p50_us", (double)p50_ns / 1e3, "p99_us",
			 (double)p99_ns / 1e3, "max_us", (double)max_ns / 1e3);
}

static json_t *link_counts(unsigned host, const char *direction,
			   const struct switch_link_counts *link, uint64_t overruns)
{
	const struct link_stats *stats = &link->stats;

	return json_pack(
		"{s:i, s:s, s:I, s:I, s:{s:I, s:I, s:I, s:I, s:I, s:I}, s:I, s:I, s:I, s:o, s:o}",
		"host", (int)host, "direction", direction, "forwarded",
		(json_int_t)stats->forwarded, "bytes", (json_int_t)link->bytes, "dropped", "loss",
		(json_int_t)stats->lost, "queue", (json_int_t)stats->overflow, "down",
		(json_int_t)stats->cut, "refused", (json_int_t)link->refused, "overrun",
		(json_int_t)overruns, "size", (json_int_t)link->oversize, "marked",
		(json_int_t)link->marked, "duplicated", (json_int_t)stats->duplicated, "reordered",
		(json_int_t)stats->reordered, "late",
		times(link->late_p50_ns, link->late_p99_ns, link->late_max_ns), "waited",
		times(link->wait_p50_ns, link->wait_p99_ns, link->wait_max_ns));
}

static json_t *paths(const struct lab_config *config, const struct switch_counts *counts)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < config->path_count && config->path_count > 1; i++) {
		const struct link_stats *stats = &counts->paths[i];

		json_array_append_new(array, json_pack("{s:I, s:{s:I, s:I}}", "forwarded",
						       (json_int_t)stats->forwarded, "dropped",
						       "loss", (json_int_t)stats->lost, "down",
						       (json_int_t)stats->cut));
	}
	return array;
}

static json_t *statuses(const struct lab_config *config, const struct lab_result *result)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < config->hosts; i++)
		json_array_append_new(array, result->status[i] == LAB_RUNNING
						     ? json_null()
						     : json_integer(result->status[i]));
	return array;
}

int lab_print_json(const struct lab_config *config, const struct lab_outcome *outcome, FILE *to)
{
	const struct lab_result *result = outcome->result;
	const struct switch_counts *counts = &result->counts;
	json_t *links = json_array(), *object;
	int rc;

	for (unsigned i = 0; i < config->hosts; i++) {
		json_array_append_new(links, link_counts(i, "up", &counts->links[i][LAB_UP],
							 result->overruns[i]));
		json_array_append_new(links,
				      link_counts(i, "down", &counts->links[i][LAB_DOWN], 0));
	}
	object = json_pack("{s:i, s:I, s:f, s:o, s:o, s:o, s:{s:I, s:I, s:I}, s:o, s:b}", "hosts",
			   (int)config->hosts, "seed", (json_int_t)config->seed, "seconds",
			   (double)result->elapsed_ns / 1e9, "statuses", statuses(config, result),
			   "links", links, "paths", paths(config, counts), "unforwarded",
			   "misaddressed", (json_int_t)counts->misaddressed, "malformed",
			   (json_int_t)counts->malformed, "memory", (json_int_t)counts->starved,
			   "late",
			   times(counts->late_p50_ns, counts->late_p99_ns, counts->late_max_ns),
			   "was_late", (int)lab_was_late(config, counts));
	if (!object)
		return -ENOMEM;
	rc = json_dumpf(object, to, JSON_COMPACT | JSON_REAL_PRECISION(9));
	json_decref(object);
	fputc('\n', to);
	return rc ? -EIO : 0;
}

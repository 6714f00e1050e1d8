/* SPDX-License-Identifier: BSD-3-Clause */
/* summary.c: prints the counters of a lab as a table for people. */
#include <inttypes.h>
#include <stdio.h>

#include "lab.h"

#define NS_A_MS 1e6

static uint64_t dropped(const struct link_stats *stats)
{
	return stats->lost + stats->overflow + stats->cut;
}

/* Prints a link or a path through which packets went. Paths have no queue and drop nothing else. */
static void print_link(const char *name, const struct switch_link_counts *link, uint64_t overruns,
		       FILE *to)
{
	const struct link_stats *stats = &link->stats;

	if (stats->forwarded + dropped(stats) + link->refused + link->oversize + overruns == 0)
		return;
	fprintf(to,
		"%-9s %10" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64
		" %9" PRIu64 " %10.3f %10.3f %10.3f\n",
		name, stats->forwarded, stats->lost, stats->overflow, stats->cut, link->refused,
		overruns, link->oversize, (double)link->wait_p50_ns / NS_A_MS,
		(double)link->wait_p99_ns / NS_A_MS, (double)link->wait_max_ns / NS_A_MS);
}

void lab_print_summary(const struct lab_config *config, const struct lab_outcome *outcome, FILE *to)
{
	const struct lab_result *result = outcome->result;
	const struct switch_counts *counts = &result->counts;
	uint64_t unforwarded = counts->misaddressed + counts->malformed + counts->starved;
	char name[32];

	fprintf(to, "%-9s %10s  dropped:%51s  waited, ms:\n", "", "packets", "");
	fprintf(to, "%-9s %10s %9s %9s %9s %9s %9s %9s %10s %10s %10s\n", "link", "forwarded",
		"loss", "queue", "down", "refused", "overrun", "size", "median", "p99", "max");
	for (unsigned i = 0; i < config->hosts; i++) {
		snprintf(name, sizeof(name), "%u up", i);
		print_link(name, &counts->links[i][LAB_UP], result->overruns[i], to);
		snprintf(name, sizeof(name), "%u down", i);
		print_link(name, &counts->links[i][LAB_DOWN], 0, to);
	}
	for (unsigned i = 0; i < config->path_count && config->path_count > 1; i++) {
		const struct switch_link_counts path = { .stats = counts->paths[i] };

		snprintf(name, sizeof(name), "path %u", i);
		print_link(name, &path, 0, to);
	}
	if (unforwarded)
		fprintf(to,
			"not forwarded: %" PRIu64 " for no host, %" PRIu64 " malformed, %" PRIu64
			" without memory\n",
			counts->misaddressed, counts->malformed, counts->starved);
}

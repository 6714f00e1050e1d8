/* SPDX-License-Identifier: BSD-3-Clause */
/* reason.c: the names of schemes, and one sentence with the numbers that decided a choice. */
#include "plan/reason.h"

#include <math.h>
#include <stdio.h>

#define TIME_SIZE 32

static const char *const goal_names[] = { "mean", "median", "99th percentile",
					  "99.9th percentile" };

const char *plan_name(const struct plan_params *params, char buffer[PLAN_NAME_SIZE])
{
	static const char *const names[PLAN_SCHEMES] = { "sr-rto", "sr-nack", "mds", "xor" };
	const char *name = names[params->scheme];

	if (params->scheme == PLAN_SR_RTO || params->scheme == PLAN_SR_NACK)
		snprintf(buffer, PLAN_NAME_SIZE, "%s", name);
	else if (params->interleave > 1)
		snprintf(buffer, PLAN_NAME_SIZE, "%s(%u,%u)x%u", name, params->k, params->m,
			 params->interleave);
	else
		snprintf(buffer, PLAN_NAME_SIZE, "%s(%u,%u)", name, params->k, params->m);
	return buffer;
}

static const char *time_text(double ns, char buffer[TIME_SIZE])
{
	if (ns >= 1e9)
		snprintf(buffer, TIME_SIZE, "%.3g s", ns / 1e9);
	else if (ns >= 1e6)
		snprintf(buffer, TIME_SIZE, "%.3g ms", ns / 1e6);
	else
		snprintf(buffer, TIME_SIZE, "%.3g us", ns / 1e3);
	return buffer;
}

void plan_explain(const struct plan_path *path, uint64_t size, enum plan_goal goal,
		  struct plan_choice *choice)
{
	const char *goal_name = goal_names[goal];
	double chosen_ns = plan_figure(&choice->result, goal)->ns;
	double repeat_ns = plan_figure(&choice->repeat, goal)->ns;
	double packets = ceil((double)size / path->payload);
	char name[PLAN_NAME_SIZE], chosen[TIME_SIZE], repeat[TIME_SIZE];

	plan_name(&choice->params, name);
	time_text(chosen_ns, chosen);
	time_text(repeat_ns, repeat);
	if (choice->params.scheme != PLAN_MDS && choice->params.scheme != PLAN_XOR) {
		snprintf(
			choice->reason, PLAN_REASON_SIZE,
			"%s: of %.0f packets %.3g are lost on average and repeating them takes the %s to %s, "
			"%.2f times the ideal; no parity would earn what it costs to send.",
			name, packets, packets * path->loss, goal_name, repeat,
			repeat_ns / choice->repeat.ideal_ns);
		return;
	}
	snprintf(
		choice->reason, PLAN_REASON_SIZE,
		"%s: of %.0f packets %.3g are lost on average, and a repeat costs a round trip (%s %s); "
		"%.0f %% more packets let the receiver rebuild them in place and bring that to %s, %.2f times the ideal, "
		"with a chance of %.2g that a repair is needed.",
		name, packets, packets * path->loss, goal_name, repeat,
		100 * (choice->result.sent_share - 1), chosen, chosen_ns / choice->result.ideal_ns,
		choice->result.repair_chance);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choose.c: compares a fixed list of codes that differ enough to matter. None has more parity than half of its data, because
 * at such loss Selective Repeat is faster; none is an XOR code with a single data packet in a row, which would be a copy.
 */
#include "plan/plan.h"

#include <errno.h>
#include <math.h>

#include "plan/process.h"
#include "plan/reason.h"

#define INTERLEAVE_MAX 64
/* Predictions within this factor of the best count as equal. */
#define CLOSE_ENOUGH 1.01

struct code {
	uint8_t k;
	uint8_t m;
};

static const struct code mds_grid[] = {
	{ 8, 1 },   { 8, 2 },	 { 8, 4 },    { 16, 1 },   { 16, 2 },  { 16, 4 },
	{ 16, 8 },  { 32, 1 },	 { 32, 2 },   { 32, 4 },   { 32, 8 },  { 32, 16 },
	{ 64, 2 },  { 64, 4 },	 { 64, 8 },   { 64, 16 },  { 64, 32 }, { 128, 4 },
	{ 128, 8 }, { 128, 16 }, { 128, 32 }, { 128, 64 },
};
static const struct code xor_grid[] = {
	{ 8, 2 },   { 8, 4 },  { 16, 2 },  { 16, 4 },  { 16, 8 },   { 32, 4 },	 { 32, 8 },
	{ 32, 16 }, { 64, 8 }, { 64, 16 }, { 64, 32 }, { 128, 16 }, { 128, 32 },
};

#define MDS_CODES  (sizeof(mds_grid) / sizeof(mds_grid[0]))
#define XOR_CODES  (sizeof(xor_grid) / sizeof(xor_grid[0]))
#define CANDIDATES (2 + MDS_CODES + XOR_CODES)

unsigned plan_interleave(const struct plan_path *path, uint64_t size, unsigned k, double mendable)
{
	uint64_t unit = (uint64_t)path->payload * path->chunk;
	uint64_t groups = (size + unit * k - 1) / (unit * k);
	unsigned interleave = 1;

	if (path->burst <= 1)
		return 1;
	while (interleave < INTERLEAVE_MAX && interleave < groups &&
	       interleave * mendable / 2 < path->burst / path->chunk)
		interleave *= 2;
	return interleave;
}

bool plan_candidate(const struct plan_path *path, uint64_t size, unsigned i,
		    struct plan_params *out)
{
	const struct code *code;

	if (i < 2) {
		*out = (struct plan_params){ .scheme = i == 0 ? PLAN_SR_NACK : PLAN_SR_RTO };
		return true;
	}
	i -= 2;
	if (i >= MDS_CODES + XOR_CODES)
		return false;
	code = i < MDS_CODES ? &mds_grid[i] : &xor_grid[i - MDS_CODES];
	*out = (struct plan_params){
		.scheme = i < MDS_CODES ? PLAN_MDS : PLAN_XOR,
		.k = code->k,
		.m = code->m,
		.interleave = plan_interleave(path, size, code->k, code->m),
	};
	return true;
}

int plan_choose(const struct plan_path *path, uint64_t size, enum plan_goal goal,
		struct plan_choice *out)
{
	const struct plan_params repeat = { .scheme = PLAN_SR_NACK };
	struct plan_result results[CANDIDATES];
	double figures[CANDIDATES], best, least = INFINITY;
	struct plan_choice choice = { .params = repeat };
	struct plan_params params;

	if (plan_predict(&repeat, path, size, 0, 0, &choice.repeat))
		return -EINVAL;
	best = plan_figure(&choice.repeat, goal)->ns;
	for (unsigned i = 0; plan_candidate(path, size, i, &params); i++) {
		figures[i] = INFINITY;
		/* This library has no timer for each packet; the candidate is there for comparison. */
		if (params.scheme == PLAN_SR_RTO)
			continue;
		/* Skip the prediction where sending alone takes too long, as for most codes. */
		if (process_least_ns(&params, path, size) > best * CLOSE_ENOUGH)
			continue;
		if (plan_predict(&params, path, size, 0, 0, &results[i]))
			return -EINVAL;
		figures[i] = plan_figure(&results[i], goal)->ns;
		best = fmin(best, figures[i]);
	}
	for (unsigned i = 0; plan_candidate(path, size, i, &params); i++) {
		if (figures[i] <= best * CLOSE_ENOUGH && results[i].sent_share < least) {
			least = results[i].sent_share;
			choice.params = params;
			choice.result = results[i];
		}
	}
	plan_explain(path, size, goal, &choice);
	*out = choice;
	return 0;
}

int plan_justify(const struct plan_path *path, uint64_t size, enum plan_goal goal,
		 const struct plan_params *params, struct plan_choice *out)
{
	const struct plan_params repeat = { .scheme = PLAN_SR_NACK };
	struct plan_choice choice = { .params = *params };

	if (plan_predict(&repeat, path, size, 0, 0, &choice.repeat) ||
	    plan_predict(params, path, size, 0, 0, &choice.result))
		return -EINVAL;
	plan_explain(path, size, goal, &choice);
	*out = choice;
	return 0;
}

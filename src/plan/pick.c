/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pick.c: the choice that a scheme makes for its next message, among the codes that its memory and its coder allow. The
 * previous choice stays unless another is clearly better. Nothing is allocated, and no reason is written.
 */
#include "plan/plan.h"

#include <errno.h>
#include <math.h>

#include "plan/process.h"

/* Path estimates vary by some per cent from message to message. Predictions within this factor of the best count as
 * equal. */
#define CLOSE_ENOUGH 1.01
/* The previous choice is given up if it takes longer than this factor of the best. */
#define WORTH_IT 1.03
/* It is also given up for one as fast that sends less, by this share of the data. */
#define LESS_SENT 0.02

/* Codes with the same k that are compared. */
#define STEPS 5

struct search {
	const struct plan_path *path;
	uint64_t size;
	enum plan_goal goal;
	/* messages in flight, this one included */
	double open;
	/* time that the data alone takes on the wire, in ns */
	double wire_ns;
	/* least predicted time so far, in ns */
	double best;
	/* the choice so far, its cost_ns(), and its sent_share; scheme PLAN_SCHEMES: none */
	struct plan_params params;
	double figure;
	double sent_share;
};

/*
 * Returns the time that a message costs. Alone, it is the predicted one. Of several in flight each takes its part of it, but
 * at least as long as its packets take on the wire: where those fill the path, parity for what is rarely lost only delays
 * the messages behind.
 */
static double cost_ns(const struct search *search, const struct plan_params *params,
		      const struct plan_result *result)
{
	double wire_ns = search->wire_ns * result->sent_share;

	if (params->scheme == PLAN_SR_NACK)
		wire_ns /= 1 - search->path->loss;
	return fmax(plan_figure(result, search->goal)->ns / search->open, wire_ns);
}

/* Takes the candidate if it is faster than the choice so far, or about as fast and sends less. Returns 0 or -EINVAL. */
static int consider(struct search *search, const struct plan_params *params)
{
	struct plan_result result;
	double figure;

	if (process_least_ns(params, search->path, search->size) / search->open >
	    search->best * CLOSE_ENOUGH)
		return 0;
	if (plan_predict(params, search->path, search->size, 0, 0, &result))
		return -EINVAL;
	figure = cost_ns(search, params, &result);
	if (figure > search->best * CLOSE_ENOUGH ||
	    (figure * CLOSE_ENOUGH > search->figure && result.sent_share >= search->sent_share))
		return 0;
	search->best = fmin(search->best, figure);
	search->figure = figure;
	search->sent_share = result.sent_share;
	search->params = *params;
	return 0;
}

static bool allowed(const struct plan_limits *limits, unsigned k, unsigned m)
{
	return !limits->fits || limits->fits(limits->arg, k, m);
}

/* Groups to interleave for a code: plan_interleave(), but at least the limit, and at most what the message has. */
static unsigned interleave(const struct search *search, const struct plan_limits *limits,
			   unsigned k, unsigned m)
{
	uint64_t group_bytes = (uint64_t)search->path->payload * search->path->chunk * k;
	uint64_t groups = (search->size + group_bytes - 1) / group_bytes;
	unsigned depth = plan_interleave(search->path, search->size, k, m);

	if (depth < limits->interleave)
		depth = limits->interleave;
	return depth < groups ? depth : (unsigned)groups;
}

/* True if the previous choice stays: on the path as it is now, the one found is not clearly faster, nor as fast with fewer
 * packets. */
static bool outlives(const struct search *found, const struct plan_limits *limits,
		     const struct plan_params *before)
{
	struct plan_result result;
	double figure;

	if (before->scheme != PLAN_SR_NACK && before->scheme != PLAN_MDS)
		return false;
	if (before->scheme == PLAN_SR_NACK ? !limits->repeat
					   : !allowed(limits, before->k, before->m))
		return false;
	if (plan_predict(before, found->path, found->size, 0, 0, &result))
		return false;
	figure = cost_ns(found, before, &result);
	if (found->figure <= figure * CLOSE_ENOUGH &&
	    found->sent_share + LESS_SENT < result.sent_share)
		return false;
	return figure <= found->figure * WORTH_IT;
}

/*
 * True if the parity of most groups makes up for their losses. Where it does not, nearly every group requests more, and is
 * repaired like one under Selective Repeat, but later: the closed form does not count the packets of all these repairs.
 */
static bool covers(const struct plan_path *path, unsigned k, unsigned m)
{
	double losses = (k + m) * path->loss;

	return m >= losses + sqrt(losses * (1 - path->loss));
}

/* Numbers of parity packets that are compared: 1, 2, 3, 4, 6, 8, 12 and so on. */
static unsigned next_m(unsigned m)
{
	if (m < 2)
		return m + 1;
	return m & (m - 1) ? m / 3 * 4 : m / 2 * 3;
}

/* Compares the codes with k data packets in a group, from the first that covers the losses on: a few steps more parity make
 * repairs rare. Returns 0 or -EINVAL. */
static int consider_codes(struct search *search, const struct plan_limits *limits, unsigned k)
{
	struct plan_params candidate = { .scheme = PLAN_MDS, .k = k }, most = { .k = 0 };
	unsigned steps = 0;
	int error = 0;

	for (unsigned m = limits->m ? limits->m : 1;
	     !error && (limits->m || m <= k) && steps < STEPS; m = next_m(m)) {
		if (allowed(limits, k, m)) {
			candidate.m = m;
			candidate.interleave = interleave(search, limits, k, m);
			most = candidate;
			if (limits->m || covers(search->path, k, m)) {
				error = consider(search, &candidate);
				steps++;
			}
		}
		if (limits->m)
			break;
	}
	/* A code has to be named: the one that leaves the least to repair. */
	if (!steps && !limits->repeat && most.k)
		error = consider(search, &most);
	return error;
}

int plan_pick(const struct plan_path *path, uint64_t size, enum plan_goal goal,
	      const struct plan_limits *limits, struct plan_params *params)
{
	struct search search = { .path = path,
				 .size = size,
				 .goal = goal,
				 .open = fmax(1, limits->open),
				 .best = INFINITY,
				 .sent_share = INFINITY,
				 .figure = INFINITY,
				 .params = { .scheme = PLAN_SCHEMES } };
	const struct plan_params repeat = { .scheme = PLAN_SR_NACK };
	int error = 0;

	search.wire_ns = (double)size * (1 + (double)path->overhead / path->payload) * 8e9 /
			 (double)path->rate_bps;
	if (limits->repeat)
		error = consider(&search, &repeat);
	for (unsigned k = limits->k ? limits->k : PLAN_K_LEAST; !error && k <= limits->k_max;
	     k *= 2) {
		error = consider_codes(&search, limits, k);
		if (limits->k)
			break;
	}
	if (error || search.params.scheme == PLAN_SCHEMES)
		return -EINVAL;
	if (!outlives(&search, limits, params))
		*params = search.params;
	return 0;
}

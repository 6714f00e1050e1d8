/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * closed.c: the distribution of the time that a message takes, in closed form.
 *
 * A batch (batches.h) is a number of groups whose last units left at times spread evenly over an interval. A group that
 * left at time t is complete after n repair rounds at t + cost(n), and done(n) is the probability that n rounds are
 * enough. The message is complete by time q if every group is:
 *
 *     log P(complete by q) = sum over batches and n of  (groups that have time for exactly n rounds before q) * log done(n)
 *
 * The number of groups that have time for n rounds grows linearly with q while q - cost(n) moves through the batch. So the
 * logarithm is piecewise linear between the breakpoints first + cost(n) and last + cost(n), the probability is piecewise
 * exponential, and mean and quantiles are computed piece by piece, independently of the number of packets.
 *
 * If all parity follows all data, a group whose parity has not been sent yet is complete if it lost no data. This adds one
 * term (log_early) for the groups that have not left.
 */
#include "plan/batches.h"

#include <math.h>
#include <stdlib.h>

#define POINTS_MAX ((BATCHES_MAX + 1) * 2 * (ROUNDS_MAX + 1) + 1)

/*
 * Returns how many groups of the batch have time for so many rounds by at_ns, or (just_before) immediately before it, which
 * differs if all groups left at one time. last_ns is computed as in breakpoints(), so that both round alike and at_ns
 * compares equal at a jump.
 */
static double fitting_by(const struct batch *batch, unsigned rounds, double at_ns, bool just_before)
{
	double width = batch->last_ns - batch->first_ns,
	       last_ns = batch->last_ns + batch->cost_ns[rounds], share;

	if (width > 0) {
		share = 1 - (last_ns - at_ns) / width;
		return share >= 1 ? batch->groups : share > 0 ? batch->groups * share : 0;
	}
	return at_ns > last_ns || (at_ns >= last_ns && !just_before) ? batch->groups : 0;
}

/*
 * Only the rounds for which some groups have time and others have not add to the sum. The others are passed over: a sender
 * computes this between two packets, and where many are lost there are hundreds of rounds. *all is a number of rounds for
 * which all groups have time, and is raised to the largest. It only grows with the time: whoever asks for one time after the
 * other keeps it.
 */
static double log_batch_by(const struct batch *batch, double at_ns, bool just_before, unsigned *all)
{
	double fitting = fitting_by(batch, 0, at_ns, just_before);
	double sum = (batch->groups - fitting) * batch->log_early;

	while (*all < batch->rounds &&
	       fitting_by(batch, *all + 1, at_ns, just_before) >= batch->groups)
		++*all;
	for (unsigned n = *all; n < batch->rounds && fitting > 0; n++) {
		double more = fitting_by(batch, n + 1, at_ns, just_before);

		/* Groups that have time for n rounds but not for n + 1. */
		sum += (fitting - more) * batch->log_done[n];
		fitting = more;
	}
	return sum;
}

/* all[] is as in log_batch_by(), for each batch. */
static double log_over_by(const struct batches *batches, double at_ns, bool just_before,
			  unsigned all[BATCHES_MAX])
{
	double sum = 0;

	for (unsigned i = 0; i < batches->count; i++)
		sum += log_batch_by(&batches->list[i], at_ns, just_before, &all[i]);
	return sum;
}

/* Collects the breakpoints from start_ns on, in order; returns how many. */
static unsigned breakpoints(const struct batches *batches, double *points)
{
	unsigned count = 0;

	points[count++] = batches->start_ns;
	for (unsigned i = 0; i <= batches->count; i++) {
		const struct batch *batch =
			i < batches->count ? &batches->list[i] : &batches->result;

		for (unsigned n = 0; n <= batch->rounds; n++) {
			double ends[2] = { batch->first_ns + batch->cost_ns[n],
					   batch->last_ns + batch->cost_ns[n] };

			for (unsigned end = 0; end < 2; end++) {
				if (ends[end] > batches->start_ns && count < POINTS_MAX)
					points[count++] = ends[end];
			}
		}
	}
	qsort(points, count, sizeof(points[0]), process_compare_times);
	return count;
}

/* Returns the integral of 1 - exp(l), where l goes linearly from `from` to `to` over a length. */
static double mean_of_piece(double from, double to, double length)
{
	double rise = to - from;

	if (fabs(rise) < 1e-9)
		return length * -expm1((from + to) / 2);
	return length * (1 - (exp(to) - exp(from)) / rise);
}

#define QUANTILES 3

struct figures {
	double mean_ns;
	double quantile_ns[QUANTILES];
};

/* Computes the mean, and the times by which a message is complete with the probabilities wanted[], in ascending order. */
static void walk(const struct batches *batches, const double *wanted, struct figures *out)
{
	double points[POINTS_MAX];
	unsigned count = breakpoints(batches, points), next = 0;
	unsigned all[BATCHES_MAX] = { 0 }, result_all = 0;

	out->mean_ns = batches->start_ns;
	for (unsigned i = 0; i < QUANTILES; i++)
		out->quantile_ns[i] = points[count - 1];
	for (unsigned i = 0; i < count; i++) {
		double at_ns = points[i], from = log_over_by(batches, at_ns, false, all);
		double known = from + log_batch_by(&batches->result, at_ns, false, &result_all);
		double to, length_ns;

		/* The probability may jump at the breakpoint. */
		while (next < QUANTILES && log(wanted[next]) <= known)
			out->quantile_ns[next++] = at_ns;
		if (i + 1 == count)
			break;
		length_ns = points[i + 1] - at_ns;
		if (length_ns <= 0)
			continue;
		to = log_over_by(batches, points[i + 1], true, all);
		out->mean_ns += mean_of_piece(from, to, length_ns);
		/* The result's own probability is constant between breakpoints. */
		for (; next < QUANTILES && log(wanted[next]) < known + to - from; next++)
			out->quantile_ns[next] =
				at_ns + length_ns * (log(wanted[next]) - known) / (to - from);
	}
}

/* SDR-RDMA's codes: groups that cannot be decoded are sent again under Selective Repeat, after a wait. */
static void add_fallback(const struct process *p, double chance, const double *wanted,
			 struct figures *figures)
{
	double fails, groups, rare[QUANTILES];
	double start_ns = (double)p->units * p->unit_ns;
	struct process again;
	struct batches batches;
	struct figures more;

	fails = batches_group_fails(p);
	groups = fails * ((double)p->groups + p->last_groups);
	figures->mean_ns = start_ns;
	for (unsigned i = 0; i < QUANTILES; i++)
		figures->quantile_ns[i] = start_ns;
	if (chance < NEGLIGIBLE)
		return;
	/* The mean number of groups that fail in a message in which any fails. */
	groups = fmax(1, groups / chance);
	again = process_of_fallback(p, (uint64_t)(groups * p->group_data + 0.5));
	batches_make(&again, &batches);
	for (unsigned i = 0; i < QUANTILES; i++)
		rare[i] = fmax(0, 1 - (1 - wanted[i]) / chance);
	walk(&batches, rare, &more);
	figures->mean_ns += chance * (p->fallback_ns + more.mean_ns);
	for (unsigned i = 0; i < QUANTILES; i++) {
		if (rare[i] > 0)
			figures->quantile_ns[i] += p->fallback_ns + more.quantile_ns[i];
	}
}

static struct plan_estimate sure(double ns)
{
	return (struct plan_estimate){ .ns = ns, .low_ns = ns, .high_ns = ns };
}

void process_closed(const struct process *process, struct plan_result *out)
{
	static const double wanted[QUANTILES] = { 0.5, 0.99, 0.999 };
	double end_ns = process->end_ns;
	struct figures figures;
	struct batches batches;

	batches_make(process, &batches);
	out->repair_chance = 1 - batches_no_repair(&batches);
	if (process->fallback)
		add_fallback(process, out->repair_chance, wanted, &figures);
	else
		walk(&batches, wanted, &figures);
	/* Delay from lost results. */
	figures.mean_ns += batches_mean_result_ns(process);
	out->mean = sure(figures.mean_ns + end_ns);
	out->p50 = sure(figures.quantile_ns[0] + end_ns);
	out->p99 = sure(figures.quantile_ns[1] + end_ns);
	out->p999 = sure(figures.quantile_ns[2] + end_ns);
	out->exact =
		process->loss.burst <= 1 && !process->fallback && process->spread == 1 &&
		(double)(process->units - process->lead) * process->unit_ns <= process->first_ns;
}

void process_by(const struct process *process, double at_ns, struct plan_bounded *out)
{
	double once = 0, repaired = 0, groups = 0;
	unsigned all[BATCHES_MAX] = { 0 };
	struct process told = *process;
	struct batches batches;

	/* Data counts as arrived whether it was announced or not. */
	told.announce_ns = 0;
	batches_make(&told, &batches);
	for (unsigned i = 0; i < batches.count; i++) {
		const struct batch *batch = &batches.list[i];
		double scale = batch->weight / batch->groups;
		double fitting = fitting_by(batch, 0, at_ns, false);

		groups += batch->weight;
		once += scale * fitting * exp(batch->log_done[0]);
		for (unsigned n = 0; n < batch->rounds; n++) {
			double more = fitting_by(batch, n + 1, at_ns, false);

			repaired += scale * (fitting - more) * exp(batch->log_done[n]);
			fitting = more;
		}
		/* With more rounds than listed a group is complete. */
		repaired += scale * fitting;
	}
	out->once = once / groups;
	out->repaired = repaired / groups;
	out->whole = at_ns < batches.start_ns ? 0 : exp(log_over_by(&batches, at_ns, false, all));
}

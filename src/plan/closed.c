/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The distribution of a message's time, in closed form.
 *
 * Groups whose sending ended at times spread evenly over a stretch make a batch. With n repair rounds a group at time t is
 * done at t + cost(n), and done(n) is the chance that n rounds are enough. The message is over by q if every group is:
 *
 *     log P(over by q) = sum over batches and n of  (groups for which just n rounds fit before q) * log done(n)
 *
 * The number of groups for which n rounds fit grows evenly with q while q - cost(n) crosses the batch. So the logarithm is
 * made of straight pieces between breakpoints first + cost(n) and last + cost(n), the probability of exponential pieces,
 * and mean and quantiles follow piece by piece, whatever the number of packets.
 *
 * Where parity follows behind all the data a group whose turn has not come is done if it lost no data. That is one more
 * term, of the groups for which not even no round fits.
 */
#include "plan/process.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define ROUNDS_MAX  512
#define BATCHES_MAX 6
#define POINTS_MAX  ((BATCHES_MAX + 1) * 2 * (ROUNDS_MAX + 1) + 1)
#define NEGLIGIBLE  1e-9 /* chance that a message needs more rounds than are looked at */

struct batch {
	double first_ns; /* the first group ended just behind this */
	double last_ns;
	double groups;	  /* that fare independently */
	double weight;	  /* that there are */
	double repair_ns; /* cost of the first round, of the second, and of each after */
	double again_ns;
	double later_ns;
	const struct process
		*told;	  /* what is said until it is heard: costs as in there, not as above */
	double log_early; /* chance that a group is done before its turn comes */
	unsigned rounds;  /* done[] has so many entries; behind them it is 1 */
	double log_done[ROUNDS_MAX];
};

struct closed {
	struct batch batches[BATCHES_MAX];
	unsigned count;
	struct batch result; /* not a group: the sender hears of the end as if it were one */
	double start_ns;     /* no message is over before */
};

static double cost(const struct batch *batch, unsigned rounds)
{
	if (batch->told)
		return process_told_ns(batch->told, batch->again_ns, rounds);
	if (rounds < 2)
		return rounds * batch->repair_ns;
	return batch->repair_ns + batch->again_ns + (rounds - 2) * batch->later_ns;
}

/*
 * Chance that a group is not done after n rounds of repair. A repair round loses each unit with the same chance, so that a
 * lack of d is mended after n rounds with (1 - p^n)^d; that the request itself may be lost is put on one of them, which
 * is right for a lack of one, and for one round. In bursts a round works if none begins among its units: those of one
 * group, and of the others that the same burst hit.
 */
static double not_done(const struct process *p, const double *counts, unsigned size, double alike,
		       unsigned rounds)
{
	const struct loss_model *loss = &p->loss;
	unsigned spare = p->spare;
	double chance = 0, all_lost = pow(loss->mean, rounds);
	double heard = 1 - p->request_loss;
	double asked_in_vain = pow(1 - heard * (1 - loss->mean), rounds);

	for (unsigned b = spare + 1; b <= size; b++) {
		double lack = b - spare, fails = 1;

		if (rounds > 0 && loss->burst > 1)
			fails = pow(1 - heard * exp(lack * alike * log1p(-loss->enter)), rounds);
		else if (rounds > 0)
			fails = -expm1(log1p(-asked_in_vain) + (lack - 1) * log1p(-all_lost));
		chance += counts[b] * fails;
	}
	return fmin(chance, 1);
}

/*
 * How many groups fare alike, because one burst hits them. It passes by groups smaller than itself, and what it has left
 * after taking every spare unit of a block meets so many of the groups that take turns there.
 */
static double groups_alike(const struct process *p, unsigned size)
{
	double burst = p->loss.burst;

	if (burst <= 1)
		return 1;
	return fmax(fmax(1, burst / size), burst * (1 - pow(1 - 1 / burst, p->spread)));
}

/* A first repair that failed was not asked for, or lost: on average. */
static double again_ns(const struct process *p, double unheard)
{
	double asked = (1 - unheard) * (1 - p->request_loss), lost = asked * p->loss.mean;

	if (asked >= 1)
		return p->again_ns;
	return ((1 - asked) * p->unheard_ns + lost * p->again_ns) / (1 - asked + lost);
}

/* With this chance the first request is lost, and there is a round less. */
static void add_batch(struct closed *closed, const struct process *p, unsigned size, double groups,
		      double first_ns, double last_ns, double repair_ns, double unheard)
{
	double counts[LOSS_UNITS_MAX + 1], together = groups_alike(p, size), before = 1;
	struct batch *batch;

	if (groups <= 0)
		return;
	assert(closed->count < BATCHES_MAX);
	batch = &closed->batches[closed->count++];
	/* At least one burst's worth, but no more groups than there are: a batch may have part of one. */
	batch->groups = fmax(fmin(1, groups), groups / together);
	batch->weight = groups;
	batch->first_ns = first_ns;
	batch->last_ns = last_ns;
	batch->repair_ns = repair_ns + p->unit_ns;
	batch->again_ns = again_ns(p, unheard) + p->unit_ns;
	batch->later_ns = p->later_ns + p->unit_ns;
	batch->told = NULL;
	batch->log_early = 0;
	if (p->lead) {
		loss_counts(&p->loss, size - p->turn, p->spread, counts);
		batch->log_early = log(fmax(counts[0], 1e-16));
	}
	loss_counts(&p->loss, size, p->spread, counts);
	for (batch->rounds = 0; batch->rounds < ROUNDS_MAX; batch->rounds++) {
		double now = not_done(p, counts, size, together, batch->rounds);
		double fails = batch->rounds ? (1 - unheard) * now + unheard * before : now;

		before = now;
		if (fails * batch->groups < NEGLIGIBLE && batch->rounds > 0)
			break;
		batch->log_done[batch->rounds] = log1p(-fmin(fails, 1 - 1e-16));
	}
	if (!p->lead)
		closed->start_ns = fmax(closed->start_ns, last_ns);
}

/* Announcements and results: said at this time, and again until they are heard. */
static void set_told(struct batch *batch, const struct process *p, double at_ns, double again_ns,
		     bool result)
{
	double lost = p->control_loss;

	*batch = (struct batch){
		.first_ns = at_ns, .last_ns = at_ns, .groups = 1, .again_ns = again_ns, .told = p
	};
	while (lost > NEGLIGIBLE && batch->rounds < ROUNDS_MAX) {
		batch->log_done[batch->rounds++] = log1p(-lost);
		lost *= result ? process_result_loss(p, batch->rounds) : p->control_loss;
	}
}

/* A receiver that was not told the length cannot know that it has everything. Weighs nothing: it is no data. */
static void add_announcement(struct closed *closed, const struct process *p)
{
	if (p->control_loss <= 0 || p->announce_ns <= 0)
		return;
	assert(closed->count < BATCHES_MAX);
	set_told(&closed->batches[closed->count++], p, 0, p->announce_ns, false);
}

/*
 * The result may be lost and is repeated. Its delay adds to that of the groups; for the quantiles it is taken as one more
 * group, right but where both are late. The mean is exact.
 */
static void add_result(struct closed *closed, const struct process *p)
{
	double clean = 0, last_ns = closed->start_ns, at_ns;

	for (unsigned i = 0; i < closed->count; i++) {
		clean += closed->batches[i].groups * closed->batches[i].log_early;
		last_ns = fmax(last_ns, closed->batches[i].last_ns);
	}
	/* On average; where parity is last it is either as the data ends or when the parity does. */
	at_ns = last_ns - exp(clean) * (last_ns - closed->start_ns);
	set_told(&closed->result, p, at_ns, p->result_ns, true);
	closed->result.log_early =
		closed->result.log_done[0]; /* it may be lost whenever it is said */
}

static double mean_result_ns(const struct process *p)
{
	double lost = p->control_loss, sum = 0;

	for (unsigned n = 1; lost > NEGLIGIBLE && n < ROUNDS_MAX; n++) {
		sum += lost * (process_told_ns(p, p->result_ns, n) -
			       process_told_ns(p, p->result_ns, n - 1));
		lost *= process_result_loss(p, n);
	}
	return sum;
}

/* Units of repair for each fresh one. */
static double repair_load(const struct process *p)
{
	double counts[LOSS_UNITS_MAX + 1], lack = 0;

	loss_counts(&p->loss, p->size, p->spread, counts);
	for (unsigned b = p->spare + 1; b <= p->size; b++)
		lack += counts[b] * (b - p->spare);
	return lack / p->turn / (1 - p->loss.mean);
}

static double no_repair(const struct closed *closed)
{
	double sum = 0;

	for (unsigned i = 0; i < closed->count; i++)
		if (closed->batches[i].weight > 0)
			sum += closed->batches[i].groups * closed->batches[i].log_done[0];
	return exp(sum);
}

/*
 * Once the first repairs are asked for they take their share of the wire, and fresh units take as much longer. Groups are
 * then two batches of different density, and a last one for the message's end.
 */
static void make_batches(const struct process *p, struct closed *closed)
{
	uint64_t tail = p->tail < p->groups ? p->tail : p->groups;
	double body = (double)(p->groups - tail), step = p->turn * p->unit_ns;
	double lead_ns = (double)p->lead * p->unit_ns;
	double body_ns = body * step, load = repair_load(p);
	/* All of a block are looked at when it ends. */
	double spread_ns = fmin(p->spread - 1, body) * step;
	double quiet_ns = fmin(body_ns, p->first_ns), end_ns, quiet = body, mended;

	closed->count = 0;
	closed->start_ns = lead_ns;
	if (body_ns > p->first_ns)
		quiet = body * quiet_ns / body_ns;
	end_ns = quiet_ns + (body_ns - quiet_ns) * (1 + load);
	add_batch(closed, p, p->size, quiet, lead_ns + fmin(spread_ns, quiet_ns),
		  lead_ns + quiet_ns, p->first_ns, 0);
	add_batch(closed, p, p->size, body - quiet, lead_ns + quiet_ns, lead_ns + end_ns,
		  p->first_ns, 0);
	end_ns += lead_ns + (double)tail * step;
	/* The sender asks about the tail when it has nothing to send: in so many messages that is behind repairs. */
	mended = 1 - no_repair(closed);
	add_batch(closed, p, p->size, (double)tail * (1 - mended), end_ns, end_ns, p->tail_ns,
		  p->request_loss);
	add_batch(closed, p, p->size, (double)tail * mended, end_ns, end_ns,
		  p->tail_ns + p->first_ns, p->request_loss);
	if (p->last_groups > 0) {
		end_ns += p->last_groups * (p->lead ? p->turn : p->last_size) * p->unit_ns;
		add_batch(closed, p, p->last_size, p->last_groups, end_ns, end_ns, p->first_ns, 0);
	}
	add_announcement(closed, p);
	add_result(closed, p);
}

/*
 * Groups for which so many rounds fit before this time; or just before it, where that differs. The sum on the right is the
 * one that breakpoints() makes, to the last bit: a jump must not be missed by a rounding.
 */
static double fitting_by(const struct batch *batch, unsigned rounds, double at_ns, bool just_before)
{
	double width = batch->last_ns - batch->first_ns,
	       last_ns = batch->last_ns + cost(batch, rounds);

	if (width > 0)
		return batch->groups * fmax(0, fmin(1, 1 - (last_ns - at_ns) / width));
	return at_ns > last_ns || (at_ns >= last_ns && !just_before) ? batch->groups : 0;
}

static double log_batch_by(const struct batch *batch, double at_ns, bool just_before)
{
	double fitting = fitting_by(batch, 0, at_ns, just_before);
	double sum = (batch->groups - fitting) * batch->log_early;

	for (unsigned n = 0; n < batch->rounds; n++) {
		double more = fitting_by(batch, n + 1, at_ns, just_before);

		/* Exactly n rounds fit for those that had time for n but not for n + 1. */
		sum += (fitting - more) * batch->log_done[n];
		fitting = more;
	}
	return sum;
}

static double log_over_by(const struct closed *closed, double at_ns, bool just_before)
{
	double sum = 0;

	for (unsigned i = 0; i < closed->count; i++)
		sum += log_batch_by(&closed->batches[i], at_ns, just_before);
	return sum;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Where pieces meet, in order, from the earliest end on. */
static unsigned breakpoints(const struct closed *closed, double *points)
{
	unsigned count = 0;

	points[count++] = closed->start_ns;
	for (unsigned i = 0; i <= closed->count; i++) {
		const struct batch *batch =
			i < closed->count ? &closed->batches[i] : &closed->result;

		for (unsigned n = 0; n <= batch->rounds; n++) {
			double ends[2] = { batch->first_ns + cost(batch, n),
					   batch->last_ns + cost(batch, n) };

			for (unsigned end = 0; end < 2; end++) {
				if (ends[end] > closed->start_ns && count < POINTS_MAX)
					points[count++] = ends[end];
			}
		}
	}
	qsort(points, count, sizeof(points[0]), by_size);
	return count;
}

/* The integral of 1 - exp(l), l going straight from `from` to `to` over a length. */
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

/* Mean, and the times by which messages are over with the chances wanted[], which ascend. */
static void walk(const struct closed *closed, const double *wanted, struct figures *out)
{
	double points[POINTS_MAX];
	unsigned count = breakpoints(closed, points), next = 0;

	out->mean_ns = closed->start_ns;
	for (unsigned i = 0; i < QUANTILES; i++)
		out->quantile_ns[i] = points[count - 1];
	for (unsigned i = 0; i < count; i++) {
		double at_ns = points[i], from = log_over_by(closed, at_ns, false);
		double known = from + log_batch_by(&closed->result, at_ns, false), to, length_ns;

		/* The chance may jump at the point itself. */
		while (next < QUANTILES && log(wanted[next]) <= known)
			out->quantile_ns[next++] = at_ns;
		if (i + 1 == count)
			break;
		length_ns = points[i + 1] - at_ns;
		to = log_over_by(closed, points[i + 1], true);
		out->mean_ns += mean_of_piece(from, to, length_ns);
		/* The result's own chance is constant between points. */
		for (; next < QUANTILES && log(wanted[next]) < known + to - from; next++)
			out->quantile_ns[next] =
				at_ns + length_ns * (log(wanted[next]) - known) / (to - from);
	}
}

/* SDR-RDMA's codes: what cannot be rebuilt is sent again by Selective Repeat, after a wait. */
static void add_fallback(const struct process *p, double chance, const double *wanted,
			 struct figures *figures)
{
	double counts[LOSS_UNITS_MAX + 1], fails, groups, rare[QUANTILES];
	double start_ns = (double)p->units * p->unit_ns;
	struct process again;
	struct closed closed;
	struct figures more;

	loss_counts(&p->loss, p->size, p->spread, counts);
	fails = not_done(p, counts, p->size, 1, 0);
	groups = fails * ((double)p->groups + p->last_groups);
	figures->mean_ns = start_ns;
	for (unsigned i = 0; i < QUANTILES; i++)
		figures->quantile_ns[i] = start_ns;
	if (chance < NEGLIGIBLE)
		return;
	/* When it happens at all, so many groups fail. */
	groups = fmax(1, groups / chance);
	again = process_of_fallback(p, (uint64_t)(groups * p->group_data + 0.5));
	make_batches(&again, &closed);
	for (unsigned i = 0; i < QUANTILES; i++)
		rare[i] = fmax(0, 1 - (1 - wanted[i]) / chance);
	walk(&closed, rare, &more);
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
	struct closed closed;

	make_batches(process, &closed);
	out->repair_chance = 1 - no_repair(&closed);
	if (process->fallback)
		add_fallback(process, out->repair_chance, wanted, &figures);
	else
		walk(&closed, wanted, &figures);
	/* As often as the result is lost. */
	figures.mean_ns += mean_result_ns(process);
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
	struct process told = *process;
	struct closed closed;

	told.announce_ns = 0; /* data is there whether it was announced or not */
	make_batches(&told, &closed);
	for (unsigned i = 0; i < closed.count; i++) {
		const struct batch *batch = &closed.batches[i];
		double scale = batch->weight / batch->groups;
		double fitting = fitting_by(batch, 0, at_ns, false);

		groups += batch->weight;
		once += scale * fitting * exp(batch->log_done[0]);
		for (unsigned n = 0; n < batch->rounds; n++) {
			double more = fitting_by(batch, n + 1, at_ns, false);

			repaired += scale * (fitting - more) * exp(batch->log_done[n]);
			fitting = more;
		}
		/* Behind the rounds that matter all is there. */
		repaired += scale * fitting;
	}
	out->once = once / groups;
	out->repaired = repaired / groups;
	out->whole = at_ns < closed.start_ns ? 0 : exp(log_over_by(&closed, at_ns, false));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* predict.c: predictions from the closed form, or from sorted samples, whose confidence intervals it computes. */
#include "plan/plan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "plan/process.h"

/* 95 % of a normal distribution lie within this many standard deviations. */
#define DEVIATIONS 1.96

static double ranked(const double *sorted, unsigned samples, double rank)
{
	double last = samples - 1;

	return sorted[(unsigned)fmax(0, fmin(last, rank))];
}

/* The number of samples below a quantile has a binomial distribution, which gives the confidence interval of its rank. */
static struct plan_estimate quantile(const double *sorted, unsigned samples, double share)
{
	double rank = share * samples, off = DEVIATIONS * sqrt(samples * share * (1 - share));

	return (struct plan_estimate){
		.ns = ranked(sorted, samples, ceil(rank) - 1),
		.low_ns = ranked(sorted, samples, floor(rank - off)),
		.high_ns = ranked(sorted, samples, ceil(rank + off)),
	};
}

static struct plan_estimate average(const double *times, unsigned samples)
{
	double mean = 0, squares = 0, off;

	for (unsigned i = 0; i < samples; i++)
		mean += times[i];
	mean /= samples;
	for (unsigned i = 0; i < samples; i++)
		squares += (times[i] - mean) * (times[i] - mean);
	off = samples > 1 ? DEVIATIONS * sqrt(squares / (samples - 1.0) / samples) : 0;
	return (struct plan_estimate){ .ns = mean, .low_ns = mean - off, .high_ns = mean + off };
}

static int sample(const struct process *process, uint64_t seed, unsigned samples,
		  struct plan_result *out)
{
	double *times = malloc(samples * sizeof(*times));
	uint64_t repaired = 0;
	int rc;

	if (!times)
		return -ENOMEM;
	rc = process_sample(process, seed, samples, times, &repaired);
	if (!rc) {
		qsort(times, samples, sizeof(times[0]), process_compare_times);
		out->mean = average(times, samples);
		out->p50 = quantile(times, samples, 0.5);
		out->p99 = quantile(times, samples, 0.99);
		out->p999 = quantile(times, samples, 0.999);
		out->samples = samples;
		out->repair_chance = (double)repaired / samples;
	}
	free(times);
	return rc;
}

int plan_predict(const struct plan_params *params, const struct plan_path *path, uint64_t size,
		 uint64_t seed, unsigned samples, struct plan_result *out)
{
	struct plan_result result = { 0 };
	struct process process;
	int rc = plan_check(params, path, size);

	if (rc || samples > PLAN_SAMPLES_MAX)
		return -EINVAL;
	process_make(params, path, size, &process);
	result.ideal_ns = process.ideal_ns;
	result.sent_share = (double)process.units / (double)process.data;
	if (samples == 0)
		process_closed(&process, &result);
	else
		rc = sample(&process, seed, samples, &result);
	if (!rc)
		*out = result;
	return rc;
}

const struct plan_estimate *plan_figure(const struct plan_result *result, enum plan_goal goal)
{
	switch (goal) {
	case PLAN_P50:
		return &result->p50;
	case PLAN_P99:
		return &result->p99;
	case PLAN_P999:
		return &result->p999;
	default:
		return &result->mean;
	}
}

/* A unit is there half a round trip after it left. */
int plan_bounded(const struct plan_path *path, uint64_t size, uint64_t deadline_ns,
		 struct plan_bounded *out)
{
	const struct plan_params params = { .scheme = PLAN_SR_NACK };
	struct process process;

	if (plan_check(&params, path, size))
		return -EINVAL;
	process_make(&params, path, size, &process);
	process_by(&process, (double)deadline_ns - (double)path->rtt_ns / 2, out);
	return 0;
}

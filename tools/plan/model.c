/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's questions put to the model. */
#include "job.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/text.h"

/* A prediction may draw so many losses: about a second. */
#define LOSSES_MAX  2e7
#define SAMPLES_MIN 100
/* Closed forms do not know the tail that bursts make; see docs/plan.md. */
#define SAMPLES_OF_BURSTS 2000

double plan_sweep_value(const struct plan_sweep *sweep, unsigned i)
{
	/* The ends are exactly what was asked for. */
	if (i + 1 == sweep->points)
		return sweep->high;
	return i == 0 ? sweep->low
		      : sweep->low * pow(sweep->high / sweep->low, (double)i / (sweep->points - 1));
}

const char *plan_quantity_text(enum plan_quantity quantity, double value, char *buffer)
{
	switch (quantity) {
	case PLAN_LOSS:
		snprintf(buffer, TEXT_SIZE, "%.3g", value);
		return buffer;
	case PLAN_SIZE:
		return text_bytes((uint64_t)(value + 0.5), buffer);
	case PLAN_RTT:
		return text_time(value, buffer);
	default:
		return text_rate(value, buffer);
	}
}

static void use(double given, double *field)
{
	if (!isnan(given))
		*field = given;
}

static void use_whole(double given, uint32_t *field)
{
	if (!isnan(given))
		*field = (uint32_t)given;
}

int plan_job_point(const struct plan_job *job, const double values[PLAN_QUANTITIES],
		   struct plan_point *out)
{
	const struct plan_params any = { .scheme = PLAN_SR_NACK };
	uint64_t rtt_ns = (uint64_t)(values[PLAN_RTT] + 0.5);
	uint64_t rate_bps = (uint64_t)(values[PLAN_RATE] + 0.5);
	struct plan_path *path = &out->path;
	double cores = isnan(job->cores) ? 1 : job->cores;

	if (job->paper)
		plan_path_paper(path, rtt_ns, rate_bps, values[PLAN_LOSS]);
	else
		plan_path_init(path, rtt_ns, rate_bps, values[PLAN_LOSS]);
	use(job->burst, &path->burst);
	use_whole(job->payload, &path->payload);
	use_whole(job->overhead, &path->overhead);
	use_whole(job->chunk, &path->chunk);
	use(job->rto_rtts, &path->rto_rtts);
	use(job->rs_bytes_a_second, &path->rs_bytes_a_second);
	use(job->xor_bytes_a_second, &path->xor_bytes_a_second);
	path->rs_bytes_a_second *= cores;
	path->xor_bytes_a_second *= cores;
	if (!job->paper)
		path->report_share = plan_report_share(path->payload + path->overhead);
	out->size = (uint64_t)(values[PLAN_SIZE] + 0.5);
	if (!plan_check(&any, path, out->size))
		return 0;
	if (values[PLAN_LOSS] >= PLAN_LOSS_MAX)
		return plan_complain("a loss of %g is beyond the model: below %g",
				     values[PLAN_LOSS], PLAN_LOSS_MAX);
	if (out->size == 0)
		return plan_complain("a message of no bytes needs no plan");
	return plan_complain(
		"no prediction can be made of this: is the rate more than 0, the round trip "
		"less than 1000 s and the size at most 1 PiB?");
}

/* Bytes that have to be drawn one by one: lost units, at first and again. */
static unsigned bearable(const struct plan_point *point, unsigned samples)
{
	double units = (double)point->size / point->path.payload / point->path.chunk;
	double lost = 1 + 2 * units * point->path.loss / (1 - point->path.loss);
	double most = fmax(SAMPLES_MIN, LOSSES_MAX / lost);

	return samples < most ? samples : (unsigned)most;
}

int plan_job_predict(const struct plan_job *job, const struct plan_params *params,
		     const struct plan_point *point, struct plan_result *out)
{
	unsigned samples = job->samples;
	int rc;

	if (!job->samples_given && point->path.burst > 1)
		samples = SAMPLES_OF_BURSTS;
	rc = plan_predict(params, &point->path, point->size, job->seed,
			  samples ? bearable(point, samples) : 0, out);
	if (rc)
		plan_complain("cannot predict: %s", strerror(-rc));
	return rc;
}

unsigned plan_job_schemes(const struct plan_job *job, const struct plan_point *point,
			  struct plan_params out[PLAN_SCHEMES_SHOWN])
{
	struct plan_params params;
	unsigned count = 0;

	if (job->scheme_count) {
		memcpy(out, job->schemes, sizeof(job->schemes));
		return job->scheme_count;
	}
	/* Both ways to repeat, and the code of SDR-RDMA's figures in both kinds. */
	for (unsigned i = 0; plan_candidate(&point->path, point->size, i, &params); i++) {
		bool repeats = params.scheme == PLAN_SR_RTO || params.scheme == PLAN_SR_NACK;

		if (repeats || (params.k == 32 && params.m == 8))
			out[count++] = params;
	}
	return count;
}

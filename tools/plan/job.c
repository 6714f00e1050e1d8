/* SPDX-License-Identifier: BSD-3-Clause */
/* From the command line to a job. */
#include "job.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/units.h"
#include "tools/text.h"

#define POINTS_DEFAULT 11
#define LABEL_SIZE     64

enum option_id {
	OPTION_QUANTITY, /* named like it */
	OPTION_NUMBER,	 /* one of number_options */
	OPTION_DEADLINE,
	OPTION_GOAL,
	OPTION_JSON,
	OPTION_MAP,
	OPTION_PAPER,
	OPTION_SAMPLES,
	OPTION_SCHEME,
	OPTION_SEED,
	OPTION_SPEED,
	OPTION_SVG,
	OPTION_SWEEP,
};

static const struct option long_options[] = {
	{ "burst", required_argument, NULL, OPTION_NUMBER },
	{ "chunk", required_argument, NULL, OPTION_NUMBER },
	{ "cores", required_argument, NULL, OPTION_NUMBER },
	{ "deadline", required_argument, NULL, OPTION_DEADLINE },
	{ "goal", required_argument, NULL, OPTION_GOAL },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "loss", required_argument, NULL, OPTION_QUANTITY },
	{ "map", no_argument, NULL, OPTION_MAP },
	{ "overhead", required_argument, NULL, OPTION_NUMBER },
	{ "paper", no_argument, NULL, OPTION_PAPER },
	{ "payload", required_argument, NULL, OPTION_NUMBER },
	{ "rate", required_argument, NULL, OPTION_QUANTITY },
	{ "rs-speed", required_argument, NULL, OPTION_SPEED },
	{ "rto", required_argument, NULL, OPTION_NUMBER },
	{ "rtt", required_argument, NULL, OPTION_QUANTITY },
	{ "samples", required_argument, NULL, OPTION_SAMPLES },
	{ "scheme", required_argument, NULL, OPTION_SCHEME },
	{ "seed", required_argument, NULL, OPTION_SEED },
	{ "size", required_argument, NULL, OPTION_QUANTITY },
	{ "svg", required_argument, NULL, OPTION_SVG },
	{ "sweep", required_argument, NULL, OPTION_SWEEP },
	{ "xor-speed", required_argument, NULL, OPTION_SPEED },
	{ NULL, 0, NULL, 0 },
};

/* Plain numbers, and sizes, with their bounds. */
enum number_form { DECIMAL, WHOLE, BYTES };
static const struct number_option {
	const char *name;
	double min;
	double max;
	enum number_form form;
} number_options[] = {
	{ "burst", 1, 1e6, DECIMAL },	  { "chunk", 1, 65536, WHOLE },
	{ "cores", 1, 1024, WHOLE },	  { "overhead", 0, 65536, BYTES },
	{ "payload", 1, 1 << 24, BYTES }, { "rto", 0.01, 1000, DECIMAL },
};

#define NUMBER_OPTIONS (sizeof(number_options) / sizeof(number_options[0]))

static const char *const quantity_names[PLAN_QUANTITIES] = { "loss", "size", "rtt", "rate" };
static const char *const quantity_examples[PLAN_QUANTITIES] = { "a share such as 1e-3 or 0.1%",
								"a size such as 128MiB",
								"a time such as 25ms",
								"a rate such as 400G" };
static const enum units_kind quantity_kinds[PLAN_QUANTITIES] = { UNITS_SHARE, UNITS_SIZE,
								 UNITS_TIME, UNITS_RATE };
static const char *const goal_names[] = { "mean", "p50", "p99", "p99.9" };

int plan_complain(const char *format, ...)
{
	va_list arguments;

	fputs("godwit plan: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	return -EINVAL;
}

const char *plan_quantity_name(enum plan_quantity quantity)
{
	return quantity_names[quantity];
}

const char *plan_goal_name(enum plan_goal goal)
{
	return goal_names[goal];
}

static int find_name(const char *const *names, unsigned count, const char *name)
{
	for (unsigned i = 0; i < count; i++) {
		if (strcmp(names[i], name) == 0)
			return (int)i;
	}
	return -1;
}

static int read_quantity(enum plan_quantity quantity, const char *text, double *out)
{
	uint64_t whole = 0;
	int rc;

	if (quantity == PLAN_LOSS)
		return units_share(text, out);
	rc = units_read(quantity_kinds[quantity], text, 0, UINT64_MAX, &whole);
	*out = (double)whole;
	return rc;
}

/* KEY=LOW..HIGH[:POINTS] */
static int read_sweep(const char *text, struct plan_job *job)
{
	struct plan_sweep sweep = { .points = POINTS_DEFAULT };
	char copy[LABEL_SIZE], *low, *high, *points;
	uint64_t count = POINTS_DEFAULT;
	char why[UNITS_PROBLEM_SIZE];
	int quantity;

	if (job->sweep_count == PLAN_SWEEPS_MAX)
		return plan_complain("--sweep \"%s\": %d sweeps are the most", text,
				     PLAN_SWEEPS_MAX);
	/* What does not fit is none either. */
	snprintf(copy, sizeof(copy), "%s", strlen(text) < sizeof(copy) ? text : "");
	low = strchr(copy, '=');
	high = low ? strstr(low, "..") : NULL;
	if (!high)
		return plan_complain("--sweep \"%s\" is not of the form loss=1e-6..1e-1", text);
	*low++ = '\0';
	*high = '\0';
	high += 2;
	points = strchr(high, ':');
	if (points)
		*points++ = '\0';
	quantity = find_name(quantity_names, PLAN_QUANTITIES, copy);
	if (quantity < 0)
		return plan_complain("--sweep \"%s\": \"%s\" is not loss, size, rtt or rate", text,
				     copy);
	sweep.quantity = (enum plan_quantity)quantity;
	if (read_quantity(sweep.quantity, low, &sweep.low))
		return plan_complain("--sweep \"%s\": \"%s\" %s", text, low,
				     units_problem(quantity_kinds[quantity], low, why));
	if (read_quantity(sweep.quantity, high, &sweep.high))
		return plan_complain("--sweep \"%s\": \"%s\" %s", text, high,
				     units_problem(quantity_kinds[quantity], high, why));
	if (!(sweep.low > 0 && sweep.low < sweep.high))
		return plan_complain("--sweep \"%s\" has to go up, from more than 0", text);
	if (points && units_count(points, 2, PLAN_POINTS_MAX, &count))
		return plan_complain(
			"--sweep \"%s\": \"%s\" is not a number of points from 2 to %d", text,
			points, PLAN_POINTS_MAX);
	if (job->sweep_count && job->sweeps[0].quantity == sweep.quantity)
		return plan_complain("--sweep \"%s\": %s is swept already", text, copy);
	sweep.points = (unsigned)count;
	job->sweeps[job->sweep_count++] = sweep;
	return 0;
}

/* sr-rto, sr-nack, mds:32:8, xor:32:8, mds:32:8:4 */
static int read_scheme(const char *text, struct plan_job *job)
{
	struct plan_params params = { .scheme = PLAN_SR_NACK };
	uint64_t numbers[3] = { 0, 0, 1 };
	char copy[LABEL_SIZE], *part, *rest = copy;
	unsigned count = 0;
	bool good = true;

	if (job->scheme_count == PLAN_SCHEMES_SHOWN)
		return plan_complain("--scheme \"%s\": %d are the most", text, PLAN_SCHEMES_SHOWN);
	snprintf(copy, sizeof(copy), "%s", strlen(text) < sizeof(copy) ? text : "");
	part = strsep(&rest, ":");
	for (char *number = rest; good && number && (number = strsep(&rest, ":")); count++)
		good = count < 3 && !units_count(number, 1, 256, &numbers[count]);
	if (strcmp(part, "sr-rto") == 0 || strcmp(part, "sr-nack") == 0) {
		params.scheme = strcmp(part, "sr-rto") ? PLAN_SR_NACK : PLAN_SR_RTO;
		good &= count == 0;
	} else {
		params = (struct plan_params){
			.scheme = strcmp(part, "mds") ? PLAN_XOR : PLAN_MDS,
			.k = (unsigned)numbers[0],
			.m = (unsigned)numbers[1],
			.interleave = (unsigned)numbers[2],
		};
		good &= (strcmp(part, "mds") == 0 || strcmp(part, "xor") == 0) && count >= 2;
	}
	if (!good)
		return plan_complain("--scheme \"%s\" is not sr-rto, sr-nack, mds:K:M or xor:K:M",
				     text);
	job->schemes[job->scheme_count++] = params;
	return 0;
}

static int read_form(const struct number_option *option, double *out)
{
	uint64_t whole = 0;
	int rc;

	if (option->form == DECIMAL)
		return units_decimal(optarg, option->min, option->max, out);
	if (option->form == WHOLE)
		rc = units_count(optarg, (uint64_t)option->min, (uint64_t)option->max, &whole);
	else
		rc = units_read(UNITS_SIZE, optarg, (uint64_t)option->min, (uint64_t)option->max,
				&whole);
	*out = (double)whole;
	return rc;
}

static int read_number(const char *name, struct plan_job *job)
{
	static const char *const forms[] = { "number", "whole number", "size" };
	/* In the order of number_options. */
	double *const fields[NUMBER_OPTIONS] = { &job->burst,	 &job->chunk,	&job->cores,
						 &job->overhead, &job->payload, &job->rto_rtts };

	for (unsigned i = 0; i < NUMBER_OPTIONS; i++) {
		const struct number_option *option = &number_options[i];
		double value;

		if (strcmp(option->name, name) != 0)
			continue;
		if (read_form(option, &value))
			return plan_complain("--%s \"%s\" is not a %s from %.9g to %.9g", name,
					     optarg, forms[option->form], option->min, option->max);
		*fields[i] = value;
		return 0;
	}
	return -EINVAL;
}

static int read_speed(const char *name, struct plan_job *job)
{
	char why[UNITS_PROBLEM_SIZE];
	uint64_t bytes;

	/* Powers of 1000, as speeds are quoted. */
	if (units_read(UNITS_SPEED, optarg, 0, UINT64_MAX, &bytes))
		return plan_complain("--%s \"%s\" %s", name, optarg,
				     units_problem(UNITS_SPEED, optarg, why));
	if (bytes == 0)
		return plan_complain("--%s has to be more than 0", name);
	if (strcmp(name, "rs-speed") == 0)
		job->rs_bytes_a_second = (double)bytes;
	else
		job->xor_bytes_a_second = (double)bytes;
	return 0;
}

static int read_option(int id, const char *name, char **argv, struct plan_job *job)
{
	char why[UNITS_PROBLEM_SIZE];
	uint64_t value = 0;
	int found;

	switch (id) {
	case OPTION_QUANTITY:
		found = find_name(quantity_names, PLAN_QUANTITIES, name);
		if (read_quantity((enum plan_quantity)found, optarg, &job->point[found]))
			return plan_complain("--%s \"%s\" %s", name, optarg,
					     units_problem(quantity_kinds[found], optarg, why));
		return 0;
	case OPTION_NUMBER:
		return read_number(name, job);
	case OPTION_SPEED:
		return read_speed(name, job);
	case OPTION_SWEEP:
		return read_sweep(optarg, job);
	case OPTION_SCHEME:
		return read_scheme(optarg, job);
	case OPTION_GOAL:
		found = find_name(goal_names, sizeof(goal_names) / sizeof(goal_names[0]), optarg);
		if (found < 0)
			return plan_complain("--goal \"%s\" is not mean, p50, p99 or p99.9",
					     optarg);
		job->goal = (enum plan_goal)found;
		return 0;
	case OPTION_DEADLINE:
		if (units_time_ns(optarg, &job->deadline_ns))
			return plan_complain("--deadline \"%s\" %s", optarg,
					     units_problem(UNITS_TIME, optarg, why));
		return job->deadline_ns ? 0 : plan_complain("--deadline has to be more than 0");
	case OPTION_SAMPLES:
		if (units_count(optarg, 1, PLAN_SAMPLES_MAX, &value))
			return plan_complain("--samples \"%s\" is not a number from 1 to %d",
					     optarg, PLAN_SAMPLES_MAX);
		job->samples = (unsigned)value;
		job->samples_given = true;
		return 0;
	case OPTION_SEED:
		if (units_count(optarg, 0, UINT64_MAX, &job->seed))
			return plan_complain("--seed \"%s\" is not a whole number", optarg);
		return 0;
	case OPTION_MAP:
		job->map = true;
		return 0;
	case OPTION_PAPER:
		job->paper = true;
		return 0;
	case OPTION_JSON:
		job->json = true;
		return 0;
	case OPTION_SVG:
		job->svg = optarg;
		return 0;
	case ':':
		return plan_complain("%s needs a value", argv[optind - 1]);
	default:
		return plan_complain("unknown or ambiguous option %s", argv[optind - 1]);
	}
}

/* A map without sweeps goes over what matters most. */
static int complete(struct plan_job *job)
{
	static const struct plan_sweep usual[PLAN_SWEEPS_MAX] = {
		{ PLAN_LOSS, 1e-6, 1e-1, 31 },
		{ PLAN_SIZE, 65536, 8589934592.0, 35 },
	};
	bool swept[PLAN_QUANTITIES] = { false };

	if (job->map && job->sweep_count == 0) {
		memcpy(job->sweeps, usual, sizeof(usual));
		job->sweep_count = PLAN_SWEEPS_MAX;
	}
	if (job->map && job->sweep_count != PLAN_SWEEPS_MAX)
		return plan_complain("--map goes over two sweeps: give both, or none");
	if (!job->map && job->sweep_count > 1)
		return plan_complain("two sweeps make a map: add --map");
	if (job->svg && job->sweep_count == 0)
		return plan_complain("--svg draws a --sweep or a --map");
	if (job->deadline_ns && job->sweep_count)
		return plan_complain("--deadline goes with a single point");
	for (unsigned i = 0; i < job->sweep_count; i++) {
		swept[job->sweeps[i].quantity] = true;
		/* Errors elsewhere are found at either end. */
		job->point[job->sweeps[i].quantity] = job->sweeps[i].high;
	}
	for (unsigned i = 0; i < PLAN_QUANTITIES; i++) {
		if (!swept[i] && isnan(job->point[i]))
			return plan_complain(
				"--%s is missing: %s; `godwit help plan` lists the options",
				quantity_names[i], quantity_examples[i]);
	}
	return 0;
}

int plan_job_read(int argc, char **argv, struct plan_job *out)
{
	struct plan_job job = { .burst = NAN };
	struct plan_point point;
	int id, index = 0;

	job.payload = job.overhead = job.chunk = job.rto_rtts = job.cores = NAN;
	job.rs_bytes_a_second = job.xor_bytes_a_second = NAN;
	for (unsigned i = 0; i < PLAN_QUANTITIES; i++)
		job.point[i] = NAN;
	while ((id = getopt_long(argc, argv, ":", long_options, &index)) != -1) {
		if (read_option(id, long_options[index].name, argv, &job))
			return -EINVAL;
	}
	if (optind < argc)
		return plan_complain("\"%s\" is one argument too many", argv[optind]);
	if (complete(&job) || plan_job_point(&job, job.point, &point))
		return -EINVAL;
	for (unsigned i = 0; i < job.scheme_count; i++) {
		char name[PLAN_NAME_SIZE];

		if (plan_check(&job.schemes[i], &point.path, point.size))
			return plan_complain(
				"%s cannot be: k + m has to be at most 256, and the m of an XOR a divisor of k",
				plan_name(&job.schemes[i], name));
	}
	*out = job;
	return 0;
}

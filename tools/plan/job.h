/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.h: what `godwit plan` was asked. Four quantities make a point (round trip, rate, loss, size); a sweep moves one
 * of them, a map two, and everything else stays as it was given.
 */
#ifndef TOOLS_PLAN_JOB_H
#define TOOLS_PLAN_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "plan/plan.h"

enum plan_quantity { PLAN_LOSS, PLAN_SIZE, PLAN_RTT, PLAN_RATE, PLAN_QUANTITIES };

#define PLAN_SWEEPS_MAX	   2
#define PLAN_POINTS_MAX	   200
#define PLAN_SCHEMES_SHOWN 12

struct plan_sweep {
	enum plan_quantity quantity;
	double low;
	double high;
	unsigned points;
};

struct plan_job {
	double point
		[PLAN_QUANTITIES]; /* loss; bytes; ns; bits a second. NAN where none was given */
	bool paper;
	/* Instead of the model's own; NAN where none was given. */
	double burst;
	double payload;
	double overhead;
	double chunk;
	double rto_rtts;
	double rs_bytes_a_second;
	double xor_bytes_a_second;
	double cores;
	uint64_t deadline_ns; /* 0: none */
	enum plan_goal goal;
	unsigned samples;
	bool samples_given;
	uint64_t seed;
	struct plan_params schemes[PLAN_SCHEMES_SHOWN];
	unsigned scheme_count;
	struct plan_sweep sweeps[PLAN_SWEEPS_MAX];
	unsigned sweep_count;
	bool map;
	bool json;
	const char *svg; /* NULL: none */
};

/* Reads the command line. What is wrong is told on stderr, in one line, and -EINVAL comes back. */
int plan_job_read(int argc, char **argv, struct plan_job *out);

/* One line on stderr. Returns -EINVAL. */
int plan_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

const char *plan_quantity_name(enum plan_quantity quantity);
const char *plan_goal_name(enum plan_goal goal);

/* A value of the quantity for people, in at least TEXT_SIZE bytes. */
const char *plan_quantity_text(enum plan_quantity quantity, double value, char *buffer);

/* The job at one point, checked: -EINVAL, told, where no prediction can be made. */
struct plan_point {
	struct plan_path path;
	uint64_t size;
};
int plan_job_point(const struct plan_job *job, const double values[PLAN_QUANTITIES],
		   struct plan_point *out);

/* The i-th value of a sweep; evenly spaced on a logarithmic axis. */
double plan_sweep_value(const struct plan_sweep *sweep, unsigned i);

/* A prediction as the job wants it: closed, or sampled as far as that takes bearable time. 0, or -errno, told. */
int plan_job_predict(const struct plan_job *job, const struct plan_params *params,
		     const struct plan_point *point, struct plan_result *out);

/* The schemes a sweep shows: those named, or a few that stand for the rest. Returns how many. */
unsigned plan_job_schemes(const struct plan_job *job, const struct plan_point *point,
			  struct plan_params out[PLAN_SCHEMES_SHOWN]);

/* One scheme's prediction, and the point it was made at, as JSON; new references, NULL without memory. */
json_t *plan_json_scheme(const struct plan_params *params, const struct plan_result *result);
json_t *plan_json_path(const struct plan_point *point);

/* Prints the object on one line and lets go of it. 0, or -ENOMEM, told, if it is NULL. */
int plan_json_print(json_t *object);

/* What the three kinds of jobs print. 0, or -errno, told. */
int plan_print_point(const struct plan_job *job);
int plan_print_sweep(const struct plan_job *job);
int plan_print_map(const struct plan_job *job);

#endif

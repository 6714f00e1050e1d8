/* SPDX-License-Identifier: BSD-3-Clause */
/* One point: the choice, marked, then every other scheme and parameter choice, best first. Also what the other outputs share of JSON. */
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tools/text.h"

#define ROWS_MAX 64

struct row {
	struct plan_params params;
	struct plan_result result;
	double figure_ns; /* what they are sorted by */
	bool chosen;
};

static double seconds(double ns)
{
	return ns / 1e9;
}

static json_t *json_estimate(const struct plan_estimate *estimate)
{
	return json_pack("{s:f, s:f, s:f}", "s", seconds(estimate->ns), "low_s",
			 seconds(estimate->low_ns), "high_s", seconds(estimate->high_ns));
}

json_t *plan_json_scheme(const struct plan_params *params, const struct plan_result *result)
{
	char name[PLAN_NAME_SIZE];
	bool coded = params->scheme == PLAN_MDS || params->scheme == PLAN_XOR;

	return json_pack("{s:s, s:i, s:i, s:i, s:s, s:b, s:i, s:o, s:o, s:o, s:o, s:f, s:f, s:f}",
			 "name", plan_name(params, name), "k", coded ? (int)params->k : 0, "m",
			 coded ? (int)params->m : 0, "interleave",
			 coded && params->interleave ? (int)params->interleave : 1, "method",
			 result->samples ? "sampled" : "closed", "exact", result->exact, "samples",
			 (int)result->samples, "mean", json_estimate(&result->mean), "p50",
			 json_estimate(&result->p50), "p99", json_estimate(&result->p99), "p99.9",
			 json_estimate(&result->p999), "slowdown",
			 result->mean.ns / result->ideal_ns, "sent_share", result->sent_share,
			 "repair_chance", result->repair_chance);
}

json_t *plan_json_path(const struct plan_point *point)
{
	const struct plan_path *path = &point->path;

	return json_pack("{s:f, s:I, s:f, s:f, s:I, s:i, s:i, s:i, s:f, s:f, s:f}", "rtt_s",
			 seconds((double)path->rtt_ns), "rate_bps", (json_int_t)path->rate_bps,
			 "loss", path->loss, "burst", path->burst, "size", (json_int_t)point->size,
			 "payload", (int)path->payload, "overhead", (int)path->overhead, "chunk",
			 (int)path->chunk, "report_share", path->report_share, "rs_bytes_a_second",
			 path->rs_bytes_a_second, "xor_bytes_a_second", path->xor_bytes_a_second);
}

int plan_json_print(json_t *object)
{
	if (!object) {
		plan_complain("no memory");
		return -ENOMEM;
	}
	json_dumpf(object, stdout, JSON_REAL_PRECISION(10));
	putchar('\n');
	json_decref(object);
	return 0;
}

static int by_figure(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return (x->figure_ns > y->figure_ns) - (x->figure_ns < y->figure_ns);
}

static int add_row(const struct plan_job *job, const struct plan_params *params,
		   const struct plan_point *point, struct row *rows, unsigned *count)
{
	struct row *row = &rows[*count];
	int rc = plan_job_predict(job, params, point, &row->result);

	if (rc)
		return rc;
	row->params = *params;
	row->figure_ns = plan_figure(&row->result, job->goal)->ns;
	(*count)++;
	return 0;
}

static int make_rows(const struct plan_job *job, const struct plan_point *point, struct row *rows,
		     unsigned *count)
{
	struct plan_params params;
	int rc = 0;

	*count = 0;
	for (unsigned i = 0; !rc && i < job->scheme_count; i++)
		rc = add_row(job, &job->schemes[i], point, rows, count);
	for (unsigned i = 0; !rc && !job->scheme_count && i < ROWS_MAX &&
			     plan_candidate(&point->path, point->size, i, &params);
	     i++)
		rc = add_row(job, &params, point, rows, count);
	qsort(rows, *count, sizeof(rows[0]), by_figure);
	return rc;
}

/* Marks the row of the choice and puts it first. Where only schemes that were named are shown it may be missing. */
static void put_choice_first(const struct plan_choice *choice, struct row *rows, unsigned count)
{
	char wanted[PLAN_NAME_SIZE], name[PLAN_NAME_SIZE];
	struct row row;

	plan_name(&choice->params, wanted);
	for (unsigned i = 0; i < count; i++) {
		rows[i].chosen = strcmp(plan_name(&rows[i].params, name), wanted) == 0;
		if (!rows[i].chosen)
			continue;
		row = rows[i];
		memmove(&rows[1], &rows[0], i * sizeof(rows[0]));
		rows[0] = row;
	}
}

static void print_heading(const struct plan_point *point, double ideal_ns)
{
	const struct plan_path *path = &point->path;
	char size[TEXT_SIZE], rtt[TEXT_SIZE], rate[TEXT_SIZE], ideal[TEXT_SIZE];

	printf("%s over %s, round trip %s, loss %g", text_bytes(point->size, size),
	       text_rate((double)path->rate_bps, rate), text_time((double)path->rtt_ns, rtt),
	       path->loss);
	if (path->burst > 1)
		printf(" in runs of %g", path->burst);
	printf("; without loss %s\n\n", text_time(ideal_ns, ideal));
}

static void print_row(const struct row *row)
{
	const struct plan_result *result = &row->result;
	char name[PLAN_NAME_SIZE], mean[TEXT_SIZE], p50[TEXT_SIZE], p99[TEXT_SIZE], p999[TEXT_SIZE];
	char method[TEXT_SIZE] = "closed";

	if (result->samples)
		snprintf(method, sizeof(method), "+-%.1f %%",
			 50 * (result->mean.high_ns - result->mean.low_ns) / result->mean.ns);
	else if (!result->exact)
		snprintf(method, sizeof(method), "closed, near");
	printf("%c %-16s %9s %9s %9s %9s %8.2fx %7.0f %% %8.2g  %s\n", row->chosen ? '*' : ' ',
	       plan_name(&row->params, name), text_time(result->mean.ns, mean),
	       text_time(result->p50.ns, p50), text_time(result->p99.ns, p99),
	       text_time(result->p999.ns, p999), result->mean.ns / result->ideal_ns,
	       100 * (result->sent_share - 1), result->repair_chance, method);
}

static void print_deadline(const struct plan_job *job, const struct plan_bounded *bounded)
{
	char deadline[TEXT_SIZE];

	printf("\nAt a deadline of %s, %.4f %% of the data are there if nothing is repaired and %.4f %% if holes\n"
	       "are repeated until then; all of it with a chance of %.4g.\n",
	       text_time((double)job->deadline_ns, deadline), 100 * bounded->once,
	       100 * bounded->repaired, bounded->whole);
}

static int print_json(const struct plan_job *job, const struct plan_point *point,
		      const struct plan_choice *choice, const struct row *rows, unsigned count,
		      const struct plan_bounded *bounded)
{
	char name[PLAN_NAME_SIZE];
	json_t *schemes = json_array(), *object;

	for (unsigned i = 0; i < count; i++) {
		json_t *scheme = plan_json_scheme(&rows[i].params, &rows[i].result);

		json_object_set_new(scheme, "chosen", json_boolean(rows[i].chosen));
		json_array_append_new(schemes, scheme);
	}
	object = json_pack("{s:o, s:s, s:f, s:o, s:{s:s, s:s}}", "path", plan_json_path(point),
			   "goal", plan_goal_name(job->goal), "ideal_s",
			   seconds(choice->result.ideal_ns), "schemes", schemes, "choice", "name",
			   plan_name(&choice->params, name), "reason", choice->reason);
	if (object && job->deadline_ns)
		json_object_set_new(object, "deadline",
				    json_pack("{s:f, s:f, s:f, s:f}", "s",
					      seconds((double)job->deadline_ns), "once",
					      bounded->once, "repaired", bounded->repaired, "whole",
					      bounded->whole));
	return plan_json_print(object);
}

int plan_print_point(const struct plan_job *job)
{
	static struct row rows[ROWS_MAX];
	struct plan_bounded bounded = { 0 };
	struct plan_choice choice;
	struct plan_point point;
	unsigned count;
	int rc = plan_job_point(job, job->point, &point);

	if (!rc)
		rc = make_rows(job, &point, rows, &count);
	if (!rc)
		rc = plan_choose(&point.path, point.size, job->goal, &choice);
	if (!rc && job->deadline_ns)
		rc = plan_bounded(&point.path, point.size, job->deadline_ns, &bounded);
	if (rc)
		return rc;
	put_choice_first(&choice, rows, count);
	if (job->json)
		return print_json(job, &point, &choice, rows, count, &bounded);
	print_heading(&point, choice.result.ideal_ns);
	printf("  %-16s %9s %9s %9s %9s %9s %9s %8s\n", "scheme", "mean", "p50", "p99", "p99.9",
	       "slowdown", "parity", "repair");
	for (unsigned i = 0; i < count; i++)
		print_row(&rows[i]);
	printf("\n%s%s\n", rows[0].chosen ? "* " : "", choice.reason);
	if (job->deadline_ns)
		print_deadline(job, &bounded);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* One quantity moves: a line for each scheme shown, and one for whatever is best at each point. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "draw.h"
#include "job.h"
#include "tools/text.h"

struct place {
	double value; /* of what is swept */
	struct plan_point point;
	struct plan_params schemes[PLAN_SCHEMES_SHOWN];
	struct plan_result results[PLAN_SCHEMES_SHOWN];
	struct plan_choice choice;
	struct plan_result chosen; /* the choice, predicted as the others are */
};

struct line_style {
	const char *colour;
	const char *dash;
};

/* Colours that eyes of every kind tell apart, and dashes for paper without any. */
static const struct line_style styles[PLAN_SCHEMES_SHOWN] = {
	{ "#0072b2", "none" }, { "#d55e00", "none" }, { "#009e73", "none" }, { "#cc79a7", "none" },
	{ "#e69f00", "none" }, { "#56b4e9", "none" }, { "#0072b2", "6 3" },  { "#d55e00", "6 3" },
	{ "#009e73", "6 3" },  { "#cc79a7", "6 3" },  { "#e69f00", "6 3" },  { "#56b4e9", "6 3" },
};
static const struct line_style style_of_choice = { "#000000", "2 3" };

static int fill(const struct plan_job *job, unsigned i, struct place *place, unsigned *count)
{
	const struct plan_sweep *sweep = &job->sweeps[0];
	double values[PLAN_QUANTITIES];
	int rc;

	place->value = plan_sweep_value(sweep, i);
	memcpy(values, job->point, sizeof(values));
	values[sweep->quantity] = place->value;
	rc = plan_job_point(job, values, &place->point);
	if (rc)
		return rc;
	*count = plan_job_schemes(job, &place->point, place->schemes);
	for (unsigned s = 0; !rc && s < *count; s++)
		rc = plan_job_predict(job, &place->schemes[s], &place->point, &place->results[s]);
	if (!rc)
		rc = plan_choose(&place->point.path, place->point.size, job->goal, &place->choice);
	if (!rc)
		rc = plan_job_predict(job, &place->choice.params, &place->point, &place->chosen);
	return rc;
}

static double figure(const struct plan_job *job, const struct plan_result *result)
{
	return plan_figure(result, job->goal)->ns;
}

static void print_table(const struct plan_job *job, const struct place *places, unsigned count)
{
	const struct plan_sweep *sweep = &job->sweeps[0];
	char text[PLAN_SUBTITLE_SIZE], name[PLAN_NAME_SIZE];

	plan_subtitle(job, text);
	printf("%s of the completion time; %s\n\n%-14s %10s %10s  %-16s", plan_goal_name(job->goal),
	       text, plan_quantity_name(sweep->quantity), "ideal", "choice", "which is");
	for (unsigned s = 0; s < count; s++)
		printf(" %14s", plan_name(&places[0].schemes[s], name));
	putchar('\n');
	for (unsigned i = 0; i < sweep->points; i++) {
		const struct place *place = &places[i];

		printf("%-14s", plan_quantity_text(sweep->quantity, place->value, text));
		printf(" %10s", text_time(place->chosen.ideal_ns, text));
		printf(" %10s", text_time(figure(job, &place->chosen), text));
		printf("  %-16s", plan_name(&place->choice.params, name));
		for (unsigned s = 0; s < count; s++)
			printf(" %14s", text_time(figure(job, &place->results[s]), text));
		putchar('\n');
	}
}

static int print_json(const struct plan_job *job, const struct place *places, unsigned count)
{
	json_t *points = json_array();

	for (unsigned i = 0; i < job->sweeps[0].points; i++) {
		const struct place *place = &places[i];
		json_t *schemes = json_array(), *object;

		for (unsigned s = 0; s < count; s++)
			json_array_append_new(
				schemes, plan_json_scheme(&place->schemes[s], &place->results[s]));
		object = json_pack("{s:o, s:f, s:o, s:o, s:s}", "path",
				   plan_json_path(&place->point), "ideal_s",
				   place->chosen.ideal_ns / 1e9, "schemes", schemes, "choice",
				   plan_json_scheme(&place->choice.params, &place->chosen),
				   "reason", place->choice.reason);
		json_array_append_new(points, object);
	}
	return plan_json_print(json_pack("{s:s, s:s, s:o}", "sweep",
					 plan_quantity_name(job->sweeps[0].quantity), "goal",
					 plan_goal_name(job->goal), "points", points));
}

/* Both ends of all lines, and some room. */
static void find_range(const struct plan_job *job, const struct place *places, unsigned count,
		       double *low, double *high)
{
	*low = INFINITY;
	*high = 0;
	for (unsigned i = 0; i < job->sweeps[0].points; i++) {
		*low = fmin(*low, figure(job, &places[i].chosen));
		*high = fmax(*high, figure(job, &places[i].chosen));
		for (unsigned s = 0; s < count; s++) {
			*low = fmin(*low, figure(job, &places[i].results[s]));
			*high = fmax(*high, figure(job, &places[i].results[s]));
		}
	}
	*low *= 0.8;
	*high *= 1.25;
}

static int draw(const struct plan_job *job, const struct place *places, unsigned count)
{
	const struct plan_sweep *sweep = &job->sweeps[0];
	double xs[PLAN_POINTS_MAX], ys[PLAN_POINTS_MAX], low, high;
	char title[128], label[64], subtitle[PLAN_SUBTITLE_SIZE], name[PLAN_NAME_SIZE];
	struct svg svg = { 0 };
	int rc = plan_draw_open(job, &svg.file);

	if (rc)
		return rc;
	find_range(job, places, count, &low, &high);
	plan_axis_of(sweep->quantity, sweep->low, sweep->high, &svg.x);
	snprintf(label, sizeof(label), "completion time, %s", plan_goal_name(job->goal));
	plan_axis_of_time(label, low, high, &svg.y);
	snprintf(title, sizeof(title), "Completion time against %s", svg.x.label);
	plan_subtitle(job, subtitle);
	svg_begin(&svg, title, subtitle);
	for (unsigned i = 0; i < sweep->points; i++)
		xs[i] = places[i].value;
	for (unsigned s = 0; s < count; s++) {
		for (unsigned i = 0; i < sweep->points; i++)
			ys[i] = figure(job, &places[i].results[s]);
		svg_line(&svg, plan_name(&places[0].schemes[s], name), styles[s].colour,
			 styles[s].dash, xs, ys, sweep->points);
	}
	for (unsigned i = 0; i < sweep->points; i++)
		ys[i] = figure(job, &places[i].chosen);
	svg_line(&svg, "choice", style_of_choice.colour, style_of_choice.dash, xs, ys,
		 sweep->points);
	svg_end(&svg);
	return plan_draw_close(job, svg.file);
}

int plan_print_sweep(const struct plan_job *job)
{
	struct place *places = calloc(job->sweeps[0].points, sizeof(*places));
	unsigned count = 0;
	int rc = places ? 0 : -ENOMEM;

	if (rc)
		plan_complain("no memory");
	for (unsigned i = 0; !rc && i < job->sweeps[0].points; i++)
		rc = fill(job, i, &places[i], &count);
	if (!rc && job->json)
		rc = print_json(job, places, count);
	else if (!rc)
		print_table(job, places, count);
	if (!rc && job->svg)
		rc = draw(job, places, count);
	free(places);
	return rc;
}

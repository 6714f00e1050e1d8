/* SPDX-License-Identifier: BSD-3-Clause */
/* Two quantities move: at each place the scheme that is chosen there, coloured by its kind and by how much parity it sends. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "draw.h"
#include "job.h"
#include "tools/text.h"

#define LEVELS 4

/* Parity against data, up to these shares. */
static const double levels[LEVELS] = { 0.05, 0.15, 0.3, INFINITY };
static const char *const level_names[LEVELS] = { "parity to 5 %", "parity to 15 %",
						 "parity to 30 %", "more parity" };

static const char repeat_colour[] = "#9ec9e8";
static const char *const mds_colours[LEVELS] = { "#fdd9a8", "#f5a95f", "#df7426", "#9c4310" };
static const char *const xor_colours[LEVELS] = { "#cdebd0", "#86cf93", "#3d9f5b", "#166534" };

static unsigned level_of(const struct plan_params *params)
{
	double parity = (double)params->m / params->k;
	unsigned level = 0;

	while (parity > levels[level])
		level++;
	return level;
}

static const char *colour_of(const struct plan_params *params)
{
	switch (params->scheme) {
	case PLAN_MDS:
		return mds_colours[level_of(params)];
	case PLAN_XOR:
		return xor_colours[level_of(params)];
	default:
		return repeat_colour;
	}
}

static int fill(const struct plan_job *job, struct plan_choice *choices)
{
	const struct plan_sweep *x = &job->sweeps[0], *y = &job->sweeps[1];
	double values[PLAN_QUANTITIES];
	struct plan_point point;
	int rc = 0;

	memcpy(values, job->point, sizeof(values));
	for (unsigned row = 0; !rc && row < y->points; row++) {
		for (unsigned column = 0; !rc && column < x->points; column++) {
			values[x->quantity] = plan_sweep_value(x, column);
			values[y->quantity] = plan_sweep_value(y, row);
			rc = plan_job_point(job, values, &point);
			if (!rc)
				rc = plan_choose(&point.path, point.size, job->goal,
						 &choices[row * x->points + column]);
		}
	}
	return rc;
}

/* A letter for the kind, and for codes the parity in per cent of the data: "s", "m6", "x25". */
static const char *short_name(const struct plan_params *params, char buffer[TEXT_SIZE])
{
	if (params->scheme == PLAN_MDS || params->scheme == PLAN_XOR)
		snprintf(buffer, TEXT_SIZE, "%c%.0f", params->scheme == PLAN_MDS ? 'm' : 'x',
			 100.0 * params->m / params->k);
	else
		snprintf(buffer, TEXT_SIZE, "s");
	return buffer;
}

static void print_table(const struct plan_job *job, const struct plan_choice *choices)
{
	const struct plan_sweep *x = &job->sweeps[0], *y = &job->sweeps[1];
	char text[PLAN_SUBTITLE_SIZE];

	plan_subtitle(job, text);
	printf("chosen by %s; %s\ns: selective repeat; m, x: mds or xor with so many per cent of parity\n\n",
	       plan_goal_name(job->goal), text);
	for (unsigned row = y->points; row-- > 0;) {
		printf("%-12s", plan_quantity_text(y->quantity, plan_sweep_value(y, row), text));
		for (unsigned column = 0; column < x->points; column++)
			printf(" %3s", short_name(&choices[row * x->points + column].params, text));
		putchar('\n');
	}
	printf("%-12s", plan_quantity_name(y->quantity));
	printf(" %s from ", plan_quantity_name(x->quantity));
	printf("%s to ", plan_quantity_text(x->quantity, x->low, text));
	printf("%s\n", plan_quantity_text(x->quantity, x->high, text));
}

static json_t *json_values(const struct plan_sweep *sweep)
{
	json_t *values = json_array();

	for (unsigned i = 0; i < sweep->points; i++)
		json_array_append_new(values, json_real(plan_sweep_value(sweep, i)));
	return values;
}

static int print_json(const struct plan_job *job, const struct plan_choice *choices)
{
	const struct plan_sweep *x = &job->sweeps[0], *y = &job->sweeps[1];
	json_t *rows = json_array();
	char name[PLAN_NAME_SIZE];

	for (unsigned row = 0; row < y->points; row++) {
		json_t *names = json_array();

		for (unsigned column = 0; column < x->points; column++)
			json_array_append_new(
				names, json_string(plan_name(
					       &choices[row * x->points + column].params, name)));
		json_array_append_new(rows, names);
	}
	return plan_json_print(
		json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "x", plan_quantity_name(x->quantity),
			  "y", plan_quantity_name(y->quantity), "goal", plan_goal_name(job->goal),
			  "x_values", json_values(x), "y_values", json_values(y), "chosen", rows));
}

static bool drawn(const struct plan_job *job, const struct plan_choice *choices, const char *colour)
{
	size_t places = (size_t)job->sweeps[0].points * job->sweeps[1].points;

	for (size_t i = 0; i < places; i++) {
		if (colour_of(&choices[i].params) == colour)
			return true;
	}
	return false;
}

/* Only for colours that are there. */
static void draw_keys(const struct plan_job *job, const struct plan_choice *choices,
		      struct svg *svg)
{
	char name[64];

	if (drawn(job, choices, repeat_colour))
		svg_key(svg, "selective repeat", repeat_colour);
	for (unsigned i = 0; i < 2 * LEVELS; i++) {
		bool mds = i < LEVELS;
		const char *colour = mds ? mds_colours[i] : xor_colours[i - LEVELS];

		snprintf(name, sizeof(name), "%s, %s", mds ? "mds" : "xor",
			 level_names[i % LEVELS]);
		if (drawn(job, choices, colour))
			svg_key(svg, name, colour);
	}
}

/* A cell reaches half-way to its neighbours; those of one colour in a row are drawn as one. */
static void draw_cells(const struct plan_job *job, const struct plan_choice *choices,
		       const struct svg *svg)
{
	const struct plan_sweep *x = &job->sweeps[0], *y = &job->sweeps[1];
	double x_half = sqrt(plan_sweep_value(x, 1) / plan_sweep_value(x, 0));
	double y_half = sqrt(plan_sweep_value(y, 1) / plan_sweep_value(y, 0));

	for (unsigned row = 0; row < y->points; row++) {
		const struct plan_choice *line = &choices[(size_t)row * x->points];
		double up = plan_sweep_value(y, row);

		for (unsigned first = 0, next; first < x->points; first = next) {
			const char *colour = colour_of(&line[first].params);

			for (next = first + 1; next < x->points; next++) {
				if (colour_of(&line[next].params) != colour)
					break;
			}
			svg_cell(svg, colour, fmax(x->low, plan_sweep_value(x, first) / x_half),
				 fmin(x->high, plan_sweep_value(x, next - 1) * x_half),
				 fmax(y->low, up / y_half), fmin(y->high, up * y_half));
		}
	}
}

static int draw(const struct plan_job *job, const struct plan_choice *choices)
{
	const struct plan_sweep *x = &job->sweeps[0], *y = &job->sweeps[1];
	char title[64], subtitle[PLAN_SUBTITLE_SIZE];
	struct svg svg = { 0 };
	int rc = plan_draw_open(job, &svg.file);

	if (rc)
		return rc;
	plan_axis_of(x->quantity, x->low, x->high, &svg.x);
	plan_axis_of(y->quantity, y->low, y->high, &svg.y);
	snprintf(title, sizeof(title), "Which scheme to take, by %s", plan_goal_name(job->goal));
	plan_subtitle(job, subtitle);
	svg_begin(&svg, title, subtitle);
	draw_cells(job, choices, &svg);
	draw_keys(job, choices, &svg);
	svg_end(&svg);
	return plan_draw_close(job, svg.file);
}

int plan_print_map(const struct plan_job *job)
{
	size_t places = (size_t)job->sweeps[0].points * job->sweeps[1].points;
	struct plan_choice *choices = calloc(places, sizeof(*choices));
	int rc;

	if (!choices) {
		plan_complain("no memory");
		return -ENOMEM;
	}
	rc = fill(job, choices);
	if (!rc && job->json)
		rc = print_json(job, choices);
	else if (!rc)
		print_table(job, choices);
	if (!rc && job->svg)
		rc = draw(job, choices);
	free(choices);
	return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * draw: lines and dots on two logarithmic axes, as the command's own drawings are made. Reads, a line each, and writes SVG:
 *
 *	title TEXT
 *	subtitle TEXT
 *	x LOW HIGH LABEL		y likewise
 *	xtick VALUE TEXT		ytick likewise
 *	line COLOUR DASH NAME		DASH is as in SVG, "none" for a whole line, "dots" for single points
 *	at X Y				a point of the line last named
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "svg.h"

#define LINE_MAX_BYTES 512
#define POINTS_MAX     1024
#define LINES_MAX      24

struct series {
	char colour[16];
	char dash[16];
	char name[64];
	double xs[POINTS_MAX];
	double ys[POINTS_MAX];
	unsigned count;
};

struct drawing {
	struct svg svg;
	char title[LINE_MAX_BYTES];
	char subtitle[LINE_MAX_BYTES];
	char labels[2][LINE_MAX_BYTES];
	struct series series[LINES_MAX];
	unsigned count;
};

static int read_axis(struct svg_axis *axis, char *label, const char *rest)
{
	int used = 0;

	if (sscanf(rest, "%lf %lf %n", &axis->low, &axis->high, &used) != 2 || axis->low <= 0 ||
	    axis->high <= axis->low)
		return -1;
	snprintf(label, LINE_MAX_BYTES, "%s", rest + used);
	axis->label = label;
	return 0;
}

static int read_tick(struct svg_axis *axis, const char *rest)
{
	struct svg_tick *tick = &axis->ticks[axis->tick_count];
	int used = 0;

	if (axis->tick_count == SVG_TICKS_MAX || sscanf(rest, "%lf %n", &tick->value, &used) != 1)
		return -1;
	snprintf(tick->text, sizeof(tick->text), "%s", rest + used);
	axis->tick_count++;
	return 0;
}

static int read_series(struct drawing *drawing, const char *rest)
{
	struct series *series = &drawing->series[drawing->count];

	if (drawing->count == LINES_MAX ||
	    sscanf(rest, "%15s %15s %63[^\n]", series->colour, series->dash, series->name) != 3)
		return -1;
	drawing->count++;
	return 0;
}

static int read_point(struct drawing *drawing, const char *rest)
{
	struct series *series = drawing->count ? &drawing->series[drawing->count - 1] : NULL;

	if (!series || series->count == POINTS_MAX ||
	    sscanf(rest, "%lf %lf", &series->xs[series->count], &series->ys[series->count]) != 2)
		return -1;
	series->count++;
	return 0;
}

static int read_line(struct drawing *drawing, char *line)
{
	char *rest = strchr(line, ' ');

	line[strcspn(line, "\n")] = '\0';
	if (!rest)
		return -1;
	*rest++ = '\0';
	if (!strcmp(line, "title"))
		return snprintf(drawing->title, LINE_MAX_BYTES, "%s", rest) < 0;
	if (!strcmp(line, "subtitle"))
		return snprintf(drawing->subtitle, LINE_MAX_BYTES, "%s", rest) < 0;
	if (!strcmp(line, "x"))
		return read_axis(&drawing->svg.x, drawing->labels[0], rest);
	if (!strcmp(line, "y"))
		return read_axis(&drawing->svg.y, drawing->labels[1], rest);
	if (!strcmp(line, "xtick"))
		return read_tick(&drawing->svg.x, rest);
	if (!strcmp(line, "ytick"))
		return read_tick(&drawing->svg.y, rest);
	if (!strcmp(line, "line"))
		return read_series(drawing, rest);
	return strcmp(line, "at") ? -1 : read_point(drawing, rest);
}

int main(void)
{
	static struct drawing drawing;
	char line[LINE_MAX_BYTES];

	while (fgets(line, sizeof(line), stdin)) {
		if (read_line(&drawing, line)) {
			fprintf(stderr, "draw: not a line of a drawing: %s\n", line);
			return 2;
		}
	}
	if (!drawing.svg.x.label || !drawing.svg.y.label) {
		fputs("draw: a drawing has two axes\n", stderr);
		return 2;
	}
	drawing.svg.file = stdout;
	svg_begin(&drawing.svg, drawing.title, drawing.subtitle);
	for (unsigned i = 0; i < drawing.count; i++) {
		const struct series *series = &drawing.series[i];

		if (!strcmp(series->dash, "dots"))
			svg_dots(&drawing.svg, series->name, series->colour, series->xs, series->ys,
				 series->count);
		else
			svg_line(&drawing.svg, series->name, series->colour, series->dash,
				 series->xs, series->ys, series->count);
	}
	svg_end(&drawing.svg);
	return ferror(stdout) != 0;
}

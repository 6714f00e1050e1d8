/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * svg.h: drawings with two logarithmic axes, as plain SVG: lines with a legend, or a map of coloured cells.
 *
 * Coordinates are the axes' own. Text is escaped. What went wrong with the file shows in ferror() and fclose().
 */
#ifndef TOOLS_SVG_H
#define TOOLS_SVG_H

#include <stdio.h>

#define SVG_TICKS_MAX 24
#define SVG_TEXT_SIZE 32

struct svg_tick {
	double value;
	char text[SVG_TEXT_SIZE];
};

struct svg_axis {
	const char *label;
	double low; /* above 0, below high */
	double high;
	struct svg_tick ticks[SVG_TICKS_MAX];
	unsigned tick_count;
};

struct svg {
	FILE *file;
	struct svg_axis x;
	struct svg_axis y;
	unsigned entries; /* of the legend so far */
};

/* Opens the drawing: title, axes, ticks with faint lines across. */
void svg_begin(const struct svg *svg, const char *title, const char *subtitle);

/* A line through the points, a marker at each, and its entry in the legend. The points lie within the axes. */
void svg_line(struct svg *svg, const char *name, const char *colour, const char *dash,
	      const double *xs, const double *ys, unsigned count);

/* A dot at each of the points, which lie within the axes, and an entry in the legend. */
void svg_dots(struct svg *svg, const char *name, const char *colour, const double *xs,
	      const double *ys, unsigned count);

/* A cell from one corner to the other; an entry in the legend for its colour. */
void svg_cell(const struct svg *svg, const char *colour, double x_low, double x_high, double y_low,
	      double y_high);
void svg_key(struct svg *svg, const char *name, const char *colour);

/* Draws the frame, over whatever was drawn, and closes the drawing. */
void svg_end(const struct svg *svg);

#endif

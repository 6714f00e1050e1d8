/* SPDX-License-Identifier: BSD-3-Clause */
/* The plot is a box in a fixed frame; the legend stands to its right, an entry a line. */
#include "svg.h"

#include <math.h>

#include "markup.h"

#define WIDTH	 900
#define HEIGHT	 520
#define LEFT	 90
#define RIGHT	 690
#define TOP	 70
#define BOTTOM	 450
#define LEGEND_X (RIGHT + 24)
#define LEGEND_Y (TOP + 10)
#define ENTRY	 22
#define INK	 "#333333"
#define FAINT	 "#dddddd"
#define FONT	 "font-family=\"Helvetica, Arial, sans-serif\""

/* Where a value lies on an axis, from 0 to 1. */
static double share(const struct svg_axis *axis, double value)
{
	return log(value / axis->low) / log(axis->high / axis->low);
}

static double across(const struct svg *svg, double x)
{
	return LEFT + (RIGHT - LEFT) * share(&svg->x, x);
}

static double up(const struct svg *svg, double y)
{
	return BOTTOM - (BOTTOM - TOP) * share(&svg->y, y);
}

static void write_text(FILE *file, double x, double y, const char *anchor, int size,
		       const char *more, const char *text)
{
	fprintf(file,
		"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\" fill=\"" INK
		"\" %s>",
		x, y, anchor, size, more);
	markup_text(file, text);
	fputs("</text>\n", file);
}

static void segment(FILE *file, double x1, double y1, double x2, double y2, const char *colour)
{
	fprintf(file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1,
		y1, x2, y2, colour);
}

static void draw_ticks(const struct svg *svg)
{
	for (unsigned i = 0; i < svg->x.tick_count; i++) {
		double x = across(svg, svg->x.ticks[i].value);

		segment(svg->file, x, TOP, x, BOTTOM, FAINT);
		segment(svg->file, x, BOTTOM, x, BOTTOM + 5, INK);
		write_text(svg->file, x, BOTTOM + 20, "middle", 12, "", svg->x.ticks[i].text);
	}
	for (unsigned i = 0; i < svg->y.tick_count; i++) {
		double y = up(svg, svg->y.ticks[i].value);

		segment(svg->file, LEFT, y, RIGHT, y, FAINT);
		segment(svg->file, LEFT - 5, y, LEFT, y, INK);
		write_text(svg->file, LEFT - 9, y + 4, "end", 12, "", svg->y.ticks[i].text);
	}
}

void svg_begin(const struct svg *svg, const char *title, const char *subtitle)
{
	char turned[96];

	fprintf(svg->file,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" " FONT
		">\n"
		"<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
		WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
	write_text(svg->file, LEFT, 30, "start", 18, "font-weight=\"bold\"", title);
	write_text(svg->file, LEFT, 52, "start", 13, "", subtitle);
	draw_ticks(svg);
	write_text(svg->file, (LEFT + RIGHT) / 2.0, BOTTOM + 46, "middle", 14, "", svg->x.label);
	snprintf(turned, sizeof(turned), "transform=\"rotate(-90 22 %d)\"", (TOP + BOTTOM) / 2);
	write_text(svg->file, 22, (TOP + BOTTOM) / 2.0, "middle", 14, turned, svg->y.label);
}

void svg_line(struct svg *svg, const char *name, const char *colour, const char *dash,
	      const double *xs, const double *ys, unsigned count)
{
	double y = LEGEND_Y + ENTRY * svg->entries++;

	fprintf(svg->file,
		"<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" points=\"",
		colour, dash);
	for (unsigned i = 0; i < count; i++)
		fprintf(svg->file, "%s%.1f,%.1f", i ? " " : "", across(svg, xs[i]), up(svg, ys[i]));
	fputs("\"/>\n", svg->file);
	for (unsigned i = 0; i < count; i++)
		fprintf(svg->file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n",
			across(svg, xs[i]), up(svg, ys[i]), colour);
	fprintf(svg->file,
		"<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\" "
		"stroke-dasharray=\"%s\"/>\n",
		LEGEND_X, y, LEGEND_X + 28, y, colour, dash);
	write_text(svg->file, LEGEND_X + 36, y + 4, "start", 13, "", name);
}

void svg_dots(struct svg *svg, const char *name, const char *colour, const double *xs,
	      const double *ys, unsigned count)
{
	static const char dot[] =
		"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\" fill-opacity=\"0.7\"/>\n";
	double y = LEGEND_Y + ENTRY * svg->entries++;

	for (unsigned i = 0; i < count; i++)
		fprintf(svg->file, dot, across(svg, xs[i]), up(svg, ys[i]), colour);
	fprintf(svg->file, dot, LEGEND_X + 14.0, y, colour);
	write_text(svg->file, LEGEND_X + 36, y + 4, "start", 13, "", name);
}

void svg_cell(const struct svg *svg, const char *colour, double x_low, double x_high, double y_low,
	      double y_high)
{
	double left = across(svg, x_low), top = up(svg, y_high);

	fprintf(svg->file,
		"<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" stroke=\"%s\" "
		"stroke-width=\"0.4\"/>\n",
		left, top, across(svg, x_high) - left, up(svg, y_low) - top, colour, colour);
}

void svg_key(struct svg *svg, const char *name, const char *colour)
{
	double y = LEGEND_Y + ENTRY * svg->entries++;

	fprintf(svg->file,
		"<rect x=\"%d\" y=\"%.1f\" width=\"16\" height=\"14\" fill=\"%s\" stroke=\"" INK
		"\" "
		"stroke-width=\"0.5\"/>\n",
		LEGEND_X, y - 8, colour);
	write_text(svg->file, LEGEND_X + 24, y + 4, "start", 13, "", name);
}

void svg_end(const struct svg *svg)
{
	fprintf(svg->file,
		"<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"" INK
		"\"/>\n</svg>\n",
		LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP);
}

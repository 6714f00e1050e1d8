/* SPDX-License-Identifier: BSD-3-Clause */
/* A mesh as a page of HTML: one file with neither scripts nor anything that is loaded from elsewhere. */
#include <math.h>

#include <godwit/godwit.h>

#include "heat.h"
#include "tools/markup.h"
#include "tools/text.h"

/* Cells go from blue to grey up to here, and from yellow to red beyond: people who confuse red and green can tell them apart. */
#define PALE 0.3

static const char head[] =
	"<!DOCTYPE html>\n"
	"<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	"<title>godwit mesh</title>\n"
	"<style>\n"
	"body { font: 15px/1.45 system-ui, sans-serif; margin: 1rem auto; max-width: 76rem; padding: 0 .8rem;\n"
	"  color: #1c1c1c; background: #fff; }\n"
	"h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }\n"
	"p { margin: .4rem 0; } .good { color: #17662f; font-weight: 600; } li { margin: .25rem 0; }\n"
	".findings { border-left: .3rem solid #b3261e; background: #fdf1f0; padding: .5rem .8rem .5rem 2rem; margin: .8rem 0; }\n"
	".scroll { overflow-x: auto; }\n"
	"table { border-collapse: separate; border-spacing: 2px; font-variant-numeric: tabular-nums; }\n"
	"th { font-weight: 500; font-size: .85rem; padding: .1rem .4rem; white-space: nowrap; text-align: right; }\n"
	"tbody th { position: sticky; left: 0; background: #fff; text-align: left; }\n"
	"td { min-width: 3.2rem; padding: .25rem .4rem; text-align: right; border-radius: 3px; color: #1c1c1c; }\n"
	"td.none { color: #999; text-align: center; } td.l1 { font-weight: 600; } td.l2 { font-weight: 700; text-decoration: underline; }\n"
	"footer { color: #666; font-size: .85rem; margin: 1.6rem 0; }\n"
	"</style></head><body>\n";

/* 0: as good as the median or better, 1: as bad as can be. */
static double badness(enum heat_quantity quantity, double value, double median)
{
	double bad;

	if (quantity == HEAT_LOSS) /* from 0.01 % to 10 % */
		bad = value > 0 ? (log10(value) + 2) / 3 : 0;
	else if (quantity == HEAT_LATENCY)
		bad = median > 0 ? (value / median - 1) / 3 : 0;
	else
		bad = median > 0 ? (1 - value / median) / 0.6 : 1;
	return bad < 0 ? 0 : bad > 1 ? 1 : bad;
}

/* All that is known of a pair. */
static void write_tip(FILE *file, const struct matrix *matrix, unsigned i, unsigned j)
{
	const struct matrix_cell *cell = matrix_at(matrix, i, j);
	char text[TEXT_SIZE];

	markup_text(file, matrix->host[i].name);
	fputs(" -&gt; ", file);
	markup_text(file, matrix->host[j].name);
	if (!isnan(cell->alone_bps))
		fprintf(file, "&#10;alone %s", text_rate(cell->alone_bps, text));
	if (!isnan(cell->together_bps))
		fprintf(file, "&#10;while all send %s", text_rate(cell->together_bps, text));
	if (!isnan(cell->latency_us))
		fprintf(file, "&#10;latency %s", text_time(cell->latency_us * 1e3, text));
	for (unsigned p = 0; p < matrix->ports; p++) {
		const struct matrix_port *port = &cell->ports[p];

		if (!isnan(port->bps))
			fprintf(file, "&#10;port %u: %s, %llu of %llu packets lost", port->number,
				text_rate(port->bps, text), (unsigned long long)port->lost,
				(unsigned long long)port->sent);
	}
}

static void write_cell(FILE *file, const struct matrix *matrix, enum heat_quantity quantity,
		       double median, double unit, unsigned i, unsigned j)
{
	double value = heat_value(matrix, quantity, i, j), shown = value / unit;
	double bad = badness(quantity, value, median);
	double warm = bad < PALE ? 0 : (bad - PALE) / (1 - PALE);

	if (isnan(value)) {
		fputs("<td class=\"none\">&middot;</td>", file);
		return;
	}
	fprintf(file, "<td class=\"l%d\" style=\"background:hsl(%.0f %.0f%% %.0f%%)\" title=\"",
		heat_level(quantity, value, median), bad < PALE ? 205 : 50 - 45 * warm,
		bad < PALE ? 75 * (1 - bad / PALE) : 85, 88 - 18 * warm);
	write_tip(file, matrix, i, j);
	fprintf(file, shown < 99.95 && shown > 0 ? "\">%.3g</td>" : "\">%.0f</td>", shown);
}

static void write_map(FILE *file, const struct matrix *matrix, enum heat_quantity quantity)
{
	double median = heat_median(matrix, quantity), unit;
	const char *name;

	if (isnan(median))
		return;
	unit = heat_unit(quantity, median, &name);
	fprintf(file,
		"<h2>%s, %s <small>(median %.3g)</small></h2>\n<div class=\"scroll\"><table><thead><tr><th></th>",
		heat_title(quantity), name, median / unit);
	for (unsigned j = 0; j < matrix->hosts; j++) {
		fputs("<th>", file);
		markup_text(file, matrix->host[j].name);
		fputs("</th>", file);
	}
	fputs("</tr></thead><tbody>\n", file);
	for (unsigned i = 0; i < matrix->hosts; i++) {
		fputs("<tr><th>", file);
		markup_text(file, matrix->host[i].name);
		fputs("</th>", file);
		for (unsigned j = 0; j < matrix->hosts; j++)
			write_cell(file, matrix, quantity, median, unit, i, j);
		fputs("</tr>\n", file);
	}
	fputs("</tbody></table></div>\n", file);
}

void heat_html(FILE *file, const struct matrix *matrix, const struct verdict *verdict)
{
	fputs(head, file);
	fprintf(file, "<h1>Mesh of %u hosts, %u source ports</h1>\n", matrix->hosts, matrix->ports);
	if (verdict->count) {
		fputs("<ul class=\"findings\">\n", file);
		for (unsigned i = 0; i < verdict->count; i++) {
			fputs("<li>", file);
			markup_text(file, verdict->findings[i].text);
			fputs("</li>\n", file);
		}
		fputs("</ul>\n", file);
	} else {
		fputs("<p class=\"good\">Healthy: no host, pair or path is worse than the others.</p>\n",
		      file);
	}
	for (int quantity = 0; quantity < HEAT_QUANTITIES; quantity++)
		write_map(file, matrix, (enum heat_quantity)quantity);
	fprintf(file,
		"<footer>Senders down, receivers across. Point at a cell for the numbers of its source ports. godwit %s</footer>\n</body></html>\n",
		gw_version());
}

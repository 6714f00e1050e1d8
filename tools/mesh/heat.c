/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mesh on a terminal: findings, and then a map for each of four quantities, senders down and receivers across. A cell is a
 * number in the unit of the map; a mark beside it says how far it is from the median, so that it can be read without colour.
 */
#include "heat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/text.h"

#define FINDINGS_MAX 20
/* Hosts that a terminal of 80 columns and more has room for; the page of HTML has them all. */
#define HOSTS_MAX 24u
#define WIDTH	  8

double heat_value(const struct matrix *matrix, enum heat_quantity quantity, unsigned i, unsigned j)
{
	const struct matrix_cell *cell = matrix_at(matrix, i, j);

	switch (i == j ? HEAT_QUANTITIES : quantity) {
	case HEAT_ALONE:
		return cell->alone_bps;
	case HEAT_TOGETHER:
		return cell->together_bps;
	case HEAT_LOSS:
		return 100 * matrix_loss(cell);
	case HEAT_LATENCY:
		return cell->latency_us;
	default:
		return NAN;
	}
}

double heat_median(const struct matrix *matrix, enum heat_quantity quantity)
{
	size_t n = matrix->hosts;
	double *values = malloc(n * n * sizeof(*values)), median;

	if (!values)
		return NAN;
	for (size_t i = 0; i < n * n; i++)
		values[i] = heat_value(matrix, quantity, (unsigned)(i / n), (unsigned)(i % n));
	median = matrix_median(values, (unsigned)(n * n));
	free(values);
	return median;
}

int heat_level(enum heat_quantity quantity, double value, double median)
{
	if (isnan(value))
		return 0;
	if (quantity == HEAT_LOSS)
		return value >= 100 * VERDICT_LOSS ? value >= 1000 * VERDICT_LOSS ? 2 : 1 : 0;
	if (quantity == HEAT_LATENCY)
		return value > 4 * median ? 2 : value > 2 * median ? 1 : 0;
	return value < VERDICT_TOGETHER * median * 1.1 ? 2 : value < VERDICT_SLOW * median ? 1 : 0;
}

double heat_unit(enum heat_quantity quantity, double median, const char **name)
{
	static const char *const rates[] = { "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s" };
	double unit = 1;
	unsigned i = 0;

	*name = quantity == HEAT_LOSS ? "%" : "us";
	if (quantity == HEAT_LOSS || quantity == HEAT_LATENCY)
		return 1;
	for (; i < 4 && median / unit >= 999.5; i++)
		unit *= 1000;
	*name = rates[i];
	return unit;
}

const char *heat_title(enum heat_quantity quantity)
{
	static const char *const titles[] = { "rate of each pair alone",
					      "rate while all hosts send",
					      "packets lost at half the rate alone",
					      "latency: half of the shortest round trip" };

	return titles[quantity];
}

static void print_cell(double value, int level, bool colour)
{
	static const char *const colours[] = { "", "\033[33m", "\033[31m" };
	static const char marks[] = { ' ', '-', '!' };
	char text[16];

	if (isnan(value)) {
		printf("%*s ", WIDTH - 1, ".");
		return;
	}
	snprintf(text, sizeof(text), value < 99.95 && value > 0 ? "%.3g" : "%.0f", value);
	printf("%s%*s%c%s", colour ? colours[level] : "", WIDTH - 1, text, marks[level],
	       colour && level ? "\033[0m" : "");
}

static void print_map(const struct matrix *matrix, enum heat_quantity quantity, bool colour)
{
	double median = heat_median(matrix, quantity), unit;
	const char *name;
	int label = 4;

	if (isnan(median))
		return;
	unit = heat_unit(quantity, median, &name);
	for (unsigned i = 0; i < matrix->hosts; i++) {
		int length = (int)strlen(matrix->host[i].name);

		label = length > label ? length : label;
	}
	label = label > 20 ? 20 : label;
	printf("\n%s, %s (median %.3g)\n%*s", heat_title(quantity), name, median / unit, label, "");
	for (unsigned j = 0; j < matrix->hosts; j++) {
		const char *host = matrix->host[j].name;
		size_t length = strlen(host);

		/* The end of a name tells hosts apart. */
		printf("%*s ", WIDTH - 1, length > WIDTH - 1 ? host + length - (WIDTH - 1) : host);
	}
	putchar('\n');
	for (unsigned i = 0; i < matrix->hosts; i++) {
		printf("%-*.*s", label, label, matrix->host[i].name);
		for (unsigned j = 0; j < matrix->hosts; j++) {
			double value = heat_value(matrix, quantity, i, j);

			print_cell(value / unit, heat_level(quantity, value, median), colour);
		}
		putchar('\n');
	}
}

void heat_print(const struct matrix *matrix, const struct verdict *verdict, double seconds)
{
	bool colour = isatty(STDOUT_FILENO);
	char rate[TEXT_SIZE], latency[TEXT_SIZE];

	printf("mesh of %u hosts, %u source ports, %.0f s: ", matrix->hosts, matrix->ports,
	       seconds);
	if (matrix->hosts < 2) {
		printf("one host has no pairs\n");
		return;
	}
	printf(verdict->count == 1 ? "1 finding\n"
	       : verdict->count	   ? "%u findings\n"
				   : "healthy\n",
	       verdict->count);
	for (unsigned i = 0; i < verdict->count && i < FINDINGS_MAX; i++)
		printf("  * %s\n", verdict->findings[i].text);
	if (verdict->count > FINDINGS_MAX)
		printf("  and %u more: see --json or --html\n", verdict->count - FINDINGS_MAX);
	printf("median pair: %s alone, ", text_rate(heat_median(matrix, HEAT_ALONE), rate));
	printf("%s while all send, ", text_rate(heat_median(matrix, HEAT_TOGETHER), rate));
	printf("latency %s\n", text_time(heat_median(matrix, HEAT_LATENCY) * 1e3, latency));
	if (matrix->hosts > HOSTS_MAX) {
		printf("maps of more than %u hosts: --html\n", HOSTS_MAX);
		return;
	}
	for (int quantity = 0; quantity < HEAT_QUANTITIES; quantity++)
		print_map(matrix, (enum heat_quantity)quantity, colour);
	printf("\nsenders down, receivers across; - worse than usual, ! much worse, . not measured\n");
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "matrix.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int matrix_open(struct matrix *matrix, unsigned hosts, unsigned ports)
{
	*matrix = (struct matrix){ .hosts = hosts, .ports = ports };
	matrix->host = calloc(hosts, sizeof(*matrix->host));
	matrix->cells = calloc((size_t)hosts * hosts, sizeof(*matrix->cells));
	if (!matrix->host || !matrix->cells) {
		matrix_close(matrix);
		return -ENOMEM;
	}
	for (size_t i = 0; i < (size_t)hosts * hosts; i++) {
		struct matrix_cell *cell = &matrix->cells[i];

		cell->latency_us = cell->alone_bps = cell->together_bps = NAN;
		for (unsigned p = 0; p < MATRIX_PORTS_MAX; p++)
			cell->ports[p].bps = NAN;
	}
	return 0;
}

void matrix_close(struct matrix *matrix)
{
	free(matrix->host);
	free(matrix->cells);
	*matrix = (struct matrix){ 0 };
}

struct matrix_cell *matrix_at(const struct matrix *matrix, unsigned from, unsigned to)
{
	return &matrix->cells[(size_t)from * matrix->hosts + to];
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double matrix_median(double *values, unsigned count)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < count; i++) {
		if (!isnan(values[i]))
			values[kept++] = values[i];
	}
	if (!kept)
		return NAN;
	qsort(values, kept, sizeof(*values), ascending);
	return values[kept / 2];
}

void matrix_sum(struct matrix *matrix)
{
	for (size_t i = 0; i < (size_t)matrix->hosts * matrix->hosts; i++) {
		struct matrix_cell *cell = &matrix->cells[i];

		cell->sent = cell->lost = 0;
		for (unsigned p = 0; p < matrix->ports; p++) {
			/* A NAN is less than nothing for fmax(). */
			cell->alone_bps = fmax(cell->alone_bps, cell->ports[p].bps);
			cell->sent += cell->ports[p].sent;
			cell->lost += cell->ports[p].lost;
		}
	}
}

double matrix_loss(const struct matrix_cell *cell)
{
	return cell->sent ? (double)cell->lost / (double)cell->sent : NAN;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "matrix.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tools/report.h"

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

json_t *matrix_hosts_json(const struct matrix *matrix)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < matrix->hosts; i++) {
		json_t *host = json_object();

		json_object_set_new(host, "name", report_text(matrix->host[i].name));
		json_object_set_new(host, "address", report_text(matrix->host[i].address));
		json_array_append_new(list, host);
	}
	return list;
}

static void set_number(json_t *object, const char *name, double value)
{
	if (!isnan(value))
		json_object_set_new(object, name, json_real(value));
}

static json_t *ports_json(const struct matrix *matrix, const struct matrix_cell *cell)
{
	json_t *list = json_array();

	for (unsigned p = 0; p < matrix->ports; p++) {
		const struct matrix_port *port = &cell->ports[p];
		json_t *object;

		if (!port->number || (isnan(port->bps) && !port->sent))
			continue;
		object = json_object();
		json_object_set_new(object, "source_port", json_integer(port->number));
		if (port->sent)
			set_number(object, "loss", (double)port->lost / (double)port->sent);
		set_number(object, "bps", port->bps);
		json_array_append_new(list, object);
	}
	return list;
}

json_t *matrix_pairs_json(const struct matrix *matrix)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < matrix->hosts; i++) {
		for (unsigned j = 0; j < matrix->hosts; j++) {
			const struct matrix_cell *cell = matrix_at(matrix, i, j);
			json_t *pair;

			if (i == j ||
			    (isnan(cell->alone_bps) && isnan(cell->together_bps) && !cell->sent))
				continue;
			pair = json_object();
			json_object_set_new(pair, "from", report_text(matrix->host[i].name));
			json_object_set_new(pair, "to", report_text(matrix->host[j].name));
			set_number(pair, "latency_us", cell->latency_us);
			set_number(pair, "alone_bps", cell->alone_bps);
			set_number(pair, "together_bps", cell->together_bps);
			set_number(pair, "loss", matrix_loss(cell));
			json_object_set_new(pair, "ports", ports_json(matrix, cell));
			json_array_append_new(list, pair);
		}
	}
	return list;
}

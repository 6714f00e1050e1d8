/* SPDX-License-Identifier: BSD-3-Clause */
/* Results as JSON, schema godwit-mesh/1: docs/doctor.md. What was not measured is left out. */
#include "json.h"

#include <math.h>

#include "tools/report.h"

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

json_t *verdict_json(const struct verdict *verdict, const struct matrix *matrix)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < verdict->count; i++) {
		const struct finding *finding = &verdict->findings[i];
		json_t *object = json_object();

		json_object_set_new(object, "kind", json_string(finding_name(finding->kind)));
		if (finding->from >= 0)
			json_object_set_new(object, "from",
					    report_text(matrix->host[finding->from].name));
		if (finding->to >= 0)
			json_object_set_new(object, "to",
					    report_text(matrix->host[finding->to].name));
		if (!isnan(finding->measured))
			json_object_set_new(object, "measured", json_real(finding->measured));
		if (!isnan(finding->expected))
			json_object_set_new(object, "expected", json_real(finding->expected));
		json_object_set_new(object, "text", report_text(finding->text));
		json_array_append_new(list, object);
	}
	return list;
}

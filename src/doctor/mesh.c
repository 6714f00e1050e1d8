/* SPDX-License-Identifier: BSD-3-Clause */
#include "mesh.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* A number that is not below 0, or -1. */
static double number(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	double result = json_is_number(value) ? json_number_value(value) : -1;

	return isfinite(result) && result >= 0 ? result : -1;
}

/* Finds a host by its name in an object from names to positions. */
static int find_host(const json_t *index, const json_t *name, uint32_t *out)
{
	const char *text = json_string_value(name);
	const json_t *position = text ? json_object_get(index, text) : NULL;

	if (!position)
		return -EINVAL;
	*out = (uint32_t)json_integer_value(position);
	return 0;
}

static void read_ports(struct mesh_pair *pair, struct scratch *scratch, const json_t *list)
{
	size_t count = json_array_size(list);

	if (count == 0 || count > MESH_PORTS_MAX)
		return;
	pair->ports = scratch_alloc(scratch, count * sizeof(pair->ports[0]));
	for (size_t i = 0; i < count; i++) {
		const json_t *port = json_array_get(list, i);
		double source = number(port, "source_port");

		if (source < 0 || source > UINT16_MAX)
			continue;
		pair->ports[pair->port_count++] =
			(struct mesh_port){ .source_port = (unsigned)source,
					    .loss = number(port, "loss"),
					    .bps = number(port, "bps") };
	}
}

static int read_hosts(struct mesh *mesh, struct scratch *scratch, const json_t *list, json_t *index)
{
	size_t count = json_array_size(list);

	if (count < 1 || count > MESH_HOSTS_MAX)
		return -EINVAL;
	mesh->hosts = scratch_alloc(scratch, count * sizeof(mesh->hosts[0]));
	for (size_t i = 0; i < count; i++) {
		const char *name =
			json_string_value(json_object_get(json_array_get(list, i), "name"));

		if (!name || !name[0] || strlen(name) > 255)
			return -EINVAL;
		json_object_set_new(index, name, json_integer((json_int_t)i));
		mesh->hosts[mesh->host_count++] = scratch_copy(scratch, name, strlen(name));
	}
	return 0;
}

static int read_pairs(struct mesh *mesh, struct scratch *scratch, const json_t *pairs,
		      const json_t *index)
{
	size_t count = json_array_size(pairs);

	if (count > MESH_PAIRS_MAX)
		return -EINVAL;
	mesh->pairs = scratch_alloc(scratch, (count + 1) * sizeof(mesh->pairs[0]));
	for (size_t i = 0; i < count; i++) {
		const json_t *object = json_array_get(pairs, i);
		struct mesh_pair *pair = &mesh->pairs[mesh->pair_count];

		if (find_host(index, json_object_get(object, "from"), &pair->from) != 0 ||
		    find_host(index, json_object_get(object, "to"), &pair->to) != 0 ||
		    pair->from == pair->to)
			return -EINVAL;
		pair->latency_us = number(object, "latency_us");
		pair->alone_bps = number(object, "alone_bps");
		pair->together_bps = number(object, "together_bps");
		pair->loss = number(object, "loss");
		read_ports(pair, scratch, json_object_get(object, "ports"));
		mesh->pair_count++;
	}
	return 0;
}

int mesh_read(struct mesh *mesh, struct scratch *scratch, const char *file, const json_t *root)
{
	const char *schema = json_string_value(json_object_get(root, "schema"));
	struct mesh result = { .file = file };
	json_t *index;
	int rc;

	if (!schema || strcmp(schema, MESH_SCHEMA) != 0)
		return -EINVAL;
	index = json_object();
	rc = read_hosts(&result, scratch, json_object_get(root, "hosts"), index);
	if (rc == 0)
		rc = read_pairs(&result, scratch, json_object_get(root, "pairs"), index);
	json_decref(index);
	if (rc == 0)
		*mesh = result;
	return rc;
}

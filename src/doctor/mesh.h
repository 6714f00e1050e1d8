/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mesh.h: results of `godwit mesh`, schema "godwit-mesh/1": what each ordered pair of hosts measured. docs/doctor.md
 * describes the JSON. A member that is absent was not measured, and is no zero.
 */
#ifndef DOCTOR_MESH_H
#define DOCTOR_MESH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scratch.h"

#define MESH_SCHEMA    "godwit-mesh/1"
#define MESH_HOSTS_MAX 16384u
#define MESH_PAIRS_MAX (1u << 20)
#define MESH_PORTS_MAX 256u

/* One source port: a path of its own through switches that spread by ports. */
struct mesh_port {
	unsigned source_port;
	/* share of packets; below 0: not measured */
	double loss;
	double bps;
};

struct mesh_pair {
	uint32_t from;
	uint32_t to;
	/* each below 0 if it was not measured */
	double latency_us;
	double alone_bps;
	double together_bps;
	double loss;
	struct mesh_port *ports;
	unsigned port_count;
};

struct mesh {
	const char *file;
	const char **hosts;
	uint32_t host_count;
	struct mesh_pair *pairs;
	uint32_t pair_count;
};

/* Reads results into memory of the scratch. Returns 0; -EINVAL: not of this schema. */
int mesh_read(struct mesh *mesh, struct scratch *scratch, const char *file, const json_t *root);

#endif

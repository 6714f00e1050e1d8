/* SPDX-License-Identifier: BSD-3-Clause */
/* Results of a mesh that a stranger sent: read, and if they are of the schema, judged and told. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>

#include "doctor/cluster.h"

#define INPUT_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *sink;
	const struct exam_attr attr = { 0 };
	const struct diagnosis_style all = { .verbose = true };
	struct diagnosis diagnosis = { 0 };
	struct cluster cluster = { 0 };
	json_t *root;

	if (size > INPUT_MAX)
		return 0;
	if (!sink)
		sink = fopen("/dev/null", "we");
	root = json_loadb((const char *)data, size, 0, NULL);
	if (!root)
		return 0;
	cluster.meshed = mesh_read(&cluster.mesh, &cluster.scratch, "mesh", root) == 0;
	json_decref(root);
	assert(cluster_run(&cluster, &attr, &diagnosis) == 0);
	diagnosis_print(&diagnosis, &all, sink);
	root = diagnosis_json(&diagnosis);
	assert(root);
	json_decref(root);
	diagnosis_free(&diagnosis);
	cluster_free(&cluster);
	return 0;
}

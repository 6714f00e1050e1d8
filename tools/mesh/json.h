/* SPDX-License-Identifier: BSD-3-Clause */
/* json.h: results as JSON, schema godwit-mesh/1. */
#ifndef TOOLS_MESH_JSON_H
#define TOOLS_MESH_JSON_H

#include <jansson.h>

#include "matrix.h"
#include "verdict.h"

/* The arrays "hosts", "pairs" and "findings". */
json_t *matrix_hosts_json(const struct matrix *matrix);
json_t *matrix_pairs_json(const struct matrix *matrix);
json_t *verdict_json(const struct verdict *verdict, const struct matrix *matrix);

#endif

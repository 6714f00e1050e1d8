/* SPDX-License-Identifier: BSD-3-Clause */
/* heat.h: a mesh as a map, on a terminal and as a page of HTML. */
#ifndef TOOLS_MESH_HEAT_H
#define TOOLS_MESH_HEAT_H

#include <stdio.h>

#include "matrix.h"
#include "verdict.h"

enum heat_quantity { HEAT_ALONE, HEAT_TOGETHER, HEAT_LOSS, HEAT_LATENCY, HEAT_QUANTITIES };

const char *heat_title(enum heat_quantity quantity);
/* From host i to host j: bits a second, percent or us; NAN: not measured. */
double heat_value(const struct matrix *matrix, enum heat_quantity quantity, unsigned i, unsigned j);
double heat_median(const struct matrix *matrix, enum heat_quantity quantity);
/* What to divide values by, so that the median has up to three digits before the point, and the name of that unit. */
double heat_unit(enum heat_quantity quantity, double median, const char **name);
/* 0: as usual, 1: worse, 2: much worse. */
int heat_level(enum heat_quantity quantity, double value, double median);

/* Findings first, then the maps, on standard output; in colour if that is a terminal. */
void heat_print(const struct matrix *matrix, const struct verdict *verdict, double seconds);

/* One page that needs nothing else. */
void heat_html(FILE *file, const struct matrix *matrix, const struct verdict *verdict);

#endif

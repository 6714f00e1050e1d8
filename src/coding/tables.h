/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tables.h: the tables that ISA-L multiplies with: one entry for each coefficient of a matrix.
 *
 * A decoder needs tables of a new matrix for every group that lost data, and ISA-L computes every entry anew, which takes a
 * quarter of the decoding time of short packets. There are only 256 coefficients, so that their entries are computed once
 * and then copied.
 */
#ifndef CODING_TABLES_H
#define CODING_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that ISA-L asks for for each coefficient. */
#define TABLES_ENTRY_MAX 32

struct tables {
	/* one entry for each of the 256 coefficients */
	uint8_t entries[256 * TABLES_ENTRY_MAX];
	/* bytes that an entry takes; 0: ISA-L uses an unknown layout, and nothing is copied */
	size_t entry;
};

void tables_init(struct tables *tables);

/* Writes the tables of a matrix as ec_init_tables() does; `out` has TABLES_ENTRY_MAX bytes for each coefficient. */
void tables_make(const struct tables *tables, unsigned columns, unsigned rows,
		 const uint8_t *matrix, uint8_t *out);

#endif

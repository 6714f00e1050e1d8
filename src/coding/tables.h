/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tables.h: what ISA-L multiplies by: each coefficient of a matrix spelled out for its instructions.
 *
 * A decoder needs the tables of a new matrix for every group that lost something, and ISA-L works each entry out from
 * nothing: with short packets that is a quarter of all decoding. But there are only 256 coefficients. Their entries are made
 * once, by ISA-L, and copied.
 */
#ifndef CODING_TABLES_H
#define CODING_TABLES_H

#include <stddef.h>
#include <stdint.h>

#define TABLES_ENTRY_MAX 32 /* bytes a coefficient, as ISA-L asks for */

struct tables {
	uint8_t entries[256 * TABLES_ENTRY_MAX];
	size_t entry; /* bytes that a coefficient really takes; 0: the layout is not one we know */
};

void tables_init(struct tables *tables);

/* The tables of a matrix, as ec_init_tables() would make them; `out` has TABLES_ENTRY_MAX bytes for each coefficient. */
void tables_make(const struct tables *tables, unsigned columns, unsigned rows,
		 const uint8_t *matrix, uint8_t *out);

#endif

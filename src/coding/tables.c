/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tables.c: the layout depends on ISA-L's version and on the processor: 32 bytes for each coefficient, or 8 where the
 * processor has an instruction for the field (GFNI). So the layout is tested when a coder is created: the tables of a matrix
 * with every coefficient are computed both ways, and entries are copied later only if the bytes are the same.
 */
#include "coding/tables.h"

#include <string.h>

#include <isa-l.h>

#define ELEMENTS 256
/* Columns of the matrix in that test. */
#define COLUMNS 32

static void copy(const struct tables *tables, unsigned count, const uint8_t *coefficients,
		 uint8_t *out)
{
	/* With a constant size the compiler turns memcpy() into a load and a store. */
	if (tables->entry == TABLES_ENTRY_MAX) {
		for (unsigned i = 0; i < count; i++, out += TABLES_ENTRY_MAX)
			memcpy(out, tables->entries + coefficients[i] * TABLES_ENTRY_MAX,
			       TABLES_ENTRY_MAX);
		return;
	}
	for (unsigned i = 0; i < count; i++, out += tables->entry)
		memcpy(out, tables->entries + coefficients[i] * tables->entry, tables->entry);
}

void tables_init(struct tables *tables)
{
	static const size_t known[] = { TABLES_ENTRY_MAX, 8 };
	uint8_t list[ELEMENTS], mixed[ELEMENTS];
	uint8_t made[sizeof(tables->entries)], copied[sizeof(tables->entries)];

	for (unsigned i = 0; i < ELEMENTS; i++) {
		list[i] = (uint8_t)i;
		mixed[i] = (uint8_t)(i * 7 + 3);
	}
	memset(tables->entries, 0, sizeof(tables->entries));
	memset(made, 0, sizeof(made));
	ec_init_tables(ELEMENTS, 1, list, tables->entries);
	ec_init_tables(COLUMNS, ELEMENTS / COLUMNS, mixed, made);
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		memset(copied, 0, sizeof(copied));
		tables->entry = known[i];
		copy(tables, ELEMENTS, mixed, copied);
		if (memcmp(made, copied, sizeof(made)) == 0)
			return;
	}
	tables->entry = 0;
}

void tables_make(const struct tables *tables, unsigned columns, unsigned rows,
		 const uint8_t *matrix, uint8_t *out)
{
	if (tables->entry)
		copy(tables, columns * rows, matrix, out);
	else
		ec_init_tables((int)columns, (int)rows, (unsigned char *)(uintptr_t)matrix, out);
}

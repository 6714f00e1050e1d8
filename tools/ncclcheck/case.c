/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of all cases, in the order in which they are tried: what later cases rely on comes first. */
#include "case.h"

#include <string.h>

static const struct check_case *const tables[] = { cases_load,	cases_connect, cases_data,
						   cases_lines, cases_end,     cases_process,
						   cases_speed, cases_ring,    cases_operations };

const struct check_case *case_at(size_t index)
{
	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
		for (const struct check_case *c = tables[t]; c->name; c++) {
			if (!index--)
				return c;
		}
	}
	return NULL;
}

const struct check_case *case_find(const char *name)
{
	const struct check_case *found;

	for (size_t i = 0; (found = case_at(i)); i++) {
		if (!strcmp(found->name, name))
			return found;
	}
	return NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases: what each one tries, and how. One table a file of cases; case.c joins them. */
#ifndef TOOLS_NCCLCHECK_CASE_H
#define TOOLS_NCCLCHECK_CASE_H

#include "worker.h"

/* Flag: tried with the newest version only, since it does not depend on the version. */
#define CASE_ONCE 1u
/* Flag: takes long, and is tried only with --slow or if it is named. */
#define CASE_SLOW 2u
/* Flag: rank 1 dies on purpose. */
#define CASE_DEADLY 4u
/* Flag: rank 1 uses the oldest version that the plugin has, rank 0 the newest. */
#define CASE_MIXED 8u

struct check_case {
	const char *name;
	/* what is tried, one line */
	const char *what;
	/* processes: 1 or 2 */
	int ranks;
	uint32_t flags;
	/* longest that it may take beyond --timeout, in s */
	unsigned extra_s;
	void (*run)(struct worker *w);
};

/* The i-th case of all, or null; and by name. */
const struct check_case *case_at(size_t index);
const struct check_case *case_find(const char *name);

/* Tables of the files, each ended by an entry without a name. */
extern const struct check_case cases_load[];
extern const struct check_case cases_connect[];
extern const struct check_case cases_data[];
extern const struct check_case cases_lines[];
extern const struct check_case cases_end[];
extern const struct check_case cases_process[];
extern const struct check_case cases_speed[];
extern const struct check_case cases_ring[];
extern const struct check_case cases_operations[];

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* loop_check.h: runs a case of cases.c and holds what came out to bounds; a failure shows the whole line. */
#ifndef CONGESTION_LOOP_CHECK_H
#define CONGESTION_LOOP_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cases.h"

struct bounds {
	double used_least;
	double jain_least;
	double queue_most_ms; /* the median */
	double overflow_most;
	double own_least, others_least; /* of a fair share */
};

static inline void check_seed(const char *name, const struct bounds *bounds, uint64_t seed,
			      struct loop_result *r)
{
	const struct loop_case *one = case_find(name);

	assert_non_null(one);
	case_run(one, NULL, seed, false, r);
	if (r->utilisation < bounds->used_least || r->jain < bounds->jain_least ||
	    (bounds->queue_most_ms > 0 && r->queue_median_ns / 1e6 > bounds->queue_most_ms) ||
	    (bounds->overflow_most > 0 && r->overflow > bounds->overflow_most) ||
	    case_own(one, r) < bounds->own_least || case_others(one, r) < bounds->others_least) {
		case_header();
		case_print(one, r);
		fail_msg(
			"%s, seed %u: out of bounds; see it with: build/ccsim --trace --seed %u %s",
			name, (unsigned)seed, (unsigned)seed, name);
	}
}

static inline void check(const char *name, const struct bounds *bounds)
{
	struct loop_result result;

	check_seed(name, bounds, 1, &result);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of this room share. */
#ifndef TESTS_PLAN_TEST_H
#define TESTS_PLAN_TEST_H

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"

#define MS	1000000
#define MIB	(UINT64_C(1) << 20)
#define GBIT	UINT64_C(1000000000)
#define RTT_NS	(25 * MS)
#define RATE	(400 * GBIT)
#define MESSAGE (128 * MIB)

static const struct plan_params rto = { .scheme = PLAN_SR_RTO };
static const struct plan_params nack = { .scheme = PLAN_SR_NACK };

static inline struct plan_params code(enum plan_scheme scheme, unsigned k, unsigned m,
				      unsigned interleave)
{
	return (struct plan_params){ .scheme = scheme, .k = k, .m = m, .interleave = interleave };
}

static inline struct plan_result predict(const struct plan_params *params,
					 const struct plan_path *path, uint64_t size,
					 unsigned samples)
{
	struct plan_result result;

	assert_int_equal(plan_predict(params, path, size, 7, samples, &result), 0);
	return result;
}

/* Fails, saying what was compared, unless `is` lies within this share of `should`. */
static inline void close_to(double is, double should, double share, const char *what)
{
	if (!(fabs(is - should) <= share * fabs(should)))
		fail_msg("%s: %g, and %g was expected, within %g %%", what, is, should,
			 100 * share);
}

#endif

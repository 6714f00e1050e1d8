/* SPDX-License-Identifier: BSD-3-Clause */
/* CLOCK_MONOTONIC as a single number. */
#include "base/clock.h"

#include <assert.h>
#include <time.h>

#define NS_PER_SECOND UINT64_C(1000000000)

uint64_t clock_now_ns(void)
{
	struct timespec now;
	int rc = clock_gettime(CLOCK_MONOTONIC, &now);

	/* It can fail only for an unknown clock or a bad address. */
	assert(rc == 0);
	(void)rc;
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

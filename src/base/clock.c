/* SPDX-License-Identifier: BSD-3-Clause */
/* A clock is a function and its argument: the monotonic one needs no argument, the manual one reads
 * a number. */
#include "base/clock.h"

#include <assert.h>
#include <stddef.h>
#include <time.h>

#define NS_PER_SECOND UINT64_C(1000000000)

static uint64_t monotonic_now_ns(void *arg)
{
	struct timespec now;
	int rc;

	(void)arg;
	rc = clock_gettime(CLOCK_MONOTONIC, &now);
	/* It can fail only for an unknown clock or a bad address. */
	assert(rc == 0);
	(void)rc;
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

struct clock clock_monotonic(void)
{
	return (struct clock){ .now_ns = monotonic_now_ns, .arg = NULL };
}

static uint64_t manual_now_ns(void *arg)
{
	const struct manual_clock *manual = arg;

	return manual->now_ns;
}

struct clock clock_manual(struct manual_clock *manual)
{
	return (struct clock){ .now_ns = manual_now_ns, .arg = manual };
}

void manual_clock_advance(struct manual_clock *manual, uint64_t by_ns)
{
	assert(by_ns <= UINT64_MAX - manual->now_ns);
	manual->now_ns += by_ns;
}

void manual_clock_set(struct manual_clock *manual, uint64_t now_ns)
{
	assert(now_ns >= manual->now_ns);
	manual->now_ns = now_ns;
}

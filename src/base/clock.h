/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the time comes from. The core takes `now` as an argument and reads no clock; what drives it
 * holds one of these, so that production, simulation and tests differ in nothing else.
 */
#ifndef GODWIT_BASE_CLOCK_H
#define GODWIT_BASE_CLOCK_H

#include <stdint.h>

/* Time in nanoseconds since some fixed moment; it never runs backwards. */
struct clock {
	uint64_t (*now_ns)(void *arg);
	void *arg;
};

static inline uint64_t clock_now_ns(const struct clock *clock)
{
	return clock->now_ns(clock->arg);
}

/* The system's monotonic clock. */
struct clock clock_monotonic(void);

/* A clock that stands still until it is told to move. */
struct manual_clock {
	uint64_t now_ns;
};

/* The clock reads `manual`, which must outlive it. */
struct clock clock_manual(struct manual_clock *manual);

void manual_clock_advance(struct manual_clock *manual, uint64_t by_ns);

/* A time before the present one is a mistake of the caller. */
void manual_clock_set(struct manual_clock *manual, uint64_t now_ns);

#endif

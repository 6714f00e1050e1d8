/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.h: the system's monotonic clock. Only code that does I/O reads it (fabrics, tools); the core
 * takes `now` as an argument.
 */
#ifndef GODWIT_BASE_CLOCK_H
#define GODWIT_BASE_CLOCK_H

#include <stdint.h>

/* The time in nanoseconds since a fixed moment of this boot; it never runs backwards. */
uint64_t clock_now_ns(void);

#endif

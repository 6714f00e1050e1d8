/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.h: a line for each event of a connection, for people and for scripts, in the file that GODWIT_TRACE names.
 *
 * A line is the time in milliseconds of the context's clock, who it is about, what happened, and key=value pairs. It
 * costs one test of a variable when it is off.
 */
#ifndef BASE_TRACE_H
#define BASE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

extern bool trace_enabled;

/* Opens the file, once in a process; without GODWIT_TRACE, or when it cannot be opened (logged), nothing is traced. */
void trace_open(void);

static inline bool trace_is_on(void)
{
	return __builtin_expect(trace_enabled, 0);
}

/* Writes one line. `who` tells two queue pairs apart. */
void trace_line(uint64_t now_ns, uint32_t who, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif

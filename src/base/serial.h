/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serial.h: comparison of sequence numbers that wrap at 2^32 (serial numbers, RFC 1982). The result
 * is right while the two are less than 2^31 apart.
 */
#ifndef GODWIT_BASE_SERIAL_H
#define GODWIT_BASE_SERIAL_H

#include <stdbool.h>
#include <stdint.h>

/* Returns how far `to` is ahead of `from`; negative if it is behind. */
static inline int32_t serial_distance(uint32_t from, uint32_t to)
{
	return (int32_t)(to - from);
}

static inline bool serial_before(uint32_t a, uint32_t b)
{
	return serial_distance(a, b) > 0;
}

static inline bool serial_after(uint32_t a, uint32_t b)
{
	return serial_before(b, a);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Random fields for the wire tests: splitmix64 from a fixed seed, so every run is the same. */
#ifndef TESTS_WIRE_RANDOM_H
#define TESTS_WIRE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

static uint64_t random_state = 1;

static inline uint64_t random64(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline uint32_t random32(void)
{
	return (uint32_t)random64();
}

static inline uint32_t random_below(uint32_t limit)
{
	return (uint32_t)(random64() % limit);
}

static inline void random_fill(void *buf, size_t length)
{
	uint8_t *b = buf;

	for (size_t i = 0; i < length; i++)
		b[i] = (uint8_t)random64();
}

#endif

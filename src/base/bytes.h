/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bytes.h: big-endian loads and stores at any alignment. Everything that two ends exchange goes through these, so no
 * decoder ever casts a packet to a struct. The compiler turns each into one load and a swap.
 */
#ifndef GODWIT_BASE_BYTES_H
#define GODWIT_BASE_BYTES_H

#include <stdint.h>

static inline uint16_t get_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t get_be24(const uint8_t *p)
{
	return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static inline uint32_t get_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | get_be24(p + 1);
}

static inline uint64_t get_be64(const uint8_t *p)
{
	return (uint64_t)get_be32(p) << 32 | get_be32(p + 4);
}

static inline void put_be16(uint8_t *p, uint16_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static inline void put_be24(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 16);
	p[1] = (uint8_t)(value >> 8);
	p[2] = (uint8_t)value;
}

static inline void put_be32(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 24);
	put_be24(p + 1, value);
}

static inline void put_be64(uint8_t *p, uint64_t value)
{
	put_be32(p, (uint32_t)(value >> 32));
	put_be32(p + 4, (uint32_t)value);
}

#endif

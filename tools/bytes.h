/* SPDX-License-Identifier: BSD-3-Clause */
/* Big-endian numbers in and out of records. */
#ifndef TOOLS_BYTES_H
#define TOOLS_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void put16(uint8_t *out, uint16_t value)
{
	value = htobe16(value);
	memcpy(out, &value, sizeof(value));
}

static inline void put32(uint8_t *out, uint32_t value)
{
	value = htobe32(value);
	memcpy(out, &value, sizeof(value));
}

static inline void put64(uint8_t *out, uint64_t value)
{
	value = htobe64(value);
	memcpy(out, &value, sizeof(value));
}

static inline uint16_t get16(const uint8_t *in)
{
	uint16_t value;

	memcpy(&value, in, sizeof(value));
	return be16toh(value);
}

static inline uint32_t get32(const uint8_t *in)
{
	uint32_t value;

	memcpy(&value, in, sizeof(value));
	return be32toh(value);
}

static inline uint64_t get64(const uint8_t *in)
{
	uint64_t value;

	memcpy(&value, in, sizeof(value));
	return be64toh(value);
}

#endif

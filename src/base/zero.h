/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * zero.h: the check of reserved fields. A field that must be zero today can get a meaning later
 * without breaking programs that were compiled before.
 */
#ifndef GODWIT_BASE_ZERO_H
#define GODWIT_BASE_ZERO_H

#include <stdbool.h>
#include <stddef.h>

static inline bool all_zero(const void *bytes, size_t length)
{
	const unsigned char *byte = bytes;
	unsigned char any = 0;

	for (size_t i = 0; i < length; i++)
		any |= byte[i];
	return any == 0;
}

/* True if every element of an array member, e.g. attr->reserved, is zero. */
#define array_is_zero(array) all_zero(array, sizeof(array))

#endif

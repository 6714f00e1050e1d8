/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sources are taken four at a time, so that the result is loaded and stored once for four of them. ISA-L has an
 * exclusive or as well, but it wants every buffer aligned, and packets of a user's message are not.
 */
#include "coding/xor.h"

#include <errno.h>
#include <string.h>

/* As wide as pays on any machine; the compiler makes what it has of it. */
typedef uint64_t lane __attribute__((vector_size(64), aligned(1), may_alias));

#define SOURCES 4

static void xor_into(uint8_t *out, const uint8_t *const in[], unsigned count, size_t length)
{
	size_t at = 0;

	switch (count) {
	case 1:
		for (; at + sizeof(lane) <= length; at += sizeof(lane))
			*(lane *)(out + at) ^= *(const lane *)(in[0] + at);
		break;
	case 2:
		for (; at + sizeof(lane) <= length; at += sizeof(lane))
			*(lane *)(out + at) ^=
				*(const lane *)(in[0] + at) ^ *(const lane *)(in[1] + at);
		break;
	case 3:
		for (; at + sizeof(lane) <= length; at += sizeof(lane))
			*(lane *)(out + at) ^= *(const lane *)(in[0] + at) ^
					       *(const lane *)(in[1] + at) ^
					       *(const lane *)(in[2] + at);
		break;
	default:
		for (; at + sizeof(lane) <= length; at += sizeof(lane))
			*(lane *)(out + at) ^=
				*(const lane *)(in[0] + at) ^ *(const lane *)(in[1] + at) ^
				*(const lane *)(in[2] + at) ^ *(const lane *)(in[3] + at);
		break;
	}
	for (; at < length; at++) {
		for (unsigned i = 0; i < count; i++)
			out[at] ^= in[i][at];
	}
}

/* Adds the symbols of a row, all but `without`, to what out holds. Only the group's last symbol can be shorter. */
static void add_row(const struct coding_group *group, unsigned m, unsigned row,
		    const void *const data[], unsigned without, uint8_t *out, size_t length)
{
	const uint8_t *in[SOURCES];
	unsigned waiting = 0;

	for (unsigned j = row; j < group->count; j += m) {
		if (j == without)
			continue;
		if (j == group->count - 1 && group->last < length) {
			xor_into(out, (const uint8_t *const[]){ data[j] }, 1, group->last);
			continue;
		}
		in[waiting++] = data[j];
		if (waiting == SOURCES) {
			xor_into(out, in, waiting, length);
			waiting = 0;
		}
	}
	if (waiting > 0)
		xor_into(out, in, waiting, length);
}

static bool shape_valid(const struct coding_group *group, unsigned m)
{
	return m >= 1 && m <= XOR_SYMBOLS_MAX && coding_group_valid(group, XOR_SYMBOLS_MAX);
}

int xor_encode(const struct coding_group *group, unsigned m, const void *const data[],
	       void *const parity[])
{
	if (!shape_valid(group, m))
		return -EINVAL;
	for (unsigned row = 0; row < m; row++) {
		memset(parity[row], 0, group->length);
		add_row(group, m, row, data, group->count, parity[row], group->length);
	}
	return 0;
}

static bool solvable(unsigned m, const uint8_t *erased, unsigned erasures,
		     const void *const parity[])
{
	bool hurt[XOR_SYMBOLS_MAX] = { false };

	for (unsigned i = 0; i < erasures; i++) {
		unsigned row = erased[i] % m;

		if (hurt[row] || !parity[row])
			return false;
		hurt[row] = true;
	}
	return true;
}

int xor_decode(const struct coding_group *group, unsigned m, void *const data[],
	       const uint8_t *erased, unsigned erasures, const void *const parity[])
{
	if (!shape_valid(group, m) || !coding_erased_valid(group, erased, erasures))
		return -EINVAL;
	if (!solvable(m, erased, erasures, parity))
		return -ENODATA;
	for (unsigned i = 0; i < erasures; i++) {
		unsigned j = erased[i];
		size_t length = j == group->count - 1 ? group->last : group->length;

		memcpy(data[j], parity[j % m], length);
		add_row(group, m, j % m, (const void *const *)data, j, data[j], length);
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A row's symbols are gathered and summed in one pass. ISA-L does that as fast as memory allows, but wants every buffer
 * aligned. Packets of a user's message often are not; then a loop of our own does it.
 */
#include "coding/xor.h"

#include <errno.h>
#include <string.h>

#include <isa-l.h>

/* As wide as pays on any machine; the compiler makes what it has of it. */
typedef uint64_t lane __attribute__((vector_size(64), aligned(1), may_alias));

#define ALIGNMENT 32 /* what ISA-L wants */

static bool all_aligned(void *const vectors[], unsigned count)
{
	uintptr_t bits = 0;

	for (unsigned i = 0; i < count; i++)
		bits |= (uintptr_t)vectors[i];
	return bits % ALIGNMENT == 0;
}

/* vectors[count] = vectors[0] + ... + vectors[count - 1]. The pointers move on behind what was summed. */
static void sum(void *vectors[], unsigned count, size_t length)
{
	size_t at = 0;

	if (count >= 2 && all_aligned(vectors, count + 1)) {
		at = length / ALIGNMENT * ALIGNMENT;
		xor_gen((int)count + 1, (int)at, vectors);
	}
	for (; at + sizeof(lane) <= length; at += sizeof(lane)) {
		lane total = { 0 };

		for (unsigned i = 0; i < count; i++)
			total ^= *(const lane *)((const uint8_t *)vectors[i] + at);
		*(lane *)((uint8_t *)vectors[count] + at) = total;
	}
	for (; at < length; at++) {
		uint8_t total = 0;

		for (unsigned i = 0; i < count; i++)
			total ^= ((const uint8_t *)vectors[i])[at];
		((uint8_t *)vectors[count])[at] = total;
	}
	for (unsigned i = 0; i <= count; i++)
		vectors[i] = (uint8_t *)vectors[i] + length;
}

/* out = the row's data symbols but for `without`, and `parity` unless it is NULL, as far as `length`. */
static void sum_row(const struct coding_group *group, unsigned m, unsigned row,
		    const void *const data[], unsigned without, const void *parity, void *out,
		    size_t length)
{
	void *vectors[XOR_SYMBOLS_MAX + 2];
	unsigned count = 0, last = group->count - 1;

	if (parity)
		vectors[count++] = (void *)parity;
	for (unsigned j = row; j < last; j += m) {
		if (j != without)
			vectors[count++] = (void *)data[j];
	}
	if (last % m != row || last == without || group->last >= length) {
		if (last % m == row && last != without)
			vectors[count++] = (void *)data[last];
		vectors[count] = out;
		sum(vectors, count, length);
		return;
	}
	/* The group's last symbol is short: with it as far as it goes, and on without it. */
	vectors[count] = (void *)data[last];
	vectors[count + 1] = out;
	sum(vectors, count + 1, group->last);
	vectors[count] = vectors[count + 1];
	sum(vectors, count, length - group->last);
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
	for (unsigned row = 0; row < m; row++)
		sum_row(group, m, row, data, group->count, NULL, parity[row], group->length);
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

		sum_row(group, m, j % m, (const void *const *)data, j, parity[j % m], data[j],
			length);
	}
	return 0;
}

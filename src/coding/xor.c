/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * xor.c: the symbols of a row are summed (exclusive or) a few at a time, into a sum that stays in the first-level cache.
 * Summing all at once would write less, but no processor prefetches from dozens of packets at a time, and packets whose
 * size is a power of two evict each other from the cache. ISA-L sums at memory speed if every buffer is aligned. Packets of
 * a user's message often are not; then the loops below are used, which reach two thirds of that speed.
 */
#include "coding/xor.h"

#include <errno.h>
#include <string.h>

#include <isa-l.h>

#include "coding/registers.h"

/* 16 bytes, which every 64-bit processor has registers for. For wider vectors compilers generate poor code. */
typedef uint64_t lane __attribute__((vector_size(16), aligned(1), may_alias));

/* ISA-L needs buffers aligned to this, and lengths that are a multiple of it. */
#define BLOCK 32
/* Symbols summed in one pass, including the sum so far. */
#define STEP 5

static bool all_aligned(void *const vectors[], unsigned count)
{
	uintptr_t bits = 0;

	for (unsigned i = 0; i < count; i++)
		bits |= (uintptr_t)vectors[i];
	return bits % BLOCK == 0;
}

static lane load(const uint8_t *vector, size_t at)
{
	return *(const lane *)(vector + at);
}

/* Sums from[0] to from[count - 1] into `to`; 1 <= count <= STEP. There is a loop for each count, because in a loop for all
 * counts the compiler would keep the sum in memory. */
static void sum_lanes(void *const from[], unsigned count, uint8_t *to, size_t length)
{
	const uint8_t *a = from[0], *b = from[count > 1], *c = from[count > 2 ? 2 : 0];
	const uint8_t *d = from[count > 3 ? 3 : 0], *e = from[count > 4 ? 4 : 0];
	size_t at = 0;

	switch (count) {
	case 1:
		memmove(to, a, length);
		break;
	case 2:
		for (; at < length; at += sizeof(lane))
			*(lane *)(to + at) = load(a, at) ^ load(b, at);
		break;
	case 3:
		for (; at < length; at += sizeof(lane))
			*(lane *)(to + at) = load(a, at) ^ load(b, at) ^ load(c, at);
		break;
	case 4:
		for (; at < length; at += sizeof(lane))
			*(lane *)(to + at) = load(a, at) ^ load(b, at) ^ load(c, at) ^ load(d, at);
		break;
	default:
		for (; at < length; at += sizeof(lane))
			*(lane *)(to + at) =
				load(a, at) ^ load(b, at) ^ load(c, at) ^ load(d, at) ^ load(e, at);
	}
}

/* Sets vectors[count] to the sum of those before it. It may be the same memory as vectors[0], since each block of all
 * vectors is read before it is written. */
static void sum_few(void *vectors[], unsigned count, size_t length)
{
	if (count < 2 || !all_aligned(vectors, count + 1)) {
		sum_lanes(vectors, count, vectors[count], length);
		return;
	}
	xor_gen((int)count + 1, (int)length, vectors);
	registers_clean();
}

/* Sums the last block of the vectors, or all of them if they are shorter than a block. */
static void sum_end(void *const vectors[], unsigned count, size_t at, size_t length,
		    uint8_t to[BLOCK])
{
	lane total[BLOCK / sizeof(lane)] = { 0 };

	for (unsigned i = 0; length == BLOCK && i < count; i++) {
		total[0] ^= load(vectors[i], at);
		total[1] ^= load(vectors[i], at + sizeof(lane));
	}
	memcpy(to, total, BLOCK);
	for (unsigned i = 0; length < BLOCK && i < count; i++)
		for (size_t byte = 0; byte < length; byte++)
			to[byte] ^= ((const uint8_t *)vectors[i])[at + byte];
}

void xor_sum(void *vectors[], unsigned count, size_t length)
{
	size_t whole = length / BLOCK * BLOCK, end_length = length < BLOCK ? length : BLOCK;
	uint8_t *out = vectors[count], end[BLOCK];

	/* The last block overlaps the one before. Summing it once, here, costs less than in every pass. */
	if (whole < length)
		sum_end(vectors, count, length - end_length, end_length, end);
	for (unsigned done = 0; done < count;) {
		void *few[STEP + 1];
		unsigned n = 0;

		if (done)
			few[n++] = out;
		while (n < STEP && done < count)
			few[n++] = vectors[done++];
		few[n] = out;
		sum_few(few, n, whole);
	}
	if (!count)
		memset(out, 0, whole);
	if (whole < length)
		memcpy(out + length - end_length, end, end_length);
	for (unsigned i = 0; i <= count; i++)
		vectors[i] = (uint8_t *)vectors[i] + length;
}

/* Sums the row's data symbols except `without`, and `parity` if it is not NULL, into `length` bytes of out. */
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
		xor_sum(vectors, count, length);
		return;
	}
	/* The group's last symbol is short: sum with it up to its length, and without it from there on. */
	vectors[count] = (void *)data[last];
	vectors[count + 1] = out;
	xor_sum(vectors, count + 1, group->last);
	vectors[count] = vectors[count + 1];
	xor_sum(vectors, count, length - group->last);
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

/* True if no row lost more than one of its symbols, parity included. */
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

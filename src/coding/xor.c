/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A row's symbols are summed a few at a time, into a sum that stays in the nearest cache. All at once would write less, but
 * no processor fetches ahead for dozens of packets together, and packets of a power of two push each other out of the cache
 * besides. ISA-L does it as fast as memory allows, but wants every buffer aligned. Packets of a user's message often are
 * not; then loops of our own do it, which the compiler turns into two thirds of that.
 */
#include "coding/xor.h"

#include <errno.h>
#include <string.h>

#include <isa-l.h>

#include "coding/registers.h"

/* What every 64-bit processor has; wider ones are pieced together by the compiler, badly. */
typedef uint64_t lane __attribute__((vector_size(16), aligned(1), may_alias));

#define BLOCK 32 /* what ISA-L wants buffers aligned to, and does at a time */
#define STEP  5	 /* symbols in one pass, the sum so far among them */

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

/* to = from[0] + ... + from[count - 1], 1 <= count <= STEP. A loop for each count: in one for all, the compiler would keep
 * the sum in memory. */
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

/* vectors[count] = the sum of those before it, which may be vectors[0] too: a block of all is read before any is written. */
static void sum_few(void *vectors[], unsigned count, size_t length)
{
	if (count < 2 || !all_aligned(vectors, count + 1)) {
		sum_lanes(vectors, count, vectors[count], length);
		return;
	}
	xor_gen((int)count + 1, (int)length, vectors);
	registers_clean();
}

/* The last block, or all that is shorter than one. */
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

	/* The end overlaps what is summed in blocks. Once for all, it costs less than in every pass. */
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
		xor_sum(vectors, count, length);
		return;
	}
	/* The group's last symbol is short: with it as far as it goes, and on without it. */
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

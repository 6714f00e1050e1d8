/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bitmap.c: a bitmap is an array of 64-bit words; bit i is in word i / 64 at position i % 64.
 *
 * A bitmap says which packets of a message arrived: most bits are ones, each is set once, and callers
 * ask about ranges (is this chunk complete? where are the holes?). So each operation walks whole words
 * under a mask that is all ones except in the first and the last word, and a search skips 64 bits a
 * step.
 */
#include "base/bitmap.h"

#define ALL_ONES UINT64_MAX

/* Mask of the bits of word `index` that lie in [from, to), possibly none. The word starts below `to`. */
static uint64_t mask_in_word(size_t index, size_t from, size_t to)
{
	size_t base = index * BITMAP_WORD_BITS;
	uint64_t mask = ALL_ONES;

	if (from > base)
		mask <<= from - base;
	if (to - base < BITMAP_WORD_BITS)
		mask &= bitmap_bit(to - base) - 1;
	return mask;
}

size_t bitmap_count_range(const uint64_t *words, size_t from, size_t to)
{
	size_t count = 0;

	for (size_t i = from / BITMAP_WORD_BITS; i < bitmap_words(to); i++)
		count += (size_t)__builtin_popcountll(words[i] & mask_in_word(i, from, to));
	return count;
}

size_t bitmap_count(const uint64_t *words, size_t nbits)
{
	return bitmap_count_range(words, 0, nbits);
}

void bitmap_set_range(uint64_t *words, size_t from, size_t count)
{
	size_t to = from + count;

	for (size_t i = from / BITMAP_WORD_BITS; i < bitmap_words(to); i++)
		words[i] |= mask_in_word(i, from, to);
}

void bitmap_clear_range(uint64_t *words, size_t from, size_t count)
{
	size_t to = from + count;

	for (size_t i = from / BITMAP_WORD_BITS; i < bitmap_words(to); i++)
		words[i] &= ~mask_in_word(i, from, to);
}

bool bitmap_range_full(const uint64_t *words, size_t from, size_t count)
{
	return bitmap_first_zero(words, from + count, from) == from + count;
}

/*
 * First bit at or after `from` that is one (`invert` 0) or zero (`invert` all ones); nbits if there
 * is none.
 */
static size_t first_one(const uint64_t *words, size_t nbits, size_t from, uint64_t invert)
{
	uint64_t word;
	size_t i, found;

	if (from >= nbits)
		return nbits;
	i = from / BITMAP_WORD_BITS;
	word = (words[i] ^ invert) & (ALL_ONES << (from % BITMAP_WORD_BITS));
	while (word == 0) {
		if (++i == bitmap_words(nbits))
			return nbits;
		word = words[i] ^ invert;
	}
	/* The last word may hold a match past the end. */
	found = i * BITMAP_WORD_BITS + (size_t)__builtin_ctzll(word);
	return found < nbits ? found : nbits;
}

size_t bitmap_first_zero(const uint64_t *words, size_t nbits, size_t from)
{
	return first_one(words, nbits, from, ALL_ONES);
}

size_t bitmap_first_set(const uint64_t *words, size_t nbits, size_t from)
{
	return first_one(words, nbits, from, 0);
}

bool bitmap_next_hole(const uint64_t *words, size_t nbits, size_t *cursor, struct bitmap_run *out)
{
	size_t first = bitmap_first_zero(words, nbits, *cursor);
	size_t end;

	if (first == nbits) {
		*cursor = nbits;
		return false;
	}
	end = bitmap_first_set(words, nbits, first);
	out->first = first;
	out->count = end - first;
	*cursor = end;
	return true;
}

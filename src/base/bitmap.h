/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bitmap.h: bitmaps over words that the caller owns.
 *
 * The length is not stored: the object that contains the bitmap knows it. Ranges are half open. No
 * function accesses a word outside the bitmap, and bits past its end are ignored, so they may hold
 * anything. An empty bitmap needs no memory.
 */
#ifndef GODWIT_BASE_BITMAP_H
#define GODWIT_BASE_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BITMAP_WORD_BITS 64

/* A run of consecutive bits that have the same value. */
struct bitmap_run {
	/* index of the first bit */
	size_t first;
	/* bits in the run */
	size_t count;
};

/* Words needed for `bits` bits. Does not overflow for any value. */
static inline size_t bitmap_words(size_t bits)
{
	return bits / BITMAP_WORD_BITS + (bits % BITMAP_WORD_BITS != 0);
}

/* Mask of a bit within its word. */
static inline uint64_t bitmap_bit(size_t bit)
{
	return UINT64_C(1) << (bit % BITMAP_WORD_BITS);
}

static inline void bitmap_set(uint64_t *words, size_t bit)
{
	words[bit / BITMAP_WORD_BITS] |= bitmap_bit(bit);
}

static inline void bitmap_clear(uint64_t *words, size_t bit)
{
	words[bit / BITMAP_WORD_BITS] &= ~bitmap_bit(bit);
}

static inline bool bitmap_test(const uint64_t *words, size_t bit)
{
	return (words[bit / BITMAP_WORD_BITS] & bitmap_bit(bit)) != 0;
}

/* Sets the bit and returns whether it was set before: a duplicate, not a first arrival. */
static inline bool bitmap_test_and_set(uint64_t *words, size_t bit)
{
	uint64_t *word = &words[bit / BITMAP_WORD_BITS];
	uint64_t mask = bitmap_bit(bit);
	bool before = (*word & mask) != 0;

	*word |= mask;
	return before;
}

/* Number of set bits among the first nbits, and in [from, to). A range with to <= from is empty. */
size_t bitmap_count(const uint64_t *words, size_t nbits);
size_t bitmap_count_range(const uint64_t *words, size_t from, size_t to);

/* Sets, or clears, `count` bits from `from` on. */
void bitmap_set_range(uint64_t *words, size_t from, size_t count);
void bitmap_clear_range(uint64_t *words, size_t from, size_t count);

/* True if every bit of the range is set; true for an empty range. */
bool bitmap_range_full(const uint64_t *words, size_t from, size_t count);

/* The first zero (set) bit at or after `from` and below nbits; nbits if there is none. */
size_t bitmap_first_zero(const uint64_t *words, size_t nbits, size_t from);
size_t bitmap_first_set(const uint64_t *words, size_t nbits, size_t from);

/*
 * Finds the next run of zeros in [*cursor, nbits). True: *out is the run, and the cursor is past it.
 * False: there is none, and the cursor is nbits. A hole that began before the cursor is reported from
 * the cursor on, so that a walk may stop and continue later while bits are being set.
 */
bool bitmap_next_hole(const uint64_t *words, size_t nbits, size_t *cursor, struct bitmap_run *out);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bitmaps over words that the caller owns.
 *
 * The length is never stored: a bitmap lives inside somebody's slot or header, which knows it.
 * Ranges are half open. No function touches a word outside the bitmap or heeds a bit past its end,
 * so those may hold anything and an empty bitmap needs no memory at all.
 */
#ifndef GODWIT_BASE_BITMAP_H
#define GODWIT_BASE_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BITMAP_WORD_BITS 64

/* A run of neighbouring bits that share a value. */
struct bitmap_run {
	size_t first;
	size_t count;
};

/* How many words `bits` bits take. Safe for every value, the largest included. */
static inline size_t bitmap_words(size_t bits)
{
	return bits / BITMAP_WORD_BITS + (bits % BITMAP_WORD_BITS != 0);
}

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

/* Sets the bit and says whether it was set before: it tells a first arrival from a duplicate. */
static inline bool bitmap_test_and_set(uint64_t *words, size_t bit)
{
	uint64_t *word = &words[bit / BITMAP_WORD_BITS];
	uint64_t mask = bitmap_bit(bit);
	bool before = (*word & mask) != 0;

	*word |= mask;
	return before;
}

/* The set bits among the first nbits, and in [from, to). A range with to <= from is empty. */
size_t bitmap_count(const uint64_t *words, size_t nbits);
size_t bitmap_count_range(const uint64_t *words, size_t from, size_t to);

/* Act on the `count` bits from `from` on. */
void bitmap_set_range(uint64_t *words, size_t from, size_t count);
void bitmap_clear_range(uint64_t *words, size_t from, size_t count);

/* True if every bit of the range is set; an empty range is full. */
bool bitmap_range_full(const uint64_t *words, size_t from, size_t count);

/* The first zero (set) bit at or after `from` and below nbits; nbits if there is none. */
size_t bitmap_first_zero(const uint64_t *words, size_t nbits, size_t from);
size_t bitmap_first_set(const uint64_t *words, size_t nbits, size_t from);

/*
 * The next maximal run of zeros in [*cursor, nbits). Moves the cursor past the run, or to nbits and
 * returns false when none is left. A hole that began before the cursor is reported from the cursor
 * on, so that a walk may stop and go on later while bits are being set.
 */
bool bitmap_next_hole(const uint64_t *words, size_t nbits, size_t *cursor, struct bitmap_run *out);

/* The loop below: a run remembers where the walk is, so the first step starts from the empty run at
 * 0. */
static inline bool bitmap_step_hole(const uint64_t *words, size_t nbits, struct bitmap_run *run)
{
	size_t cursor = run->first + run->count;

	return bitmap_next_hole(words, nbits, &cursor, run);
}

/* Declares `run` and visits each hole of the first nbits in order. */
#define bitmap_for_each_hole(run, words, nbits)                                                    \
	for (struct bitmap_run run = { 0, 0 }; bitmap_step_hole(words, nbits, &run);)

#endif

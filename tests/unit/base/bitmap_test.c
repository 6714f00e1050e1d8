/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every function against an array of bools, at every length and range around the word boundaries.
 * The words live in an allocation of exactly their size, so that a sanitizer sees a read past the
 * end; the bits past nbits are random, so that a function that looks at them goes wrong.
 */
#include "base_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/rng.h"

#define MAX_BITS 140

struct pair {
	size_t nbits;
	uint64_t *words;
	bool model[MAX_BITS + BITMAP_WORD_BITS]; /* with the bits past the end */
};

static void pair_open(struct pair *pair, size_t nbits)
{
	pair->nbits = nbits;
	pair->words = malloc(bitmap_words(nbits) * sizeof(uint64_t));
	assert_true(pair->words || nbits == 0);
}

/* Sets each bit with probability p, those past the end at random. */
static void pair_draw(struct pair *pair, struct rng *rng, double p)
{
	for (size_t i = 0; i < bitmap_words(pair->nbits) * BITMAP_WORD_BITS; i++) {
		pair->model[i] = rng_chance(rng, i < pair->nbits ? p : 0.5);
		if (pair->model[i])
			bitmap_set(pair->words, i);
		else
			bitmap_clear(pair->words, i);
	}
}

/* The bits past the end are compared too: no function may touch them. */
static void assert_same(const struct pair *pair)
{
	bool same = true;

	for (size_t i = 0; i < bitmap_words(pair->nbits) * BITMAP_WORD_BITS; i++)
		same &= bitmap_test(pair->words, i) == pair->model[i];
	assert_true(same);
}

static size_t model_count(const struct pair *pair, size_t from, size_t to)
{
	size_t count = 0;

	for (size_t i = from; i < to; i++)
		count += pair->model[i];
	return count;
}

static size_t model_first(const struct pair *pair, size_t from, bool value)
{
	for (size_t i = from; i < pair->nbits; i++) {
		if (pair->model[i] == value)
			return i;
	}
	return pair->nbits;
}

static const double densities[] = { 0, 0.02, 0.5, 0.98, 1 };

/* Calls check for many bitmaps of every length up to MAX_BITS. */
static void for_all(void (*check)(struct pair *pair))
{
	struct rng rng;

	rng_seed(&rng, 1);
	for (size_t nbits = 0; nbits <= MAX_BITS; nbits++) {
		struct pair pair;

		pair_open(&pair, nbits);
		for (size_t i = 0; i < sizeof(densities) / sizeof(densities[0]); i++) {
			pair_draw(&pair, &rng, densities[i]);
			check(&pair);
			assert_same(&pair);
		}
		free(pair.words);
	}
}

static void test_words(void **state)
{
	(void)state;
	assert_int_equal(bitmap_words(0), 0);
	assert_int_equal(bitmap_words(1), 1);
	assert_int_equal(bitmap_words(64), 1);
	assert_int_equal(bitmap_words(65), 2);
	assert_int_equal(bitmap_words(SIZE_MAX), SIZE_MAX / 64 + 1);
}

static void check_single_bits(struct pair *pair)
{
	for (size_t i = 0; i < pair->nbits; i++) {
		bool before = pair->model[i];

		assert_int_equal(bitmap_test_and_set(pair->words, i), before);
		assert_true(bitmap_test_and_set(pair->words, i));
		if (!before)
			bitmap_clear(pair->words, i);
	}
}

static void test_single_bits(void **state)
{
	(void)state;
	for_all(check_single_bits);
}

static void check_counts(struct pair *pair)
{
	assert_int_equal(bitmap_count(pair->words, pair->nbits), model_count(pair, 0, pair->nbits));
	for (size_t from = 0; from <= pair->nbits; from++) {
		size_t count = 0;

		for (size_t to = from; to <= pair->nbits; to++) {
			assert_int_equal(bitmap_count_range(pair->words, from, to), count);
			count += to < pair->nbits && pair->model[to];
		}
		assert_int_equal(bitmap_count_range(pair->words, from, from / 2), 0);
	}
}

static void test_counts(void **state)
{
	(void)state;
	for_all(check_counts);
}

static void check_range_full(struct pair *pair)
{
	for (size_t from = 0; from <= pair->nbits; from++) {
		bool full = true;

		for (size_t count = 0; from + count <= pair->nbits; count++) {
			assert_int_equal(bitmap_range_full(pair->words, from, count), full);
			full = full && from + count < pair->nbits && pair->model[from + count];
		}
	}
}

static void test_range_full(void **state)
{
	(void)state;
	for_all(check_range_full);
}

/* A single hole in a full bitmap is seen from every range that holds it, and from no other. */
static void test_range_full_around_one_hole(void **state)
{
	(void)state;
	for (size_t hole = 0; hole < MAX_BITS; hole++) {
		uint64_t words[(MAX_BITS + 63) / 64];

		memset(words, 0xff, sizeof(words));
		bitmap_clear(words, hole);
		for (size_t from = 0; from < MAX_BITS; from++) {
			bool right = true;

			for (size_t to = from; to <= MAX_BITS; to++)
				right &= bitmap_range_full(words, from, to - from) ==
					 (hole < from || hole >= to);
			assert_true(right);
		}
	}
}

static void check_ranges(struct pair *pair)
{
	for (size_t from = 0; from <= pair->nbits; from += 1 + from % 3) {
		for (size_t count = 0; from + count <= pair->nbits; count += 1 + count % 5) {
			uint64_t saved[(MAX_BITS + 63) / 64];
			struct pair changed = *pair;

			/* The words of an empty bitmap may be NULL, which memcpy may not see. */
			if (pair->nbits)
				memcpy(saved, pair->words, bitmap_words(pair->nbits) * 8);
			bitmap_clear_range(pair->words, from, count);
			memset(changed.model + from, false, count);
			assert_same(&changed);
			bitmap_set_range(pair->words, from, count);
			memset(changed.model + from, true, count);
			assert_same(&changed);
			if (pair->nbits)
				memcpy(pair->words, saved, bitmap_words(pair->nbits) * 8);
		}
	}
}

static void test_ranges(void **state)
{
	(void)state;
	for_all(check_ranges);
}

static void check_searches(struct pair *pair)
{
	for (size_t from = 0; from <= pair->nbits + 70; from++) {
		assert_int_equal(bitmap_first_zero(pair->words, pair->nbits, from),
				 model_first(pair, from, false));
		assert_int_equal(bitmap_first_set(pair->words, pair->nbits, from),
				 model_first(pair, from, true));
	}
}

static void test_searches(void **state)
{
	(void)state;
	for_all(check_searches);
}

static void check_holes(struct pair *pair)
{
	for (size_t start = 0; start <= pair->nbits; start++) {
		struct bitmap_run run = { 99, 99 };
		size_t cursor = start;
		size_t at = start;

		for (;;) {
			size_t first = model_first(pair, at, false);
			size_t end = model_first(pair, first, true);

			if (first == pair->nbits)
				break;
			assert_true(bitmap_next_hole(pair->words, pair->nbits, &cursor, &run));
			assert_int_equal(run.first, first);
			assert_int_equal(run.count, end - first);
			assert_int_equal(cursor, end);
			at = end;
		}
		assert_false(bitmap_next_hole(pair->words, pair->nbits, &cursor, &run));
		assert_int_equal(cursor, pair->nbits);
		assert_false(bitmap_next_hole(pair->words, pair->nbits, &cursor, &run));
	}
}

static void test_holes(void **state)
{
	(void)state;
	for_all(check_holes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_single_bits),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_range_full),
		cmocka_unit_test(test_range_full_around_one_hole),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_searches),
		cmocka_unit_test(test_holes),
	};

	return cmocka_run_group_tests_name("base-bitmap", tests, NULL, NULL);
}

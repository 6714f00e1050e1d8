/* SPDX-License-Identifier: BSD-3-Clause */
/* Any k of the symbols rebuild the data: every pattern of small codes, random ones of large codes, short ends. */
#include "symbols.h"

#include <errno.h>
#include <limits.h>

#include "coding/reed_solomon.h"

static struct symbols symbols;

static struct rs *make(unsigned k, unsigned m)
{
	struct rs *rs = NULL;

	assert_int_equal(rs_create(k, m, &rs), 0);
	assert_non_null(rs);
	return rs;
}

static const void *const *inputs(void *const *pointers)
{
	return (const void *const *)pointers;
}

static void encode(struct rs *rs, unsigned first, unsigned rows)
{
	assert_int_equal(rs_encode(rs, &symbols.group, inputs(symbols.data), first, rows,
				   symbols.parity + first),
			 0);
}

/* Loses the data symbols of the mask and rebuilds them from these parity rows. */
static void lose_and_rebuild(struct rs *rs, uint32_t lost, const uint8_t *rows)
{
	uint8_t erased[32];
	const void *parity[32];
	unsigned erasures = 0;

	for (unsigned j = 0; j < symbols.group.count; j++) {
		if (lost >> j & 1) {
			erased[erasures++] = (uint8_t)j;
			symbols_lose(&symbols, j);
		}
	}
	for (unsigned i = 0; i < erasures; i++)
		parity[i] = symbols.parity[rows[i]];
	assert_int_equal(
		rs_decode(rs, &symbols.group, symbols.data, erased, erasures, rows, parity), 0);
	symbols_check(&symbols);
}

static void test_parity_is_what_the_matrix_says(void **state)
{
	static const unsigned lengths[] = { 1, 15, 16, 31, 63, 64, 65, 100, 257, 1436 };

	(void)state;
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct rs *rs = make(5, 3);

		symbols_make(&symbols, 5, lengths[i], (lengths[i] + 1) / 2);
		encode(rs, 0, 3);
		encode(rs, 3, 9);
		for (unsigned r = 0; r < 12; r++) {
			const uint8_t *parity = symbols.parity[r];

			for (unsigned at = 0; at < lengths[i]; at++) {
				uint8_t sum = 0;

				for (unsigned j = 0; j < 5; j++)
					sum ^= slow_times(
						slow_times(slow_inverse((uint8_t)((255 - r) ^ j)),
							   (uint8_t)(255 ^ j)),
						symbols.truth[j][at]);
				assert_int_equal(parity[at], sum);
			}
		}
		symbols_check(&symbols);
		rs_destroy(rs);
	}
}

/* Every set of erased data with every set of parity rows of the same size. */
static void every_pattern(unsigned k, unsigned m, unsigned count, size_t length, size_t last)
{
	struct rs *rs = make(k, m);

	symbols_make(&symbols, count, length, last);
	encode(rs, 0, m);
	for (uint32_t lost = 0; lost < 1u << count; lost++) {
		for (uint32_t used = 0; used < 1u << m; used++) {
			uint8_t rows[8];
			unsigned n = 0;

			if (__builtin_popcount(lost) != __builtin_popcount(used))
				continue;
			for (unsigned r = 0; r < m; r++) {
				if (used >> r & 1)
					rows[n++] = (uint8_t)r;
			}
			lose_and_rebuild(rs, lost, rows);
		}
	}
	rs_destroy(rs);
}

static void test_every_pattern_of_small_codes(void **state)
{
	(void)state;
	for (unsigned k = 1; k <= 6; k++) {
		for (unsigned m = 1; m <= 4; m++) {
			for (unsigned count = 1; count <= k; count++) {
				every_pattern(k, m, count, 70, 70);
				every_pattern(k, m, count, 70, 1 + (k * m + count) % 69);
			}
		}
	}
	every_pattern(8, 4, 8, 130, 130);
	every_pattern(8, 4, 5, 5, 2);
}

static unsigned draw(struct symbols *from, unsigned low, unsigned high)
{
	return low + (unsigned)rng_below(&from->rng, high - low + 1);
}

/* `n` of the numbers below `below`, ascending. */
static void draw_set(unsigned below, unsigned n, uint8_t *out)
{
	unsigned taken = 0;

	for (unsigned i = 0; i < below; i++) {
		if (rng_below(&symbols.rng, below - i) < n - taken)
			out[taken++] = (uint8_t)i;
	}
}

static void test_random_patterns_of_large_codes(void **state)
{
	(void)state;
	rng_seed(&symbols.rng, 2);
	for (unsigned round = 0; round < 250; round++) {
		unsigned k = draw(&symbols, 1, 255), m = draw(&symbols, 1, 256 - k);
		unsigned count = draw(&symbols, 1, k), length = draw(&symbols, 1, 600);
		unsigned most = count < 256 - k ? count : 256 - k;
		unsigned erasures = draw(&symbols, 0, round % 5 ? (most < 12 ? most : 12) : most);
		uint8_t erased[SYMBOLS], rows[SYMBOLS];
		const void *parity[SYMBOLS];
		struct rs *rs = make(k, m);

		symbols_make(&symbols, count, length, draw(&symbols, 1, length));
		encode(rs, 0, 256 - k);
		draw_set(count, erasures, erased);
		draw_set(256 - k, erasures, rows);
		for (unsigned i = 0; i < erasures; i++) {
			/* Parity comes in any order. */
			unsigned other = (unsigned)rng_below(&symbols.rng, i + 1);
			uint8_t row = rows[i];

			rows[i] = rows[other];
			rows[other] = row;
			symbols_lose(&symbols, erased[i]);
		}
		for (unsigned i = 0; i < erasures; i++)
			parity[i] = symbols.parity[rows[i]];
		assert_int_equal(
			rs_decode(rs, &symbols.group, symbols.data, erased, erasures, rows, parity),
			0);
		symbols_check(&symbols);
		rs_destroy(rs);
	}
}

/* Rows made one by one, later, are the rows made at once; also those the coder was not prepared for. */
static void test_fresh_parity_row_by_row(void **state)
{
	static uint8_t at_once[40][1500];
	struct rs *rs = make(32, 8);

	(void)state;
	symbols_make(&symbols, 32, 1500, 77);
	encode(rs, 0, 40);
	for (unsigned r = 0; r < 40; r++)
		memcpy(at_once[r], symbols.parity[r], 1500);
	for (unsigned r = 0; r < 40; r++)
		encode(rs, r, 1);
	for (unsigned r = 0; r < 40; r++)
		assert_memory_equal(at_once[r], symbols.parity[r], 1500);
	encode(rs, 0, 8);
	for (unsigned r = 0; r < 8; r++)
		assert_memory_equal(at_once[r], symbols.parity[r], 1500);
	encode(rs, 3, 11);
	for (unsigned r = 3; r < 14; r++)
		assert_memory_equal(at_once[r], symbols.parity[r], 1500);
	symbols_check(&symbols);
	rs_destroy(rs);
}

static void test_folding_in_any_order_is_encoding(void **state)
{
	static uint8_t at_once[8][300];
	struct rs *rs = make(20, 8);

	(void)state;
	for (unsigned count = 1; count <= 20; count += 19) {
		symbols_make(&symbols, count, 300, 33);
		encode(rs, 0, 8);
		for (unsigned r = 0; r < 8; r++) {
			memcpy(at_once[r], symbols.parity[r], 300);
			memset(symbols.parity[r], 0, 300);
		}
		for (unsigned i = 0; i < count; i++) {
			unsigned j = (i * 7 + 3) % count;

			assert_int_equal(rs_fold(rs, j, symbols.data[j], j == count - 1 ? 33 : 300,
						 symbols.parity),
					 0);
		}
		for (unsigned r = 0; r < 8; r++)
			assert_memory_equal(at_once[r], symbols.parity[r], 300);
		symbols_check(&symbols);
	}
	rs_destroy(rs);
}

/* Both ends may have prepared for different m: the rows are the same. */
static void test_rows_do_not_depend_on_m(void **state)
{
	static uint8_t before[300];
	struct rs *few = make(10, 1), *many = make(10, 200);

	(void)state;
	symbols_make(&symbols, 10, 300, 300);
	encode(few, 0, 1);
	memcpy(before, symbols.parity[0], 300);
	encode(many, 0, 200);
	assert_memory_equal(before, symbols.parity[0], 300);
	rs_destroy(few);
	rs_destroy(many);
}

/* A large coder whose tables were made for smaller groups does what a small coder does, and its larger rows are still its
 * own. */
static void test_tables_made_anew(void **state)
{
	static const unsigned sizes[][2] = {
		{ 10, 4 }, { 16, 4 }, { 16, 8 }, { 3, 1 }, { 128, 64 }
	};
	static uint8_t before[64][300];
	struct rs *large = make(128, 64);

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		unsigned k = sizes[i][0], m = sizes[i][1];
		struct rs *small = make(k, m);

		symbols_make(&symbols, k, 300, 211);
		encode(small, 0, m);
		for (unsigned row = 0; row < m; row++)
			memcpy(before[row], symbols.parity[row], 300);
		assert_int_equal(rs_retable(large, k, m), 0);
		encode(large, 0, m);
		for (unsigned row = 0; row < m; row++)
			assert_memory_equal(before[row], symbols.parity[row], 300);
		rs_destroy(small);
	}
	assert_int_equal(rs_retable(large, 129, 1), -EINVAL);
	assert_int_equal(rs_retable(large, 1, 65), -EINVAL);
	assert_int_equal(rs_retable(large, 0, 1), -EINVAL);
	assert_int_equal(rs_retable(large, 1, 0), -EINVAL);
	rs_destroy(large);
}

static void test_impossible_codes_are_refused(void **state)
{
	static const unsigned cases[][2] = { { 0, 1 },	     { 1, 0 },	 { 256, 1 },
					     { 255, 2 },     { 1, 256 }, { 1, UINT_MAX },
					     { UINT_MAX, 1 } };
	struct rs *rs = (struct rs *)&symbols;

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(rs_create(cases[i][0], cases[i][1], &rs), -EINVAL);
	assert_ptr_equal(rs, &symbols);
	rs_destroy(NULL);
}

static void test_wrong_calls_are_refused(void **state)
{
	static const struct coding_group shapes[] = {
		{ 0, 10, 10 }, { 9, 10, 10 }, { 8, 0, 0 },
		{ 8, 10, 0 },  { 8, 10, 11 }, { 8, (size_t)INT_MAX + 1, 1 },
	};
	static const uint8_t unordered[] = { 3, 2 }, twice[] = { 2, 2 }, beyond[] = { 2, 8 };
	static const uint8_t good[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8 }, high[] = { 0, 248 };
	struct rs *rs = make(8, 4);
	const void *const *data, *const *parity;

	(void)state;
	symbols_make(&symbols, 8, 10, 10);
	data = inputs(symbols.data);
	parity = inputs(symbols.parity);
	for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		assert_int_equal(rs_encode(rs, &shapes[i], data, 0, 1, symbols.parity), -EINVAL);
		assert_int_equal(rs_decode(rs, &shapes[i], symbols.data, good, 1, good, parity),
				 -EINVAL);
	}
	assert_int_equal(rs_encode(rs, &symbols.group, data, 0, 0, symbols.parity), -EINVAL);
	assert_int_equal(rs_encode(rs, &symbols.group, data, 0, 249, symbols.parity), -EINVAL);
	assert_int_equal(rs_encode(rs, &symbols.group, data, 248, 1, symbols.parity), -EINVAL);
	assert_int_equal(rs_encode(rs, &symbols.group, data, UINT_MAX, 2, symbols.parity), -EINVAL);
	assert_int_equal(rs_fold(rs, 8, symbols.data[0], 10, symbols.parity), -EINVAL);
	assert_int_equal(rs_fold(rs, 0, symbols.data[0], 0, symbols.parity), -EINVAL);
	assert_int_equal(rs_decode(rs, &symbols.group, symbols.data, unordered, 2, good, parity),
			 -EINVAL);
	assert_int_equal(rs_decode(rs, &symbols.group, symbols.data, twice, 2, good, parity),
			 -EINVAL);
	assert_int_equal(rs_decode(rs, &symbols.group, symbols.data, beyond, 2, good, parity),
			 -EINVAL);
	assert_int_equal(rs_decode(rs, &symbols.group, symbols.data, good, 9, good, parity),
			 -EINVAL);
	assert_int_equal(rs_decode(rs, &symbols.group, symbols.data, good, 2, twice, parity),
			 -EINVAL);
	assert_int_equal(rs_decode(rs, &symbols.group, symbols.data, good, 2, high, parity),
			 -EINVAL);
	symbols_check(&symbols);
	rs_destroy(rs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parity_is_what_the_matrix_says),
		cmocka_unit_test(test_every_pattern_of_small_codes),
		cmocka_unit_test(test_random_patterns_of_large_codes),
		cmocka_unit_test(test_fresh_parity_row_by_row),
		cmocka_unit_test(test_folding_in_any_order_is_encoding),
		cmocka_unit_test(test_rows_do_not_depend_on_m),
		cmocka_unit_test(test_tables_made_anew),
		cmocka_unit_test(test_impossible_codes_are_refused),
		cmocka_unit_test(test_wrong_calls_are_refused),
	};

	rng_seed(&symbols.rng, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

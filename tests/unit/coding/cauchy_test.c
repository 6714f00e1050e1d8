/* SPDX-License-Identifier: BSD-3-Clause */
/* The matrix is the one the header promises, and the formula for the inverse is right at every size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <isa-l.h>

#include "base/rng.h"
#include "coding/cauchy.h"

static struct cauchy cauchy;

static void test_rows_are_inverses_of_sums(void **state)
{
	uint8_t row[CAUCHY_SIZE];

	(void)state;
	for (unsigned r = 0; r < CAUCHY_SIZE; r++) {
		cauchy_row(&cauchy, r, CAUCHY_SIZE - 1 - r, row);
		for (unsigned j = 0; r + j < CAUCHY_SIZE - 1; j++)
			assert_int_equal(gf_mul(row[j], (uint8_t)((255 - r) ^ j)), 1);
	}
}

static void check_inverse(const uint8_t *rows, const uint8_t *columns, unsigned n)
{
	static uint8_t inverse[128 * 128];
	uint8_t row[CAUCHY_SIZE];

	cauchy_inverse(&cauchy, rows, columns, n, inverse);
	for (unsigned i = 0; i < n; i++) {
		cauchy_row(&cauchy, rows[i], CAUCHY_SIZE - 1 - rows[i], row);
		for (unsigned j = 0; j < n; j++) {
			uint8_t sum = 0;

			for (unsigned via = 0; via < n; via++)
				sum ^= gf_mul(row[columns[via]], inverse[via * n + j]);
			assert_int_equal(sum, i == j);
		}
	}
}

static void draw(struct rng *rng, unsigned below, unsigned n, uint8_t *out)
{
	uint8_t all[CAUCHY_SIZE];

	for (unsigned i = 0; i < below; i++)
		all[i] = (uint8_t)i;
	for (unsigned i = 0; i < n; i++) {
		unsigned other = i + (unsigned)rng_below(rng, below - i);
		uint8_t taken = all[other];

		all[other] = all[i];
		all[i] = taken;
		out[i] = taken;
	}
}

static void test_every_part_has_its_inverse(void **state)
{
	uint8_t rows[128], columns[128];
	struct rng rng;

	(void)state;
	rng_seed(&rng, 1);
	for (unsigned i = 0; i < 2000; i++) {
		unsigned k = 1 + (unsigned)rng_below(&rng, 255), most = k < 256 - k ? k : 256 - k;
		unsigned n = 1 + (unsigned)rng_below(&rng, most < 12 ? most : 12);

		draw(&rng, 256 - k, n, rows);
		draw(&rng, k, n, columns);
		check_inverse(rows, columns, n);
	}
	draw(&rng, 128, 128, rows);
	draw(&rng, 128, 128, columns);
	check_inverse(rows, columns, 128);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_are_inverses_of_sums),
		cmocka_unit_test(test_every_part_has_its_inverse),
	};

	cauchy_init(&cauchy);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

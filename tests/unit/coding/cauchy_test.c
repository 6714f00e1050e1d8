/* SPDX-License-Identifier: BSD-3-Clause */
/* The matrix is the one the header promises, and the formula for what rebuilds lost symbols is right at every size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <isa-l.h>

#include "base/rng.h"
#include "coding/cauchy.h"

static struct cauchy cauchy;

static void test_rows_are_those_of_the_header(void **state)
{
	uint8_t row[CAUCHY_SIZE];

	(void)state;
	for (unsigned r = 0; r < CAUCHY_SIZE; r++) {
		cauchy_row(&cauchy, r, CAUCHY_SIZE - 1 - r, row);
		for (unsigned j = 0; r + j < CAUCHY_SIZE - 1; j++) {
			assert_int_equal(gf_mul(row[j], (uint8_t)((255 - r) ^ j)), 255 ^ j);
			if (r == 0)
				assert_int_equal(row[j], 1);
		}
	}
}

/* What rebuilds the erased, applied to the rows of the symbols it takes, is one row of the identity each. */
static void check_solution(unsigned count, const uint8_t *erased, const uint8_t *rows, unsigned n)
{
	static uint8_t solution[128 * CAUCHY_SIZE], sources[CAUCHY_SIZE][CAUCHY_SIZE];
	unsigned there = 0, next = 0;

	memset(sources, 0, sizeof(sources));
	for (unsigned j = 0; j < count; j++) {
		if (next < n && erased[next] == j)
			next++;
		else
			sources[there++][j] = 1;
	}
	for (unsigned i = 0; i < n; i++)
		cauchy_row(&cauchy, rows[i], count, sources[there++]);
	assert_int_equal(there, count);
	cauchy_solve(&cauchy, count, erased, rows, n, solution);
	for (unsigned i = 0; i < n; i++) {
		for (unsigned column = 0; column < count; column++) {
			uint8_t sum = 0;

			for (unsigned j = 0; j < count; j++)
				sum ^= gf_mul(solution[i * count + j], sources[j][column]);
			assert_int_equal(sum, column == erased[i]);
		}
	}
}

static int by_size(const void *a, const void *b)
{
	return *(const uint8_t *)a - *(const uint8_t *)b;
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

static void test_every_loss_has_its_solution(void **state)
{
	uint8_t rows[128], erased[128];
	struct rng rng;

	(void)state;
	rng_seed(&rng, 1);
	for (unsigned i = 0; i < 500; i++) {
		unsigned k = 1 + (unsigned)rng_below(&rng, i % 10 ? 40 : 255);
		unsigned most = k < 256 - k ? k : 256 - k;
		unsigned n = 1 + (unsigned)rng_below(&rng, most < 12 ? most : 12);

		draw(&rng, 256 - k, n, rows);
		draw(&rng, k, n, erased);
		qsort(erased, n, 1, by_size);
		check_solution(k, erased, rows, n);
	}
	draw(&rng, 128, 128, rows);
	draw(&rng, 128, 128, erased);
	qsort(erased, 128, 1, by_size);
	check_solution(128, erased, rows, 128);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_are_those_of_the_header),
		cmocka_unit_test(test_every_loss_has_its_solution),
	};

	cauchy_init(&cauchy);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

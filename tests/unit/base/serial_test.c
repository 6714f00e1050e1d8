/* SPDX-License-Identifier: BSD-3-Clause */
/* Serial numbers against the 64-bit counters they were cut from. */
#include "base_test.h"

#include "base/rng.h"
#include "base/serial.h"

static void assert_order(uint64_t a, uint64_t b)
{
	assert_int_equal(serial_before((uint32_t)a, (uint32_t)b), a < b);
	assert_int_equal(serial_after((uint32_t)a, (uint32_t)b), a > b);
	assert_true(serial_distance((uint32_t)a, (uint32_t)b) == (int64_t)(b - a));
}

static void test_random(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 18);
	for (int i = 0; i < 100000; i++) {
		uint64_t a = (UINT64_C(1) << 40) + rng_below(&rng, UINT64_C(1) << 34);
		uint64_t reach = (uint64_t)1 << rng_below(&rng, 32);
		uint64_t b = a + rng_below(&rng, reach);

		assert_order(a, b);
		assert_order(b, a);
		assert_order(a, a);
	}
}

static void test_wrap_and_ends(void **state)
{
	const uint64_t wrap = UINT64_C(1) << 32;

	(void)state;
	assert_order(wrap - 1, wrap);
	assert_order(wrap, wrap - 1);
	assert_order(wrap - 5, wrap + 5);
	assert_order(wrap, wrap + INT32_MAX);
	assert_order(wrap + INT32_MAX, wrap);
}

static void test_half_way_round_is_unordered(void **state)
{
	const uint32_t half = UINT32_C(1) << 31;

	(void)state;
	assert_false(serial_before(7, 7 + half));
	assert_false(serial_before(7 + half, 7));
	assert_false(serial_after(7, 7 + half));
	assert_false(serial_after(7 + half, 7));
	assert_int_equal(serial_distance(7, 7 + half), INT32_MIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_wrap_and_ends),
		cmocka_unit_test(test_half_way_round_is_unordered),
	};

	return cmocka_run_group_tests_name("base-serial", tests, NULL, NULL);
}

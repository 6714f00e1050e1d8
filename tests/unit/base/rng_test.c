/* SPDX-License-Identifier: BSD-3-Clause */
/* Published vectors, the shape of each distribution, and how many draws each call takes. */
#include "base_test.h"

#include <string.h>

#include "base/rng.h"

/* The first outputs of splitmix64 from 1234567. */
static void test_seeding_vector(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 1234567);
	assert_true(rng.state[0] == UINT64_C(6457827717110365317));
	assert_true(rng.state[1] == UINT64_C(3203168211198807973));
	assert_true(rng.state[2] == UINT64_C(9817491932198370423));
	assert_true(rng.state[3] == UINT64_C(4593380528125082431));
}

/* The first outputs of xoshiro256** from the state 1, 2, 3, 4. */
static void test_generator_vector(void **state)
{
	static const uint64_t expected[] = {
		11520,
		0,
		1509978240,
		UINT64_C(1215971899390074240),
		UINT64_C(1216172134540287360),
		UINT64_C(607988272756665600),
		UINT64_C(16172922978634559625),
		UINT64_C(8476171486693032832),
		UINT64_C(10595114339597558777),
		UINT64_C(2904607092377533576),
	};
	struct rng rng = { .state = { 1, 2, 3, 4 } };

	(void)state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		assert_true(rng_u64(&rng) == expected[i]);
}

static void test_same_seed_same_numbers(void **state)
{
	struct rng a, b, c;
	int equal = 0;

	(void)state;
	rng_seed(&a, 0);
	rng_seed(&b, 0);
	rng_seed(&c, 1);
	for (int i = 0; i < 1000; i++) {
		uint64_t word = rng_u64(&a);

		assert_true(rng_u64(&b) == word);
		equal += rng_u64(&c) == word;
	}
	assert_int_equal(equal, 0);
}

/* Chi-squared over the residues; 99.9 % of fair generators stay below the limit for 6 freedoms. */
static void test_below_is_even(void **state)
{
	const int draws = 700000;
	const double expected = draws / 7.0;
	int counts[7] = { 0 };
	double chi_squared = 0;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 8);
	for (int i = 0; i < draws; i++)
		counts[rng_below(&rng, 7)]++;
	for (int i = 0; i < 7; i++)
		chi_squared += (counts[i] - expected) * (counts[i] - expected) / expected;
	assert_true(chi_squared < 22.46);
}

/*
 * With a bound of 3 * 2^62, taking a draw modulo the bound gives the lowest third twice its share;
 * so does multiplying without rejection, for every third result. Both are far outside these limits.
 */
static void test_below_rejects_the_excess(void **state)
{
	const uint64_t bound = UINT64_C(3) << 62;
	const int draws = 90000;
	int thirds[3] = { 0 };
	int residues[3] = { 0 };
	struct rng rng;

	(void)state;
	rng_seed(&rng, 9);
	for (int i = 0; i < draws; i++) {
		uint64_t number = rng_below(&rng, bound);

		assert_true(number < bound);
		thirds[number >> 62]++;
		residues[number % 3]++;
	}
	for (int i = 0; i < 3; i++) {
		assert_in_range(thirds[i], draws / 3 - 1000, draws / 3 + 1000);
		assert_in_range(residues[i], draws / 3 - 1000, draws / 3 + 1000);
	}
}

static void below_zero(void *arg)
{
	rng_below(arg, 0);
}

static void test_below_limits(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 10);
	for (int i = 0; i < 1000; i++) {
		assert_true(rng_below(&rng, 1) == 0);
		assert_true(rng_below(&rng, UINT64_MAX) < UINT64_MAX);
	}
	assert_true(aborts(below_zero, &rng));
}

static void test_unit(void **state)
{
	double sum = 0, low = 1, high = 0;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 11);
	for (int i = 0; i < 100000; i++) {
		double number = rng_unit(&rng);

		assert_true(number >= 0 && number < 1);
		sum += number;
		low = number < low ? number : low;
		high = number > high ? number : high;
	}
	assert_true(sum > 49500 && sum < 50500);
	assert_true(low < 0.001 && high > 0.999);
}

static void test_chance(void **state)
{
	const double not_a_number = __builtin_nan("");
	int hits = 0;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 12);
	for (int i = 0; i < 100000; i++) {
		assert_false(rng_chance(&rng, 0));
		assert_false(rng_chance(&rng, -1));
		assert_false(rng_chance(&rng, not_a_number));
		assert_true(rng_chance(&rng, 1));
		assert_true(rng_chance(&rng, 2));
		hits += rng_chance(&rng, 0.03);
	}
	assert_in_range(hits, 2800, 3200);
}

/* Decisions must not shift when a probability changes: every call costs one draw. */
static void test_one_draw_each(void **state)
{
	static const double chances[] = { -1, 0, 1e-300, 0.5, 1, 2 };
	struct rng drawn, expected;

	(void)state;
	rng_seed(&drawn, 13);
	expected = drawn;
	for (size_t i = 0; i < sizeof(chances) / sizeof(chances[0]); i++) {
		rng_chance(&drawn, chances[i]);
		rng_u64(&expected);
		assert_memory_equal(&drawn, &expected, sizeof(drawn));
	}
	rng_unit(&drawn);
	rng_u64(&expected);
	rng_split(&drawn);
	rng_u64(&expected);
	assert_memory_equal(&drawn, &expected, sizeof(drawn));
}

/* The state {0, s, 0, 0} outputs rotl(5 s, 7) * 9 next, so a wanted word fixes s. */
static struct rng about_to_draw(uint64_t word)
{
	const uint64_t inverse_of_5 = UINT64_C(0xcccccccccccccccd);
	const uint64_t inverse_of_9 = UINT64_C(0x8e38e38e38e38e39);
	uint64_t rotated = word * inverse_of_9;

	return (struct rng){ .state = { 0, (rotated >> 7 | rotated << 57) * inverse_of_5, 1, 1 } };
}

static void test_largest_unit(void **state)
{
	struct rng rng = about_to_draw(UINT64_MAX);

	(void)state;
	assert_true(rng_unit(&rng) == 1 - 0x1p-53);
}

/* No number of one stream may turn up in another, shifted or not. */
static void test_split(void **state)
{
	enum { LENGTH = 1000 };
	static uint64_t numbers[3][LENGTH];
	struct rng streams[3], again;
	int equal = 0;

	(void)state;
	rng_seed(&streams[0], 15);
	again = streams[0];
	streams[1] = rng_split(&streams[0]);
	streams[2] = rng_split(&streams[0]);
	/* A child depends on nothing but the parent's state at the split. */
	again = rng_split(&again);
	assert_memory_equal(&streams[1], &again, sizeof(again));
	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < LENGTH; j++)
			numbers[i][j] = rng_u64(&streams[i]);
	}
	for (int i = 0; i < LENGTH; i++) {
		for (int j = 0; j < LENGTH; j++) {
			equal += numbers[0][i] == numbers[1][j];
			equal += numbers[0][i] == numbers[2][j];
			equal += numbers[1][i] == numbers[2][j];
		}
	}
	assert_int_equal(equal, 0);
}

static void test_fill(void **state)
{
	struct rng rng, copy;

	(void)state;
	rng_seed(&rng, 16);
	for (size_t length = 0; length <= 40; length++) {
		unsigned char buffer[48];

		memset(buffer, 0xaa, sizeof(buffer));
		copy = rng;
		rng_fill(&rng, buffer, length);
		/* Little-endian words, on every machine. */
		for (size_t i = 0; i < length; i += 8) {
			uint64_t word = rng_u64(&copy);

			for (size_t j = i; j < length && j < i + 8; j++)
				assert_int_equal(buffer[j], word >> 8 * (j - i) & 0xff);
		}
		for (size_t i = length; i < sizeof(buffer); i++)
			assert_int_equal(buffer[i], 0xaa);
		assert_memory_equal(&rng, &copy, sizeof(rng));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seeding_vector),
		cmocka_unit_test(test_generator_vector),
		cmocka_unit_test(test_same_seed_same_numbers),
		cmocka_unit_test(test_below_is_even),
		cmocka_unit_test(test_below_rejects_the_excess),
		cmocka_unit_test(test_below_limits),
		cmocka_unit_test(test_unit),
		cmocka_unit_test(test_chance),
		cmocka_unit_test(test_one_draw_each),
		cmocka_unit_test(test_largest_unit),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_fill),
	};

	return cmocka_run_group_tests_name("base-rng", tests, NULL, NULL);
}

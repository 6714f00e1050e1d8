/* SPDX-License-Identifier: BSD-3-Clause */
/* One loss a row is mended, two are not: every pattern of small groups, parity lost included. */
#include "symbols.h"

#include <errno.h>

#include "coding/xor.h"

static struct symbols symbols;

static const void *const *inputs(void *const *pointers)
{
	return (const void *const *)pointers;
}

static void encode(unsigned m)
{
	assert_int_equal(xor_encode(&symbols.group, m, inputs(symbols.data), symbols.parity), 0);
}

static void test_parity_is_the_exclusive_or_of_its_row(void **state)
{
	static const unsigned lengths[] = { 1, 7, 31, 32, 33, 63, 64, 65, 127, 128, 1000, 4096 };

	(void)state;
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		for (unsigned count = 1; count <= 40; count += 3) {
			unsigned m = 1 + count % 8;

			symbols_make(&symbols, count, lengths[i], 1 + lengths[i] / 2);
			encode(m);
			for (unsigned row = 0; row < m; row++) {
				const uint8_t *parity = symbols.parity[row];

				for (unsigned at = 0; at < lengths[i]; at++) {
					uint8_t sum = 0;

					for (unsigned j = row; j < count; j += m)
						sum ^= symbols.truth[j][at];
					assert_int_equal(parity[at], sum);
				}
			}
			symbols_check(&symbols);
		}
	}
}

/* Whether every row lost at most one of its data and parity symbols together, or no data at all. */
static bool mendable(unsigned m, uint32_t lost, uint32_t lost_parity)
{
	for (unsigned row = 0; row < m; row++) {
		unsigned data = 0;

		for (unsigned j = row; j < symbols.group.count; j += m)
			data += lost >> j & 1;
		if (data > 1 || (data == 1 && (lost_parity >> row & 1)))
			return false;
	}
	return true;
}

static void lose_and_rebuild(unsigned m, uint32_t lost, uint32_t lost_parity)
{
	const void *parity[32];
	uint8_t erased[32];
	unsigned erasures = 0;
	int rc;

	for (unsigned j = 0; j < symbols.group.count; j++) {
		if (lost >> j & 1)
			erased[erasures++] = (uint8_t)j;
	}
	for (unsigned row = 0; row < m; row++)
		parity[row] = lost_parity >> row & 1 ? NULL : symbols.parity[row];
	if (mendable(m, lost, lost_parity)) {
		for (unsigned i = 0; i < erasures; i++)
			symbols_lose(&symbols, erased[i]);
		rc = 0;
	} else {
		rc = -ENODATA;
	}
	assert_int_equal(xor_decode(&symbols.group, m, symbols.data, erased, erasures, parity), rc);
	/* Rebuilt, or, where it could not be, untouched. */
	symbols_check(&symbols);
}

static void test_every_pattern_of_small_groups(void **state)
{
	(void)state;
	for (unsigned count = 1; count <= 8; count++) {
		for (unsigned m = 1; m <= 4; m++) {
			symbols_make(&symbols, count, 70, 1 + count * m);
			encode(m);
			for (uint32_t lost = 0; lost < 1u << count; lost++) {
				for (uint32_t parity = 0; parity < 1u << m; parity++)
					lose_and_rebuild(m, lost, parity);
			}
		}
	}
}

static void test_a_burst_as_long_as_the_rows(void **state)
{
	(void)state;
	symbols_make(&symbols, 32, 4096, 4096);
	encode(8);
	for (unsigned first = 0; first + 8 <= 32; first++)
		lose_and_rebuild(8, UINT32_C(0xff) << first, 0);
}

static void test_wrong_calls_are_refused(void **state)
{
	static const struct coding_group shapes[] = {
		{ 0, 10, 10 }, { 257, 10, 10 }, { 8, 0, 0 }, { 8, 10, 0 }, { 8, 10, 11 },
	};
	static const uint8_t unordered[] = { 3, 2 }, beyond[] = { 8 }, good[] = { 1 };
	const void *const *parity;

	(void)state;
	symbols_make(&symbols, 8, 10, 10);
	parity = inputs(symbols.parity);
	for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		assert_int_equal(xor_encode(&shapes[i], 2, inputs(symbols.data), symbols.parity),
				 -EINVAL);
		assert_int_equal(xor_decode(&shapes[i], 2, symbols.data, good, 1, parity), -EINVAL);
	}
	assert_int_equal(xor_encode(&symbols.group, 0, inputs(symbols.data), symbols.parity),
			 -EINVAL);
	assert_int_equal(xor_decode(&symbols.group, 0, symbols.data, good, 1, parity), -EINVAL);
	assert_int_equal(xor_decode(&symbols.group, 2, symbols.data, unordered, 2, parity),
			 -EINVAL);
	assert_int_equal(xor_decode(&symbols.group, 2, symbols.data, beyond, 1, parity), -EINVAL);
	symbols_check(&symbols);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parity_is_the_exclusive_or_of_its_row),
		cmocka_unit_test(test_every_pattern_of_small_groups),
		cmocka_unit_test(test_a_burst_as_long_as_the_rows),
		cmocka_unit_test(test_wrong_calls_are_refused),
	};

	rng_seed(&symbols.rng, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Who moves messages: one large message hands over to the engine, empty slices between large ones do not hand back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugins/nccl/mover.h"

#define MOST 4096

static void test_small(void **state)
{
	struct mover mover = { 0 };

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_false(mover_note(&mover, i % 2 ? MOST : 0, MOST));
		assert_false(mover_is_engine(&mover));
	}
}

static void test_empty_slices(void **state)
{
	struct mover mover = { 0 };

	(void)state;
	assert_true(mover_note(&mover, MOST + 1, MOST));
	for (int i = 0; i < 100; i++) {
		assert_true(mover_is_engine(&mover));
		assert_false(mover_note(&mover, i % 2 ? 16384 : 0, MOST));
	}
}

static void test_back(void **state)
{
	struct mover mover = { 0 };

	(void)state;
	mover_note(&mover, 16384, MOST);
	for (int i = 1; i < MOVER_SMALL_RUN; i++)
		mover_note(&mover, 8, MOST);
	assert_true(mover_is_engine(&mover));
	mover_note(&mover, 8, MOST);
	assert_false(mover_is_engine(&mover));
	assert_true(mover_note(&mover, 16384, MOST));
	mover_note(&mover, 8, MOST);
	assert_true(mover_is_engine(&mover));
}

static void test_extremes(void **state)
{
	struct mover mover = { 0 };

	(void)state;
	assert_false(mover_note(&mover, UINT64_C(1) << 40, UINT64_MAX));
	assert_false(mover_is_engine(&mover));
	assert_false(mover_note(&mover, 0, 0));
	assert_true(mover_note(&mover, 1, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_empty_slices),
		cmocka_unit_test(test_back),
		cmocka_unit_test(test_extremes),
	};

	return cmocka_run_group_tests_name("nccl-mover", tests, NULL, NULL);
}

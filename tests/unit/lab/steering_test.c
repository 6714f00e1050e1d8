/* SPDX-License-Identifier: BSD-3-Clause */
/* steering_test.c: on which processors hosts receive, and that there must be enough of them. */
#include "lab/steering.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void set_range(cpu_set_t *set, unsigned first, unsigned count)
{
	CPU_ZERO(set);
	for (unsigned i = first; i < first + count; i++)
		CPU_SET(i, set);
}

static void masks_name_what_may_be_used(void **state)
{
	char mask[STEERING_MASK_SIZE];
	cpu_set_t set;

	(void)state;
	set_range(&set, 0, 16);
	assert_true(steering_mask(&set, 2, mask));
	assert_string_equal(mask, "ffff");
	set_range(&set, 4, 4);
	assert_true(steering_mask(&set, 2, mask));
	assert_string_equal(mask, "f0");
	/* The kernel wants commas after 32 bits; as many processors are enough. */
	set_range(&set, 0, 100);
	assert_true(steering_mask(&set, 40, mask));
	assert_string_equal(mask, "ffffffff");
}

static void too_few_processors_are_left_alone(void **state)
{
	char mask[STEERING_MASK_SIZE];
	cpu_set_t set;

	(void)state;
	set_range(&set, 0, 4);
	assert_true(steering_mask(&set, 2, mask));
	assert_false(steering_mask(&set, 3, mask));
	/* None that the mask can name. */
	set_range(&set, 32, 16);
	assert_false(steering_mask(&set, 2, mask));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(masks_name_what_may_be_used),
		cmocka_unit_test(too_few_processors_are_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock is the system's monotonic clock, in nanoseconds. */
#include "base_test.h"

#include <time.h>

#include "base/clock.h"

static uint64_t system_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void test_monotonic(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t before_ns = system_ns(), now_ns = clock_now_ns();

		assert_true(before_ns <= now_ns);
		assert_true(now_ns <= system_ns());
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_monotonic),
	};

	return cmocka_run_group_tests_name("base-clock", tests, NULL, NULL);
}

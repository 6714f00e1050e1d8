/* SPDX-License-Identifier: BSD-3-Clause */
/* The manual clock moves only when told, the real one by itself and in nanoseconds. */
#include "base_test.h"

#include <time.h>

#include "base/clock.h"

static void set_back(void *arg)
{
	manual_clock_set(arg, 1);
}

static void advance_beyond_the_end(void *arg)
{
	manual_clock_advance(arg, UINT64_MAX);
}

static void test_manual(void **state)
{
	struct manual_clock manual = { .now_ns = 5 };
	struct clock clock = clock_manual(&manual);

	(void)state;
	assert_int_equal(clock_now_ns(&clock), 5);
	assert_int_equal(clock_now_ns(&clock), 5);
	manual_clock_advance(&manual, 10);
	assert_int_equal(clock_now_ns(&clock), 15);
	manual_clock_set(&manual, 15);
	manual_clock_set(&manual, 100);
	assert_int_equal(clock_now_ns(&clock), 100);
	assert_true(aborts(set_back, &manual));
	assert_true(aborts(advance_beyond_the_end, &manual));
}

static void test_monotonic(void **state)
{
	const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };
	struct clock clock = clock_monotonic();
	uint64_t start_ns = clock_now_ns(&clock);
	uint64_t last_ns = start_ns;
	struct timespec now;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t now_ns = clock_now_ns(&clock);

		assert_true(now_ns >= last_ns);
		last_ns = now_ns;
	}
	nanosleep(&pause, NULL);
	last_ns = clock_now_ns(&clock);
	assert_true(last_ns - start_ns >= 20 * 1000 * 1000);
	/* The same clock that others in the process read. */
	clock_gettime(CLOCK_MONOTONIC, &now);
	assert_true((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec - last_ns <
		    1000000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_manual),
		cmocka_unit_test(test_monotonic),
	};

	return cmocka_run_group_tests_name("base-clock", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock runs forwards, in nanoseconds, and is the one that others in the process read. */
#include "base_test.h"

#include <time.h>

#include "base/clock.h"

static void test_monotonic(void **state)
{
	const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };
	uint64_t start_ns = clock_now_ns();
	uint64_t last_ns = start_ns;
	struct timespec now;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t now_ns = clock_now_ns();

		assert_true(now_ns >= last_ns);
		last_ns = now_ns;
	}
	nanosleep(&pause, NULL);
	last_ns = clock_now_ns();
	assert_true(last_ns - start_ns >= 20 * 1000 * 1000);
	/* The same clock that others in the process read. */
	clock_gettime(CLOCK_MONOTONIC, &now);
	assert_true((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec - last_ns <
		    1000000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_monotonic),
	};

	return cmocka_run_group_tests_name("base-clock", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Several flows of our own and a bottleneck: they become equal. */
#include "loop_check.h"

static void our_own_become_equal(void **state)
{
	struct bounds fair = {
		.used_least = 0.95, .jain_least = 0.95, .queue_most_ms = 5, .overflow_most = 0.01
	};
	struct bounds marked = {
		.used_least = 0.9, .jain_least = 0.95, .queue_most_ms = 5, .overflow_most = 0.01
	};

	(void)state;
	check("own-2", &fair);
	check("own-8", &fair);
	check("own-8-loss-1e-3", &fair);
	check("own-8-marks", &marked);
}

/* Starts after which some take the others' queue for that of strangers. They compete, see that it drains when they yield, and stop; what
 * they had then they keep for a while. */
static void our_own_do_not_compete_for_long(void **state)
{
	struct bounds calm = {
		.used_least = 0.95, .jain_least = 0.6, .queue_most_ms = 5, .overflow_most = 0.01
	};
	struct loop_result r;

	(void)state;
	check_seed("own-8", &calm, 46, &r);
	check_seed("own-8", &calm, 52, &r);
}

static void short_flows_become_equal(void **state)
{
	struct bounds swift = {
		.used_least = 0.95, .jain_least = 0.95, .queue_most_ms = 0.5, .overflow_most = 0.01
	};
	/* Twenty flows where one packet and a half is in flight: sub-packet windows. */
	struct bounds crowd = {
		.used_least = 0.9, .jain_least = 0.75, .queue_most_ms = 10, .overflow_most = 0.05
	};

	(void)state;
	check("swift-8", &swift);
	check("swift-marks", &swift);
	check("swift-20-sub-packet", &crowd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_own_become_equal),
		cmocka_unit_test(our_own_do_not_compete_for_long),
		cmocka_unit_test(short_flows_become_equal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

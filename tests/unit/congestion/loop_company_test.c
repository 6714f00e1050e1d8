/* SPDX-License-Identifier: BSD-3-Clause */
/* Several flows and a bottleneck: our own become equal, and neither starve nor are starved by models of TCP. */
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

/* A quarter of a fair share at least, for either side, after 20 s. */
static const struct bounds neither_starves = { .used_least = 0.95,
					       .own_least = 0.25,
					       .others_least = 0.25 };

static void beside_cubic(void **state)
{
	struct loop_result r;

	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++)
		check_seed("cubic", &neither_starves, seed, &r);
	check("cubic-first", &neither_starves);
	check("cubic-4", &neither_starves);
	check("cubic-100M", &neither_starves);
	check("cubic-deep", &neither_starves);
}

static void beside_bbr(void **state)
{
	struct loop_result r;

	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++)
		check_seed("bbr", &neither_starves, seed, &r);
	check("bbr-4", &neither_starves);
	check("bbr-loss-1e-3", &neither_starves);
}

/* The opponents are what they should be: CUBIC fills a queue, BBR takes it from CUBIC. */
static void the_models_of_tcp_are_themselves(void **state)
{
	struct bounds used = { .used_least = 0.95 };
	struct loop_result r;

	(void)state;
	check_seed("tcp-cubic-alone", &used, 1, &r);
	assert_true(r.queue_p95_ns > 20e6);
	check_seed("tcp-bbr-alone", &used, 1, &r);
	assert_true(r.queue_median_ns < 5e6);
	check_seed("tcp-cubic-bbr", &used, 1, &r);
	assert_true(r.share[0] < r.share[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_own_become_equal),
		cmocka_unit_test(short_flows_become_equal),
		cmocka_unit_test(beside_cubic),
		cmocka_unit_test(beside_bbr),
		cmocka_unit_test(the_models_of_tcp_are_themselves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

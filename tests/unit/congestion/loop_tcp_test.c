/* SPDX-License-Identifier: BSD-3-Clause */
/* Beside models of TCP at one bottleneck: neither side starves the other. */
#include "loop_check.h"

/* A quarter of a fair share at least, for either side, after 20 s. */
static const struct bounds neither_starves = { .used_least = 0.95,
					       .own_least = 0.25,
					       .others_least = 0.25 };

static void beside_cubic(void **state)
{
	struct loop_result r;

	(void)state;
	for (uint64_t seed = 1; seed <= 2; seed++)
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
	for (uint64_t seed = 1; seed <= 2; seed++)
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
		cmocka_unit_test(beside_cubic),
		cmocka_unit_test(beside_bbr),
		cmocka_unit_test(the_models_of_tcp_are_themselves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

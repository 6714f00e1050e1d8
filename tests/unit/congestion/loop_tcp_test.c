/* SPDX-License-Identifier: BSD-3-Clause */
/* Beside models of TCP at one bottleneck: neither side starves the other. */
#include "loop_check.h"

/* A quarter of a fair share at least, for either side, after 20 s. */
static const struct bounds neither_starves = { .used_least = 0.95,
					       .own_least = 0.25,
					       .others_least = 0.25 };

/* Two flows, of which neither gets three times as much as the other. */
static const struct bounds one_on_one = { .used_least = 0.95,
					  .own_least = 0.75,
					  .others_least = 0.75 };

static void beside_cubic(void **state)
{
	struct loop_result r;

	(void)state;
	for (uint64_t seed = 1; seed <= 2; seed++)
		check_seed("cubic", &one_on_one, seed, &r);
	check("cubic-first", &one_on_one);
	check("cubic-4", &neither_starves);
	check("cubic-100M", &neither_starves);
	check("cubic-deep", &neither_starves);
}

/* Holds the mean shares of seeds 1 to `seeds` to bounds: how five flows that fill one queue fare in 40 s is much luck. */
static void check_mean(const char *name, const struct bounds *bounds, uint64_t seeds)
{
	struct bounds used = { .used_least = bounds->used_least };
	const struct loop_case *one = case_find(name);
	double own = 0, others = 0;

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct loop_result r;

		check_seed(name, &used, seed, &r);
		own += case_own(one, &r) / (double)seeds;
		others += case_others(one, &r) / (double)seeds;
	}
	if (own < bounds->own_least || others < bounds->others_least)
		fail_msg("%s: own %.2f, others %.2f of a fair share", name, own, others);
}

static void beside_bbr(void **state)
{
	struct loop_result r;

	(void)state;
	for (uint64_t seed = 1; seed <= 2; seed++)
		check_seed("bbr", &neither_starves, seed, &r);
	check_mean("bbr-4", &neither_starves, 4);
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice that a scheme makes for its next message: what it takes where much is lost, and what it refuses. */
#include "plan_test.h"

#include <time.h>

#define HALF_MIB (MIB / 2)

static struct plan_params pick_among(double loss, uint64_t rtt_ns, uint64_t rate_bps, uint64_t size,
				     bool repeat, double open)
{
	struct plan_limits limits = {
		.repeat = repeat, .k_max = 128, .interleave = 16, .open = open
	};
	struct plan_params params = { .scheme = PLAN_SCHEMES };
	struct plan_path path;

	plan_path_init(&path, rtt_ns, rate_bps, loss);
	assert_int_equal(plan_pick(&path, size, PLAN_MEAN, &limits, &params), 0);
	return params;
}

static struct plan_params pick(double loss, uint64_t rtt_ns, uint64_t rate_bps, uint64_t size,
			       bool repeat)
{
	return pick_among(loss, rtt_ns, rate_bps, size, repeat, 1);
}

/* Most groups lose more than their parity where that is little: each of these needs a repair. */
static void test_little_parity_is_never_enough_where_much_is_lost(void **state)
{
	static const double losses[] = { 0.05, 0.2, 0.36, 0.5 };

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 8; k <= 128; k *= 2) {
			struct plan_params params = code(PLAN_MDS, k, 1, 2);
			struct plan_result closed, sampled;
			struct plan_path path;

			plan_path_init(&path, RTT_NS, GBIT, losses[i]);
			closed = predict(&params, &path, MIB, 0);
			sampled = predict(&params, &path, MIB, 2000);
			close_to(closed.repair_chance, sampled.repair_chance, 0.02,
				 "chance of a repair");
		}
}

/* On a long path parity makes up for the loss, up to 40 %; what is chosen covers what a group loses. */
static void test_parity_covers_the_loss(void **state)
{
	static const double losses[] = { 0.02, 0.1, 0.2, 0.3, 0.4 };

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		struct plan_params params = pick(losses[i], 100 * MS, GBIT / 5, HALF_MIB, true);

		assert_int_equal(params.scheme, PLAN_MDS);
		assert_true(params.m > (params.k + params.m) * losses[i]);
		assert_true(params.m <= params.k);
	}
}

/* With a short round trip a repeat costs less than parity; where a code must be named, it is one that covers. */
static void test_repeats_are_cheap_on_a_short_path(void **state)
{
	struct plan_params params = pick(0.2, MS / 10, GBIT / 50, HALF_MIB, true);

	(void)state;
	assert_int_equal(params.scheme, PLAN_SR_NACK);
	params = pick(0.2, MS / 10, GBIT / 50, HALF_MIB, false);
	assert_int_equal(params.scheme, PLAN_MDS);
	assert_true(params.m > (params.k + params.m) * 0.2);
	/* More than any code covers: the one with most parity. */
	params = pick(0.6, MS / 10, GBIT / 50, HALF_MIB, false);
	assert_int_equal(params.m, params.k);
}

/* A message alone gains a round trip by parity. Among so many that they fill the path each would only send more. */
static void test_messages_that_fill_the_path_are_repeated(void **state)
{
	(void)state;
	assert_int_equal(pick_among(0.02, 50 * MS, GBIT / 5, MIB, true, 1).scheme, PLAN_MDS);
	assert_int_equal(pick_among(0.02, 50 * MS, GBIT / 5, MIB, true, 1.2).scheme, PLAN_MDS);
	assert_int_equal(pick_among(0.02, 50 * MS, GBIT / 5, MIB, true, 8).scheme, PLAN_SR_NACK);
}

/* It is made between two packets, up to ten times a second. */
static void test_it_takes_little_time(void **state)
{
	static const double losses[] = { 0.001, 0.01, 0.1, 0.3 };
	struct timespec from, to;

	(void)state;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (unsigned i = 0; i < 4; i++)
		pick(losses[i], RTT_NS, GBIT, 8 * MIB, true);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	assert_true((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec) <
		    4 * 20 * MS);
}

/* Where packets are late at random, a repeat is late, too, and the hole was named late: parity is worth more. */
static void test_repeats_are_dear_where_packets_are_late(void **state)
{
	struct plan_params coded = code(PLAN_MDS, 32, 4, 4);
	struct plan_result repeat, late, parity, parity_late;
	struct plan_path path;

	(void)state;
	plan_path_init(&path, 60 * MS, GBIT / 100, 0.01);
	repeat = predict(&nack, &path, MIB / 4, 0);
	parity = predict(&coded, &path, MIB / 4, 0);
	path.jitter_ns = 100 * MS;
	late = predict(&nack, &path, MIB / 4, 0);
	parity_late = predict(&coded, &path, MIB / 4, 0);
	assert_true(late.mean.ns > repeat.mean.ns + 30 * MS);
	assert_true(parity_late.mean.ns < parity.mean.ns + 10 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_little_parity_is_never_enough_where_much_is_lost),
		cmocka_unit_test(test_parity_covers_the_loss),
		cmocka_unit_test(test_repeats_are_dear_where_packets_are_late),
		cmocka_unit_test(test_repeats_are_cheap_on_a_short_path),
		cmocka_unit_test(test_messages_that_fill_the_path_are_repeated),
		cmocka_unit_test(test_it_takes_little_time),
	};

	return cmocka_run_group_tests_name("plan-pick", tests, NULL, NULL);
}

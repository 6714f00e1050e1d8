/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice: as good as the best there is, among exact schemes, told in one sentence; and what a deadline leaves. */
#include "plan_test.h"

#include <time.h>

static void test_the_choice_is_within_a_per_cent_of_the_best(void **state)
{
	static const uint64_t rtts[] = { 50000, MS, RTT_NS };

	(void)state;
	for (unsigned r = 0; r < 3; r++) {
		for (double loss = 1e-7; loss < 0.2; loss *= 10) {
			for (uint64_t size = 4096; size < 4096 * MIB; size *= 32) {
				struct plan_choice choice;
				struct plan_params params;
				struct plan_path path;
				double best = INFINITY, least = INFINITY;

				plan_path_init(&path, rtts[r], 100 * GBIT, loss);
				path.burst = loss > 1e-4 ? 1 : 5;
				assert_int_equal(plan_choose(&path, size, PLAN_P99, &choice), 0);
				for (unsigned i = 0; plan_candidate(&path, size, i, &params); i++) {
					if (params.scheme != PLAN_SR_RTO)
						best = fmin(
							best,
							predict(&params, &path, size, 0).p99.ns);
				}
				assert_int_not_equal(choice.params.scheme, PLAN_SR_RTO);
				assert_true(choice.result.p99.ns <= best * 1.0101);
				/* And the one that sends least of those. */
				for (unsigned i = 0; plan_candidate(&path, size, i, &params); i++) {
					struct plan_result result =
						predict(&params, &path, size, 0);

					if (params.scheme != PLAN_SR_RTO &&
					    result.p99.ns <= best * 1.01)
						least = fmin(least, result.sent_share);
				}
				assert_true(choice.result.sent_share <= least);
			}
		}
	}
}

static void test_the_obvious_cases(void **state)
{
	struct plan_choice choice;
	struct plan_path path;

	(void)state;
	/* Far and lossy: parity. */
	plan_path_init(&path, RTT_NS, 10 * GBIT, 1e-2);
	assert_int_equal(plan_choose(&path, 16 * MIB, PLAN_MEAN, &choice), 0);
	assert_true(choice.params.scheme == PLAN_MDS || choice.params.scheme == PLAN_XOR);
	assert_true(choice.repeat.mean.ns > choice.result.mean.ns);
	/* Clean: none. */
	plan_path_init(&path, RTT_NS, 10 * GBIT, 1e-9);
	assert_int_equal(plan_choose(&path, 16 * MIB, PLAN_MEAN, &choice), 0);
	assert_int_equal(choice.params.scheme, PLAN_SR_NACK);
	/* Next door and large: repeating is cheaper than parity. */
	plan_path_init(&path, 20000, 10 * GBIT, 1e-3);
	assert_int_equal(plan_choose(&path, 1024 * MIB, PLAN_MEAN, &choice), 0);
	assert_int_equal(choice.params.scheme, PLAN_SR_NACK);
}

static void test_the_reason_is_a_sentence(void **state)
{
	static const double losses[] = { 0, 1e-3, 1e-1 };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct plan_choice choice;
		struct plan_path path;
		char name[PLAN_NAME_SIZE];
		size_t length;

		plan_path_init(&path, RTT_NS, RATE, losses[i]);
		assert_int_equal(plan_choose(&path, MESSAGE, PLAN_P999, &choice), 0);
		length = strlen(choice.reason);
		assert_in_range(length, 40, PLAN_REASON_SIZE - 2);
		assert_int_equal(choice.reason[length - 1], '.');
		plan_name(&choice.params, name);
		assert_memory_equal(choice.reason, name, strlen(name));
		assert_non_null(strstr(choice.reason, "99.9th percentile"));
	}
}

static void test_candidates_are_valid_and_different(void **state)
{
	struct plan_params all[64];
	struct plan_path path;
	unsigned count;

	(void)state;
	plan_path_init(&path, RTT_NS, RATE, 1e-3);
	path.burst = 20;
	for (count = 0; plan_candidate(&path, MESSAGE, count, &all[count]); count++) {
		assert_int_equal(plan_check(&all[count], &path, MESSAGE), 0);
		for (unsigned i = 0; i < count; i++)
			assert_memory_not_equal(&all[i], &all[count], sizeof(all[i]));
	}
	assert_in_range(count, 20, 60);
}

static void test_a_deadline_leaves_what_arrived(void **state)
{
	struct plan_bounded bounded;
	struct plan_path path;
	double wire_ns;

	(void)state;
	plan_path_init(&path, RTT_NS, 10 * GBIT, 1e-2);
	wire_ns = predict(&nack, &path, 10 * MIB, 0).ideal_ns - RTT_NS;
	/* Half of it is under way. */
	assert_int_equal(
		plan_bounded(&path, 10 * MIB, (uint64_t)(wire_ns / 2 + RTT_NS / 2), &bounded), 0);
	close_to(bounded.once, 0.5 * 0.99, 0.01, "half");
	close_to(bounded.repaired, 0.5 * 0.99, 0.01, "half, no time to repair");
	assert_true(bounded.whole == 0);
	/* All of it once, nothing repaired yet. */
	assert_int_equal(
		plan_bounded(&path, 10 * MIB, (uint64_t)(wire_ns + RTT_NS / 2 + 1000), &bounded),
		0);
	close_to(bounded.once, 0.99, 1e-3, "once");
	/* Twice is nearly always enough. */
	assert_int_equal(
		plan_bounded(&path, 10 * MIB, (uint64_t)(wire_ns + RTT_NS * 1.6), &bounded), 0);
	close_to(bounded.once, 0.99, 1e-6, "once");
	/* Lost, and then both of its requests or its repeat. */
	close_to(bounded.repaired, 1 - 1e-2 * (1 - 0.9999 * 0.99), 2e-5, "twice");
	assert_int_equal(plan_bounded(&path, 10 * MIB, 10000 * (uint64_t)MS, &bounded), 0);
	assert_true(bounded.whole > 0.999999 && bounded.repaired > 0.999999);
	/* Nothing can be there before half a round trip. */
	assert_int_equal(plan_bounded(&path, 10 * MIB, RTT_NS / 2, &bounded), 0);
	assert_true(bounded.once == 0 && bounded.repaired == 0 && bounded.whole == 0);
	assert_int_equal(plan_bounded(&path, 0, 1, &bounded), -EINVAL);
}

/* Meant for every message: microseconds for one scheme, less than some milliseconds for all, even on a busy machine. */
static void test_it_is_fast_enough_to_ask(void **state)
{
	struct timespec from, to;
	struct plan_choice choice;
	struct plan_path path;
	double ns;

	(void)state;
	plan_path_init(&path, RTT_NS, RATE, 1e-2);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(plan_choose(&path, MESSAGE, PLAN_P99, &choice), 0);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	ns = ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / 20;
	assert_true(ns < 20 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_choice_is_within_a_per_cent_of_the_best),
		cmocka_unit_test(test_the_obvious_cases),
		cmocka_unit_test(test_the_reason_is_a_sentence),
		cmocka_unit_test(test_candidates_are_valid_and_different),
		cmocka_unit_test(test_a_deadline_leaves_what_arrived),
		cmocka_unit_test(test_it_is_fast_enough_to_ask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

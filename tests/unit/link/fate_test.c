/* SPDX-License-Identifier: BSD-3-Clause */
/* What becomes of packets: loss by chance and in bursts, copies, damage, delay, and that a seed decides all of it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "link/link.h"

#define PACKETS 1000000

/* Losses, and the runs they came in. */
struct losses {
	uint32_t lost;
	uint32_t bursts;
};

static struct losses count_losses(const struct link_attr *attr, uint64_t seed)
{
	struct losses losses = { 0 };
	bool before = false;
	struct link link;

	link_init(&link, attr, seed);
	for (uint32_t i = 0; i < PACKETS; i++) {
		bool lost = !link_enter(&link, i, 1000).copies;

		losses.lost += lost;
		losses.bursts += lost && !before;
		before = lost;
	}
	assert_int_equal(link.stats.lost, losses.lost);
	assert_int_equal(link.stats.forwarded, PACKETS - losses.lost);
	return losses;
}

static void assert_near(double value, double expected, double within)
{
	if (fabs(value - expected) > within)
		fail_msg("%g is not within %g of %g", value, within, expected);
}

/* Bounds here and below: five standard deviations of the count. */
static void test_independent_loss_has_its_rate(void **state)
{
	struct link_attr attr = { .loss = 0.01 };

	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct losses losses = count_losses(&attr, seed);

		assert_near(losses.lost, 0.01 * PACKETS, 500);
		/* Independent: the next one is lost as often as any. */
		assert_near((double)losses.lost / losses.bursts, 1 / 0.99, 0.01);
	}
	assert_near(link_mean_loss(&attr), 0.01, 1e-12);
}

static void test_bursts_have_their_rate_and_length(void **state)
{
	struct link_attr attr = { .burst_enter = 0.01, .burst_leave = 0.25, .burst_loss = 1 };

	(void)state;
	assert_near(link_mean_loss(&attr), 0.01 / 0.26, 1e-12);
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct losses losses = count_losses(&attr, seed);

		assert_near(losses.lost, 0.01 / 0.26 * PACKETS, 2500);
		assert_near((double)losses.lost / losses.bursts, 4, 0.18);
	}
}

/* A packet a nanosecond: of a burst that no packet ends, those from its first to 9 ns later are lost. */
static void test_a_burst_ends_by_time(void **state)
{
	struct link_attr attr = { .burst_enter = 0.001, .burst_loss = 1, .burst_max_ns = 9 };
	struct losses losses = count_losses(&attr, 1);

	(void)state;
	assert_near(losses.lost, 0.001 * PACKETS * 10, 500);
	assert_near((double)losses.lost / losses.bursts, 10, 0.1);
}

/* Loss inside the bad state only, and chance on top. */
static void test_both_kinds_add_up(void **state)
{
	struct link_attr attr = {
		.loss = 0.02, .burst_enter = 0.05, .burst_leave = 0.2, .burst_loss = 0.5
	};
	double expected = 1 - (1 - 0.02) * (1 - 0.2 * 0.5);

	(void)state;
	assert_near(link_mean_loss(&attr), expected, 1e-12);
	assert_near(count_losses(&attr, 1).lost, expected * PACKETS, 3500);
}

static void test_no_loss_unless_asked(void **state)
{
	struct link_attr none = { 0 };
	struct link_attr never_bad = { .burst_leave = 1, .burst_loss = 1 };

	(void)state;
	assert_int_equal(count_losses(&none, 1).lost, 0);
	assert_int_equal(count_losses(&never_bad, 1).lost, 0);
	assert_true(link_mean_loss(&none) == 0 && link_mean_loss(&never_bad) == 0);
}

static void test_what_is_lost_has_taken_its_time(void **state)
{
	struct link_attr attr = { .rate_bps = UINT64_C(8000000000), .loss = 1 };
	struct link link;

	(void)state;
	link_init(&link, &attr, 1);
	assert_int_equal(link_enter(&link, 0, 1000).copies, 0);
	assert_int_equal(link_queued_bytes(&link, 0), 1000);
}

static void test_copies_damage_and_delay(void **state)
{
	struct link_attr attr = {
		.delay_ns = 10, .duplicate = 0.1, .corrupt = 0.2, .reorder = 0.3, .reorder_ns = 50
	};
	uint32_t twice = 0, corrupt = 0, late = 0;
	uint64_t most = 0;
	struct link link;

	(void)state;
	link_init(&link, &attr, 5);
	for (uint32_t i = 0; i < PACKETS; i++) {
		struct link_verdict verdict = link_enter(&link, i, 1000);
		uint64_t held = verdict.at_ns[0] - i - 10;

		assert_in_range(verdict.copies, 1, 2);
		if (verdict.copies == 2)
			assert_true(verdict.at_ns[1] > verdict.at_ns[0]);
		twice += verdict.copies == 2;
		corrupt += verdict.corrupt;
		late += held > 0;
		most = held > most ? held : most;
	}
	assert_near(twice, 0.1 * PACKETS, 1500);
	assert_near(corrupt, 0.2 * PACKETS, 2000);
	assert_near(late, 0.3 * PACKETS, 2300);
	assert_in_range(most, 50, 51);
	assert_int_equal(link.stats.duplicated, twice);
	assert_int_equal(link.stats.corrupted, corrupt);
	assert_int_equal(link.stats.reordered, late);
}

static const struct link_attr everything = { .rate_bps = UINT64_C(10000000000),
					     .delay_ns = 1000,
					     .jitter_ns = 100,
					     .queue_bytes = 50000,
					     .ecn_bytes = 20000,
					     .loss = 0.05,
					     .burst_enter = 0.01,
					     .burst_leave = 0.2,
					     .burst_loss = 0.9,
					     .duplicate = 0.05,
					     .corrupt = 0.05,
					     .reorder = 0.05,
					     .reorder_ns = 500 };

static bool same(const struct link_verdict *a, const struct link_verdict *b)
{
	return a->copies == b->copies && a->ce == b->ce && a->corrupt == b->corrupt &&
	       a->at_ns[0] == b->at_ns[0] && a->at_ns[1] == b->at_ns[1];
}

/* How many of some thousand verdicts differ between two seeds. */
static uint32_t differences(uint64_t seed_a, uint64_t seed_b)
{
	uint32_t differ = 0;
	struct link a, b;

	link_init(&a, &everything, seed_a);
	link_init(&b, &everything, seed_b);
	for (uint32_t i = 0; i < 5000; i++) {
		struct link_verdict va = link_enter(&a, i * 500, 1000);
		struct link_verdict vb = link_enter(&b, i * 500, 1000);

		differ += !same(&va, &vb);
	}
	return differ;
}

static void test_a_seed_decides(void **state)
{
	(void)state;
	assert_int_equal(differences(7, 7), 0);
	assert_true(differences(7, 8) > 2500);
}

/* A packet draws the same whatever becomes of it: what happened to one does not change the chances of the next. */
static void test_fates_do_not_depend_on_one_another(void **state)
{
	struct link cut, whole;

	(void)state;
	link_init(&cut, &everything, 3);
	link_init(&whole, &everything, 3);
	for (uint32_t i = 0; i < 5000; i++) {
		struct link_verdict vc, vw;

		cut.down = i % 100 < 50;
		vc = link_enter(&cut, i * UINT64_C(2000), 1000);
		vw = link_enter(&whole, i * UINT64_C(2000), 1000);
		if (cut.down)
			assert_int_equal(vc.copies, 0);
		else
			assert_true(same(&vc, &vw));
	}
	assert_int_equal(cut.stats.cut, 2500);
	assert_int_equal(whole.stats.cut, 0);
}

static void test_a_link_that_is_down_takes_nothing(void **state)
{
	struct link_attr attr = { .rate_bps = UINT64_C(8000000000) };
	struct link link;

	(void)state;
	link_init(&link, &attr, 1);
	link.down = true;
	assert_int_equal(link_enter(&link, 0, 1000).copies, 0);
	assert_int_equal(link_queued_bytes(&link, 0), 0);
	link.down = false;
	assert_int_equal(link_enter(&link, 0, 1000).copies, 1);
	assert_int_equal(link.stats.cut, 1);
	assert_int_equal(link.stats.lost, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_independent_loss_has_its_rate),
		cmocka_unit_test(test_bursts_have_their_rate_and_length),
		cmocka_unit_test(test_a_burst_ends_by_time),
		cmocka_unit_test(test_both_kinds_add_up),
		cmocka_unit_test(test_no_loss_unless_asked),
		cmocka_unit_test(test_what_is_lost_has_taken_its_time),
		cmocka_unit_test(test_copies_damage_and_delay),
		cmocka_unit_test(test_a_seed_decides),
		cmocka_unit_test(test_fates_do_not_depend_on_one_another),
		cmocka_unit_test(test_a_link_that_is_down_takes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

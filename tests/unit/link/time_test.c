/* SPDX-License-Identifier: BSD-3-Clause */
/* When packets come out: rate, delay, the queue they wait in, what it drops and what it marks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "link/link.h"

#define GIGABIT UINT64_C(1000000000)

static struct link link_of(struct link_attr attr)
{
	struct link link;

	link_init(&link, &attr, 1);
	return link;
}

static uint64_t out_ns(struct link *link, uint64_t now_ns, uint32_t bytes)
{
	struct link_verdict verdict = link_enter(link, now_ns, bytes);

	assert_int_equal(verdict.copies, 1);
	return verdict.at_ns[0];
}

/* 1250 bytes are 10,000 bits: a tenth of a microsecond at 100 Gbit/s. */
static void test_a_packet_takes_its_bits_over_the_rate(void **state)
{
	struct link link =
		link_of((struct link_attr){ .rate_bps = 100 * GIGABIT, .delay_ns = 500 });

	(void)state;
	assert_int_equal(out_ns(&link, 1000, 1250), 1000 + 100 + 500);
	assert_int_equal(out_ns(&link, 5000, 125), 5000 + 10 + 500);
	assert_int_equal(out_ns(&link, 10000, 0), 10000 + 500);
}

static void test_slow_links_do_not_overflow(void **state)
{
	struct link link = link_of((struct link_attr){ .rate_bps = 1000 });

	(void)state;
	assert_true(out_ns(&link, 0, 65536) == UINT64_C(65536) * 8 * 1000000);
	assert_true(out_ns(&link, 0, 65536) == UINT64_C(65536) * 16 * 1000000);
}

static void test_packets_follow_one_another(void **state)
{
	struct link link = link_of((struct link_attr){ .rate_bps = 10 * GIGABIT, .delay_ns = 7 });

	(void)state;
	for (uint64_t i = 1; i <= 100; i++)
		assert_int_equal(out_ns(&link, 50, 1250), 50 + 1000 * i + 7);
	/* After a pause the link is free at once. */
	assert_int_equal(out_ns(&link, 1000000, 1250), 1000000 + 1000 + 7);
	assert_int_equal(link.stats.forwarded, 101);
}

static void test_without_a_rate_only_the_delay_counts(void **state)
{
	struct link link = link_of((struct link_attr){ .delay_ns = 3 });

	(void)state;
	for (int i = 0; i < 10; i++)
		assert_int_equal(out_ns(&link, 20, 1000000), 23);
	assert_int_equal(link_queued_bytes(&link, 20), 0);
}

static void test_the_queue_drains_at_the_rate(void **state)
{
	struct link link =
		link_of((struct link_attr){ .rate_bps = 8 * GIGABIT }); /* a byte a nanosecond */

	(void)state;
	assert_int_equal(link_queued_bytes(&link, 0), 0);
	out_ns(&link, 0, 1000);
	out_ns(&link, 0, 1000);
	assert_int_equal(link_queued_bytes(&link, 0), 2000);
	assert_int_equal(link_queued_bytes(&link, 1), 1999);
	assert_int_equal(link_queued_bytes(&link, 1500), 500);
	assert_int_equal(link_queued_bytes(&link, 2000), 0);
	assert_int_equal(link_queued_bytes(&link, 9000), 0);
}

static void test_a_full_queue_drops(void **state)
{
	struct link link =
		link_of((struct link_attr){ .rate_bps = 8 * GIGABIT, .queue_bytes = 3000 });

	(void)state;
	for (int i = 0; i < 3; i++)
		out_ns(&link, 0, 1000);
	assert_int_equal(link_enter(&link, 0, 1000).copies, 0);
	assert_int_equal(link_enter(&link, 0, 1).copies, 0);
	assert_int_equal(link.stats.overflow, 2);
	/* What was dropped takes no time on the link: there is room exactly when as much has left. */
	assert_int_equal(link_enter(&link, 999, 1000).copies, 0);
	assert_int_equal(out_ns(&link, 1000, 1000), 4000);
	assert_int_equal(link.stats.forwarded, 4);
	assert_int_equal(link.stats.lost, 0);
}

static void test_marks_above_the_threshold_only(void **state)
{
	struct link link =
		link_of((struct link_attr){ .rate_bps = 8 * GIGABIT, .ecn_bytes = 1000 });

	(void)state;
	assert_false(link_enter(&link, 0, 1000).ce); /* finds nothing */
	assert_false(link_enter(&link, 0, 1000).ce); /* finds 1000 */
	assert_true(link_enter(&link, 0, 1000).ce);  /* finds 2000 */
	assert_true(link_enter(&link, 1999, 1000).ce);
	assert_false(link_enter(&link, 3000, 1000).ce);
	assert_int_equal(link.stats.marked, 2);
	assert_int_equal(link.stats.forwarded, 5);
}

static void test_jitter_is_uniform_up_to_its_limit(void **state)
{
	struct link link = link_of((struct link_attr){ .delay_ns = 100, .jitter_ns = 9 });
	unsigned seen[10] = { 0 };

	(void)state;
	for (int i = 0; i < 10000; i++) {
		uint64_t extra = out_ns(&link, 0, 1) - 100;

		assert_in_range(extra, 0, 9);
		seen[extra]++;
	}
	for (int i = 0; i < 10; i++)
		assert_in_range(seen[i], 850, 1150); /* five deviations of 30 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_packet_takes_its_bits_over_the_rate),
		cmocka_unit_test(test_slow_links_do_not_overflow),
		cmocka_unit_test(test_packets_follow_one_another),
		cmocka_unit_test(test_without_a_rate_only_the_delay_counts),
		cmocka_unit_test(test_the_queue_drains_at_the_rate),
		cmocka_unit_test(test_a_full_queue_drops),
		cmocka_unit_test(test_marks_above_the_threshold_only),
		cmocka_unit_test(test_jitter_is_uniform_up_to_its_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

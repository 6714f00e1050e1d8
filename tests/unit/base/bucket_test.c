/* SPDX-License-Identifier: BSD-3-Clause */
/* The token bucket by itself: what it holds, earns and names. Rates over time are looked at in the pacer's test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bucket.h"

#define S    UINT64_C(1000000000)
#define GBIT UINT64_C(1000000000)

static void full_and_free_at_first(void **state)
{
	struct bucket bucket;

	(void)state;
	bucket_init(&bucket, 1000, 5);
	assert_true(bucket_allow(&bucket, 5) == UINT64_MAX);
	assert_int_equal(bucket_next_ns(&bucket, 1 << 20, 5), 5);
	bucket_take(&bucket, 1 << 20, 5);
	bucket_set(&bucket, GBIT, 1000, 5);
	assert_int_equal(bucket_allow(&bucket, 5), 1000);
}

static void earns_its_rate_up_to_its_depth(void **state)
{
	struct bucket bucket;

	(void)state;
	bucket_init(&bucket, 4000, 0);
	bucket_set(&bucket, 8 * GBIT, 4000, 0); /* a byte a nanosecond */
	bucket_take(&bucket, 4000, 0);
	assert_int_equal(bucket_allow(&bucket, 1500), 1500);
	assert_int_equal(bucket_allow(&bucket, S), 4000);
	assert_int_equal(bucket_depth_bytes(&bucket), 4000);
	bucket_take(&bucket, 5000, S);
	assert_int_equal(bucket_allow(&bucket, S + 999), 0);
	assert_int_equal(bucket_next_ns(&bucket, 100, S + 999), S + 1100);
	/* More than it holds: when it is full. */
	assert_int_equal(bucket_next_ns(&bucket, 9999, S + 999), S + 5000);
}

static void a_smaller_bucket_spills(void **state)
{
	struct bucket bucket;

	(void)state;
	bucket_init(&bucket, 4000, 0);
	bucket_set(&bucket, GBIT, 4000, 0);
	bucket_set(&bucket, GBIT, 1500, 0);
	assert_int_equal(bucket_allow(&bucket, 0), 1500);
	bucket_set(&bucket, 0, 1500, 0);
	bucket_take(&bucket, 1500, 0);
	assert_true(bucket_next_ns(&bucket, 1, S) == UINT64_MAX);
	bucket_set(&bucket, GBIT, UINT64_MAX, S);
	assert_int_equal(bucket_depth_bytes(&bucket), 1 << 29);
}

/*
 * What does not fit into a smaller bucket is gone: it stays neither in a bucket that is stopped, which earns nothing and so
 * is never settled, nor as arrears that a running one would make up for.
 */
static void what_was_spilled_does_not_come_back(void **state)
{
	struct bucket bucket;

	(void)state;
	bucket_init(&bucket, 4000, 0);
	bucket_set(&bucket, GBIT, 4000, 0);
	bucket_set(&bucket, 0, 1500, 0);
	assert_int_equal(bucket_allow(&bucket, S), 1500);
	bucket_init(&bucket, 4000, 0);
	bucket_set(&bucket, 8 * GBIT, 4000, 0); /* a byte a nanosecond */
	bucket_set(&bucket, 8 * GBIT, 1500, 0);
	bucket_take(&bucket, 1500, 0);
	assert_int_equal(bucket_allow(&bucket, 1000), 1000);
}

/* Bytes are taken at a time in the future: until then nothing more may leave, and nothing is earned twice. */
static void the_future_is_earned_once(void **state)
{
	struct bucket bucket;

	(void)state;
	bucket_init(&bucket, 4000, 0);
	bucket_set(&bucket, 8 * GBIT, 4000, 0); /* a byte a nanosecond */
	bucket_take(&bucket, 4000, 0);
	assert_int_equal(bucket_next_ns(&bucket, 1500, 0), 1500);
	assert_int_equal(bucket_allow(&bucket, 2500), 2500);
	bucket_take(&bucket, 1500, 2500);
	/* 1000 are left then, and none before 1500. */
	assert_int_equal(bucket_allow(&bucket, 1000), 0);
	assert_int_equal(bucket_allow(&bucket, 1500), 0);
	assert_int_equal(bucket_allow(&bucket, 1600), 100);
	assert_int_equal(bucket_next_ns(&bucket, 300, 1000), 1800);
	assert_int_equal(bucket_next_ns(&bucket, 1000, 1000), 2500);
	assert_int_equal(bucket_next_ns(&bucket, 1500, 1000), 3000);
	/* But what is urgent may have them at once. */
	assert_int_equal(bucket_allow_first(&bucket, 1000), 1000 + 1500 / 4);
	bucket_take(&bucket, 400, 1000);
	assert_int_equal(bucket_allow(&bucket, 2500), 600);
	assert_int_equal(bucket_allow(&bucket, 3000), 1100);
	/* The present sets a rate, and what was taken in the future stays taken. */
	bucket_set(&bucket, GBIT * 4, 4000, 2000);
	assert_int_equal(bucket_allow(&bucket, 3000), 1100);
	assert_int_equal(bucket_allow(&bucket, 4000), 1600);
	/* A clock that went back, and not just from the future: time counts from there. */
	bucket_allow(&bucket, S);
	bucket_take(&bucket, 4000, S);
	assert_int_equal(bucket_allow(&bucket, 1000), 0);
	assert_int_equal(bucket_allow(&bucket, 2000), 500);
	/* No overflow at the largest numbers. */
	bucket_set(&bucket, 10000 * GBIT, 1 << 29, 2 * S);
	bucket_take(&bucket, 1 << 29, 2 * S + BUCKET_AHEAD_NS);
	assert_int_equal(bucket_allow(&bucket, 2 * S), 0);
	assert_true(bucket_next_ns(&bucket, 1 << 29, 2 * S) > 2 * S);
	assert_true(bucket_next_ns(&bucket, 1 << 29, 2 * S) < 3 * S);
}

/* What left beyond the allowance is paid off within 100 ms, at whatever rate. */
static void a_debt_is_forgiven(void **state)
{
	struct bucket bucket;

	(void)state;
	bucket_init(&bucket, 4000, 0);
	bucket_set(&bucket, GBIT, 4000, 0);
	bucket_take(&bucket, 1 << 20, 0);
	/* 8 ms at this rate are owed in full. */
	assert_int_equal(bucket_next_ns(&bucket, 1000, 0), 8 * ((1 << 20) - 4000 + 1000));
	/* At another they would be 84 s. */
	bucket_set(&bucket, 100000, 1500, 0);
	assert_in_range(bucket_next_ns(&bucket, 1, 0), S / 10, S / 10 + 2 * 80000);
	for (int i = 0; i < 100; i++)
		bucket_take(&bucket, 1500, S);
	assert_in_range(bucket_next_ns(&bucket, 1, S), S + S / 10, S + S / 10 + 2 * 80000);
}

static void bytes_in_a_time(void **state)
{
	(void)state;
	assert_int_equal(bucket_bytes_in(8 * GBIT, S), GBIT);
	assert_int_equal(bucket_bytes_in(GBIT, 7), 0);
	assert_int_equal(bucket_bytes_in(400 * GBIT, 86400 * S), 50 * GBIT * 86400);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(full_and_free_at_first),
		cmocka_unit_test(earns_its_rate_up_to_its_depth),
		cmocka_unit_test(a_smaller_bucket_spills),
		cmocka_unit_test(what_was_spilled_does_not_come_back),
		cmocka_unit_test(the_future_is_earned_once),
		cmocka_unit_test(a_debt_is_forgiven),
		cmocka_unit_test(bytes_in_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

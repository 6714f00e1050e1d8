/* SPDX-License-Identifier: BSD-3-Clause */
/* What is under way: order of leaving, memory that comes back, and quantiles of lateness. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "lab/delay.h"
#include "lab/lateness.h"

#define PIECES 5000

static void test_pieces_leave_by_time_and_then_by_entry(void **state)
{
	struct store store;
	struct delay delay;
	struct rng rng;
	struct buffer *buffer;
	uint64_t last = 0;

	(void)state;
	rng_seed(&rng, 3);
	delay_init(&delay);
	store_init(&store, 1500, UINT64_C(1) << 30);
	buffer = store_buffer(&store, 1500);
	assert_null(delay_take(&delay));
	for (unsigned i = 0; i < PIECES; i++) {
		struct piece *piece = store_piece(&store, buffer, i);

		piece->at_ns = i * 10 + rng_below(&rng, i % 3 ? 1 : 200);
		assert_int_equal(delay_put(&delay, piece), 0);
	}
	for (unsigned i = 0; i < PIECES; i++) {
		struct piece *peeked = delay_peek(&delay), *piece = delay_take(&delay);

		assert_non_null(piece);
		assert_ptr_equal(peeked, piece);
		assert_true(piece->at_ns >= last);
		last = piece->at_ns;
		store_drop(&store, piece);
	}
	assert_null(delay_peek(&delay));
	assert_null(delay_take(&delay));
	delay_destroy(&delay);
	store_destroy(&store);
}

static void test_equal_times_keep_their_order(void **state)
{
	struct store store;
	struct delay delay;
	struct buffer *buffer;

	(void)state;
	delay_init(&delay);
	store_init(&store, 1500, UINT64_C(1) << 30);
	buffer = store_buffer(&store, 1500);
	for (unsigned i = 0; i < 100; i++) {
		struct piece *piece = store_piece(&store, buffer, i);

		piece->at_ns = 5;
		assert_int_equal(delay_put(&delay, piece), 0);
	}
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(delay_take(&delay)->index, i);
	delay_destroy(&delay);
	store_destroy(&store);
}

static void test_a_buffer_lives_as_long_as_its_pieces(void **state)
{
	struct store store;
	struct buffer *buffer, *other;
	struct piece *first, *second;

	(void)state;
	store_init(&store, 1500, UINT64_C(1) << 30);
	buffer = store_buffer(&store, 1500);
	first = store_piece(&store, buffer, 0);
	second = store_piece(&store, buffer, 1);
	store_drop(&store, first);
	other = store_buffer(&store, 1500);
	assert_ptr_not_equal(other, buffer);
	store_drop(&store, second);
	assert_ptr_equal(store_buffer(&store, 1), buffer);
	/* A large one is never handed out for a small one or the reverse. */
	store_release(&store, other);
	assert_true(store_buffer(&store, 1501)->large);
	assert_false(store_buffer(&store, 1500)->large);
	store_destroy(&store);
}

static void test_a_full_store_says_so(void **state)
{
	struct store store;
	struct buffer *last = NULL, *buffer;
	unsigned count = 0;

	(void)state;
	store_init(&store, 1500, UINT64_C(2) << 20);
	while ((buffer = store_buffer(&store, PACKET_SIZE_MAX))) {
		memset(buffer->data, 0xff, PACKET_SIZE_MAX);
		last = buffer;
		count++;
	}
	assert_in_range(count, 20, 32);
	assert_null(store_piece(&store, last, 0));
	assert_int_equal(last->references, 0);
	store_release(&store, last);
	assert_ptr_equal(store_buffer(&store, PACKET_SIZE_MAX), last);
	store_destroy(&store);
}

static void test_quantiles(void **state)
{
	static struct lateness lateness, other;

	(void)state;
	assert_int_equal(lateness_quantile_ns(&lateness, 0.5), 0);
	for (uint64_t i = 1; i <= 1000; i++)
		lateness_add(&lateness, i * 1000, 1);
	assert_in_range(lateness_quantile_ns(&lateness, 0.5), 500000, 540000);
	assert_in_range(lateness_quantile_ns(&lateness, 0.99), 990000, 1000000);
	assert_int_equal(lateness.max_ns, 1000000);
	lateness_add(&other, UINT64_MAX, 1000);
	lateness_merge(&lateness, &other);
	assert_true(lateness_quantile_ns(&lateness, 0.99) == UINT64_MAX);
	assert_in_range(lateness_quantile_ns(&lateness, 0.25), 500000, 540000);
	assert_int_equal(lateness.count, 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces_leave_by_time_and_then_by_entry),
		cmocka_unit_test(test_equal_times_keep_their_order),
		cmocka_unit_test(test_a_buffer_lives_as_long_as_its_pieces),
		cmocka_unit_test(test_a_full_store_says_so),
		cmocka_unit_test(test_quantiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring against counters that never wrap, also where its own wrap. */
#include "base_test.h"

#include "base/ring.h"
#include "base/rng.h"

static void push_when_full(void *arg)
{
	ring_push_index(arg);
}

static void pop_when_empty(void *arg)
{
	ring_pop_index(arg);
}

static void init_with_three(void *arg)
{
	ring_init(arg, 3);
}

static void test_limits(void **state)
{
	struct ring ring;

	(void)state;
	ring_init(&ring, 1);
	assert_true(ring_empty(&ring));
	assert_false(ring_full(&ring));
	assert_true(aborts(pop_when_empty, &ring));
	assert_int_equal(ring_push_index(&ring), 0);
	assert_true(ring_full(&ring));
	assert_false(ring_empty(&ring));
	assert_true(aborts(push_when_full, &ring));
	assert_int_equal(ring_pop_index(&ring), 0);
	assert_true(ring_empty(&ring));
	assert_true(aborts(init_with_three, &ring));
}

static void test_largest(void **state)
{
	struct ring ring;

	(void)state;
	ring_init(&ring, UINT32_C(1) << 31);
	ring.tail = (UINT32_C(1) << 31) - 1;
	assert_false(ring_full(&ring));
	assert_int_equal(ring_push_index(&ring), (UINT32_C(1) << 31) - 1);
	assert_true(ring_full(&ring));
	assert_int_equal(ring_pop_index(&ring), 0);
	assert_false(ring_full(&ring));
}

/* Starts just short of the wrap and keeps values in the array beside the ring. */
static void test_fifo_across_the_wrap(void **state)
{
	uint64_t pushed = 0, popped = 0;
	uint64_t values[8];
	struct ring ring;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 2);
	ring_init(&ring, 8);
	ring.head = ring.tail = UINT32_MAX - 1000;
	for (int i = 0; i < 10000; i++) {
		assert_int_equal(ring_count(&ring), pushed - popped);
		assert_int_equal(ring_empty(&ring), pushed == popped);
		assert_int_equal(ring_full(&ring), pushed - popped == 8);
		if (rng_chance(&rng, 0.5) && !ring_full(&ring)) {
			values[ring_push_index(&ring)] = pushed++;
		} else if (!ring_empty(&ring)) {
			assert_int_equal(values[ring_peek_index(&ring)], popped);
			assert_int_equal(values[ring_pop_index(&ring)], popped);
			popped++;
		}
	}
	assert_true(ring.head < 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_largest),
		cmocka_unit_test(test_fifo_across_the_wrap),
	};

	return cmocka_run_group_tests_name("base-ring", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The heap against sorting, and against a search through all armed timers. */
#include "base_test.h"

#include <errno.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/rng.h"

#define NODES 300

struct timer {
	struct heap_node node;
	bool armed;
	uint64_t key;
	uint64_t armed_as; /* the how-manieth arming this was */
};

static int compare(const void *a, const void *b)
{
	const struct timer *left = *(struct timer *const *)a;
	const struct timer *right = *(struct timer *const *)b;

	if (left->key != right->key)
		return left->key < right->key ? -1 : 1;
	return left->armed_as < right->armed_as ? -1 : left->armed_as > right->armed_as;
}

static struct timer *timer_of(struct heap_node *node)
{
	return node ? (struct timer *)((char *)node - offsetof(struct timer, node)) : NULL;
}

/* Keys from a small range, so that most are shared; every size from 0 up. */
static void test_sorts_stably(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 6);
	for (size_t count = 0; count <= NODES; count++) {
		struct timer timers[NODES] = { 0 };
		struct timer *sorted[NODES];
		struct heap heap;

		heap_init(&heap);
		assert_int_equal(heap_reserve(&heap, count), 0);
		for (size_t i = 0; i < count; i++) {
			timers[i].key = rng_below(&rng, 1 + count / 4);
			timers[i].armed_as = i;
			sorted[i] = &timers[i];
			heap_insert(&heap, &timers[i].node, timers[i].key);
		}
		qsort(sorted, count, sizeof(sorted[0]), compare);
		for (size_t i = 0; i < count; i++) {
			assert_int_equal(heap_count(&heap), count - i);
			assert_ptr_equal(heap_min(&heap), &sorted[i]->node);
			assert_ptr_equal(heap_pop(&heap), &sorted[i]->node);
			assert_false(heap_contains(&sorted[i]->node));
		}
		assert_null(heap_min(&heap));
		assert_null(heap_pop(&heap));
		heap_destroy(&heap);
	}
}

static void test_equal_keys_keep_order(void **state)
{
	struct timer timers[NODES] = { 0 };
	struct heap heap;

	(void)state;
	heap_init(&heap);
	assert_int_equal(heap_reserve(&heap, NODES), 0);
	for (size_t i = 0; i < NODES; i++)
		heap_insert(&heap, &timers[i].node, 7);
	/* An update goes to the end, even to the key it has. */
	heap_update(&heap, &timers[10].node, 7);
	for (size_t i = 0; i < NODES; i++) {
		if (i != 10)
			assert_ptr_equal(heap_pop(&heap), &timers[i].node);
	}
	assert_ptr_equal(heap_pop(&heap), &timers[10].node);
	heap_destroy(&heap);
}

static struct timer *model_min(struct timer *timers)
{
	struct timer *min = NULL;

	for (size_t i = 0; i < NODES; i++) {
		struct timer *candidate = &timers[i];

		if (candidate->armed && (!min || compare(&candidate, &min) < 0))
			min = candidate;
	}
	return min;
}

static void test_random(void **state)
{
	struct timer timers[NODES] = { 0 };
	uint64_t armings = 0;
	size_t count = 0;
	struct heap heap;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 7);
	heap_init(&heap);
	assert_int_equal(heap_reserve(&heap, NODES), 0);
	for (int i = 0; i < 100000; i++) {
		struct timer *timer = &timers[rng_below(&rng, NODES)];
		uint64_t key = rng_chance(&rng, 0.1) ? rng_u64(&rng) : rng_below(&rng, 50);

		assert_int_equal(heap_contains(&timer->node), timer->armed);
		switch (rng_below(&rng, 4)) {
		case 0:
			heap_remove(&heap, &timer->node);
			count -= timer->armed;
			timer->armed = false;
			break;
		case 1:
			timer = model_min(timers);
			assert_ptr_equal(timer_of(heap_pop(&heap)), timer);
			if (timer) {
				timer->armed = false;
				count--;
			}
			break;
		default:
			if (timer->armed)
				heap_update(&heap, &timer->node, key);
			else if (rng_chance(&rng, 0.5))
				heap_update(&heap, &timer->node, key);
			else
				heap_insert(&heap, &timer->node, key);
			count += !timer->armed;
			timer->armed = true;
			timer->key = key;
			timer->armed_as = armings++;
		}
		assert_int_equal(heap_count(&heap), count);
		assert_ptr_equal(timer_of(heap_min(&heap)), model_min(timers));
	}
	heap_destroy(&heap);
}

static void insert(void *arg)
{
	struct heap_node node = { 0 };

	heap_insert(arg, &node, 1);
}

static void insert_its_own(void *arg)
{
	struct heap *heap = arg;

	heap_insert(heap, heap_min(heap), 1);
}

static void test_capacity(void **state)
{
	struct heap_node node = { 0 };
	struct heap heap;

	(void)state;
	heap_init(&heap);
	assert_int_equal(heap_capacity(&heap), 0);
	assert_true(aborts(insert, &heap));
	assert_int_equal(heap_reserve(&heap, 1), 0);
	assert_int_equal(heap_reserve(&heap, SIZE_MAX / 4), -ENOMEM);
	assert_int_equal(heap_capacity(&heap), 1);
	heap_insert(&heap, &node, 5);
	assert_true(aborts(insert, &heap));
	assert_int_equal(heap_reserve(&heap, 10), 0);
	assert_int_equal(heap_reserve(&heap, 3), 0);
	assert_int_equal(heap_capacity(&heap), 10);
	assert_false(aborts(insert, &heap));
	assert_true(aborts(insert_its_own, &heap));
	assert_ptr_equal(heap_pop(&heap), &node);
	heap_remove(&heap, &node);
	assert_int_equal(heap_count(&heap), 0);
	heap_destroy(&heap);
	assert_int_equal(heap_capacity(&heap), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sorts_stably),
		cmocka_unit_test(test_equal_keys_keep_order),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_capacity),
	};

	return cmocka_run_group_tests_name("base-heap", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The list against an array of the same items, walked forwards and backwards after each step. */
#include "base_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/rng.h"

#define ITEMS 20

struct item {
	int before; /* keeps the link off the start of the object */
	struct list link;
};

static void assert_holds(const struct list *list, struct item **expected, size_t count)
{
	struct list *link;
	size_t i = 0;

	assert_int_equal(list_empty(list), count == 0);
	assert_ptr_equal(list_first(list), count ? &expected[0]->link : NULL);
	list_for_each (link, list) {
		assert_true(i < count);
		assert_ptr_equal(container_of(link, struct item, link), expected[i]);
		i++;
	}
	assert_int_equal(i, count);
	for (link = list->prev; link != list; link = link->prev)
		assert_ptr_equal(link, &expected[--i]->link);
	assert_int_equal(i, 0);
}

static void test_random(void **state)
{
	struct item items[ITEMS];
	struct item *expected[ITEMS];
	size_t count = 0;
	struct list list;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 17);
	list_init(&list);
	for (size_t i = 0; i < ITEMS; i++)
		list_init(&items[i].link);
	assert_holds(&list, expected, 0);
	for (int round = 0; round < 20000; round++) {
		struct item *item = &items[rng_below(&rng, ITEMS)];
		size_t at = 0;

		while (at < count && expected[at] != item)
			at++;
		assert_int_equal(list_empty(&item->link), at == count);
		if (at < count || rng_chance(&rng, 0.3)) {
			list_del(&item->link);
			if (at < count) {
				memmove(expected + at, expected + at + 1,
					(count - at - 1) * sizeof(expected[0]));
				count--;
			}
		} else if (rng_chance(&rng, 0.5)) {
			list_add_tail(&list, &item->link);
			expected[count++] = item;
		} else {
			list_add_head(&list, &item->link);
			memmove(expected + 1, expected, count * sizeof(expected[0]));
			expected[0] = item;
			count++;
		}
		assert_holds(&list, expected, count);
	}
}

/* Each item is freed where it is visited. */
static void test_unlinking_walk(void **state)
{
	struct list list, *link, *after;
	int visited = 0;

	(void)state;
	list_init(&list);
	list_for_each_safe (link, after, &list)
		fail();
	for (int i = 0; i < ITEMS; i++) {
		struct item *item = malloc(sizeof(*item));

		assert_non_null(item);
		item->before = i;
		list_add_tail(&list, &item->link);
	}
	list_for_each_safe (link, after, &list) {
		struct item *item = container_of(link, struct item, link);

		assert_int_equal(item->before, visited++);
		list_del(link);
		free(item);
	}
	assert_int_equal(visited, ITEMS);
	assert_true(list_empty(&list));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_unlinking_walk),
	};

	return cmocka_run_group_tests_name("base-list", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The pool against a set of pointers, and against callers who make mistakes. */
#include "base_test.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/pool.h"
#include "base/rng.h"

static void test_arguments(void **state)
{
	struct pool pool = { 0 };

	(void)state;
	assert_int_equal(pool_init(&pool, 0, 1), -EINVAL);
	assert_int_equal(pool_init(&pool, 1, 0), -EINVAL);
	assert_int_equal(pool_init(&pool, SIZE_MAX, 1), -ENOMEM);
	assert_int_equal(pool_init(&pool, SIZE_MAX - 100, 1), -ENOMEM);
	assert_int_equal(pool_init(&pool, SIZE_MAX / 4, 8), -ENOMEM);
	assert_null(pool_get(&pool));
	assert_false(pool_owns_live(&pool, NULL));
	assert_false(pool_owns_live(&pool, &pool));
	pool_destroy(&pool);
	pool_destroy(&pool);
}

static void test_get_all_then_none(void **state)
{
	static const size_t sizes[] = { 1, 63, 64, 65, 200 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (uint32_t count = 1; count <= 130; count++) {
			struct pool pool;

			assert_int_equal(pool_init(&pool, sizes[i], count), 0);
			for (uint32_t j = 0; j < count; j++) {
				unsigned char *object = pool_get(&pool);

				assert_non_null(object);
				assert_int_equal((uintptr_t)object % 64, 0);
				assert_int_equal(pool_index(&pool, object), j);
				assert_ptr_equal(pool_at(&pool, j), object);
				memset(object, 0xff, sizes[i]);
			}
			assert_null(pool_get(&pool));
			assert_int_equal(pool_used(&pool), count);
			pool_destroy(&pool);
		}
	}
}

static void test_last_put_is_first_got(void **state)
{
	struct pool pool;
	void *objects[4];

	(void)state;
	assert_int_equal(pool_init(&pool, 40, 8), 0);
	for (int i = 0; i < 4; i++)
		objects[i] = pool_get(&pool);
	pool_put(&pool, objects[2]);
	pool_put(&pool, objects[0]);
	assert_ptr_equal(pool_get(&pool), objects[0]);
	assert_ptr_equal(pool_get(&pool), objects[2]);
	pool_destroy(&pool);
}

static void test_owns_live(void **state)
{
	unsigned char *object, *other;
	struct pool pool, stranger;

	(void)state;
	assert_int_equal(pool_init(&pool, 100, 4), 0);
	assert_int_equal(pool_init(&stranger, 100, 4), 0);
	object = pool_get(&pool);
	other = pool_get(&pool);
	assert_true(pool_owns_live(&pool, object));
	assert_true(pool_owns_live(&pool, other));
	assert_false(pool_owns_live(&stranger, object));
	assert_false(pool_owns_live(&pool, pool_get(&stranger)));
	for (size_t i = 1; i < 128; i++)
		assert_false(pool_owns_live(&pool, object + i));
	assert_false(pool_owns_live(&pool, NULL));
	assert_false(pool_owns_live(&pool, (void *)UINTPTR_MAX));
	/* One before the first, one never handed out, one past the last. */
	assert_false(pool_owns_live(&pool, (void *)((uintptr_t)object - 128)));
	assert_false(pool_owns_live(&pool, object + 2 * 128));
	assert_false(pool_owns_live(&pool, (void *)((uintptr_t)object + 4 * 128)));
	pool_put(&pool, object);
	assert_false(pool_owns_live(&pool, object));
	assert_true(pool_owns_live(&pool, other));
	pool_destroy(&stranger);
	pool_destroy(&pool);
	assert_false(pool_owns_live(&pool, object));
}

struct mistake {
	struct pool *pool;
	void *object;
};

/* A pool of 256 MiB touches the pages of the objects in use alone, and gives all back. */
static void test_large(void **state)
{
	const size_t page = 4096;
	unsigned char resident;
	unsigned char *first;
	uint32_t count = 1u << 16;
	struct pool pool;
	void *last_page;

	(void)state;
	assert_int_equal(pool_init(&pool, page, count), 0);
	first = pool_get(&pool);
	assert_non_null(first);
	assert_int_equal((uintptr_t)first % 64, 0);
	assert_int_equal(first[0] | first[page - 1], 0);
	memset(first, 0xff, page);
	pool_put(&pool, first);
	assert_ptr_equal(pool_get(&pool), first);
	assert_int_equal(first[page - 1], 0);
	last_page = (void *)((uintptr_t)pool_at(&pool, count - 1) & ~(uintptr_t)(page - 1));
	assert_int_equal(mincore(last_page, page, &resident), 0);
	assert_int_equal(resident & 1, 0);
	pool_destroy(&pool);
	assert_int_equal(mincore(last_page, page, &resident), -1);
	assert_int_equal(errno, ENOMEM);
}

static void put(void *arg)
{
	struct mistake *mistake = arg;

	pool_put(mistake->pool, mistake->object);
}

static void test_wrong_puts_abort(void **state)
{
	struct pool pool;
	struct mistake mistake = { .pool = &pool };
	unsigned char *object;

	(void)state;
	assert_int_equal(pool_init(&pool, 100, 4), 0);
	object = pool_get(&pool);
	mistake.object = object;
	assert_false(aborts(put, &mistake));
	mistake.object = object + 1;
	assert_true(aborts(put, &mistake));
	mistake.object = &pool;
	assert_true(aborts(put, &mistake));
	mistake.object = NULL;
	assert_true(aborts(put, &mistake));
	pool_put(&pool, object);
	mistake.object = object;
	assert_true(aborts(put, &mistake));
	pool_destroy(&pool);
}

enum { RANDOM_COUNT = 77, RANDOM_SIZE = 70 };

/* Objects are zeroed when got and keep what their owner wrote, whatever the others do. */
static void test_random(void **state)
{
	bool live[RANDOM_COUNT] = { false };
	unsigned char tag[RANDOM_COUNT] = { 0 };
	unsigned char zeros[RANDOM_SIZE] = { 0 };
	uint32_t used = 0;
	struct pool pool;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 3);
	assert_int_equal(pool_init(&pool, RANDOM_SIZE, RANDOM_COUNT), 0);
	for (int i = 0; i < 200000; i++) {
		uint32_t index = (uint32_t)rng_below(&rng, RANDOM_COUNT);
		unsigned char *object = pool_at(&pool, index);

		assert_int_equal(pool_owns_live(&pool, object), live[index]);
		assert_int_equal(pool_used(&pool), used);
		if (live[index]) {
			for (size_t j = 0; j < RANDOM_SIZE; j++)
				assert_int_equal(object[j], tag[index]);
			pool_put(&pool, object);
			live[index] = false;
			used--;
			continue;
		}
		object = pool_get(&pool);
		assert_int_equal(object == NULL, used == RANDOM_COUNT);
		if (!object)
			continue;
		index = pool_index(&pool, object);
		assert_false(live[index]);
		assert_memory_equal(object, zeros, RANDOM_SIZE);
		live[index] = true;
		tag[index] = (unsigned char)(1 + rng_below(&rng, 255));
		memset(object, tag[index], RANDOM_SIZE);
		used++;
	}
	pool_destroy(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_get_all_then_none),
		cmocka_unit_test(test_last_put_is_first_got),
		cmocka_unit_test(test_owns_live),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_wrong_puts_abort),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests_name("base-pool", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A million random gets and puts against a map that says which block owns each 64 bytes. The map
 * also knows when a get must succeed: when some aligned run of the right size is free. Only an
 * arena that merges every pair of free buddies agrees with it.
 */
#include "base_test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/rng.h"

#define UNITS  1024
#define TOTAL  ((size_t)UNITS * ARENA_SMALLEST_BLOCK)
#define BLOCKS 600
#define ROUNDS 1000000

static size_t units_for(size_t size)
{
	size_t units = 1;

	while (units * ARENA_SMALLEST_BLOCK < size)
		units *= 2;
	return units;
}

static bool all_are(const unsigned char *bytes, size_t length, unsigned char value)
{
	unsigned char differing = 0;

	for (size_t i = 0; i < length; i++)
		differing |= bytes[i] ^ value;
	return differing == 0;
}

static void test_arguments(void **state)
{
	struct arena arena = { 0 };
	void *block;

	(void)state;
	assert_int_equal(arena_init(&arena, 0), -EINVAL);
	assert_int_equal(arena_init(&arena, SIZE_MAX), -ENOMEM);
	assert_int_equal(arena_init(&arena, SIZE_MAX / 2 + 1), -ENOMEM);
	arena_destroy(&arena);

	/* 1 byte rounds up to the smallest block, and so does a get of 0. */
	assert_int_equal(arena_init(&arena, 1), 0);
	assert_null(arena_get(&arena, 65));
	assert_null(arena_get(&arena, SIZE_MAX));
	block = arena_get(&arena, 0);
	assert_non_null(block);
	assert_int_equal(arena_used(&arena), 64);
	assert_null(arena_get(&arena, 0));
	arena_put(&arena, block, 0);
	assert_int_equal(arena_used(&arena), 0);
	arena_destroy(&arena);
	arena_destroy(&arena);

	assert_int_equal(arena_init(&arena, 4097), 0);
	assert_null(arena_get(&arena, 8193));
	assert_non_null(arena_get(&arena, 8192));
	arena_destroy(&arena);
}

/* Every block in use, every block overrun to its last byte, all put back: whole again. */
static void test_whole_again(void **state)
{
	void *blocks[UNITS];
	struct arena arena;
	struct rng rng;
	void *whole;

	(void)state;
	rng_seed(&rng, 4);
	assert_int_equal(arena_init(&arena, TOTAL), 0);
	for (size_t i = 0; i < UNITS; i++) {
		blocks[i] = arena_get(&arena, 1);
		assert_non_null(blocks[i]);
		memset(blocks[i], 0xff, ARENA_SMALLEST_BLOCK);
	}
	assert_int_equal(arena_used(&arena), TOTAL);
	assert_null(arena_get(&arena, 1));
	for (size_t left = UNITS; left > 0; left--) {
		size_t pick = rng_below(&rng, left);

		assert_null(arena_get(&arena, TOTAL));
		arena_put(&arena, blocks[pick], 1);
		blocks[pick] = blocks[left - 1];
	}
	assert_int_equal(arena_used(&arena), 0);
	whole = arena_get(&arena, TOTAL);
	assert_non_null(whole);
	assert_true(all_are(whole, TOTAL, 0));
	arena_destroy(&arena);
}

/* Small blocks fill the half that is already broken, be it the left or the right one. */
static void test_large_blocks_stay_whole(void **state)
{
	struct arena arena;
	void *half, *other;

	(void)state;
	assert_int_equal(arena_init(&arena, 1024), 0);
	assert_non_null(arena_get(&arena, 64));
	assert_non_null(arena_get(&arena, 64));
	assert_non_null(arena_get(&arena, 512));
	arena_destroy(&arena);

	assert_int_equal(arena_init(&arena, 1024), 0);
	half = arena_get(&arena, 512);
	other = arena_get(&arena, 64);
	assert_true((uintptr_t)half < (uintptr_t)other);
	arena_put(&arena, half, 512);
	assert_non_null(arena_get(&arena, 64));
	assert_non_null(arena_get(&arena, 512));
	arena_destroy(&arena);
}

struct block {
	unsigned char *start;
	size_t size;
	unsigned char tag;
};

struct model {
	struct arena arena;
	bool owned[UNITS];
	struct block blocks[BLOCKS];
	size_t count;
	size_t used;
	size_t refused;
};

static bool model_has_room(const struct model *model, size_t units)
{
	for (size_t first = 0; first + units <= UNITS; first += units) {
		if (!memchr(model->owned + first, true, units))
			return true;
	}
	return false;
}

static void model_get(struct model *model, struct rng *rng)
{
	/* Sizes spread evenly over the orders, from half a block to the whole region and beyond. */
	size_t size = 1 + rng_below(rng, (size_t)32 << rng_below(rng, 13));
	size_t units = units_for(size);
	unsigned char *start;
	size_t first;

	start = arena_get(&model->arena, size);
	if (!start) {
		assert_false(model_has_room(model, units));
		model->refused++;
		return;
	}
	first = (size_t)(start - model->arena.memory) / ARENA_SMALLEST_BLOCK;
	assert_true(units <= UNITS && first + units <= UNITS);
	assert_int_equal((size_t)(start - model->arena.memory) % (units * ARENA_SMALLEST_BLOCK), 0);
	assert_null(memchr(model->owned + first, true, units));
	memset(model->owned + first, true, units);
	assert_true(all_are(start, size, 0));

	model->blocks[model->count] =
		(struct block){ start, size, (unsigned char)(rng_u64(rng) | 1) };
	memset(start, model->blocks[model->count].tag, units * ARENA_SMALLEST_BLOCK);
	model->count++;
	model->used += units * ARENA_SMALLEST_BLOCK;
}

static void model_put(struct model *model, struct rng *rng)
{
	size_t pick = rng_below(rng, model->count);
	struct block block = model->blocks[pick];
	size_t bytes = units_for(block.size) * ARENA_SMALLEST_BLOCK;

	assert_true(all_are(block.start, bytes, block.tag));
	memset(model->owned + (size_t)(block.start - model->arena.memory) / ARENA_SMALLEST_BLOCK,
	       false, units_for(block.size));
	arena_put(&model->arena, block.start, block.size);
	model->blocks[pick] = model->blocks[--model->count];
	model->used -= bytes;
}

static void test_random(void **state)
{
	struct model *model = calloc(1, sizeof(*model));
	struct rng rng;

	(void)state;
	assert_non_null(model);
	rng_seed(&rng, 5);
	assert_int_equal(arena_init(&model->arena, TOTAL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		/* Phases of filling and of draining, so that all degrees of fullness are seen. */
		double p = i / 1000 % 2 ? 0.65 : 0.45;

		if (model->count < BLOCKS && (model->count == 0 || rng_chance(&rng, p)))
			model_get(model, &rng);
		else
			model_put(model, &rng);
		assert_int_equal(arena_used(&model->arena), model->used);
	}
	assert_true(model->refused > ROUNDS / 100);
	while (model->count)
		model_put(model, &rng);
	assert_non_null(arena_get(&model->arena, TOTAL));
	arena_destroy(&model->arena);
	free(model);
}

struct mistake {
	struct arena *arena;
	void *block;
	size_t size;
};

static void put(void *arg)
{
	struct mistake *mistake = arg;

	arena_put(mistake->arena, mistake->block, mistake->size);
}

static bool put_aborts(struct arena *arena, void *block, size_t size)
{
	struct mistake mistake = { arena, block, size };

	return aborts(put, &mistake);
}

static void test_wrong_puts_abort(void **state)
{
	unsigned char *block, *buddy;
	struct arena arena;

	(void)state;
	assert_int_equal(arena_init(&arena, TOTAL), 0);
	block = arena_get(&arena, 128);
	buddy = arena_get(&arena, 128);
	assert_false(put_aborts(&arena, block, 65));
	assert_true(put_aborts(&arena, block, 64));
	assert_true(put_aborts(&arena, block, 256));
	assert_true(put_aborts(&arena, block + 1, 128));
	assert_true(put_aborts(&arena, block + 64, 64));
	assert_true(put_aborts(&arena, NULL, 128));
	arena_put(&arena, block, 128);
	assert_true(put_aborts(&arena, block, 128));
	arena_put(&arena, buddy, 128);
	assert_true(put_aborts(&arena, block, 128));
	arena_destroy(&arena);
}

static size_t resident_bytes(void)
{
	unsigned long size = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu %lu", &size, &resident), 2);
	fclose(file);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void test_untouched_memory_is_free(void **state)
{
	const size_t total = (size_t)256 << 20;
	size_t before = resident_bytes();
	struct arena arena;

	(void)state;
	assert_int_equal(arena_init(&arena, total), 0);
	assert_non_null(arena_get(&arena, 4096));
	assert_true(resident_bytes() - before < total / 64);
	arena_destroy(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_whole_again),
		cmocka_unit_test(test_large_blocks_stay_whole),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_wrong_puts_abort),
		cmocka_unit_test(test_untouched_memory_is_free),
	};

	return cmocka_run_group_tests_name("base-arena", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet order is a permutation, is undone, and gives a packet a little of every block of its group: for any count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "coding/hadamard.h"
#include "coding/stride.h"

static struct rng rng;

static void *room(size_t bytes)
{
	void *memory = malloc(bytes + 1);

	assert_non_null(memory);
	return memory;
}

/* Spreads and gathers elements of any size, at any address, against stride_place(). */
static void check_orders(const struct stride *stride, size_t shift)
{
	size_t bytes = stride->count * stride->size, size = stride->size;
	unsigned char *tensor = room(bytes + 64), *packets = room(bytes + 64),
		      *back = room(bytes + 64);
	unsigned char *seen = calloc(stride->count + 1, 1);

	assert_non_null(seen);
	rng_fill(&rng, tensor, bytes + 64);
	memset(packets, 0x5a, bytes + 64);
	memset(back, 0xa5, bytes + 64);
	stride_spread(stride, tensor + shift, packets + shift);
	stride_gather(stride, packets + shift, back + shift);
	for (size_t i = 0; i < stride->count; i++) {
		size_t place = stride_place(stride, i);

		assert_true(place < stride->count && !seen[place]);
		seen[place] = 1;
		assert_memory_equal(packets + shift + place * size, tensor + shift + i * size,
				    size);
	}
	assert_memory_equal(back + shift, tensor + shift, bytes);
	for (size_t i = 0; i < 64 - shift; i++) {
		assert_int_equal(packets[shift + bytes + i], 0x5a);
		assert_int_equal(back[shift + bytes + i], 0xa5);
	}
	free(tensor);
	free(packets);
	free(back);
	free(seen);
}

/* stride_count() of ranges against the places themselves. */
static void check_counts(const struct stride *stride, size_t packet)
{
	size_t *block = room(stride->count * sizeof(*block));
	uint32_t *counts = room(stride->blocks * sizeof(*counts));

	for (size_t i = 0, part = 0; i < stride->count; i++) {
		while (i >= hadamard_part_end(stride->count, stride->block, part))
			part++;
		block[stride_place(stride, i)] = part;
	}
	for (size_t from = 0; from < stride->count; from += packet) {
		size_t to = from + packet < stride->count ? from + packet : stride->count;

		memset(counts, 0, stride->blocks * sizeof(*counts));
		stride_count(stride, from, to, counts);
		for (size_t place = from; place < to; place++)
			counts[block[place]]--;
		for (size_t i = 0; i < stride->blocks; i++)
			assert_int_equal(counts[i], 0);
	}
	free(block);
	free(counts);
}

static void test_any_count(void **state)
{
	static const size_t sizes[] = { 1, 2, 4, 12 };
	struct stride stride;

	(void)state;
	for (size_t count = 0; count < 300; count++) {
		for (size_t i = 0; i < 4; i++) {
			size_t interleave = 1 + count % 7, packet = 1 + count % 50;

			stride_init(&stride, count, sizes[i], 16, interleave, packet * sizes[i]);
			check_orders(&stride, count % 17);
			if (count)
				check_counts(&stride, packet);
		}
	}
}

static void test_random_shapes(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 400; i++) {
		size_t size = (size_t)1 << rng_below(&rng, 4);
		size_t block = (size_t)1 << rng_below(&rng, 11);
		size_t count = rng_below(&rng, 40000), packet = 1 + rng_below(&rng, 3000);
		struct stride stride;

		stride_init(&stride, count, size, block, 1 + rng_below(&rng, 100), packet * size);
		assert_int_equal(stride.blocks, hadamard_parts(count, block));
		check_orders(&stride, rng_below(&rng, 64));
		if (count && count / packet * stride.blocks < 1000000)
			check_counts(&stride, packet);
	}
}

/* As large as those that are written past the caches. */
static void test_large(void **state)
{
	struct stride stride;

	(void)state;
	stride_init(&stride, (9 << 20) / 4 + 777, 4, 4096, 64, 4096);
	check_orders(&stride, 0);
	check_orders(&stride, 5);
}

/* The case that it is for: packets of 4 KiB, blocks of 4096 float32, 64 of them in turns. */
static void test_a_packet_takes_a_little_of_every_block(void **state)
{
	const size_t packet = 1024;
	struct stride stride;
	uint32_t counts[128];

	(void)state;
	stride_init(&stride, 128 * 4096, 4, 4096, 64, packet * 4);
	assert_int_equal(stride.run, 16);
	assert_int_equal(stride.groups, 2);
	for (size_t from = 0; from < stride.count; from += packet) {
		size_t group = from / (64 * 4096);

		memset(counts, 0, sizeof(counts));
		stride_count(&stride, from, from + packet, counts);
		for (size_t i = 0; i < 128; i++)
			assert_int_equal(counts[i], i / 64 == group ? 16 : 0);
	}
}

/* With a cut block and packets of an odd size: no block gives a packet more than its share and two runs. */
static void test_odd_packets_take_little_too(void **state)
{
	const size_t packet = 359;
	struct stride stride;
	uint32_t counts[130];

	(void)state;
	stride_init(&stride, 100 * 4096 + 1234, 4, 4096, 32, packet * 4);
	for (size_t from = 0; from + packet <= stride.count; from += packet) {
		memset(counts, 0, sizeof(counts));
		stride_count(&stride, from, from + packet, counts);
		for (size_t i = 0; i < stride.blocks; i++)
			assert_true(counts[i] <= packet / 25 + 2 * stride.run);
	}
}

static void test_groups_stay_in_their_place(void **state)
{
	struct stride stride;

	(void)state;
	stride_init(&stride, 40 * 256, 4, 256, 10, 1024);
	assert_int_equal(stride.groups, 4);
	for (size_t i = 0; i < stride.count; i++)
		assert_int_equal(stride_place(&stride, i) / 2560, i / 2560);
	/* One block at a time is no change. */
	stride_init(&stride, 1000, 4, 256, 1, 1024);
	for (size_t i = 0; i < stride.count; i++)
		assert_int_equal(stride_place(&stride, i), i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_count),
		cmocka_unit_test(test_random_shapes),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_a_packet_takes_a_little_of_every_block),
		cmocka_unit_test(test_odd_packets_take_little_too),
		cmocka_unit_test(test_groups_stay_in_their_place),
	};

	rng_seed(&rng, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

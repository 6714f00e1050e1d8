/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that are multicast: any symbols that suffice give the data; and the rate at which they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "collective/multicast_block.h"
#include "collective/multicast_rate.h"

#define PAYLOAD 100u
#define MARGIN	64

struct scene {
	struct coder coder;
	struct block from, to;
	uint8_t *sent, *memory, *got;
	uint64_t bytes;
};

static void scene_open(struct scene *scene, uint64_t bytes)
{
	assert_int_equal(coder_open(&scene->coder, PAYLOAD), 0);
	scene->bytes = bytes;
	scene->sent = malloc(bytes);
	scene->memory = malloc(bytes + 2 * MARGIN);
	memset(scene->memory, 0x5a, bytes + 2 * MARGIN);
	scene->got = scene->memory + MARGIN;
	for (uint64_t i = 0; i < bytes; i++)
		scene->sent[i] = (uint8_t)(i * 31 + i / 251 + 1);
	assert_int_equal(block_init(&scene->from, scene->sent, bytes, PAYLOAD, true), 0);
	assert_int_equal(block_init(&scene->to, scene->got, bytes, PAYLOAD, false), 0);
}

static void scene_close(struct scene *scene)
{
	block_free(&scene->from);
	block_free(&scene->to);
	coder_close(&scene->coder);
	free(scene->sent);
	free(scene->memory);
}

static enum block_taken give(struct scene *scene, uint32_t group, uint32_t symbol)
{
	uint8_t bytes[PAYLOAD];

	block_symbol(&scene->from, &scene->coder, group, symbol, bytes);
	return block_put(&scene->to, &scene->coder, group, symbol, bytes,
			 block_symbol_bytes(&scene->from, group, symbol));
}

static void assert_whole(struct scene *scene)
{
	assert_int_equal(scene->to.groups_left, 0);
	assert_int_equal(scene->to.lacking, 0);
	assert_memory_equal(scene->sent, scene->got, scene->bytes);
	for (unsigned i = 0; i < MARGIN; i++) {
		assert_int_equal(scene->memory[i], 0x5a);
		assert_int_equal(scene->got[scene->bytes + i], 0x5a);
	}
}

/* Symbols of a group in random order, some twice, until the group is whole: never more than it has packets. */
static void any_symbols_give_the_data(void **state)
{
	static const uint64_t sizes[] = { 1,	 99,	100,   101,   350,   12700,
					  12799, 12800, 12801, 12850, 25600, 40001 };
	struct rng rng;

	(void)state;
	rng_seed(&rng, 1);
	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (unsigned round = 0; round < 20; round++) {
			struct scene scene;

			scene_open(&scene, sizes[s]);
			for (uint32_t g = 0; g < scene.to.groups; g++) {
				uint32_t count = block_group_packets(&scene.to, g), useful = 0;
				bool seen[BLOCK_GROUP + BLOCK_ROWS] = { false };

				assert_int_equal(scene.to.deficit[g], count);
				while (scene.to.deficit[g]) {
					uint32_t row =
						BLOCK_GROUP + (uint32_t)rng_below(&rng, BLOCK_ROWS);
					uint32_t symbol = rng_below(&rng, 3)
								  ? (uint32_t)rng_below(&rng, count)
								  : row;
					enum block_taken taken = give(&scene, g, symbol);

					assert_int_equal(taken, seen[symbol] ? BLOCK_KNOWN
								: useful + 1 == count
									? BLOCK_WHOLE
									: BLOCK_TAKEN);
					useful += !seen[symbol];
					seen[symbol] = true;
				}
				assert_int_equal(useful, count);
				assert_int_equal(give(&scene, g, 0), BLOCK_KNOWN);
			}
			assert_whole(&scene);
			scene_close(&scene);
		}
	}
}

/* No data at all but what parity gives, as far as there are rows; then the data comes round. */
static void repairs_never_run_out(void **state)
{
	struct scene scene;
	unsigned sent = 0;

	(void)state;
	scene_open(&scene, 12800);
	while (scene.to.groups_left) {
		give(&scene, 0, block_repair(&scene.from, 0));
		assert_in_range(++sent, 1, BLOCK_GROUP);
	}
	assert_int_equal(sent, BLOCK_GROUP);
	assert_whole(&scene);
	/* Every symbol comes once before any comes twice. */
	for (unsigned i = sent; i < BLOCK_GROUP + BLOCK_ROWS; i++)
		assert_int_equal(block_repair(&scene.from, 0), i - BLOCK_ROWS);
	assert_int_equal(block_repair(&scene.from, 0), BLOCK_GROUP);
	scene_close(&scene);
}

static void wrong_symbols_change_nothing(void **state)
{
	uint8_t bytes[PAYLOAD + 1] = { 0 };
	struct scene scene;

	(void)state;
	scene_open(&scene, 12850);
	assert_int_equal(scene.to.groups, 2);
	/* Group, symbol, length. */
	assert_int_equal(block_put(&scene.to, &scene.coder, 2, 0, bytes, PAYLOAD), BLOCK_BAD);
	assert_int_equal(block_put(&scene.to, &scene.coder, 1, 1, bytes, PAYLOAD), BLOCK_BAD);
	assert_int_equal(block_put(&scene.to, &scene.coder, 0, 255, bytes, PAYLOAD), BLOCK_BAD);
	assert_int_equal(block_put(&scene.to, &scene.coder, 0, 0, bytes, PAYLOAD - 1), BLOCK_BAD);
	assert_int_equal(block_put(&scene.to, &scene.coder, 0, 0, bytes, PAYLOAD + 1), BLOCK_BAD);
	assert_int_equal(block_put(&scene.to, &scene.coder, 1, 0, bytes, PAYLOAD), BLOCK_BAD);
	assert_int_equal(scene.to.lacking, 129);
	for (unsigned i = 0; i < 12850; i++)
		assert_int_equal(scene.got[i], 0x5a);
	scene_close(&scene);
}

static void a_group_may_come_by_another_way(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, 20000);
	give(&scene, 1, 3);
	give(&scene, 1, BLOCK_GROUP + 5);
	memcpy(scene.got + block_offset(&scene.to, 1), scene.sent + block_offset(&scene.from, 1),
	       block_offset(&scene.to, 2) - block_offset(&scene.to, 1));
	block_fill(&scene.to, 1);
	assert_int_equal(scene.to.groups_left, 1);
	assert_int_equal(give(&scene, 1, 0), BLOCK_KNOWN);
	for (uint32_t i = 0; i < BLOCK_GROUP; i++)
		give(&scene, 0, i);
	assert_whole(&scene);
	scene_close(&scene);
}

/* A path of a known rate: what is above it is lost, on top of chance. */
static struct multicast_pass pass_over(const struct multicast_rate *rate, double path_bps,
				       double chance)
{
	double share = path_bps / (double)rate->rate_bps;
	struct multicast_pass pass = { .packets = 10000, .bytes = 10000 * UINT64_C(4096) };

	pass.sent_ns = (uint64_t)((double)pass.bytes * 8e9 / (double)rate->rate_bps);
	pass.seen_ns = pass.sent_ns;
	pass.missed = (uint32_t)(10000 * (1 - (share < 1 ? share : 1) * (1 - chance)));
	return pass;
}

static void the_rate_finds_the_path(void **state)
{
	static const double chances[] = { 0, 0.005, 0.1, 0.3 };

	(void)state;
	for (unsigned c = 0; c < sizeof(chances) / sizeof(chances[0]); c++) {
		struct multicast_rate rate;
		double mean = 0;

		multicast_rate_init(&rate, 0, 0);
		for (unsigned i = 0; i < 200; i++) {
			struct multicast_pass pass = pass_over(&rate, 1e9, chances[c]);

			multicast_rate_learn(&rate, &pass);
			if (i >= 100)
				mean += (double)rate.rate_bps / 100;
		}
		assert_true(mean > 0.8e9);
		assert_true(mean < 1.6e9);
		assert_true(rate.window > 1000);
	}
}

static void the_rate_keeps_to_its_cap(void **state)
{
	struct multicast_rate rate;

	(void)state;
	multicast_rate_init(&rate, 0, 300000000);
	for (unsigned i = 0; i < 50; i++) {
		struct multicast_pass pass = pass_over(&rate, 1e9, 0);

		assert_true(rate.rate_bps <= 300000000);
		multicast_rate_learn(&rate, &pass);
	}
	assert_int_equal(rate.rate_bps, 300000000);
}

static void a_slow_receiver_sets_the_rate(void **state)
{
	struct multicast_pass pass = {
		.packets = 128, .bytes = 128 * 1000, .sent_ns = 100000, .seen_ns = 20480000
	};
	struct multicast_rate rate;

	(void)state;
	multicast_rate_init(&rate, 0, 0);
	multicast_rate_learn(&rate, &pass);
	assert_in_range(rate.rate_bps, 49000000, 51000000);
	assert_int_equal(multicast_rows(&rate, 0), 0);
	assert_int_equal(multicast_rows(&rate, 7), 7);
	rate.loss = 0.1;
	assert_in_range(multicast_rows(&rate, 10), 12, 14);
}

/* One pass that seemed slow, or that lost much, is made good within ten. */
static void trouble_passes(void **state)
{
	(void)state;
	for (unsigned loses = 0; loses < 2; loses++) {
		struct multicast_rate rate;
		struct multicast_pass pass;

		multicast_rate_init(&rate, 0, 0);
		for (unsigned i = 0; i < 100 || rate.lowered_from; i++) {
			pass = pass_over(&rate, 1e9, 0);
			multicast_rate_learn(&rate, &pass);
		}
		pass = pass_over(&rate, 1e9, loses ? 0.8 : 0);
		if (!loses)
			pass.seen_ns += 50 * pass.sent_ns;
		multicast_rate_learn(&rate, &pass);
		assert_true(rate.rate_bps < 700000000);
		for (unsigned i = 0; i < 10; i++) {
			pass = pass_over(&rate, 1e9, 0);
			multicast_rate_learn(&rate, &pass);
		}
		assert_true(rate.rate_bps > 800000000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_symbols_give_the_data),
		cmocka_unit_test(repairs_never_run_out),
		cmocka_unit_test(wrong_symbols_change_nothing),
		cmocka_unit_test(a_group_may_come_by_another_way),
		cmocka_unit_test(the_rate_finds_the_path),
		cmocka_unit_test(trouble_passes),
		cmocka_unit_test(the_rate_keeps_to_its_cap),
		cmocka_unit_test(a_slow_receiver_sets_the_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

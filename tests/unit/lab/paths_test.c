/* SPDX-License-Identifier: BSD-3-Clause */
/* Which path a packet takes, and that a path fails alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lab/paths.h"

#define PATHS 3
#define UDP   17
#define TCP   6

static struct lab_config config;
static struct paths paths;
static struct rng seeds;

static int setup(void **state)
{
	(void)state;
	config_init(&config);
	config.path_count = PATHS;
	config.paths[1].attr.loss = 1;
	rng_seed(&seeds, 1);
	return paths_open(&paths, &config, &seeds);
}

static int teardown(void **state)
{
	(void)state;
	paths_close(&paths);
	return 0;
}

static unsigned take(unsigned host, uint8_t protocol, uint16_t port)
{
	uint8_t data[40] = {
		0x45, [9] = protocol, [20] = (uint8_t)(port >> 8), [21] = (uint8_t)port
	};
	struct virtio_net_hdr vnet = { 0 };
	struct packet packet;

	assert_int_equal(packet_parse(&vnet, data, sizeof(data), &packet), 0);
	return paths_find(&paths, host, &packet);
}

static void test_flows_take_paths_in_turn_and_keep_them(void **state)
{
	(void)state;
	for (unsigned again = 0; again < 3; again++) {
		assert_int_equal(take(0, TCP, 4791), 0);
		assert_int_equal(take(0, UDP, 4791), 1);
		assert_int_equal(take(0, UDP, 50000), 2);
		assert_int_equal(take(0, UDP, 65535), 0);
		/* Another host begins anew. */
		assert_int_equal(take(1, UDP, 50000), 0);
		assert_int_equal(take(1, UDP, 4791), 1);
	}
	assert_int_equal(take(0, 1, 50000), 0);
	assert_int_equal(take(0, UDP, 1), 1);
}

static void test_a_path_fails_alone(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PATHS; i++)
		assert_int_equal(paths_pass(&paths, i, 5, 1500), i != 1);
	assert_int_equal(paths.links[1].stats.lost, 1);
	assert_int_equal(paths.links[2].stats.forwarded, 1);
}

/* So that a seed means what it did before there were paths. */
static void test_one_path_draws_nothing(void **state)
{
	struct paths one;
	struct rng before;

	(void)state;
	rng_seed(&before, 9);
	rng_seed(&seeds, 9);
	config.path_count = 1;
	assert_int_equal(paths_open(&one, &config, &seeds), 0);
	assert_true(rng_u64(&seeds) == rng_u64(&before));
	assert_true(paths_pass(&one, 0, 5, 1500));
	paths_close(&one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_flows_take_paths_in_turn_and_keep_them, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_path_fails_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_path_draws_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

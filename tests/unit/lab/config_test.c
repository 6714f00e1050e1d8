/* SPDX-License-Identifier: BSD-3-Clause */
/* What the lab's command line means: what holds for every link and for one, and the schedule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lab/config.h"

#define MS UINT64_C(1000000)

static struct lab_config config;
static char error[LAB_ERROR_SIZE];

static int setup(void **state)
{
	(void)state;
	config_init(&config);
	memset(error, 0, sizeof(error));
	return 0;
}

/* The four links of a there and back share the round trip; what befalls a way befalls it on the link down. */
static void test_links_share_what_was_asked_of_a_way(void **state)
{
	const struct link_attr *up, *down;

	(void)state;
	config.hosts = 3;
	config.rtt_ns = 24 * MS;
	assert_int_equal(config_set(&config.every, "loss", "1%", error), 0);
	assert_int_equal(config_set(&config.every, "rate", "1G", error), 0);
	assert_int_equal(config_set(&config.every, "jitter", "3us", error), 0);
	assert_int_equal(config_set(&config.every, "dup", "0.25", error), 0);
	assert_int_equal(config_set(&config.every, "reorder", "0.5:2ms", error), 0);
	config_links(&config);
	config_queues(&config);
	up = &config.links[2][LAB_UP].attr;
	down = &config.links[2][LAB_DOWN].attr;
	assert_int_equal(up->delay_ns, 6 * MS);
	assert_int_equal(down->delay_ns, 6 * MS);
	assert_true(up->loss == 0 && down->loss == 0.01);
	assert_true(up->duplicate == 0 && down->duplicate == 0.25);
	assert_true(up->reorder == 0 && down->reorder == 0.5);
	assert_int_equal(down->reorder_ns, 2 * MS);
	assert_true(up->jitter_ns == 0 && down->jitter_ns == 3000);
	assert_true(up->rate_bps == 1000000000 && down->rate_bps == 1000000000);
	/* 1 Gbit/s for 24 ms. */
	assert_int_equal(up->queue_bytes, 3000000);
	assert_int_equal(down->queue_bytes, 3000000);
}

static void test_a_queue_is_never_tiny(void **state)
{
	(void)state;
	config.rtt_ns = 1000;
	config.every.attr.rate_bps = 1000000;
	config_links(&config);
	config_queues(&config);
	assert_int_equal(config.links[0][LAB_UP].attr.queue_bytes, 65536);
}

static void test_bursts_keep_the_mean(void **state)
{
	const struct link_attr *attr = &config.every.attr;

	(void)state;
	/* In either order. */
	assert_int_equal(config_set(&config.every, "burst", "8", error), 0);
	assert_int_equal(config_set(&config.every, "loss", "0.02", error), 0);
	assert_true(attr->loss == 0 && attr->burst_leave == 1.0 / 8);
	assert_float_equal(link_mean_loss(attr), 0.02, 1e-9);
	config_init(&config);
	assert_int_equal(config_set(&config.every, "loss", "0.02", error), 0);
	assert_int_equal(config_set(&config.every, "burst", "8", error), 0);
	assert_float_equal(link_mean_loss(attr), 0.02, 1e-9);
	assert_true(attr->burst_leave == 1.0 / 8);
	assert_int_equal(attr->burst_max_ns, 0);
	assert_int_equal(config_set(&config.every, "burst", "4:3ms", error), 0);
	assert_true(attr->burst_leave == 1.0 / 4 && attr->burst_max_ns == 3 * MS);
	assert_int_not_equal(config_set(&config.every, "burst", "4:", error), 0);
	assert_int_not_equal(config_set(&config.every, "burst", ":3ms", error), 0);
}

static void test_one_link_can_differ(void **state)
{
	(void)state;
	config.every.attr.rate_bps = 5;
	config_links(&config);
	assert_int_equal(config_override(&config, "1:down:rate=2M,queue=9,delay=3ms", error), 0);
	config_queues(&config);
	assert_int_equal(config.links[1][LAB_DOWN].attr.rate_bps, 2000000);
	assert_int_equal(config.links[1][LAB_DOWN].attr.queue_bytes, 9);
	assert_int_equal(config.links[1][LAB_DOWN].attr.delay_ns, 3 * MS);
	assert_int_equal(config.links[1][LAB_UP].attr.rate_bps, 5);
	assert_int_equal(config.links[0][LAB_DOWN].attr.rate_bps, 5);
	assert_int_equal(config_override(&config, "all:up:loss=0.5", error), 0);
	assert_true(config.links[0][LAB_UP].attr.loss == 0.5 &&
		    config.links[1][LAB_UP].attr.loss == 0.5);
}

static void test_a_bad_override_says_why(void **state)
{
	static const char *const cases[][2] = {
		{ "1:down", "HOST:up|down" },	    { "2:up:rate=1G", "0 to 1" },
		{ "0:left:rate=1G", "neither" },    { "0:up:", "no key=value" },
		{ "0:up:rate", "key=value" },	    { "0:up:speed=3", "no \"speed\"" },
		{ "0:up:rate=fast", "not a rate" }, { "0:up:loss=2", "not a share" },
	};

	(void)state;
	config_links(&config);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_not_equal(config_override(&config, cases[i][0], error), 0);
		assert_non_null(strstr(error, cases[i][1]));
	}
}

static void test_events_stand_in_order(void **state)
{
	(void)state;
	assert_int_equal(config_event(&config, "2s:1:rate=200M", error), 0);
	assert_int_equal(config_event(&config, "1s:0:down", error), 0);
	assert_int_equal(config_event(&config, "2s:all:loss=0.5", error), 0);
	assert_int_equal(config.event_count, 3);
	assert_int_equal(config.events[0].change, LAB_LINK_DOWN);
	assert_int_equal(config.events[0].at_ns, 1000 * MS);
	assert_int_equal(config.events[1].rate_bps, 200000000);
	assert_int_equal(config.events[1].first, 1);
	assert_true(config.events[2].loss == 0.5);
	assert_int_equal(config.events[2].first, 0);
	assert_int_equal(config.events[2].last, 1);
	assert_int_not_equal(config_event(&config, "2s:1:left", error), 0);
	assert_int_not_equal(config_event(&config, "2:1:up", error), 0);
	assert_int_not_equal(config_event(&config, "2s:7:up", error), 0);
	assert_int_equal(config.event_count, 3);
}

static void test_paths_lose_by_themselves(void **state)
{
	static const char *const bad[][2] = {
		{ "3:loss=1", "0 to 2" },     { "1:rate=1G", "nothing else" },
		{ "1:loss", "nothing else" }, { "1:", "should read" },
		{ "loss=1", "should read" },
	};

	(void)state;
	config.path_count = 3;
	assert_int_equal(config_path(&config, "1:loss=0.02,burst=8", error), 0);
	assert_float_equal(link_mean_loss(&config.paths[1].attr), 0.02, 1e-9);
	assert_true(config.paths[1].attr.burst_leave == 1.0 / 8);
	assert_true(link_mean_loss(&config.paths[0].attr) == 0 &&
		    link_mean_loss(&config.paths[2].attr) == 0);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_not_equal(config_path(&config, bad[i][0], error), 0);
		assert_non_null(strstr(error, bad[i][1]));
	}
	assert_int_equal(config_event(&config, "1s:path2:down", error), 0);
	assert_true(config.events[0].of_path);
	assert_int_equal(config.events[0].first, 2);
	assert_int_not_equal(config_event(&config, "1s:path3:down", error), 0);
	assert_int_not_equal(config_event(&config, "1s:path2:rate=1G", error), 0);
	assert_int_equal(config_event(&config, "1s:1:down", error), 0);
	assert_false(config.events[1].of_path);
}

static void test_samples_have_a_time_and_a_file(void **state)
{
	(void)state;
	assert_int_equal(config_samples(&config, "5ms:a:b.csv", error), 0);
	assert_int_equal(config.sample_interval_ns, 5 * MS);
	assert_string_equal(config.samples, "a:b.csv");
	assert_int_not_equal(config_samples(&config, "5ms", error), 0);
	assert_int_not_equal(config_samples(&config, "5ms:", error), 0);
	assert_int_not_equal(config_samples(&config, "0:file", error), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_links_share_what_was_asked_of_a_way, setup),
		cmocka_unit_test_setup(test_a_queue_is_never_tiny, setup),
		cmocka_unit_test_setup(test_bursts_keep_the_mean, setup),
		cmocka_unit_test_setup(test_one_link_can_differ, setup),
		cmocka_unit_test_setup(test_a_bad_override_says_why, setup),
		cmocka_unit_test_setup(test_events_stand_in_order, setup),
		cmocka_unit_test_setup(test_paths_lose_by_themselves, setup),
		cmocka_unit_test_setup(test_samples_have_a_time_and_a_file, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

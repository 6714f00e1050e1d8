/* SPDX-License-Identifier: BSD-3-Clause */
/* Which way packets take and how long that lasts, to the nanosecond. */
#include "hosts.h"

#define EDGE_NS (HOSTS_WIRE + 500) /* a hop between a host and a switch */
#define CORE_NS (HOSTS_WIRE / 2 + 2000)

static const struct link_attr edge = { .rate_bps = HOSTS_RATE, .delay_ns = 500 };
static const struct link_attr core = { .rate_bps = 2 * HOSTS_RATE, .delay_ns = 2000 };

static uint8_t source[HOSTS_PAYLOAD], target[HOSTS_PAYLOAD];

/* How long one packet takes between two hosts of an idle network. */
static uint64_t crossing_ns(struct sim *sim, uint32_t from, uint32_t to, unsigned lane)
{
	uint64_t started;
	struct end a, b;
	uint32_t rkey;

	hosts_connect(sim, from, to, &a, &b);
	rkey = end_open(sim, &b, 0, 1, target, sizeof(target));
	started = sim_now_ns(sim);
	end_write(&a, lane, 0, rkey, 0, source);
	end_await(sim, &b, FABRIC_DATA, NULL);
	hosts_disconnect(&a, &b);
	assert_int_equal(sim_packets(sim), 0);
	return sim_now_ns(sim) - started;
}

static uint64_t forwarded(struct sim *sim, uint32_t link)
{
	return sim_link(sim, link)->stats.forwarded;
}

static void test_pair(void **state)
{
	struct sim_shape_attr shape = { .shape = SIM_PAIR, .hosts = 2, .edge = edge };
	struct sim_host_attr host = { 0 };
	struct sim *sim = hosts_open(&shape, &host, 1);

	(void)state;
	assert_int_equal(sim_links(sim), 2);
	assert_int_equal(crossing_ns(sim, 0, 1, 0), EDGE_NS);
	assert_int_equal(crossing_ns(sim, 1, 0, 0), EDGE_NS);
	assert_int_equal(forwarded(sim, 0), 1);
	assert_int_equal(forwarded(sim, 1), 1);
	assert_int_equal(sim_events(sim), 2);
	sim_destroy(sim);
}

static void test_star(void **state)
{
	struct sim_shape_attr shape = { .shape = SIM_STAR, .hosts = 5, .edge = edge };
	struct sim_host_attr host = { 0 };
	struct sim *sim = hosts_open(&shape, &host, 1);

	(void)state;
	assert_int_equal(sim_links(sim), 10);
	for (uint32_t to = 1; to < 5; to++)
		assert_int_equal(crossing_ns(sim, 0, to, 0), 2 * EDGE_NS);
	assert_int_equal(forwarded(sim, 0), 4); /* up from host 0 */
	for (uint32_t to = 1; to < 5; to++)
		assert_int_equal(forwarded(sim, 2 * to + 1), 1); /* down to each */
	sim_destroy(sim);
}

/* Six sites in a ring: the shorter way, and both ways to the site opposite. */
static void test_ring(void **state)
{
	static const uint64_t hops[6] = { 0, 1, 2, 3, 2, 1 };
	struct sim_shape_attr shape = {
		.shape = SIM_RING, .hosts = 12, .leaves = 6, .edge = edge, .core = core
	};
	struct sim_host_attr host = { .lanes = 2 };
	struct sim *sim = hosts_open(&shape, &host, 1);
	uint32_t ring = 2 * 12;

	(void)state;
	assert_int_equal(sim_links(sim), 2 * 12 + 2 * 6);
	assert_int_equal(crossing_ns(sim, 0, 1, 0), 2 * EDGE_NS); /* of one site */
	for (uint32_t site = 1; site < 6; site++)
		if (site != 3)
			assert_int_equal(crossing_ns(sim, 0, 2 * site, 0),
					 2 * EDGE_NS + hops[site] * CORE_NS);
	assert_int_equal(forwarded(sim, ring), 2);     /* from site 0 to the next: for 1 and 2 */
	assert_int_equal(forwarded(sim, ring + 1), 2); /* and to the one before: for 4 and 5 */
	for (unsigned lane = 0; lane < 2; lane++)
		assert_int_equal(crossing_ns(sim, 0, 6, lane), 2 * EDGE_NS + 3 * CORE_NS);
	assert_int_equal(forwarded(sim, ring) + forwarded(sim, ring + 1), 6);
	sim_destroy(sim);
}

/* Half-way round, the two lanes of one queue pair take opposite ways. */
static void test_ring_opposite(void **state)
{
	struct sim_shape_attr shape = {
		.shape = SIM_RING, .hosts = 4, .leaves = 4, .edge = edge, .core = core
	};
	struct sim_host_attr host = { .lanes = 2 };
	struct sim *sim = hosts_open(&shape, &host, 1);
	struct end a, b;
	uint32_t rkey;

	(void)state;
	hosts_connect(sim, 0, 2, &a, &b);
	rkey = end_open(sim, &b, 0, 1, target, sizeof(target));
	for (unsigned lane = 0; lane < 2; lane++)
		for (int i = 0; i < 10; i++)
			end_write(&a, lane, 0, rkey, 0, source);
	sim_run_until(sim, sim_now_ns(sim) + 1000000);
	assert_int_equal(forwarded(sim, 2 * 4), 10);
	assert_int_equal(forwarded(sim, 2 * 4 + 1), 10);
	assert_int_equal(end_counter(&b, FABRIC_RX_DATA), 20);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

#define SPINES 3u

/* Where the links from a leaf up to a spine lie. */
static uint32_t up(uint32_t hosts, uint32_t leaf, uint32_t spine)
{
	return 2 * hosts + 2 * (leaf * SPINES + spine);
}

static void test_clos_times(void **state)
{
	struct sim_shape_attr shape = { .shape = SIM_CLOS,
					.hosts = 4,
					.leaves = 2,
					.spines = SPINES,
					.edge = edge,
					.core = core };
	struct sim_host_attr host = { 0 };
	struct sim *sim = hosts_open(&shape, &host, 1);

	(void)state;
	assert_int_equal(sim_links(sim), 2 * 4 + 2 * 2 * 3);
	assert_int_equal(crossing_ns(sim, 0, 1, 0), 2 * EDGE_NS);
	assert_int_equal(crossing_ns(sim, 0, 2, 0), 2 * EDGE_NS + 2 * CORE_NS);
	assert_int_equal(crossing_ns(sim, 3, 1, 0), 2 * EDGE_NS + 2 * CORE_NS);
	assert_int_equal(sim_events(sim), 2 + 4 + 4);
	sim_destroy(sim);
}

/* Each lane, and each queue pair, keeps to one spine; together they use all. */
static void test_clos_spreads(void **state)
{
	struct sim_shape_attr shape = { .shape = SIM_CLOS,
					.hosts = 4,
					.leaves = 2,
					.spines = SPINES,
					.edge = edge,
					.core = core };
	struct sim_host_attr host = { .lanes = SPINES };
	struct sim *sim = hosts_open(&shape, &host, 1);
	struct end a, b;
	uint32_t rkey;

	(void)state;
	hosts_connect(sim, 0, 2, &a, &b);
	rkey = end_open(sim, &b, 0, 1, target, sizeof(target));
	for (unsigned lane = 0; lane < SPINES; lane++)
		for (int i = 0; i < 10; i++)
			end_write(&a, lane, 0, rkey, 0, source);
	sim_run_until(sim, sim_now_ns(sim) + 1000000);
	for (uint32_t spine = 0; spine < SPINES; spine++)
		assert_int_equal(forwarded(sim, up(4, 0, spine)), 10);
	hosts_disconnect(&a, &b);

	for (uint32_t i = 0; i < SPINES; i++)
		crossing_ns(sim, 0, 2, 0); /* a new queue pair each time */
	for (uint32_t spine = 0; spine < SPINES; spine++)
		assert_int_equal(forwarded(sim, up(4, 0, spine)), 11);
	sim_destroy(sim);
}

static void test_shapes_that_cannot_be(void **state)
{
	static const struct sim_shape_attr shapes[] = {
		{ .shape = SIM_PAIR, .hosts = 3 },
		{ .shape = SIM_STAR, .hosts = 1 },
		{ .shape = SIM_RING, .hosts = 4, .leaves = 1 },
		{ .shape = SIM_RING, .hosts = 4, .leaves = 5 },
		{ .shape = SIM_CLOS, .hosts = 4, .leaves = 2 },
		{ .shape = SIM_CLOS, .hosts = 4, .spines = 2 },
	};
	struct sim_host_attr host = { 0 };
	struct sim_attr attr = { 0 };
	struct sim *sim;

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		assert_int_equal(sim_create(&attr, &sim), 0);
		assert_true(sim_build(sim, &shapes[i], &host) < 0);
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pair),
		cmocka_unit_test(test_star),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_ring_opposite),
		cmocka_unit_test(test_clos_times),
		cmocka_unit_test(test_clos_spreads),
		cmocka_unit_test(test_shapes_that_cannot_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

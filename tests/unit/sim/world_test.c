/* SPDX-License-Identifier: BSD-3-Clause */
/* The world as a whole: time, death, jumping clocks, memory that comes back, and one seed one run. */
#include <stdlib.h>
#include <string.h>

#include "hosts.h"
#include "sim/world.h"

#define DELAY_NS 1000
#define LENGTH	 200000

static uint8_t source[LENGTH], target[LENGTH];

static void test_time_goes_where_it_is_told(void **state)
{
	struct sim_attr attr = { .start_ns = 12345 };
	struct sim_shape_attr shape = { .shape = SIM_STAR, .hosts = 2 };
	struct sim_host_attr host = { 0 };
	struct sim *sim;

	(void)state;
	assert_int_equal(sim_create(&attr, &sim), 0);
	assert_int_equal(sim_build(sim, &shape, &host), 0);
	assert_int_equal(sim_now_ns(sim), 12345);
	assert_true(sim_next_ns(sim) == UINT64_MAX);
	sim_run_until(sim, 20000);
	assert_int_equal(sim_now_ns(sim), 20000);
	sim_run_until(sim, 15000); /* never back */
	assert_int_equal(sim_now_ns(sim), 20000);
	sim_destroy(sim);
}

static void test_a_dead_host_neither_takes_nor_gives(void **state)
{
	struct sim_host_attr hosts[] = { { 0 }, { .nic = true, .read_ns = 3000 } };

	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		struct sim *sim = hosts_pair(&hosts[kind], DELAY_NS);
		struct fabric_event events[FABRIC_EVENTS];
		struct end a, b;
		uint32_t rkey;

		memset(source, 1, sizeof(source));
		memset(target, 0, sizeof(target));
		hosts_connect(sim, 0, 1, &a, &b);
		rkey = end_open(sim, &b, 0, 1, target, sizeof(target));
		end_write(&a, 0, 0, rkey, 0, source);
		b.fabric->ops->control(b.qp, source, 50);
		sim_run_until(sim, sim_now_ns(sim) + 10); /* all under way, or about to be read */
		sim_kill(sim, 1);
		b.fabric->ops->control(b.qp, source, 50);
		end_write(&b, 0, 0, rkey, 0, source);
		sim_run_until(sim, 100000);
		assert_int_equal(end_poll(&b, events), 0);
		assert_true(b.fabric->ops->deadline_ns(b.fabric) == UINT64_MAX);
		assert_int_equal(target[0], 0);
		/* What it had sent before still arrives. */
		assert_int_equal(end_counter(&a, FABRIC_RX_CONTROL), 1);
		while (end_poll(&a, events))
			;
		assert_int_equal(sim_packets(sim), 0);
		hosts_disconnect(&a, &b);
		sim_destroy(sim);
	}
}

/* Nobody will ever poll what has come and was not looked at. */
static void test_death_gives_back_what_was_not_polled(void **state)
{
	struct sim_host_attr host = { 0 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	struct end a, b;

	(void)state;
	hosts_connect(sim, 0, 1, &a, &b);
	a.fabric->ops->control(a.qp, source, 50);
	sim_run_until(sim, 100000);
	assert_int_equal(end_counter(&b, FABRIC_RX_CONTROL), 1);
	assert_int_equal(sim_packets(sim), 1);
	sim_kill(sim, 1);
	assert_int_equal(sim_packets(sim), 0);
	assert_int_equal(sim_woken(sim), -1);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

/* A process that dies with posted writes: memory that is gone must not be read. */
static void test_a_closed_queue_pair_reads_no_more(void **state)
{
	struct sim_host_attr host = { .nic = true, .read_ns = 50000 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	uint8_t *gone = malloc(HOSTS_PAYLOAD);
	struct end a, b;
	uint32_t rkey;

	(void)state;
	assert_non_null(gone);
	memset(gone, 1, HOSTS_PAYLOAD);
	hosts_connect(sim, 0, 1, &a, &b);
	rkey = end_open(sim, &b, 0, 1, target, sizeof(target));
	for (int i = 0; i < 8; i++)
		end_write(&a, 0, 0, rkey, 0, gone);
	hosts_disconnect(&a, &b);
	free(gone);
	assert_int_equal(sim_packets(sim), 0);
	assert_true(sim_next_ns(sim) == UINT64_MAX);
	sim_destroy(sim);
}

static void test_a_clock_jumps_alone(void **state)
{
	struct sim_host_attr host = { .nic = true, .fence_ns = 10000 };
	struct sim *sim = hosts_pair(&host, DELAY_NS);
	uint64_t due;
	struct end a, b;

	(void)state;
	hosts_connect(sim, 0, 1, &a, &b);
	sim_run_until(sim, 500);
	end_expose(&b, 0, 1, target, sizeof(target));
	due = b.fabric->ops->deadline_ns(b.fabric);
	sim_jump(sim, 1, 1000000);
	assert_int_equal(a.fabric->ops->now_ns(a.fabric), 500);
	assert_int_equal(b.fabric->ops->now_ns(b.fabric), 1000500);
	assert_int_equal(sim_now_ns(sim), 500);
	/* The world has not moved: what was to come in so long still does, by the host's own clock. */
	assert_int_equal(b.fabric->ops->deadline_ns(b.fabric), due + 1000000);
	hosts_disconnect(&a, &b);
	sim_destroy(sim);
}

/* ---- whole runs ------------------------------------------------------------------------------------------------ */

struct outcome {
	uint64_t hash;
	uint64_t events;
	uint64_t ended_ns;
};

static void done(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	unsigned *ends = arg;

	(void)now;
	assert_int_equal(result->status, 0);
	(*ends)++;
}

/* One lossy transfer from host 0 to host 3, all the way to an empty world. */
static struct outcome transfer(const struct sim_host_attr *host, uint64_t seed)
{
	struct sim_attr attr = { .seed = seed, .payload = 1024 };
	struct link_attr link = { .rate_bps = UINT64_C(10000000000),
				  .delay_ns = 2000,
				  .jitter_ns = 300,
				  .loss = 0.02,
				  .duplicate = 0.02,
				  .reorder = 0.02,
				  .reorder_ns = 5000 };
	struct sim_shape_attr shape = {
		.shape = SIM_CLOS, .hosts = 4, .leaves = 2, .spines = 2, .edge = link, .core = link
	};
	struct gw_context_attr ctx = { 0 };
	struct gw_transfer_attr t = { .length = LENGTH, .done = done };
	struct gw_mr *source_mr, *target_mr;
	struct outcome outcome;
	struct gw_qp *tx, *rx;
	struct gw_send *send;
	struct gw_recv *recv;
	struct world world;
	unsigned ends = 0;

	for (uint32_t i = 0; i < LENGTH; i++)
		source[i] = (uint8_t)(i * 31 + (i >> 8));
	memset(target, 0, sizeof(target));
	assert_int_equal(world_open(&world, &attr, &shape, host, &ctx), 0);
	assert_int_equal(world_connect(&world, 0, 3, NULL, NULL, &tx, &rx), 0);
	assert_int_equal(gw_mr_register(world.hosts[0].ctx, source, LENGTH, &source_mr), 0);
	assert_int_equal(gw_mr_register(world.hosts[3].ctx, target, LENGTH, &target_mr), 0);
	t.arg = &ends;
	t.addr = target;
	t.mr = target_mr;
	assert_int_equal(gw_transfer_recv(rx, &gw_selective_repeat, &t, &recv), 0);
	t.addr = source;
	t.mr = source_mr;
	assert_int_equal(gw_transfer_send(tx, &gw_selective_repeat, &t, &send), 0);
	world_touch(&world, 0);
	world_touch(&world, 3);
	while (ends < 2)
		assert_true(world_step(&world, UINT64_C(60000000000)));
	outcome.ended_ns = sim_now_ns(world.sim);
	assert_memory_equal(target, source, LENGTH);
	assert_int_equal(gw_send_close(send), 0);
	assert_int_equal(gw_recv_close(recv), 0);
	assert_int_equal(gw_qp_close(tx), 0);
	assert_int_equal(gw_qp_close(rx), 0);
	while (world_step(&world, outcome.ended_ns + UINT64_C(1000000000)))
		;
	for (uint32_t i = 0; i < 4; i++)
		assert_true(gw_progress(world.hosts[i].ctx) >= 0); /* gives back what was lent */
	assert_int_equal(sim_packets(world.sim), 0);
	outcome.hash = sim_hash(world.sim);
	outcome.events = sim_events(world.sim);
	world_close(&world);
	return outcome;
}

static const struct sim_host_attr kinds[] = {
	{ 0 },
	{ .lanes = 4 },
	{ .nic = true, .lanes = 2, .read_ns = 2000, .fence_ns = 3000, .completion_ns = 2000 },
};

static void test_one_seed_one_run(void **state)
{
	(void)state;
	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
		for (uint64_t seed = 1; seed <= 3; seed++) {
			struct outcome a = transfer(&kinds[kind], seed);
			struct outcome b = transfer(&kinds[kind], seed);

			assert_true(a.hash == b.hash);
			assert_int_equal(a.events, b.events);
			assert_int_equal(a.ended_ns, b.ended_ns);
		}
}

static void test_another_seed_another_run(void **state)
{
	uint64_t hashes[24];
	unsigned n = 0;

	(void)state;
	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
		for (uint64_t seed = 1; seed <= 8; seed++)
			hashes[n++] = transfer(&kinds[kind], seed).hash;
	for (unsigned i = 0; i < n; i++)
		for (unsigned j = 0; j < i; j++)
			assert_true(hashes[i] != hashes[j]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_time_goes_where_it_is_told),
		cmocka_unit_test(test_a_dead_host_neither_takes_nor_gives),
		cmocka_unit_test(test_death_gives_back_what_was_not_polled),
		cmocka_unit_test(test_a_closed_queue_pair_reads_no_more),
		cmocka_unit_test(test_a_clock_jumps_alone),
		cmocka_unit_test(test_one_seed_one_run),
		cmocka_unit_test(test_another_seed_another_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

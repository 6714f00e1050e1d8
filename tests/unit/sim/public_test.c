/* SPDX-License-Identifier: BSD-3-Clause */
/* <godwit/sim.h>: what its attributes do to packets, who may drive a world, and one seed one run. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <godwit/scheme.h>
#include <godwit/sim.h>

#define LENGTH	  (2u << 20)
#define SECOND_NS UINT64_C(1000000000)
#define LIMIT_NS  (100 * SECOND_NS)

static uint8_t source[LENGTH], target[LENGTH];

struct end {
	struct gw_context *ctx;
	struct gw_qp *qp;
	struct gw_mr *mr;
	struct gw_qp_info info;
};

/* One transfer from host 0 to the last host. */
struct run {
	struct gw_sim *sim;
	struct end tx;
	struct end rx;
	uint64_t sent_ns;
	uint64_t received_ns;
	int status;
	/* Called once when the send is done. */
	void (*when_sent)(struct run *run);
};

static uint64_t counter(const struct gw_context *ctx, const char *name)
{
	uint64_t value;

	assert_int_equal(gw_counter_read(ctx, (unsigned)gw_counter_find(name), &value), 0);
	return value;
}

static void sent(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct run *run = arg;

	run->sent_ns = now;
	run->status = result->status;
	if (run->when_sent)
		run->when_sent(run);
}

static void received(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct run *run = arg;

	run->received_ns = now;
	if (!run->status)
		run->status = result->status;
}

static int over(void *arg)
{
	const struct run *run = arg;

	return run->sent_ns && run->received_ns;
}

static void open_end(struct run *run, uint32_t host, uint8_t *memory, struct end *end)
{
	struct gw_qp_attr attr = { 0 };

	assert_int_equal(gw_sim_context_open(run->sim, host, NULL, &end->ctx), 0);
	assert_int_equal(gw_mr_register(end->ctx, memory, LENGTH, &end->mr), 0);
	assert_int_equal(gw_qp_create(end->ctx, &attr, &end->qp), 0);
	assert_int_equal(gw_qp_info(end->qp, &end->info), 0);
}

static void post(struct run *run, uint64_t length)
{
	struct gw_transfer_attr attr = { .length = length, .arg = run };
	struct gw_send *send;
	struct gw_recv *recv;

	run->sent_ns = run->received_ns = 0;
	attr.addr = target;
	attr.mr = run->rx.mr;
	attr.done = received;
	assert_int_equal(gw_transfer_recv(run->rx.qp, &gw_selective_repeat, &attr, &recv), 0);
	attr.addr = source;
	attr.mr = run->tx.mr;
	attr.done = sent;
	assert_int_equal(gw_transfer_send(run->tx.qp, &gw_selective_repeat, &attr, &send), 0);
}

static void begin(struct run *run, const struct gw_sim_attr *attr, uint64_t length)
{
	memset(run, 0, sizeof(*run));
	for (uint32_t i = 0; i < LENGTH; i++)
		source[i] = (uint8_t)(i * 11 + i / 512);
	memset(target, 0, sizeof(target));
	assert_int_equal(gw_sim_create(attr, &run->sim), 0);
	open_end(run, 0, source, &run->tx);
	open_end(run, attr && attr->hosts ? attr->hosts - 1 : 1, target, &run->rx);
	assert_int_equal(gw_qp_connect(run->tx.qp, &run->rx.info), 0);
	assert_int_equal(gw_qp_connect(run->rx.qp, &run->tx.info), 0);
	post(run, length);
}

/* Moves a whole buffer, compares it, and leaves the world open to be looked at. */
static void move(struct run *run, const struct gw_sim_attr *attr)
{
	begin(run, attr, LENGTH);
	assert_int_equal(gw_sim_run(run->sim, LIMIT_NS, over, run), 1);
	assert_int_equal(run->status, 0);
	assert_memory_equal(source, target, LENGTH);
}

static double arrived(const struct run *run)
{
	return (double)counter(run->rx.ctx, "rx_data_packets") /
	       (double)counter(run->tx.ctx, "tx_data_packets");
}

static void test_attributes_out_of_range_are_refused(void **state)
{
	const struct gw_sim_attr bad[] = {
		{ .hosts = 1 },	      { .hosts = 5000 },   { .lanes = 9 },
		{ .mtu = 1000 },      { .mtu = 9001 },	   { .path_mtu = 1000 },
		{ .loss = 1.5 },      { .loss = -0.1 },	   { .burst_enter = 2 },
		{ .burst_leave = 2 }, { .burst_loss = 2 }, { .duplicate = 2 },
		{ .corrupt = 2 },     { .reorder = 2 },	   { .reserved = { 1 } },
	};
	struct gw_sim *sim;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(gw_sim_create(&bad[i], &sim), -EINVAL);
	assert_int_equal(gw_sim_create(NULL, NULL), -EINVAL);
	assert_int_equal(gw_sim_destroy(NULL), -EINVAL);
	assert_int_equal(gw_sim_step(NULL, 0), -EINVAL);
	assert_int_equal(gw_sim_run(NULL, 0, NULL, NULL), -EINVAL);
	assert_int_equal(gw_sim_create(NULL, &sim), 0);
	assert_int_equal(gw_sim_destroy(sim), 0);
}

static void test_a_host_has_one_context_in_its_life(void **state)
{
	struct gw_context_attr named = { .fabric = "roce:127.0.0.1" }, laned = { .lanes = 2 };
	struct gw_context *ctx, *second;
	struct gw_sim *sim;

	(void)state;
	assert_int_equal(gw_sim_create(NULL, &sim), 0);
	assert_int_equal(gw_sim_context_open(sim, 2, NULL, &ctx), -EINVAL);
	assert_int_equal(gw_sim_context_open(sim, 0, &named, &ctx), -EINVAL);
	assert_int_equal(gw_sim_context_open(sim, 0, &laned, &ctx), -EINVAL);
	assert_int_equal(gw_sim_context_open(sim, 0, NULL, &ctx), 0);
	assert_int_equal(gw_sim_context_open(sim, 0, NULL, &second), -EBUSY);
	assert_int_equal(gw_wait(ctx, 1), -ENOTSUP);
	assert_int_equal(gw_context_close(ctx), 0);
	assert_int_equal(gw_sim_context_open(sim, 0, NULL, &second), -EBUSY);
	assert_int_equal(gw_sim_run(sim, 1000, NULL, NULL), 0);
	assert_int_equal(gw_sim_destroy(sim), 0);
}

static void test_time_moves_to_events_and_to_limits(void **state)
{
	struct gw_sim_attr attr = { .delay_ns = 1000000 };
	struct run run;

	(void)state;
	begin(&run, &attr, LENGTH);
	assert_int_equal(gw_sim_now_ns(run.sim), 0);
	while (gw_sim_step(run.sim, 500000) == 1)
		assert_true(gw_sim_now_ns(run.sim) <= 500000);
	assert_int_equal(gw_sim_now_ns(run.sim), 500000);
	assert_true(counter(run.tx.ctx, "tx_control_packets") > 0);
	assert_int_equal(counter(run.rx.ctx, "rx_control_packets"), 0);
	while (!counter(run.rx.ctx, "rx_control_packets"))
		assert_int_equal(gw_sim_step(run.sim, UINT64_MAX), 1);
	assert_in_range(gw_sim_now_ns(run.sim), 1000000, 1100000);
	assert_int_equal(gw_now_ns(run.rx.ctx), gw_sim_now_ns(run.sim));
	assert_int_equal(gw_sim_run(run.sim, 1200000, over, &run), 0);
	assert_int_equal(gw_sim_now_ns(run.sim), 1200000);
	assert_int_equal(gw_sim_run(run.sim, LIMIT_NS, over, &run), 1);
	assert_true(gw_sim_now_ns(run.sim) < LIMIT_NS);
	assert_int_equal(gw_sim_destroy(run.sim), 0);
}

/* Where nothing can ever happen time does not run to its end. */
static void test_an_idle_world_stays_where_it_is(void **state)
{
	struct gw_context *ctx;
	struct gw_sim *sim;

	(void)state;
	assert_int_equal(gw_sim_create(NULL, &sim), 0);
	assert_int_equal(gw_sim_context_open(sim, 0, NULL, &ctx), 0);
	assert_int_equal(gw_sim_run(sim, UINT64_MAX, NULL, NULL), 0);
	assert_int_equal(gw_sim_step(sim, UINT64_MAX), 0);
	assert_int_equal(gw_sim_now_ns(sim), 0);
	assert_int_equal(gw_sim_destroy(sim), 0);
}

/* The rate and the delay are those between two hosts, whether a switch stands between them or not. */
static void test_rate_and_delay(void **state)
{
	struct gw_sim_attr attr = { .rate_bps = SECOND_NS, .delay_ns = 5000000 };
	uint64_t clock_out_ns = LENGTH * UINT64_C(8);
	struct run run;

	(void)state;
	for (attr.hosts = 2; attr.hosts <= 4; attr.hosts++) {
		move(&run, &attr);
		assert_in_range(run.received_ns, clock_out_ns + attr.delay_ns,
				clock_out_ns * 21 / 20 + 4 * attr.delay_ns);
		/* The result takes one more delay, and nothing that is worth mentioning besides. */
		assert_in_range(run.sent_ns - run.received_ns, attr.delay_ns,
				attr.delay_ns + 1000000);
		assert_int_equal(gw_sim_destroy(run.sim), 0);
	}
}

static void test_loss_happens_once_on_the_way(void **state)
{
	struct gw_sim_attr attr = { .loss = 0.2, .seed = 5 };
	struct run run;

	(void)state;
	for (attr.hosts = 2; attr.hosts <= 3; attr.hosts++) {
		move(&run, &attr);
		assert_true(arrived(&run) > 0.74 && arrived(&run) < 0.86);
		assert_int_equal(gw_sim_destroy(run.sim), 0);
	}
}

/* Bursts of ten packets: of a hundred packets ten are lost, and the losses stand together. */
static void test_bursts_have_a_default_length(void **state)
{
	struct gw_sim_attr attr = { .burst_enter = 0.02, .seed = 7 };
	struct run run;

	(void)state;
	move(&run, &attr);
	assert_true(arrived(&run) > 0.6 && arrived(&run) < 0.95);
	assert_int_equal(gw_sim_destroy(run.sim), 0);
}

static void test_everything_else_that_befalls_packets(void **state)
{
	static const struct {
		struct gw_sim_attr attr;
		const char *counter;
	} cases[] = {
		{ { .duplicate = 0.1 }, "duplicate_packets" },
		{ { .corrupt = 0.1 }, "drop_icrc" },
		{ { .ecn_bytes = 50000 }, "rx_ce_packets" },
	};
	struct run run;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		move(&run, NULL);
		assert_int_equal(counter(run.rx.ctx, cases[i].counter), 0);
		assert_int_equal(gw_sim_destroy(run.sim), 0);
		move(&run, &cases[i].attr);
		assert_in_range(counter(run.rx.ctx, cases[i].counter), 10, 2500);
		assert_int_equal(gw_sim_destroy(run.sim), 0);
	}
}

static void test_a_queue_overflows(void **state)
{
	struct gw_sim_attr attr = { .queue_bytes = 400000, .rate_bps = SECOND_NS };
	struct run run;

	(void)state;
	move(&run, &attr);
	assert_true(arrived(&run) < 0.99);
	assert_int_equal(gw_sim_destroy(run.sim), 0);
}

/* Packets that are overtaken are taken for lost, and sent once more. */
static void test_packets_overtake_each_other(void **state)
{
	const struct gw_sim_attr attr[] = {
		{ .jitter_ns = 2000000 },
		{ .reorder = 0.02, .reorder_ns = 5000000 },
	};
	struct run run;

	(void)state;
	for (size_t i = 0; i < sizeof(attr) / sizeof(attr[0]); i++) {
		move(&run, &attr[i]);
		assert_true(counter(run.tx.ctx, "retransmitted_packets") > 0);
		assert_int_equal(gw_sim_destroy(run.sim), 0);
	}
}

static void test_packet_sizes(void **state)
{
	const struct {
		struct gw_sim_attr attr;
		uint32_t payload;
	} cases[] = {
		{ { 0 }, 4136 },
		{ { .mtu = 1500 }, 1436 },
		{ { .mtu = 9000 }, 8936 },
		{ { .mtu = 9000, .path_mtu = 1500 }, 1436 },
	};
	struct run run;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		move(&run, &cases[i].attr);
		/* In this time the sender finds out what the path carries. */
		assert_int_equal(
			gw_sim_run(run.sim, gw_sim_now_ns(run.sim) + SECOND_NS, NULL, NULL), 0);
		post(&run, LENGTH);
		assert_int_equal(gw_sim_run(run.sim, LIMIT_NS, over, &run), 1);
		uint64_t before = counter(run.tx.ctx, "tx_data_packets");
		post(&run, LENGTH);
		assert_int_equal(gw_sim_run(run.sim, LIMIT_NS, over, &run), 1);
		assert_int_equal(counter(run.tx.ctx, "tx_data_packets") - before,
				 (LENGTH + cases[i].payload - 1) / cases[i].payload);
		assert_int_equal(gw_sim_destroy(run.sim), 0);
	}
}

static void test_one_seed_one_run(void **state)
{
	struct gw_sim_attr attr = { .loss = 0.05, .jitter_ns = 1000, .hosts = 3, .lanes = 2 };
	uint64_t hash[3], at[3];
	struct run run;

	(void)state;
	for (int i = 0; i < 3; i++) {
		attr.seed = i == 2;
		move(&run, &attr);
		hash[i] = gw_sim_hash(run.sim);
		at[i] = gw_sim_now_ns(run.sim);
		assert_int_equal(gw_sim_destroy(run.sim), 0);
	}
	assert_true(hash[0] == hash[1] && at[0] == at[1]);
	assert_true(hash[0] != hash[2] && at[0] != at[2]);
}

static void drive(struct run *run)
{
	assert_int_equal(gw_sim_step(run->sim, UINT64_MAX), -EBUSY);
	assert_int_equal(gw_sim_run(run->sim, UINT64_MAX, NULL, NULL), -EBUSY);
	assert_int_equal(gw_sim_destroy(run->sim), -EBUSY);
}

static void test_callbacks_do_not_drive(void **state)
{
	struct run run;

	(void)state;
	begin(&run, NULL, LENGTH);
	run.when_sent = drive;
	assert_int_equal(gw_sim_run(run.sim, LIMIT_NS, over, &run), 1);
	assert_int_equal(gw_sim_destroy(run.sim), 0);
}

/* A callback of host 0 gives work to host 1 as well, which no packet has woken. */
static void post_again(struct run *run)
{
	run->when_sent = NULL;
	memset(target, 0, sizeof(target));
	post(run, LENGTH);
}

static void test_work_from_a_callback_of_another_host(void **state)
{
	struct run run;
	uint64_t first_ns;

	(void)state;
	move(&run, NULL);
	first_ns = gw_sim_now_ns(run.sim);
	post(&run, LENGTH);
	run.when_sent = post_again;
	assert_int_equal(gw_sim_run(run.sim, LIMIT_NS, over, &run), 1);
	assert_memory_equal(source, target, LENGTH);
	assert_true(gw_sim_now_ns(run.sim) < 4 * first_ns);
	assert_int_equal(gw_sim_destroy(run.sim), 0);
}

/* One host leaves in the middle, by gw_context_close(): the other hears of it, and the world goes on. */
static void test_a_context_closed_by_its_owner(void **state)
{
	struct run run;

	(void)state;
	begin(&run, NULL, LENGTH);
	while (!counter(run.rx.ctx, "rx_data_packets"))
		assert_int_equal(gw_sim_step(run.sim, LIMIT_NS), 1);
	assert_int_equal(gw_context_close(run.rx.ctx), 0);
	while (!run.sent_ns)
		assert_int_equal(gw_sim_step(run.sim, LIMIT_NS), 1);
	assert_int_equal(run.status, -ECONNRESET);
	assert_int_equal(gw_sim_destroy(run.sim), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attributes_out_of_range_are_refused),
		cmocka_unit_test(test_a_host_has_one_context_in_its_life),
		cmocka_unit_test(test_time_moves_to_events_and_to_limits),
		cmocka_unit_test(test_an_idle_world_stays_where_it_is),
		cmocka_unit_test(test_rate_and_delay),
		cmocka_unit_test(test_loss_happens_once_on_the_way),
		cmocka_unit_test(test_bursts_have_a_default_length),
		cmocka_unit_test(test_everything_else_that_befalls_packets),
		cmocka_unit_test(test_a_queue_overflows),
		cmocka_unit_test(test_packets_overtake_each_other),
		cmocka_unit_test(test_packet_sizes),
		cmocka_unit_test(test_one_seed_one_run),
		cmocka_unit_test(test_callbacks_do_not_drive),
		cmocka_unit_test(test_work_from_a_callback_of_another_host),
		cmocka_unit_test(test_a_context_closed_by_its_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Congestion control for a bare queue pair: it holds a rate, stops and goes on, fills a path without filling its queue. */
#include "../reliability/duo.h"

#include <errno.h>
#include <string.h>

#include <godwit/flow.h>

#include "congestion/governor.h"

#define LENGTH	 UINT64_C(1000000)
#define LINK_BPS UINT64_C(1000000000)

static const struct link_attr wire = { .delay_ns = MS };

static void misuse(void **state)
{
	struct gw_flow_attr unknown = { .congestion = "hope" };
	struct duo_attr attr = { .link = wire };
	struct gw_flow_stats stats;
	const struct gw_flow_attr newer = { .reserved = { [3] = 1 } };
	struct gw_flow *flow;
	struct duo duo;
	char text[8];

	(void)state;
	duo_open(&duo, &attr);
	assert_int_equal(gw_flow_open(NULL, NULL, &flow), -EINVAL);
	assert_int_equal(gw_flow_open(duo.qp[0], NULL, NULL), -EINVAL);
	assert_int_equal(gw_flow_open(duo.qp[0], &unknown, &flow), -EINVAL);
	assert_int_equal(gw_flow_open(duo.qp[0], &newer, &flow), -EINVAL);
	assert_int_equal(gw_flow_open(duo.qp[0], NULL, &flow), 0);
	assert_int_equal(gw_flow_stats(flow, NULL), -EINVAL);
	assert_int_equal(gw_flow_stats(NULL, &stats), -EINVAL);
	assert_int_equal(gw_flow_explain(flow, text, 0), -EINVAL);
	assert_int_equal(gw_flow_explain(NULL, text, sizeof(text)), -EINVAL);
	assert_true(gw_flow_explain(flow, text, sizeof(text)) > 0);
	assert_int_equal(strlen(text), sizeof(text) - 1);
	assert_int_equal(gw_flow_set_rate(NULL, 1), -EINVAL);
	assert_int_equal(gw_flow_close(NULL), -EINVAL);
	assert_int_equal(gw_flow_close(flow), 0);
	duo_close(&duo);
}

static void names(void **state)
{
	unsigned count = 0;

	(void)state;
	while (gw_congestion_name(count)) {
		assert_true(strlen(gw_congestion_name(count)) <= 16);
		count++;
	}
	assert_true(count >= 4);
	assert_null(gw_congestion_name(UINT32_MAX));
}

static void holds_a_rate_and_stops(void **state)
{
	struct gw_flow_attr attr = { .congestion = "none", .rate_bps = 80000000 };
	struct duo_attr world = { .link = wire };
	struct duo_transfer transfer;
	struct gw_flow *flow;
	struct duo duo;
	uint64_t start, packets;

	(void)state;
	duo_open(&duo, &world);
	assert_int_equal(gw_flow_open(duo.qp[0], &attr, &flow), 0);
	start = duo_now(&duo);
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, S);
	assert_in_range(transfer.received_at - start, 97 * MS, 106 * MS);
	/* Stopped, and let go again. */
	assert_int_equal(gw_flow_set_rate(flow, 0), 0);
	packets = duo_counter(&duo, 0, "sent_packets");
	duo_start(&duo, LENGTH, &transfer);
	duo_run(&duo, 2 * S);
	assert_int_equal(duo_counter(&duo, 0, "sent_packets"), packets);
	assert_int_equal(gw_flow_set_rate(flow, GW_RATE_UNLIMITED), 0);
	world_touch(&duo.world, 0);
	duo_finish(&transfer, S);
	/* Without a flow nothing holds it. */
	assert_int_equal(gw_flow_set_rate(flow, 1000000), 0);
	assert_int_equal(gw_flow_close(flow), 0);
	start = duo_now(&duo);
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, S);
	assert_true(transfer.received_at - start < 10 * MS);
	duo_close(&duo);
}

/* Twenty-four megabytes through a gigabit and a queue of half a round trip. */
static void fills_a_path(void **state)
{
	struct gw_flow_attr attr = { .congestion = "long-haul" };
	struct duo_attr world = { .link = { .rate_bps = LINK_BPS,
					    .delay_ns = 5 * MS,
					    .queue_bytes = LINK_BPS / 8 * 5 * MS / S },
				  .host = { .queue = 1 << 13 },
				  .memory_bytes = 24u << 20 };
	struct duo_transfer transfer;
	struct gw_flow_stats stats;
	struct gw_flow *flow;
	struct duo duo;
	uint64_t start;

	(void)state;
	duo_open(&duo, &world);
	assert_int_equal(gw_flow_open(duo.qp[0], &attr, &flow), 0);
	start = duo_now(&duo);
	duo_start(&duo, duo.memory_bytes, &transfer);
	duo_until(&duo, 5 * S, transfer.received);
	/* 201 ms at the link's rate, and most of that again to find it. */
	assert_in_range(transfer.received_at - start, 201 * MS, 340 * MS);
	assert_true(duo_estimate(&duo, 0).rtt_ns < 13 * MS);
	assert_int_equal(gw_flow_stats(flow, &stats), 0);
	assert_in_range(stats.rate_bps, LINK_BPS / 2, 2 * LINK_BPS);
	duo_finish(&transfer, S);
	assert_int_equal(gw_flow_close(flow), 0);
	duo_close(&duo);
}

/* Bulk data that leaves later, since the host holds it until then, does not hold up the packets of a short message. */
static void short_messages_go_first(void **state)
{
	struct duo_attr attr = { .link = wire };
	struct gw_send_attr message = { .length = DUO_PAYLOAD };
	struct gw_recv_attr room = { .length = DUO_PAYLOAD };
	struct gw_estimate path;
	struct gw_qp *qps[2], *far;
	struct governor governor;
	struct gw_send *send;
	struct gw_recv *recv;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	qps[0] = duo.qp[0];
	assert_int_equal(world_connect(&duo.world, 0, 1, &(struct gw_qp_attr){ 0 },
				       &(struct gw_qp_attr){ 0 }, &qps[1], &far),
			 0);
	room.addr = duo.memory[1];
	room.mr = duo.mr[1];
	assert_int_equal(gw_recv_post(far, &room, &recv), 0);
	world_touch(&duo.world, 1);
	duo_run(&duo, 20 * MS);
	governor_init(&governor, NULL);
	governor_open(&governor, cc_find("none"), LINK_BPS, qps, 2, duo_now(&duo));
	pacer_take(&governor.pacer, pacer_allow(&governor.pacer, duo_now(&duo) + 4 * MS),
		   duo_now(&duo) + 4 * MS);
	assert_int_equal(pacer_allow(&governor.pacer, duo_now(&duo) + 3 * MS), 0);
	message.addr = duo.memory[0];
	message.mr = duo.mr[0];
	assert_int_equal(gw_send_post(qps[1], &message, &send), 0);
	world_touch(&duo.world, 0);
	duo_run(&duo, MS / 10);
	assert_int_equal(gw_qp_estimate(qps[1], &path), 0);
	assert_int_equal(path.sent, 1);
	governor_close(&governor);
	duo_close(&duo);
}

/* Sockets and NICs differ in when a host sees a packet; the controller is told. */
static void the_fabric_says_how_late_hosts_wake(void **state)
{
	uint64_t wake_ns[2];

	(void)state;
	for (unsigned nic = 0; nic < 2; nic++) {
		struct duo_attr world = { .link = wire, .host = { .nic = nic } };
		struct governor governor;
		struct gw_estimate path;
		struct duo duo;

		duo_open(&duo, &world);
		assert_int_equal(gw_qp_estimate(duo.qp[0], &path), 0);
		governor_init(&governor, NULL);
		governor_open(&governor, cc_find("swift"), LINK_BPS, duo.qp, 1, duo_now(&duo));
		assert_int_equal(governor.cc.attr.wake_ns, path.wake_ns);
		wake_ns[nic] = path.wake_ns;
		governor_close(&governor);
		duo_close(&duo);
	}
	assert_true(wake_ns[1] > 0 && wake_ns[1] < wake_ns[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(misuse),
		cmocka_unit_test(names),
		cmocka_unit_test(holds_a_rate_and_stops),
		cmocka_unit_test(fills_a_path),
		cmocka_unit_test(short_messages_go_first),
		cmocka_unit_test(the_fabric_says_how_late_hosts_wake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host that holds packets until their departure: a sender that wakes late hands them over early and keeps its rate, each
 * leaves when the pacer lets it, and round trips are counted from the departure.
 */
#include "holding.h"

static void finish(struct duo *duo, struct duo_transfer *transfer, struct gw_flow *flow)
{
	while (!(transfer->sent && transfer->received))
		run_late(duo, MS);
	duo_finish(transfer, S);
	assert_int_equal(duo_estimate(duo, 0).retransmitted, 0);
	assert_int_equal(gw_flow_close(flow), 0);
	duo_close(duo);
}

/* Returns how much of its rate a late sender reaches, in percent. */
static uint64_t share_of_rate(bool holds)
{
	struct duo_transfer transfer;
	struct gw_flow *flow;
	struct duo duo;
	uint64_t landed;

	begin(&duo, holds, &flow);
	duo_start(&duo, LENGTH, &transfer);
	run_late(&duo, 40 * MS);
	landed = duo.qp[1]->feedback.landed;
	run_late(&duo, 60 * MS);
	landed = duo.qp[1]->feedback.landed - landed;
	finish(&duo, &transfer, flow);
	return landed * DUO_PAYLOAD * 8 * 100 / (RATE_BPS / 1000 * 60);
}

static void a_late_sender_keeps_its_rate(void **state)
{
	(void)state;
	assert_in_range(share_of_rate(false), 50, 88);
	assert_in_range(share_of_rate(true), 97, 103);
	assert_true(host.early > LENGTH / DUO_PAYLOAD / 2);
}

/* Packets leave at the pacer's rate, in bursts no longer than its bucket, whatever the process does. */
static void departures_keep_the_rate(void **state)
{
	uint64_t packet_ns = (uint64_t)DUO_PAYLOAD * 8 * S / RATE_BPS;
	/* A burst is what the rate sends in an eighth of a round trip. */
	uint64_t burst_ns = 2 * DELAY_NS / 8;
	struct duo_transfer transfer;
	struct gw_flow *flow;
	struct duo duo;

	(void)state;
	begin(&duo, true, &flow);
	duo_start(&duo, LENGTH, &transfer);
	run_late(&duo, 100 * MS);
	assert_true(host.early > 500);
	assert_true(host.early * packet_ns <= host.last_ns - host.first_ns + burst_ns + packet_ns);
	assert_true(host.longest_ns <= burst_ns + packet_ns);
	finish(&duo, &transfer, flow);
}

static void round_trips_begin_at_the_departure(void **state)
{
	struct duo_transfer transfer;
	struct gw_flow *flow;
	struct duo duo;

	(void)state;
	begin(&duo, true, &flow);
	duo_start(&duo, LENGTH, &transfer);
	run_late(&duo, 80 * MS);
	assert_true(host.early > 100);
	/* The simulated host knows when an answer came, however late it is read. */
	assert_int_equal(duo.qp[0]->feedback.rtt_min_ns, 2 * DELAY_NS);
	assert_in_range(duo.qp[0]->feedback.rtt_ns, 2 * DELAY_NS, 2 * DELAY_NS + 10 * US);
	finish(&duo, &transfer, flow);
}

static struct {
	/* When it was told, and what. */
	uint64_t told_ns;
	uint64_t left_ns;
} tail;

static void drained(struct gw_send *send, void *arg, uint64_t now)
{
	(void)send;
	(void)arg;
	tail.told_ns = duo_now(host.duo);
	tail.left_ns = now;
}

/* Whoever waits for an answer waits from when the last packet leaves. */
static void a_message_ends_with_its_departure(void **state)
{
	static const struct gw_send_handler handler = { .drained = drained };
	struct gw_send_attr attr = { .length = 64 * DUO_PAYLOAD, .handler = &handler };
	struct gw_send *stream;
	struct gw_flow *flow;
	struct duo duo;

	(void)state;
	begin(&duo, true, &flow);
	duo_recv(&duo, attr.length);
	assert_int_equal(gw_stream_start(duo.qp[0], &attr, &stream), 0);
	duo_run(&duo, 50 * MS);
	tail.told_ns = 0;
	duo_put(&duo, stream, 64);
	while (!tail.told_ns)
		run_late(&duo, MS);
	assert_true(tail.left_ns > tail.told_ns);
	assert_int_equal(tail.left_ns, host.last_ns);
	run_late(&duo, 50 * MS);
	assert_int_equal(gw_stream_abort(stream), 0);
	duo_run(&duo, 50 * MS);
	assert_int_equal(gw_flow_close(flow), 0);
	duo_close(&duo);
}

/* A host that takes no more is not asked without end, and packets leave as if it held none. */
static void a_full_host_is_given_nothing(void **state)
{
	struct duo_transfer transfer;
	uint64_t turns, landed;
	struct gw_flow *flow;
	struct duo duo;

	(void)state;
	begin(&duo, true, &flow);
	host.full = true;
	duo_start(&duo, LENGTH, &transfer);
	duo_run(&duo, 60 * MS);
	turns = duo.world.turns;
	landed = duo.qp[1]->feedback.landed;
	duo_run(&duo, 60 * MS);
	landed = duo.qp[1]->feedback.landed - landed;
	assert_int_equal(host.early, 0);
	assert_true(duo.world.turns - turns < 600);
	assert_true(landed * DUO_PAYLOAD * 8 > RATE_BPS / 1000 * 58);
	finish(&duo, &transfer, flow);
}

static void count_turns(void *arg, uint32_t index)
{
	(void)arg;
	host.turns += index == 0;
}

/* A process that may sleep is woken for many packets at once. */
static void wake_ups_are_fewer(void **state)
{
	unsigned turns[2];

	(void)state;
	for (int holds = 0; holds < 2; holds++) {
		struct duo_transfer transfer;
		struct gw_flow *flow;
		struct duo duo;

		begin(&duo, holds, &flow);
		duo.world.ran = count_turns;
		duo_start(&duo, LENGTH, &transfer);
		while (!transfer.received)
			run_on(&duo, MS);
		turns[holds] = host.turns;
		finish(&duo, &transfer, flow);
	}
	assert_true(turns[1] * 10 < turns[0] * 8);
}

/* A gate that does not say that it can be asked about the future is not. */
static uint64_t latest_ns;

static uint32_t allow_at(void *arg, uint32_t in_flight, uint32_t payload, uint64_t now,
			 uint64_t *again_ns)
{
	struct duo *duo = arg;

	(void)in_flight;
	(void)payload;
	assert_int_equal(now, duo_now(duo));
	*again_ns = latest_ns + MS;
	return now >= latest_ns + MS;
}

static void left_at(void *arg, uint32_t packets, uint64_t bytes, uint64_t now)
{
	(void)arg;
	(void)packets;
	(void)bytes;
	latest_ns = now;
}

static void other_gates_know_the_present_only(void **state)
{
	static const struct gw_gate plain = { .allow = allow_at, .sent = left_at };
	struct duo_transfer transfer;
	struct gw_flow *flow;
	struct duo duo;

	(void)state;
	begin(&duo, true, &flow);
	assert_int_equal(gw_flow_close(flow), 0);
	latest_ns = 0;
	assert_int_equal(gw_qp_set_gate(duo.qp[0], &plain, &duo), 0);
	duo_start(&duo, 20 * DUO_PAYLOAD, &transfer);
	duo_run(&duo, 100 * MS);
	assert_int_equal(host.early, 0);
	duo_finish(&transfer, S);
	duo_close(&duo);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_late_sender_keeps_its_rate),
		cmocka_unit_test(departures_keep_the_rate),
		cmocka_unit_test(round_trips_begin_at_the_departure),
		cmocka_unit_test(a_message_ends_with_its_departure),
		cmocka_unit_test(a_full_host_is_given_nothing),
		cmocka_unit_test(wake_ups_are_fewer),
		cmocka_unit_test(other_gates_know_the_present_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

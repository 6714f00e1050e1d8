/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host that holds packets until their departure: a sender that wakes late hands them over early and keeps its rate, each
 * leaves when the pacer lets it, and round trips are counted from the departure. The simulator's hosts hold nothing: this test does, between the message layer and the simulated fabric.
 */
#include "../reliability/duo.h"

#include <string.h>

#include <godwit/flow.h>

#include "message/state.h"

#define DELAY_NS (8 * MS)
#define RATE_BPS UINT64_C(400000000)
#define AHEAD_NS (2 * MS)
/* The sender's process runs this often, and in no other moment. */
#define WAKES_NS (3 * MS)
#define LENGTH	 (8u << 20)
#define HELD_MAX 512

/* A packet that the host holds. */
struct held {
	uint64_t at_ns;
	struct fabric_qp *qp;
	struct fabric_target target;
	struct fabric_write write;
};

static struct {
	struct duo *duo;
	struct held held[HELD_MAX];
	unsigned count;
	/* Packets taken before their departure, the first and the last time, and the longest between two. */
	unsigned early;
	uint64_t first_ns;
	uint64_t last_ns;
	uint64_t longest_ns;
	/* The host takes nothing early now. */
	bool full;
	/* Turns of the sender's context. */
	unsigned turns;
} host;

static uint64_t ahead(struct fabric_qp *qp, uint64_t now_ns, bool *room)
{
	(void)qp;
	(void)now_ns;
	*room = !host.full;
	return AHEAD_NS;
}

static int hold(struct fabric_qp *qp, unsigned lane, const struct fabric_target *target,
		const struct fabric_write *writes, unsigned count)
{
	if (!target->depart_ns)
		return host.duo->real->write(qp, lane, target, writes, count);
	assert_true(target->depart_ns > duo_now(host.duo));
	assert_true(target->depart_ns - duo_now(host.duo) <= AHEAD_NS);
	for (unsigned i = 0; i < count; i++) {
		assert_true(host.count < HELD_MAX);
		host.held[host.count++] = (struct held){
			.at_ns = target->depart_ns, .qp = qp, .target = *target, .write = writes[i]
		};
	}
	assert_true(target->depart_ns >= host.last_ns);
	if (!host.early)
		host.first_ns = host.last_ns = target->depart_ns;
	if (target->depart_ns - host.last_ns > host.longest_ns)
		host.longest_ns = target->depart_ns - host.last_ns;
	host.last_ns = target->depart_ns;
	host.early += count;
	return (int)count;
}

/* Index of the packet that leaves next. */
static unsigned next_held(void)
{
	unsigned first = 0;

	for (unsigned i = 1; i < host.count; i++)
		if (host.held[i].at_ns < host.held[first].at_ns)
			first = i;
	return first;
}

static void let_go(void)
{
	while (host.count) {
		unsigned i = next_held();
		struct held held = host.held[i];

		if (held.at_ns > duo_now(host.duo))
			break;
		host.count--;
		memmove(&host.held[i], &host.held[i + 1], (host.count - i) * sizeof(held));
		assert_int_equal(host.duo->real->write(held.qp, 0, &held.target, &held.write, 1),
				 1);
	}
}

/* Lets so much time pass, with a sender that runs whenever there is something to do. */
static void run_on(struct duo *duo, uint64_t ns)
{
	uint64_t until = duo_now(duo) + ns;

	while (duo_now(duo) < until) {
		uint64_t next = until;

		if (host.count && host.held[next_held()].at_ns < next)
			next = host.held[next_held()].at_ns;
		duo_step(duo, next);
		let_go();
	}
}

/* Lets so much time pass, with a sender that runs every WAKES_NS only. */
static void run_late(struct duo *duo, uint64_t ns)
{
	uint64_t until = duo_now(duo) + ns, wake = duo_now(duo);

	while (duo_now(duo) < until) {
		uint64_t next = wake;

		if (host.count && host.held[next_held()].at_ns < next)
			next = host.held[next_held()].at_ns;
		duo_step(duo, next);
		let_go();
		if (duo_now(duo) < wake)
			continue;
		world_stall(&duo->world, 0, false);
		world_settle(&duo->world);
		world_stall(&duo->world, 0, true);
		wake += WAKES_NS;
	}
	world_stall(&duo->world, 0, false);
}

static void begin_at(struct duo *duo, bool holds, uint64_t start_ns, struct gw_flow **flow)
{
	struct gw_flow_attr attr = { .congestion = "none", .rate_bps = RATE_BPS };
	struct duo_attr world = { .link = { .delay_ns = DELAY_NS },
				  .memory_bytes = LENGTH,
				  .start_ns = start_ns };

	duo_open(duo, &world);
	memset(&host, 0, sizeof(host));
	host.duo = duo;
	if (holds) {
		duo->ops.ahead_ns = ahead;
		duo->ops.write = hold;
	}
	/* Until the round-trip time is known. */
	duo_run(duo, 50 * MS);
	assert_int_equal(gw_flow_open(duo->qp[0], &attr, flow), 0);
}

static void begin(struct duo *duo, bool holds, struct gw_flow **flow)
{
	begin_at(duo, holds, 0, flow);
}

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

/* A stream of which all that was put is read by nobody, with round trips measured. */
static struct gw_send *begin_stream(struct duo *duo, uint32_t packets)
{
	struct gw_send *stream;

	duo_recv(duo, (uint64_t)packets * DUO_PAYLOAD);
	stream = duo_stream(duo, (uint64_t)packets * DUO_PAYLOAD);
	duo_run(duo, 50 * MS);
	return stream;
}

static void end_stream(struct duo *duo, struct gw_send *stream, struct gw_flow *flow)
{
	run_late(duo, 100 * MS);
	assert_int_equal(gw_stream_abort(stream), 0);
	duo_run(duo, 50 * MS);
	assert_int_equal(gw_flow_close(flow), 0);
	duo_close(duo);
}

/* A window full of packets that the host still holds: their echo is awaited from when the last of them leaves. */
static void a_probe_timeout_begins_at_the_departure(void **state)
{
	struct gw_send *stream;
	struct feedback *f;
	struct gw_flow *flow;
	struct duo duo;

	(void)state;
	begin(&duo, true, &flow);
	stream = begin_stream(&duo, 64);
	f = &duo.qp[0]->feedback;
	f->window = 30;
	duo_put(&duo, stream, 64);
	duo_run(&duo, US);
	assert_int_equal(f->sequence - f->echoed, 30);
	assert_true(f->sent_ns > duo_now(&duo));
	assert_int_equal(f->timeout_at, f->sent_ns + feedback_pto_ns(duo.qp[0]));
	end_stream(&duo, stream, flow);
}

/* Packets are handed over again just before the report on their first copies comes. The log then knows the second copies,
 * which have not left, so that the report is not about them: on a host that has been up for longer than the 2^48 ns that the log
 * tells apart they would have left three days ago. */
static void what_the_host_holds_has_not_arrived(void **state)
{
	struct gw_send *stream;
	struct feedback *f;
	struct gw_flow *flow;
	struct duo duo;
	uint32_t arrived, in_flight;

	(void)state;
	begin_at(&duo, true, (UINT64_C(1) << 48) + S, &flow);
	stream = begin_stream(&duo, 36);
	f = &duo.qp[0]->feedback;
	duo_put(&duo, stream, 36);
	/* The first report tells of some of them, and one that waits for a quarter of a round trip of the others. */
	run_on(&duo, 2 * DELAY_NS + 4 * MS);
	in_flight = f->sequence - f->echoed;
	assert_true(in_flight > 0 && in_flight < 36);
	arrived = f->peer_arrived;
	duo_put(&duo, stream, 36);
	for (int i = 0; i < 10 && f->peer_arrived == arrived; i++)
		run_on(&duo, MS / 10);
	assert_true(f->peer_arrived != arrived && host.count > 0);
	assert_int_equal(f->sequence - f->echoed, in_flight + 36);
	end_stream(&duo, stream, flow);
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

/* One that does is told when packets leave, and not when they are handed over. */
static struct {
	uint64_t asked_ns;
	uint64_t next_ns;
	unsigned early;
} future;

static uint32_t allow_then(void *arg, uint32_t in_flight, uint32_t payload, uint64_t now,
			   uint64_t *again_ns)
{
	(void)arg;
	(void)in_flight;
	(void)payload;
	future.asked_ns = now;
	*again_ns = future.next_ns;
	return now >= future.next_ns;
}

static void left_then(void *arg, uint32_t packets, uint64_t bytes, uint64_t now)
{
	struct duo *duo = arg;

	(void)packets;
	(void)bytes;
	assert_int_equal(now, future.asked_ns);
	future.early += now > duo_now(duo);
	future.next_ns = now + MS / 4;
}

static void a_gate_is_told_of_departures(void **state)
{
	static const struct gw_gate gate = { .allow = allow_then,
					     .sent = left_then,
					     .flags = GW_GATE_AHEAD };
	struct duo_transfer transfer;
	struct gw_flow *flow;
	struct duo duo;

	(void)state;
	begin(&duo, true, &flow);
	assert_int_equal(gw_flow_close(flow), 0);
	memset(&future, 0, sizeof(future));
	assert_int_equal(gw_qp_set_gate(duo.qp[0], &gate, &duo), 0);
	duo_start(&duo, 40 * DUO_PAYLOAD, &transfer);
	run_late(&duo, 100 * MS);
	assert_true(future.early > 20);
	assert_int_equal(future.early, host.early);
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
		cmocka_unit_test(a_probe_timeout_begins_at_the_departure),
		cmocka_unit_test(what_the_host_holds_has_not_arrived),
		cmocka_unit_test(a_full_host_is_given_nothing),
		cmocka_unit_test(wake_ups_are_fewer),
		cmocka_unit_test(other_gates_know_the_present_only),
		cmocka_unit_test(a_gate_is_told_of_departures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

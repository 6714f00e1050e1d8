/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounded completion: when it ends, why, and what the memory and the outcome say then. The links lose nothing by
 * themselves, and time is virtual: an end can be asked for to the nanosecond.
 */
#include "duo.h"

#include <errno.h>
#include <string.h>

#include <godwit/bounded.h>

#define PACKETS 100u
#define LENGTH	((uint64_t)PACKETS * DUO_PAYLOAD - 5)
#define LAST	(DUO_PAYLOAD - 5)
#define RTT_NS	(4 * MS)

static struct {
	uint32_t first, count; /* packets to be lost */
	unsigned times;	       /* how often each */
	unsigned lost[PACKETS];
	bool words_lost;   /* the sender's */
	uint64_t until_ns; /* the announcement before this */
	unsigned nacks;
	uint64_t landed_at; /* the first data, at the receiver */
	uint64_t completed_at;
	struct duo_transfer *transfer;
} plan;

static struct gw_bounded_options options;
static struct gw_bounded_outcome outcome;

static bool lose_data(struct duo *duo, uint32_t packet, bool again)
{
	(void)duo;
	(void)again;
	if (packet - plan.first >= plan.count || plan.lost[packet] == plan.times)
		return false;
	plan.lost[packet]++;
	return true;
}

static bool lose_control(struct duo *duo, int end, const struct control_message *message,
			 const void *bytes)
{
	(void)bytes;
	plan.nacks += end == 1 && message->header.type == CONTROL_NACK;
	if (message->header.type == CONTROL_ANNOUNCE)
		return duo_now(duo) < plan.until_ns;
	return plan.words_lost && message->header.type == CONTROL_SCHEME;
}

static void watch(struct duo *duo)
{
	struct gw_recv_status status;

	if (!plan.transfer || gw_recv_status(plan.transfer->recv, &status))
		return;
	if (!plan.landed_at && (status.landed || status.flags & GW_RECV_ANNOUNCED))
		plan.landed_at = duo_now(duo);
	if (!plan.completed_at && status.flags & GW_RECV_COMPLETED)
		plan.completed_at = duo_now(duo);
}

static void open_bounded(struct duo *duo, struct duo_transfer *transfer)
{
	struct duo_attr attr = { .link = { .rate_bps = UINT64_C(10000000000),
					   .delay_ns = RTT_NS / 2 },
				 .memory_bytes = LENGTH };
	struct duo_transfer warm;

	memset(&plan, 0, sizeof(plan));
	memset(&outcome, 0xff, sizeof(outcome));
	options = (struct gw_bounded_options){ .deadline_ns = 50 * MS, .outcome = &outcome };
	duo_open(duo, &attr);
	duo_start(duo, DUO_PAYLOAD, &warm);
	duo_finish(&warm, S);
	plan.transfer = transfer;
	transfer->recv = NULL;
	duo->scheme = &gw_bounded;
	duo->options[1] = &options;
	duo->lose_data = lose_data;
	duo->lose_control = lose_control;
	duo->each_step = watch;
}

static void run(struct duo *duo, struct duo_transfer *transfer, int received_status)
{
	duo_start(duo, LENGTH, transfer);
	duo_until(duo, 5 * S, transfer->sent && transfer->received);
	assert_int_equal(transfer->received_status, received_status);
}

/* Every byte from the sender, except that packets [first, first + count) hold `hole`. */
static void check_memory(const struct duo *duo, uint32_t first, uint32_t count, int hole)
{
	uint64_t from = (uint64_t)first * DUO_PAYLOAD, to = from + (uint64_t)count * DUO_PAYLOAD;

	if (to > LENGTH)
		to = LENGTH;
	assert_memory_equal(duo->memory[1], duo->memory[0], from);
	for (uint64_t i = from; i < to; i++)
		assert_int_equal(duo->memory[1][i], hole);
	assert_memory_equal(duo->memory[1] + to, duo->memory[0] + to, LENGTH - to);
}

static void close_bounded(struct duo *duo, struct duo_transfer *transfer)
{
	duo_run(duo, 100 * MS);
	assert_int_equal(transfer->sent, 1);
	assert_int_equal(transfer->received, 1);
	assert_int_equal(gw_send_close(transfer->send), 0);
	assert_int_equal(gw_recv_close(transfer->recv), 0);
	duo_close(duo);
}

static void whole(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_bounded(&duo, &transfer);
	run(&duo, &transfer, 0);
	assert_int_equal(transfer.sent_status, 0);
	assert_int_equal(outcome.reason, GW_BOUNDED_WHOLE);
	assert_int_equal(outcome.bytes, LENGTH);
	check_memory(&duo, 0, 0, 0);
	close_bounded(&duo, &transfer);
}

static void empty(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_bounded(&duo, &transfer);
	duo_start(&duo, 0, &transfer);
	duo_until(&duo, S, transfer.sent && transfer.received);
	assert_int_equal(transfer.received_status, 0);
	assert_int_equal(outcome.reason, GW_BOUNDED_WHOLE);
	close_bounded(&duo, &transfer);
}

/* The sender's word and a grace of silence end it long before the deadline. The last packet is the short one. */
static void early(void **state)
{
	struct duo_transfer transfer;
	struct gw_run run_out;
	struct duo duo;

	(void)state;
	open_bounded(&duo, &transfer);
	options.grace_ns = MS;
	plan.first = PACKETS - 4;
	plan.count = 4;
	plan.times = 9;
	run(&duo, &transfer, 0);
	assert_int_equal(transfer.sent_status, 0);
	assert_int_equal(outcome.reason, GW_BOUNDED_EARLY);
	assert_int_equal(outcome.bytes, LENGTH - 3 * DUO_PAYLOAD - LAST);
	assert_in_range(plan.completed_at - plan.landed_at, MS, 2 * MS);
	assert_int_equal(plan.nacks, 0);
	check_memory(&duo, PACKETS - 4, 4, 0);
	assert_int_equal(gw_recv_next_hole(transfer.recv, 0, PACKETS, &run_out), 1);
	assert_int_equal(run_out.first, PACKETS - 4);
	assert_int_equal(run_out.count, 4);
	close_bounded(&duo, &transfer);
}

/* Packets behind the word, each within a grace of the one before: networks reorder. */
static void late_packets(void **state)
{
	struct duo_transfer transfer;
	struct gw_send *send;
	struct gw_transfer_attr attr = { .length = LENGTH, .done = NULL };
	struct gw_send_attr stream = { .length = LENGTH, .scheme = 3 };
	static const uint8_t all_sent[] = { 1 };
	struct duo duo;

	(void)state;
	open_bounded(&duo, &transfer);
	options.grace_ns = MS;
	attr.addr = duo.memory[1];
	attr.mr = duo.mr[1];
	attr.options = &options;
	assert_int_equal(gw_transfer_recv(duo.qp[1], &gw_bounded, &attr, &transfer.recv), 0);
	assert_int_equal(gw_stream_start(duo.qp[0], &stream, &send), 0);
	world_touch(&duo.world, 0);
	world_touch(&duo.world, 1);
	duo_run(&duo, 20 * MS);
	duo_put(&duo, send, 10);
	duo_run(&duo, 100 * US);
	assert_int_equal(gw_send_control(send, all_sent, 1), 0);
	world_touch(&duo.world, 0);
	for (int i = 0; i < 5; i++) {
		duo_run(&duo, 800 * US);
		assert_int_equal(gw_stream_put(send, (uint64_t)(10 + i) * DUO_PAYLOAD,
					       duo.memory[0] + (10 + i) * DUO_PAYLOAD, DUO_PAYLOAD,
					       duo.mr[0]),
				 0);
		world_touch(&duo.world, 0);
	}
	duo_run(&duo, RTT_NS / 2 + 900 * US);
	assert_int_equal(plan.completed_at, 0);
	duo_run(&duo, 300 * US);
	assert_true(plan.completed_at > 0);
	duo_run(&duo, 10 * MS);
	assert_int_equal(outcome.bytes, 15 * DUO_PAYLOAD);
	duo_close(&duo);
}

/* Without the sender's word it is the deadline, to the nanosecond, from the first sign. */
static void deadline(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_bounded(&duo, &transfer);
	plan.words_lost = true;
	plan.first = 40;
	plan.count = 5;
	plan.times = 9;
	run(&duo, &transfer, 0);
	assert_int_equal(outcome.reason, GW_BOUNDED_DEADLINE);
	assert_int_equal(plan.completed_at - plan.landed_at, 50 * MS);
	assert_int_equal(outcome.elapsed_ns, 50 * MS);
	assert_int_equal(outcome.bytes, LENGTH - 5 * DUO_PAYLOAD);
	check_memory(&duo, 40, 5, 0);
	close_bounded(&duo, &transfer);
}

static void kept(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_bounded(&duo, &transfer);
	options.flags = GW_BOUNDED_KEEP;
	plan.first = 40;
	plan.count = 5;
	plan.times = 9;
	duo_start(&duo, LENGTH, &transfer);
	memset(duo.memory[1], 0x5a, LENGTH);
	duo_until(&duo, S, transfer.sent && transfer.received);
	check_memory(&duo, 40, 5, 0x5a);
	close_bounded(&duo, &transfer);
}

static void zeroed(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_bounded(&duo, &transfer);
	plan.first = 90;
	plan.count = 10;
	plan.times = 9;
	duo_start(&duo, LENGTH, &transfer);
	memset(duo.memory[1], 0x5a, LENGTH);
	duo_until(&duo, S, transfer.sent && transfer.received);
	assert_int_equal(transfer.received_status, 0);
	check_memory(&duo, 90, 10, 0);
	close_bounded(&duo, &transfer);
}

/* A tenth may be missing by default, and not a packet more. */
static void ceiling(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_bounded(&duo, &transfer);
	plan.first = 20;
	plan.count = 11;
	plan.times = 9;
	run(&duo, &transfer, -EIO);
	close_bounded(&duo, &transfer);
}

/* Below the floor holes are repaired until it is reached: 5 of 10 lost twice, and 95 are enough. */
static void floor_reached(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_bounded(&duo, &transfer);
	options.floor_ppm = 950000;
	plan.first = 50;
	plan.count = 10;
	plan.times = 2;
	run(&duo, &transfer, 0);
	assert_int_equal(outcome.reason, GW_BOUNDED_FLOOR);
	assert_in_range(outcome.bytes, LENGTH - 5 * DUO_PAYLOAD, LENGTH - 1);
	assert_in_range(plan.nacks, 2, 3);
	close_bounded(&duo, &transfer);
}

static void given_up(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_bounded(&duo, &transfer);
	options.floor_ppm = 1000000;
	options.give_up_ns = 120 * MS;
	plan.first = 50;
	plan.count = 1;
	plan.times = UINT32_MAX;
	run(&duo, &transfer, -ETIMEDOUT);
	assert_int_equal(outcome.reason, GW_BOUNDED_GAVE_UP);
	assert_int_equal(plan.completed_at - plan.landed_at, 120 * MS);
	close_bounded(&duo, &transfer);
}

/* Its length never came: it still ends in time, and as a failure. */
static void never_announced(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_bounded(&duo, &transfer);
	plan.words_lost = true;
	plan.until_ns = duo_now(&duo) + 200 * MS;
	run(&duo, &transfer, -ETIMEDOUT);
	assert_int_equal(plan.completed_at - plan.landed_at, 50 * MS);
	assert_int_equal(transfer.sent_status, -ECANCELED);
	close_bounded(&duo, &transfer);
}

/* A caller that has more time for the announcement than for the data says so, and the message ends when it comes. */
static void announced_past_the_deadline(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_bounded(&duo, &transfer);
	options.give_up_ns = 1000 * MS;
	plan.first = 50;
	plan.count = 1;
	plan.times = UINT32_MAX;
	plan.words_lost = true;
	plan.until_ns = duo_now(&duo) + 200 * MS;
	run(&duo, &transfer, 0);
	assert_int_equal(outcome.reason, GW_BOUNDED_DEADLINE);
	assert_int_equal(outcome.bytes, LENGTH - DUO_PAYLOAD);
	assert_true(plan.completed_at - plan.landed_at > 50 * MS);
	assert_true(plan.completed_at < plan.until_ns + 200 * MS);
	close_bounded(&duo, &transfer);
}

static void never_announced_and_given_up(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_bounded(&duo, &transfer);
	options.give_up_ns = 120 * MS;
	plan.words_lost = true;
	plan.until_ns = duo_now(&duo) + 400 * MS;
	run(&duo, &transfer, -ETIMEDOUT);
	assert_int_equal(outcome.reason, GW_BOUNDED_GAVE_UP);
	assert_int_equal(plan.completed_at - plan.landed_at, 120 * MS);
	close_bounded(&duo, &transfer);
}

static void options_refused(void **state)
{
	struct gw_transfer_attr attr = { .length = LENGTH, .options = &options };
	struct duo_transfer transfer;
	struct gw_recv *recv;
	struct duo duo;

	(void)state;
	open_bounded(&duo, &transfer);
	attr.addr = duo.memory[1];
	attr.mr = duo.mr[1];
	for (int i = 0; i < 6; i++) {
		options = (struct gw_bounded_options){ .deadline_ns = MS };
		options.floor_ppm = i == 0 ? 1000001 : 0;
		options.ceiling_ppm = i == 1 ? 1000001 : 0;
		options.flags = i == 2 ? 2 : 0;
		options.reserved32 = i == 3;
		options.reserved[2] = i == 4;
		options.give_up_ns = i == 5 ? MS - 1 : 0;
		assert_int_equal(gw_transfer_recv(duo.qp[1], &gw_bounded, &attr, &recv), -EINVAL);
	}
	duo_close(&duo);
}

/* The time the next message is given follows what the last ones took. */
static void adapts(void **state)
{
	struct duo_transfer transfer;
	struct gw_pace pace = { 0 };
	struct duo duo;

	(void)state;
	open_bounded(&duo, &transfer);
	options.deadline_ns = 0;
	options.pace = &pace;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(gw_pace_timeout_ns(&pace, 1, LENGTH), 0);
		run(&duo, &transfer, 0);
		duo_run(&duo, 20 * MS);
		gw_send_close(transfer.send);
		gw_recv_close(transfer.recv);
	}
	/* 400 kB at 10 Gbit/s take a third of a millisecond. */
	assert_in_range(gw_pace_timeout_ns(&pace, 1, LENGTH), 400 * US, 500 * US);
	plan.words_lost = true;
	plan.first = 3;
	plan.count = 1;
	plan.times = 9;
	plan.landed_at = plan.completed_at = 0;
	run(&duo, &transfer, 0);
	assert_int_equal(outcome.reason, GW_BOUNDED_DEADLINE);
	assert_in_range(outcome.elapsed_ns, 400 * US, 500 * US);
	close_bounded(&duo, &transfer);
}

static void paces(void **state)
{
	struct gw_pace pace[3] = { { 0 } }, half[4] = { { 0 } };

	(void)state;
	/* Few messages: the dearest counts. What came counts, not what should have. */
	gw_pace_add(&pace[0], 1000, 2000);
	gw_pace_add(&pace[0], 500, 4000);
	gw_pace_add(&pace[0], 1000, 1000);
	gw_pace_add(&pace[0], 0, 1000);
	assert_int_equal(gw_pace_timeout_ns(pace, 1, 1000), 0);
	gw_pace_add(&pace[0], 1000, 1000);
	assert_int_equal(gw_pace_timeout_ns(pace, 1, 1000), 10001);
	/* Then it is smoothed: an eighth of the way from 8 to 16. */
	gw_pace_add(&pace[0], 1000, 16000);
	assert_int_equal(gw_pace_timeout_ns(pace, 1, 1000), 11251);
	/* One of three is not enough; of three the one in the middle counts. */
	assert_int_equal(gw_pace_timeout_ns(pace, 3, 1000), 0);
	for (int i = 0; i < 4; i++) {
		gw_pace_add(&pace[1], 1000, 1000000);
		gw_pace_add(&pace[2], 1000, 1000);
	}
	assert_int_equal(gw_pace_timeout_ns(pace, 3, 1000), 11251);
	assert_int_equal(gw_pace_timeout_ns(NULL, 0, 1000), 0);
	/* Half of them are enough, and the dearer one of two. */
	half[1] = pace[2];
	assert_int_equal(gw_pace_timeout_ns(half, 4, 1000), 0);
	half[3] = pace[0];
	assert_int_equal(gw_pace_timeout_ns(half, 4, 1000), 11251);
}

static bool lose_first_announcement(struct duo *duo, int end, const struct control_message *message,
				    const void *bytes)
{
	unsigned *lost = duo->arg;

	(void)bytes;
	return end == 0 && message->header.type == CONTROL_ANNOUNCE && !(*lost)++;
}

/* All packets are there and the sender says so, but its announcement was lost: the end waits for that. */
static void announced_late(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = MS } };
	struct duo_transfer transfer;
	unsigned lost = 0;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	duo.scheme = &gw_bounded;
	duo.lose_control = lose_first_announcement;
	duo.arg = &lost;
	duo_start(&duo, 20 * DUO_PAYLOAD, &transfer);
	duo_finish(&transfer, S);
	assert_true(lost > 1);
	duo_close(&duo);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(announced_late),
		cmocka_unit_test(whole),
		cmocka_unit_test(empty),
		cmocka_unit_test(early),
		cmocka_unit_test(late_packets),
		cmocka_unit_test(deadline),
		cmocka_unit_test(kept),
		cmocka_unit_test(zeroed),
		cmocka_unit_test(ceiling),
		cmocka_unit_test(floor_reached),
		cmocka_unit_test(given_up),
		cmocka_unit_test(never_announced),
		cmocka_unit_test(announced_past_the_deadline),
		cmocka_unit_test(never_announced_and_given_up),
		cmocka_unit_test(options_refused),
		cmocka_unit_test(adapts),
		cmocka_unit_test(paces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective Repeat on a long path, where a round trip is dear: a request that is lost costs none, repeats that are lost
 * again leave twice if the line is idle, and the sender says early that everything has left. And what this must not do:
 * repeat what was only late, or send more where a queue stands on the way.
 */
#include "duo.h"

#include <string.h>

#define PACKETS 600u
#define LENGTH	((uint64_t)PACKETS * DUO_PAYLOAD)
#define RTT_NS	(20 * MS)
#define TICK_NS (2 * US) /* a packet on the wire */

static struct {
	uint32_t first, every,
		count; /* `count` packets from `first` on, each `every` apart, are lost */
	unsigned times;
	unsigned lost[PACKETS];
	uint32_t first_round; /* of the message */
	uint32_t unheard_rounds,
		heard_once; /* so many are lost each time they are said; or the first time */
	unsigned said[16];  /* of each round */
	uint8_t nack[1024]; /* the first one */
	size_t nack_length;
	unsigned probes;
} plan;

static bool lose_data(struct duo *duo, uint32_t packet, bool again)
{
	(void)duo;
	(void)again;
	if (packet < plan.first || (packet - plan.first) % plan.every ||
	    (packet - plan.first) / plan.every >= plan.count || plan.lost[packet] == plan.times)
		return false;
	plan.lost[packet]++;
	return true;
}

static bool lose_control(struct duo *duo, int end, const struct control_message *message,
			 const void *bytes)
{
	uint32_t round;

	(void)duo;
	if (end == 0 && message->header.type == CONTROL_SCHEME)
		plan.probes += message->scheme.payload[0] == 1;
	if (end == 0 || message->header.type != CONTROL_NACK)
		return false;
	round = message->nack.round - 1;
	assert_in_range(round, 0, 15);
	if (!plan.nack_length) {
		plan.nack_length = message->header.length;
		memcpy(plan.nack, bytes, plan.nack_length);
	}
	return plan.said[round]++ < (plan.heard_once ? 1 : 2) && round < plan.unheard_rounds;
}

/* A path that is known for long, so that deviations are small. */
static void open_far(struct duo *duo, const struct link_attr *link)
{
	struct duo_attr attr = { .link = *link, .memory_bytes = LENGTH };
	struct duo_transfer warm;

	memset(&plan, 0, sizeof(plan));
	plan.every = 1;
	plan.times = 1;
	attr.link.delay_ns = RTT_NS / 2;
	attr.link.rate_bps = UINT64_C(8) * DUO_WIRE * 1000000000 / TICK_NS;
	duo_open(duo, &attr);
	for (int i = 0; i < 24; i++) {
		duo_start(duo, DUO_PAYLOAD, &warm);
		duo_finish(&warm, S);
	}
	duo->lose_data = lose_data;
	duo->lose_control = lose_control;
}

/* How many round trips the message took beyond the one way of each of its packets, in hundredths. */
static uint64_t move(struct duo *duo, uint32_t packets)
{
	struct duo_transfer transfer;
	uint64_t began = duo_now(duo);

	duo_start(duo, (uint64_t)packets * DUO_PAYLOAD, &transfer);
	duo_finish(&transfer, 10 * S);
	return (transfer.received_at - began - RTT_NS - packets * TICK_NS) * 100 / RTT_NS;
}

static uint64_t repeated(const struct duo *duo)
{
	return duo_counter(duo, 0, "retransmitted_packets");
}

/* One request in a row, and one with others before and behind it. */
static void request_lost(void **state)
{
	static const struct link_attr link;

	(void)state;
	for (uint32_t holes = 1; holes <= 5; holes += 4) {
		struct duo duo;

		open_far(&duo, &link);
		plan.first = 100;
		plan.every = 40;
		plan.count = holes;
		plan.unheard_rounds = holes;
		plan.heard_once = 1;
		assert_in_range(move(&duo, PACKETS), 80, 115);
		assert_int_equal(repeated(&duo), holes);
		assert_int_equal(duo_counter(&duo, 1, "duplicate_packets"), 0);
		for (uint32_t i = 0; i < holes; i++)
			assert_int_equal(plan.said[i], 2);
		duo_close(&duo);
	}
}

/* A round that comes behind a later one is answered all the same, and once. */
static void request_overtaken(void **state)
{
	static const struct link_attr link;
	struct duo_transfer transfer;
	struct gw_run hole;
	struct duo duo;

	(void)state;
	open_far(&duo, &link);
	plan.first = 100;
	plan.every = 40;
	plan.count = 2;
	plan.unheard_rounds = 1;
	duo_start(&duo, LENGTH, &transfer);
	duo_until(&duo, S, plan.said[1]);
	duo_run(&duo, RTT_NS / 32);
	for (int i = 0; i < 2; i++)
		duo_say(&duo, 1, plan.nack, plan.nack_length);
	duo_run(&duo, RTT_NS + MS);
	assert_int_equal(gw_recv_next_hole(transfer.recv, 100, 101, &hole) == 1, 0);
	duo_finish(&transfer, S);
	assert_int_equal(repeated(&duo), 2);
	duo_close(&duo);
}

/* Lost, repeated and lost, repeated twice and lost once: over after two rounds, each a round trip and an eighth. */
static void repeats_leave_twice(void **state)
{
	static const struct link_attr link;
	struct duo duo;

	(void)state;
	open_far(&duo, &link);
	plan.first = 100;
	plan.every = 100;
	plan.count = 4;
	plan.times = 3;
	assert_in_range(move(&duo, PACKETS), 190, 250);
	/* One of them more than was lost: none. */
	assert_int_equal(repeated(&duo), 4 * 3);
	duo_close(&duo);
}

/* A packet in 64 and one, however often it is lost. */
static void spare_is_bounded(void **state)
{
	static const struct link_attr link;
	struct duo duo;

	(void)state;
	open_far(&duo, &link);
	plan.first = 100;
	plan.count = 1;
	plan.times = 8;
	/* It is lost once, its repeat once; then 3 times two repeats; then one by one. */
	move(&duo, 130);
	assert_int_equal(plan.lost[100], 8);
	assert_int_equal(repeated(&duo), 8);
	assert_true(plan.said[3] > 0);
	duo_close(&duo);
	/* More than that at once: none of them leaves twice. */
	open_far(&duo, &link);
	plan.first = 100;
	plan.count = 11;
	plan.times = 2;
	move(&duo, PACKETS);
	assert_int_equal(repeated(&duo), 22);
	duo_close(&duo);
}

/* Where packets were marked, repeats leave once. */
static void spare_for_no_queue(void **state)
{
	static const struct link_attr link = { .ecn_bytes = 1 };
	struct duo duo;

	(void)state;
	open_far(&duo, &link);
	plan.first = 100;
	plan.count = 4;
	plan.times = 2;
	move(&duo, PACKETS);
	assert_true(duo_estimate(&duo, 0).marked > 0);
	assert_int_equal(repeated(&duo), 4 * 2);
	duo_close(&duo);
}

/* The last packets may be late by a fifth of a round trip, and that is known: the early word proves nothing wrong. */
static void late_is_not_lost(void **state)
{
	static const struct link_attr link = { .jitter_ns = RTT_NS / 5 };
	uint64_t learning;
	struct duo duo;

	(void)state;
	open_far(&duo, &link);
	for (int i = 0; i < 8; i++) {
		memset(plan.said, 0, sizeof(plan.said));
		move(&duo, 60);
	}
	learning = repeated(&duo);
	plan.probes = 0;
	for (int i = 0; i < 24; i++)
		move(&duo, 60);
	/* One packet in a hundred may still surprise. */
	assert_in_range(repeated(&duo), learning, learning + 24 * 60 / 100);
	assert_true(plan.probes >= 24);
	duo_close(&duo);
}

/* Where the next message follows nobody asks. */
static void not_asked_in_between(void **state)
{
	static const struct link_attr link;
	struct duo_transfer transfer[4];
	struct duo duo;

	(void)state;
	open_far(&duo, &link);
	for (int i = 0; i < 4; i++)
		duo_start(&duo, LENGTH / 8, &transfer[i]);
	for (int i = 0; i < 4; i++)
		duo_finish(&transfer[i], S);
	assert_int_equal(plan.probes, 1);
	duo_close(&duo);
}

/* Before the first sample a round trip may be long: a full window that is late is not given up as lost, and none of it is
 * sent again. */
static void long_round_trip_is_no_stall(void **state)
{
	static const uint64_t delays[] = { 30 * MS, 100 * MS, 300 * MS, 400 * MS };

	(void)state;
	for (size_t i = 0; i < sizeof(delays) / sizeof(delays[0]); i++) {
		struct duo_attr attr = { .link = { .rate_bps = 50000000, .delay_ns = delays[i] },
					 .host = { .queue = 32 } };
		struct duo_transfer transfer;
		struct duo duo;

		duo_open(&duo, &attr);
		duo_start(&duo, 400000, &transfer);
		duo_finish(&transfer, 60 * S);
		assert_int_equal(duo_counter(&duo, 0, "window_stalls"), 0);
		assert_int_equal(duo_counter(&duo, 0, "retransmitted_packets"), 0);
		duo_close(&duo);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_round_trip_is_no_stall),
		cmocka_unit_test(request_lost),
		cmocka_unit_test(request_overtaken),
		cmocka_unit_test(repeats_leave_twice),
		cmocka_unit_test(spare_is_bounded),
		cmocka_unit_test(spare_for_no_queue),
		cmocka_unit_test(late_is_not_lost),
		cmocka_unit_test(not_asked_in_between),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

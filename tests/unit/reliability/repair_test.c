/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective Repeat when the things it lives by are lost: tails, NACKs, tail probes, results, repeats. The links lose
 * nothing by themselves here, so that every lost packet is one that the test chose, and every repeat can be accounted
 * for.
 */
#include "duo.h"

#include <errno.h>
#include <string.h>

#define PACKETS 100u
#define LENGTH	((uint64_t)PACKETS * DUO_PAYLOAD - 5)
#define RTT_NS	(4 * MS)

static struct {
	uint32_t first, count;	/* packets to be lost */
	unsigned times;		/* how often each */
	unsigned lost[PACKETS]; /* how often each was */
	enum control_type type; /* control to be lost */
	uint64_t until_ns;	/* before this */
	unsigned control_lost;
	uint8_t nack[1024]; /* the first one, to be said again */
	size_t nack_length;
	unsigned nacks;
} plan;

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
	if (end == 1 && message->header.type == CONTROL_NACK) {
		plan.nacks++;
		if (!plan.nack_length) {
			plan.nack_length = message->header.length;
			memcpy(plan.nack, bytes, plan.nack_length);
		}
	}
	if (message->header.type != plan.type || duo_now(duo) >= plan.until_ns ||
	    (plan.type == CONTROL_REPORT && !message->report.result_count))
		return false;
	plan.control_lost++;
	return true;
}

static void open_duo_with(struct duo *duo, uint32_t first, uint32_t count, unsigned times)
{
	struct duo_attr attr = { .link = { .rate_bps = UINT64_C(10000000000),
					   .delay_ns = RTT_NS / 2 },
				 .memory_bytes = LENGTH };
	struct duo_transfer warm;

	memset(&plan, 0, sizeof(plan));
	duo_open(duo, &attr);
	/* So that the round trip is known, and patience is of its order. */
	duo_start(duo, DUO_PAYLOAD, &warm);
	duo_finish(&warm, S);
	plan.first = first;
	plan.count = count;
	plan.times = times;
	duo->lose_data = lose_data;
	duo->lose_control = lose_control;
}

static uint64_t repeated(const struct duo *duo)
{
	return duo_counter(duo, 0, "retransmitted_packets");
}

static void hole(void **state)
{
	(void)state;
	/* Neighbours: what is looked at piece by piece must leave no seam. */
	for (uint32_t packet = 50; packet < 54; packet++) {
		struct duo_transfer transfer;
		struct duo duo;
		uint64_t began;

		open_duo_with(&duo, packet, 1, 1);
		began = duo_now(&duo);
		duo_start(&duo, LENGTH, &transfer);
		duo_finish(&transfer, S);
		assert_int_equal(repeated(&duo), 1);
		/* The grant, the data, the NACK, the repeat: named at once, with no timer in between. */
		assert_true(transfer.received_at - began < 2 * RTT_NS + MS);
		duo_close(&duo);
	}
}

static void tail(void **state)
{
	static const uint32_t tails[] = { 1, 2, 30, PACKETS };

	(void)state;
	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		struct duo_transfer transfer;
		struct duo duo;

		open_duo_with(&duo, PACKETS - tails[i], tails[i], 1);
		duo_start(&duo, LENGTH, &transfer);
		duo_finish(&transfer, S);
		assert_int_equal(repeated(&duo), tails[i]);
		duo_close(&duo);
	}
}

static void tail_and_probes(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_duo_with(&duo, PACKETS - 10, 10, 1);
	plan.type = CONTROL_SCHEME;
	plan.until_ns = duo_now(&duo) + 60 * MS;
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, S);
	assert_in_range(plan.control_lost, 2, 5); /* each waits twice as long as the one before */
	assert_int_equal(repeated(&duo), 10);
	duo_close(&duo);
}

static void nacks(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_duo_with(&duo, 20, 40, 1);
	plan.type = CONTROL_NACK;
	plan.until_ns = duo_now(&duo) + 100 * MS;
	duo_start(&duo, LENGTH, &transfer);
	duo_run(&duo, 100 * MS);
	assert_int_equal(transfer.received, 0);
	assert_true(plan.control_lost >= 3);
	duo_finish(&transfer, S);
	assert_int_equal(repeated(&duo), 40);
	duo_close(&duo);
}

static void results(void **state)
{
	struct duo_transfer transfer;
	uint64_t began;
	struct duo duo;

	(void)state;
	open_duo_with(&duo, 0, 0, 0);
	began = duo_now(&duo);
	plan.type = CONTROL_REPORT;
	plan.until_ns = began + 100 * MS;
	duo_start(&duo, LENGTH, &transfer);
	duo_run(&duo, 100 * MS);
	assert_int_equal(transfer.received, 1);
	assert_int_equal(transfer.sent, 0);
	assert_true(plan.control_lost >= 2);
	duo_finish(&transfer, S);
	assert_int_equal(repeated(&duo), 0);
	duo_close(&duo);
}

/* The first NACK comes once more when its repeats have left and not yet arrived. */
static void nack_twice(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_duo_with(&duo, 10, 5, 1);
	duo_start(&duo, LENGTH, &transfer);
	duo_until(&duo, S, plan.nacks);
	duo_run(&duo, RTT_NS / 4);
	duo_say(&duo, 1, plan.nack, plan.nack_length);
	duo_finish(&transfer, S);
	assert_int_equal(repeated(&duo), 5);
	assert_int_equal(duo_counter(&duo, 1, "duplicate_packets"), 0);
	assert_int_equal(duo_counter(&duo, 1, "late_packets"), 0);
	duo_close(&duo);
}

static void repeats(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_duo_with(&duo, 42, 1, 6);
	/* Tail probes would help; the receiver does not need them. */
	plan.type = CONTROL_SCHEME;
	plan.until_ns = duo_now(&duo) + 10 * S;
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, 5 * S);
	assert_int_equal(plan.lost[42], 6);
	assert_int_equal(repeated(&duo), 6);
	duo_close(&duo);
}

/* A hole that stays open is named again after a patience and not before. */
static void named_with_patience(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;
	uint64_t named;

	(void)state;
	open_duo_with(&duo, 42, 1, 2);
	duo_start(&duo, LENGTH, &transfer);
	duo_until(&duo, S, plan.nacks);
	named = duo_now(&duo);
	duo_until(&duo, S, plan.nacks == 2);
	assert_in_range(duo_now(&duo) - named, RTT_NS, 3 * RTT_NS);
	duo_finish(&transfer, S);
	duo_close(&duo);
}

static void nothing(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_duo_with(&duo, 0, 0, 0);
	duo_start(&duo, 0, &transfer);
	duo_finish(&transfer, S);
	/* Also when its announcement is lost. */
	plan.type = CONTROL_ANNOUNCE;
	plan.until_ns = duo_now(&duo) + 20 * MS;
	duo_start(&duo, 0, &transfer);
	duo_finish(&transfer, S);
	assert_true(plan.control_lost > 0);
	assert_int_equal(duo_counter(&duo, 0, "sent_packets"), 1);
	duo_close(&duo);
}

/* Lengths around a multiple of the packet's. */
static void whole_packets(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_duo_with(&duo, 0, 0, 0);
	for (uint64_t length = 3 * DUO_PAYLOAD - 1; length <= 3 * DUO_PAYLOAD + 1; length++) {
		duo_start(&duo, length, &transfer);
		duo_finish(&transfer, S);
	}
	assert_int_equal(repeated(&duo), 0);
	duo_close(&duo);
}

static void cancelled_by_receiver(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_duo_with(&duo, 10, 5, UINT32_MAX);
	duo_start(&duo, LENGTH, &transfer);
	duo_run(&duo, 3 * RTT_NS);
	assert_int_equal(transfer.received, 0);
	assert_int_equal(gw_recv_complete(transfer.recv), 0);
	world_touch(&duo.world, 1);
	duo_until(&duo, S, transfer.sent && transfer.received);
	duo_run(&duo, S);
	assert_int_equal(transfer.sent, 1);
	assert_int_equal(transfer.sent_status, -ECANCELED);
	assert_int_equal(transfer.received, 1);
	assert_int_equal(gw_send_close(transfer.send), 0);
	assert_int_equal(gw_recv_close(transfer.recv), 0);
	/* And the next one is none the worse. */
	plan.count = 0;
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, S);
	duo_close(&duo);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(hole),
		cmocka_unit_test(tail),
		cmocka_unit_test(tail_and_probes),
		cmocka_unit_test(nacks),
		cmocka_unit_test(results),
		cmocka_unit_test(nack_twice),
		cmocka_unit_test(repeats),
		cmocka_unit_test(named_with_patience),
		cmocka_unit_test(nothing),
		cmocka_unit_test(whole_packets),
		cmocka_unit_test(cancelled_by_receiver),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

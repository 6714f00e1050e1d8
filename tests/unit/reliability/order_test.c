/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective Repeat and what it costs: packets out of order are not lost ones, and as many are repeated as were lost and
 * few more. A packet takes TICK_NS to clock out, and a network that adds up to so many ticks at random lets a packet be
 * overtaken by as many.
 */
#include "duo.h"

#include "message/state.h"

#define TICK_NS	 (8 * US)
#define RATE_BPS (UINT64_C(8) * DUO_WIRE * 1000000000 / TICK_NS)
#define PACKETS	 2000u /* within the window: all leave before the first comes back */
#define LONG	 6000u /* several windows */
#define LENGTH	 ((uint64_t)PACKETS * DUO_PAYLOAD - 17)

static uint64_t repeated(const struct duo *duo)
{
	return duo_counter(duo, 0, "retransmitted_packets");
}

static void open_with(struct duo *duo, const struct link_attr *link, uint64_t seed)
{
	struct duo_attr attr = { .link = *link,
				 .seed = seed,
				 .memory_bytes = (size_t)LONG * DUO_PAYLOAD };

	attr.link.rate_bps = RATE_BPS;
	attr.link.delay_ns = MS;
	duo_open(duo, &attr);
}

static void reordered_within_slack(void **state)
{
	/* Three packets that arrive before one sent earlier prove it lost: at most two can. */
	struct link_attr link = { .jitter_ns = 3 * TICK_NS - 1 };
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_with(&duo, &link, 1);
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, S);
	assert_int_equal(repeated(&duo), 0);
	assert_int_equal(duo_counter(&duo, 1, "duplicate_packets"), 0);
	duo_close(&duo);
}

static void slack_is_learnt(void **state)
{
	struct link_attr link = { .jitter_ns = 40 * TICK_NS };
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_with(&duo, &link, 2);
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, S);
	/* It has to be wrong a few times to learn. */
	assert_in_range(repeated(&duo), 1, PACKETS / 20);
	duo_close(&duo);
}

/* What was learnt stays with the queue pair: the next messages pay nothing for the same disorder. */
static void slack_is_kept(void **state)
{
	struct link_attr link = { .jitter_ns = 40 * TICK_NS };
	struct duo_transfer transfer;
	uint64_t learning;
	struct duo duo;

	(void)state;
	open_with(&duo, &link, 3);
	for (int i = 0; i < 2; i++) {
		duo_start(&duo, LENGTH, &transfer);
		duo_finish(&transfer, S);
	}
	learning = repeated(&duo);
	assert_true(learning > 0);
	for (int i = 0; i < 8; i++) {
		duo_start(&duo, LENGTH, &transfer);
		duo_finish(&transfer, S);
	}
	assert_int_equal(repeated(&duo), learning);
	assert_in_range(duo.qp[1]->order.slack, 20, 100);
	duo_close(&duo);
}

/* And goes when the network has become better: a hole is named soon again. */
static void slack_is_given_up(void **state)
{
	struct link_attr link = { .jitter_ns = 40 * TICK_NS };
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_with(&duo, &link, 4);
	for (int i = 0; i < 2; i++) {
		duo_start(&duo, LENGTH, &transfer);
		duo_finish(&transfer, S);
	}
	assert_true(duo.qp[1]->order.slack >= 20);
	duo_link(&duo, 0)->attr.jitter_ns = 0;
	for (int i = 0; i < 24; i++) {
		duo_start(&duo, LENGTH, &transfer);
		duo_finish(&transfer, S);
	}
	assert_in_range(duo.qp[1]->order.slack, 3, 6);
	duo_close(&duo);
}

static void repeats_follow_losses(uint32_t packets, double loss, uint64_t patience_ns)
{
	for (uint64_t seed = 0; seed < 4; seed++) {
		struct link_attr link = { .loss = loss };
		struct duo_transfer transfer;
		struct duo duo;

		open_with(&duo, &link, 10 + seed);
		duo_start(&duo, (uint64_t)packets * DUO_PAYLOAD, &transfer);
		duo_finish(&transfer, patience_ns);
		assert_true((double)duo.data_lost > packets * loss / 2);
		assert_in_range(repeated(&duo), duo.data_lost * 9 / 10, duo.data_lost * 13 / 10);
		/* Nothing was out of order, and repeats are not taken for it. */
		assert_int_equal(duo.qp[1]->order.slack, 3);
		duo_close(&duo);
	}
}

static void one_in_a_hundred(void **state)
{
	(void)state;
	repeats_follow_losses(PACKETS, 0.01, S);
}

static void one_in_ten(void **state)
{
	(void)state;
	repeats_follow_losses(PACKETS, 0.1, 2 * S);
}

/* Holes are named while most of the message still waits to be sent. */
static void longer_than_the_window(void **state)
{
	(void)state;
	repeats_follow_losses(LONG, 0.01, 2 * S);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(reordered_within_slack), cmocka_unit_test(slack_is_learnt),
		cmocka_unit_test(slack_is_kept),	  cmocka_unit_test(slack_is_given_up),
		cmocka_unit_test(one_in_a_hundred),	  cmocka_unit_test(one_in_ten),
		cmocka_unit_test(longer_than_the_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

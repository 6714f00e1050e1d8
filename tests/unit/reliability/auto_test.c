/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The automatic choice: Selective Repeat, packet for packet, where nothing is lost; parity where it pays; a choice that
 * stays; and a reason for it. The receiver is told nothing but what the announcement says.
 */
#include "duo.h"

#include <errno.h>
#include <string.h>

#include <godwit/auto.h>

#include "message/state.h"
#include "reliability/erasure_state.h"

#define LENGTH	 (UINT64_C(8) << 20)
#define DELAY_NS (5 * MS)
#define RATE_BPS UINT64_C(10000000000)

static struct gw_erasure *memory[2];

static void open_ends(struct duo *duo, uint64_t delay_ns, const struct gw_erasure_attr *attr)
{
	struct duo_attr world = { .link = { .rate_bps = RATE_BPS, .delay_ns = delay_ns },
				  .host = { .queue = 16384 }, /* the window is no limit */
				  .qp = { .peer_timeout_ns = 600 * S },
				  .memory_bytes = LENGTH };
	struct gw_erasure_attr open = { .max_length = LENGTH };

	duo_open(duo, &world);
	for (int i = 0; i < 2; i++)
		assert_int_equal(gw_erasure_open(duo->ctx[i], attr ? attr : &open, &memory[i]), 0);
	duo->scheme = &gw_auto;
	duo->options[0] = memory[0];
	duo->options[1] = memory[1];
}

static void close_ends(struct duo *duo)
{
	assert_int_equal(gw_erasure_close(memory[0]), 0);
	assert_int_equal(gw_erasure_close(memory[1]), 0);
	duo_close(duo);
}

/* One message; how long it took the sender. */
static uint64_t move(struct duo *duo, uint64_t length)
{
	struct duo_transfer transfer;
	uint64_t began = duo_now(duo);

	duo_start(duo, length, &transfer);
	duo_finish(&transfer, 600 * S);
	return transfer.sent_at - began;
}

static const char *why(void)
{
	static char text[512];

	assert_true(gw_auto_explain(memory[0], text, sizeof(text)) > 0);
	return text;
}

/* Datagrams and packets that both ends sent, and the time, of messages under a scheme. */
struct cost {
	uint64_t packets, control, took_ns;
};

static struct cost cost_of(const struct gw_scheme *scheme)
{
	static const uint64_t lengths[] = { 0, 1, DUO_PAYLOAD, 100000, LENGTH, 3 << 20, LENGTH };
	struct cost cost = { 0 };
	struct duo duo;

	open_ends(&duo, DELAY_NS, NULL);
	duo.scheme = scheme;
	if (scheme == &gw_selective_repeat)
		duo.options[0] = duo.options[1] = NULL;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		cost.took_ns += move(&duo, lengths[i]);
	cost.packets = duo_counter(&duo, 0, "sent_packets");
	cost.control = duo_counter(&duo, 0, "control_sent") + duo_counter(&duo, 1, "control_sent");
	assert_non_null(strstr(why(), "selective-repeat"));
	close_ends(&duo);
	return cost;
}

/* Not a packet and not a datagram more than Selective Repeat needs. */
static void nothing_lost(void **state)
{
	struct cost repeat = cost_of(&gw_selective_repeat), chosen = cost_of(&gw_auto);

	(void)state;
	assert_int_equal(chosen.packets, repeat.packets);
	assert_int_equal(chosen.control, repeat.control);
	/* The datagrams are a little longer. */
	assert_in_range(chosen.took_ns, repeat.took_ns, repeat.took_ns + repeat.took_ns / 100000);
}

/*
 * The first message of a connection goes under Selective Repeat, since no loss has been measured. The receiver learns that
 * from the announcement, and repairs it as Selective Repeat does: with the same losses it sends the same packets again, in
 * the same time.
 */
static struct cost first_message(const struct gw_scheme *scheme, uint64_t delay_ns)
{
	struct cost cost = { 0 };
	struct duo duo;

	open_ends(&duo, delay_ns, NULL);
	duo.scheme = scheme;
	if (scheme == &gw_selective_repeat)
		duo.options[0] = duo.options[1] = NULL;
	duo_link(&duo, 0)->attr.loss = 0.02;
	cost.took_ns = move(&duo, LENGTH);
	cost.packets = duo_counter(&duo, 0, "sent_packets");
	assert_true(duo_counter(&duo, 0, "retransmitted_packets") > 0);
	close_ends(&duo);
	return cost;
}

static void repeated_as_announced(void **state)
{
	static const uint64_t delays[] = { 20 * US, MS, DELAY_NS, 50 * MS };

	(void)state;
	for (size_t i = 0; i < sizeof(delays) / sizeof(delays[0]); i++) {
		struct cost repeat = first_message(&gw_selective_repeat, delays[i]);
		struct cost chosen = first_message(&gw_auto, delays[i]);

		assert_int_equal(chosen.packets, repeat.packets);
		assert_in_range(chosen.took_ns, repeat.took_ns,
				repeat.took_ns + repeat.took_ns / 100);
	}
}

/* The scheme, in short, that the sender announces next. */
static uint32_t parity_share(struct duo *duo, uint64_t length)
{
	uint64_t before = duo_counter(duo, 0, "sent_packets");
	uint64_t packets = (length + DUO_PAYLOAD - 1) / DUO_PAYLOAD;

	move(duo, length);
	return (uint32_t)((duo_counter(duo, 0, "sent_packets") - before) * 100 / packets - 100);
}

/* On a long path, losses are worth parity: messages take hardly longer than without loss. */
static void parity_pays(void **state)
{
	struct duo duo;
	uint64_t clean, sum = 0;

	(void)state;
	open_ends(&duo, DELAY_NS, NULL);
	move(&duo, LENGTH);
	clean = move(&duo, LENGTH);
	duo_link(&duo, 0)->attr.loss = 0.01;
	for (int i = 0; i < 30; i++) {
		uint64_t took = move(&duo, LENGTH);

		sum += i >= 4 ? took : 0;
	}
	assert_true(sum / 26 < clean + clean / 10);
	assert_non_null(strstr(why(), "mds("));
	assert_int_equal(duo_counter(&duo, 0, "retransmitted_packets") > 0, 1); /* the first */
	/* It ends, and parity with it. */
	duo_link(&duo, 0)->attr.loss = 0;
	duo.qp[0]->feedback.path.span = 131000; /* some gigabytes later */
	duo.qp[0]->feedback.path.lost = 0.5;
	for (int i = 0; i < 5; i++)
		move(&duo, LENGTH);
	assert_int_equal(parity_share(&duo, LENGTH), 0);
	close_ends(&duo);
}

/* On a short path a repeat costs next to nothing, and parity costs as much as anywhere. */
static void repeating_pays(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, 20 * US, NULL);
	duo_link(&duo, 0)->attr.loss = 0.0005;
	for (int i = 0; i < 10; i++)
		move(&duo, LENGTH);
	assert_int_equal(parity_share(&duo, LENGTH), 0);
	assert_non_null(strstr(why(), "sr-nack"));
	close_ends(&duo);
}

/* Bursts ask for groups further apart than as many losses one by one. */
static void bursts(void **state)
{
	/* 64 of them: no more than there are can take turns. */
	const struct gw_erasure_attr groups_enough = { .max_length = LENGTH, .k = 32, .m = 2 };
	uint32_t depth[2];

	(void)state;
	for (int bursty = 0; bursty < 2; bursty++) {
		struct duo duo;

		open_ends(&duo, DELAY_NS, &groups_enough);
		if (bursty) {
			duo_link(&duo, 0)->attr.burst_enter = 0.01 / 32;
			duo_link(&duo, 0)->attr.burst_leave = 1.0 / 32;
			duo_link(&duo, 0)->attr.burst_loss = 1;
		} else {
			duo_link(&duo, 0)->attr.loss = 0.01;
		}
		for (int i = 0; i < 16; i++)
			move(&duo, LENGTH);
		depth[bursty] = memory[0]->layout.depth;
		close_ends(&duo);
	}
	assert_true(depth[1] > depth[0]);
}

/* Parity and repeats leave at the rate of the link, whatever share of the data arrives. */
static void planned_by_what_leaves(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, 20 * US, NULL);
	duo_link(&duo, 0)->attr.rate_bps = RATE_BPS / 100;
	duo_link(&duo, 0)->attr.loss = 0.4;
	for (int i = 0; i < 6; i++)
		move(&duo, LENGTH);
	assert_in_range(memory[0]->shared->path.rate_bps, RATE_BPS / 100 * 8 / 10,
			RATE_BPS / 100 * 12 / 10);
	close_ends(&duo);
}

/* Where packets are late by a random time every wait is longer, and the planner knows, when that begins and when it is over. */
static void planned_by_waits(void **state)
{
	const struct plan_path *path;
	struct duo duo;

	(void)state;
	open_ends(&duo, DELAY_NS, NULL);
	path = &memory[0]->shared->path;
	for (int i = 0; i < 90; i++) {
		duo_link(&duo, 0)->attr.loss = 0.01;
		duo_link(&duo, 0)->attr.jitter_ns = i >= 30 && i < 60 ? 3 * DELAY_NS : 0;
		move(&duo, LENGTH / 8);
		if (i == 59) {
			assert_true(path->answer_ns > 4 * DELAY_NS);
			assert_true(path->patience_ns > path->answer_ns);
			assert_true(path->ask_ns > 2 * DELAY_NS);
		} else if (i % 30 == 29) {
			assert_in_range(path->answer_ns, 2 * DELAY_NS, 3 * DELAY_NS);
			assert_in_range(path->ask_ns, DELAY_NS / 5, DELAY_NS / 2);
		}
	}
	close_ends(&duo);
}

/* A loss that wavers does not make the choice waver. */
static void stays(void **state)
{
	uint32_t changes = 0, before = 0;
	struct duo duo;

	(void)state;
	open_ends(&duo, DELAY_NS, NULL);
	for (int i = 0; i < 40; i++) {
		const struct erasure_layout *layout = &memory[0]->layout;

		duo_link(&duo, 0)->attr.loss = i % 2 ? 0.004 : 0.006;
		move(&duo, LENGTH);
		if (i >= 10 && (layout->k << 8 | layout->m) != before)
			changes++;
		before = layout->k << 8 | layout->m;
	}
	assert_true(before > 0);
	assert_in_range(changes, 0, 6);
	close_ends(&duo);
}

/* The choice is the sender's alone: messages of both kinds, in any order, to a receiver that knows nothing. */
static void either(void **state)
{
	struct duo_attr world = { .link = { .rate_bps = RATE_BPS,
					    .delay_ns = DELAY_NS,
					    .duplicate = 0.02,
					    .reorder = 0.02,
					    .reorder_ns = MS },
				  .memory_bytes = LENGTH };
	struct gw_erasure_attr attr = { .max_length = LENGTH };
	unsigned coded = 0, plain = 0;
	struct duo duo;

	(void)state;
	duo_open(&duo, &world);
	for (int i = 0; i < 2; i++)
		assert_int_equal(gw_erasure_open(duo.ctx[i], &attr, &memory[i]), 0);
	duo.scheme = &gw_auto;
	duo.options[0] = memory[0];
	duo.options[1] = memory[1];
	for (int i = 0; i < 60; i++) {
		duo_link(&duo, 0)->attr.loss = duo_link(&duo, 1)->attr.loss = i < 2 ? 0 : 0.02;
		move(&duo, i % 3 ? (uint64_t)i * 70001 : i % 2 ? 0 : 1);
		coded += memory[0]->layout.m > 0;
		plain += memory[0]->layout.m == 0;
	}
	assert_true(coded > 10 && plain > 2);
	close_ends(&duo);
}

/* One slot, and parity has no place: neither kind may hang. */
static void one_slot(void **state)
{
	struct duo_attr world = { .link = { .rate_bps = RATE_BPS, .delay_ns = MS, .loss = 0.05 },
				  .qp = { .slots = 1 },
				  .memory_bytes = 1u << 20 };
	struct gw_erasure_attr attr = { .max_length = 1u << 20 };
	struct duo duo;

	(void)state;
	duo_open(&duo, &world);
	for (int i = 0; i < 2; i++)
		assert_int_equal(gw_erasure_open(duo.ctx[i], &attr, &memory[i]), 0);
	duo.scheme = &gw_auto;
	duo.options[0] = memory[0];
	duo.options[1] = memory[1];
	for (int i = 0; i < 10; i++)
		move(&duo, 1u << 20);
	close_ends(&duo);
}

static void told(void **state)
{
	char text[16];
	struct duo duo;

	(void)state;
	open_ends(&duo, DELAY_NS, NULL);
	assert_true(gw_auto_explain(memory[0], text, sizeof(text)) > 16);
	assert_string_equal(text, "selective-repea");
	assert_true(gw_auto_explain(memory[0], NULL, 0) > 16);
	assert_int_equal(gw_auto_explain(NULL, text, sizeof(text)), -EINVAL);
	close_ends(&duo);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_lost),
		cmocka_unit_test(parity_pays),
		cmocka_unit_test(repeating_pays),
		cmocka_unit_test(bursts),
		cmocka_unit_test(stays),
		cmocka_unit_test(planned_by_what_leaves),
		cmocka_unit_test(planned_by_waits),
		cmocka_unit_test(either),
		cmocka_unit_test(one_slot),
		cmocka_unit_test(told),
		cmocka_unit_test(repeated_as_announced),
	};

	return cmocka_run_group_tests_name("reliability-auto", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The erasure scheme with an XOR code: a row mends one loss and asks for just the data it cannot do without. What is lost
 * is chosen by the test, and every repeat accounted for.
 */
#include "duo.h"

#include <errno.h>
#include <string.h>

#include <godwit/auto.h>

#define PACKETS	      60u
#define SMALL_PAYLOAD 512u
#define LENGTH	      ((uint64_t)PACKETS * DUO_PAYLOAD - 5)
#define RTT_NS	      (4 * MS)
#define K	      12u
#define M	      3u
#define DEPTH	      2u

/* 60 packets are 5 groups, in stripes of 2, 2 and 1. Symbol i of group 0 is packet 2 i, and of row i mod 3. */
static const struct gw_erasure_attr code = {
	.max_length = LENGTH, .k = K, .m = M, .depth = DEPTH, .code = GW_CODE_XOR
};

static struct {
	unsigned data[PACKETS * DUO_PAYLOAD / SMALL_PAYLOAD]; /* so many times each is lost */
	bool parity[PACKETS * DUO_PAYLOAD / SMALL_PAYLOAD];   /* packets of the parity message */
	unsigned requests_lost;
	unsigned unknown_code; /* what announcements name instead */
	unsigned repeated, parity_sent, requests, nacks;
	uint32_t last_repeated;
} plan;

static struct gw_erasure *erasure[2];

static bool lose_data(struct duo *duo, uint32_t packet, bool again)
{
	if (duo->writing < duo->memory[0] || duo->writing >= duo->memory[0] + duo->memory_bytes) {
		plan.parity_sent++;
		return plan.parity[packet];
	}
	plan.repeated += again;
	plan.last_repeated = again ? packet : plan.last_repeated;
	if (!plan.data[packet])
		return false;
	plan.data[packet]--;
	return true;
}

/* Announcements name the code in the first byte of four that go k | m | rows | code from the right. */
static void rename_code(uint8_t *bytes, size_t length)
{
	static const uint8_t geometry[] = { GW_CODE_XOR, 0, M, K };

	for (size_t at = 0; at + sizeof(geometry) <= length; at++)
		if (!memcmp(bytes + at, geometry, sizeof(geometry)))
			bytes[at] = (uint8_t)plan.unknown_code;
}

static bool lose_control(struct duo *duo, int end, const struct control_message *message,
			 const void *bytes)
{
	(void)duo;
	plan.nacks += message->header.type == CONTROL_NACK;
	if (message->header.type == CONTROL_ANNOUNCE && plan.unknown_code)
		rename_code((uint8_t *)(uintptr_t)bytes, message->header.length);
	if (message->header.type != CONTROL_SCHEME || !end)
		return false;
	plan.requests++;
	return plan.requests <= plan.requests_lost;
}

static void open_coders(struct duo *duo, const struct gw_erasure_attr *sender,
			const struct gw_erasure_attr *receiver)
{
	assert_int_equal(gw_erasure_open(duo->ctx[0], sender, &erasure[0]), 0);
	assert_int_equal(gw_erasure_open(duo->ctx[1], receiver, &erasure[1]), 0);
	duo->scheme = &gw_erasure;
	duo->options[0] = erasure[0];
	duo->options[1] = erasure[1];
	duo->lose_data = lose_data;
	duo->lose_control = lose_control;
}

static void open_ends(struct duo *duo, const struct gw_erasure_attr *sender,
		      const struct gw_erasure_attr *receiver, double loss)
{
	struct duo_attr attr = {
		.link = { .rate_bps = UINT64_C(10000000000), .delay_ns = RTT_NS / 2, .loss = loss },
		.memory_bytes = LENGTH
	};
	struct duo_transfer warm;

	memset(&plan, 0, sizeof(plan));
	duo_open(duo, &attr);
	duo_start(duo, DUO_PAYLOAD, &warm);
	duo_finish(&warm, 5 * S);
	open_coders(duo, sender, receiver);
}

static void close_ends(struct duo *duo)
{
	assert_int_equal(gw_erasure_close(erasure[0]), 0);
	assert_int_equal(gw_erasure_close(erasure[1]), 0);
	duo_close(duo);
}

/* Sends one message, and returns how long it took the receiver. */
static uint64_t move(struct duo *duo, uint64_t length)
{
	struct duo_transfer transfer;
	uint64_t began = duo_now(duo);

	duo_start(duo, length, &transfer);
	duo_finish(&transfer, 5 * S);
	return transfer.received_at - began;
}

static void nothing_lost(void **state)
{
	static const uint64_t lengths[] = {
		0, 1, DUO_PAYLOAD, DUO_PAYLOAD + 1, 12 * DUO_PAYLOAD, 25 * DUO_PAYLOAD + 1, LENGTH
	};
	struct duo duo;

	(void)state;
	open_ends(&duo, &code, &code, 0);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		move(&duo, lengths[i]);
	assert_int_equal(plan.requests + plan.nacks + plan.repeated, 0);
	close_ends(&duo);
}

/* Any single packet, the short one too; then one in every row of a stripe, which a burst is. */
static void one_a_row(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &code, &code, 0);
	for (uint32_t packet = 0; packet < PACKETS; packet++) {
		plan.data[packet] = 1;
		assert_true(move(&duo, LENGTH) < RTT_NS + 2 * MS);
	}
	assert_int_equal(duo_counter(&duo, 1, "rebuilt_packets"), PACKETS);
	for (uint32_t first = 0; first + M * DEPTH <= K * DEPTH; first++) {
		for (uint32_t i = 0; i < M * DEPTH; i++)
			plan.data[first + i] = 1;
		assert_true(move(&duo, LENGTH) < RTT_NS + 2 * MS);
	}
	assert_int_equal(plan.requests + plan.nacks + plan.repeated, 0);
	close_ends(&duo);
}

/* Symbols 0, 3, 6 of row 0 and 1 of row 1: row 1 mends itself, and of row 0 two are asked for; the third follows. Symbols 0
 * and 3 are no neighbours, so that they are named one by one. */
static void three_in_a_row(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &code, &code, 0);
	plan.data[0] = plan.data[6] = plan.data[12] = plan.data[2] = 1;
	assert_true(move(&duo, LENGTH) < 2 * RTT_NS + 2 * MS);
	assert_int_equal(plan.requests, 1);
	assert_int_equal(plan.repeated, 2);
	assert_int_equal(plan.last_repeated, 6);
	assert_int_equal(plan.nacks, 0);
	assert_int_equal(plan.parity_sent, 5 * M);
	assert_int_equal(duo_counter(&duo, 1, "rebuilt_packets"), 2);
	close_ends(&duo);
}

/* A row that lost its parity asks for all its holes: symbols 0 to 2 of group 0, of which row 1's is mended. */
static void parity_lost(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &code, &code, 0);
	plan.data[0] = plan.data[2] = plan.data[4] = 1;
	plan.parity[0] = plan.parity[2 * DEPTH] = true;
	assert_true(move(&duo, LENGTH) < 2 * RTT_NS + 2 * MS);
	assert_int_equal(plan.requests, 1);
	assert_int_equal(plan.repeated, 2);
	close_ends(&duo);
}

/* Nothing proves that all parity is lost: the sender has to ask. */
static void all_parity_lost(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &code, &code, 0);
	memset(plan.parity, 1, sizeof(plan.parity));
	plan.data[30] = plan.data[PACKETS - 1] = 1;
	move(&duo, LENGTH);
	assert_int_equal(plan.requests, 1);
	assert_int_equal(plan.repeated, 2);
	assert_int_equal(plan.nacks, 0);
	close_ends(&duo);
}

/* The repeat is lost as well, and so is a request for it. */
static void repair_lost(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &code, &code, 0);
	plan.data[0] = 3;
	plan.data[6] = 1;
	plan.requests_lost = 1;
	move(&duo, LENGTH);
	assert_int_equal(plan.repeated, 3);
	assert_int_equal(plan.nacks, 0);
	close_ends(&duo);
}

static void everything_lost(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &code, &code, 0);
	for (uint32_t packet = 0; packet < PACKETS; packet++)
		plan.data[packet] = 1;
	memset(plan.parity, 1, sizeof(plan.parity));
	move(&duo, LENGTH);
	assert_int_equal(plan.repeated, PACKETS);
	close_ends(&duo);
}

/* So many groups ask at once that their request is longer than the path takes: it goes in parts. */
static void small_path(void **state)
{
	struct duo_attr attr = { .link = { .rate_bps = UINT64_C(10000000000),
					   .delay_ns = RTT_NS / 2 },
				 .path_payload = SMALL_PAYLOAD + 88,
				 .rungs = { 2 * SMALL_PAYLOAD, SMALL_PAYLOAD },
				 .memory_bytes = LENGTH };
	struct duo_transfer warm;
	struct duo duo;

	(void)state;
	memset(&plan, 0, sizeof(plan));
	duo_open(&duo, &attr);
	duo_start(&duo, DUO_PAYLOAD, &warm);
	duo_finish(&warm, 5 * S);
	open_coders(&duo, &code, &code);
	/* Without parity nobody asks before the sender does. Every other symbol: no two that one entry could name. */
	memset(plan.parity, 1, sizeof(plan.parity));
	for (uint32_t packet = 0; packet < LENGTH / SMALL_PAYLOAD; packet++)
		plan.data[packet] = packet / DEPTH % 2 == 0;
	move(&duo, LENGTH);
	assert_true(plan.requests > 1);
	assert_int_equal(plan.nacks, 0);
	close_ends(&duo);
}

/* The code is the sender's choice, whatever the receiver was opened with. */
static void ends_differ(void **state)
{
	const struct gw_erasure_attr other = {
		.max_length = LENGTH, .k = K, .m = M, .rows = M, .depth = DEPTH
	};
	struct duo duo;

	(void)state;
	for (int i = 0; i < 2; i++) {
		open_ends(&duo, i ? &code : &other, i ? &other : &code, 0);
		plan.data[0] = plan.data[2] = plan.data[4] = 1;
		move(&duo, LENGTH);
		assert_int_equal(plan.requests + plan.repeated + plan.nacks, 0);
		/* Two in a row of the XOR code are too many; for Reed-Solomon two are two. */
		plan.data[0] = plan.data[6] = 1;
		move(&duo, LENGTH);
		assert_int_equal(plan.repeated, i);
		close_ends(&duo);
	}
}

/* A code from the future: parity is of no use, and the data is repeated. */
static void unknown_code(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &code, &code, 0);
	plan.unknown_code = 7;
	plan.data[3] = plan.data[20] = 1;
	move(&duo, LENGTH);
	assert_int_equal(plan.repeated, 2);
	assert_int_equal(plan.requests, 0);
	assert_int_equal(duo_counter(&duo, 1, "rebuilt_packets"), 0);
	close_ends(&duo);
}

/* k, m and depth left open. */
static void random_loss(void **state)
{
	const struct gw_erasure_attr open = { .max_length = LENGTH, .code = GW_CODE_XOR };
	struct duo duo;

	(void)state;
	open_ends(&duo, &open, &open, 0.05);
	for (int i = 0; i < 60; i++)
		move(&duo, LENGTH);
	assert_true(duo_counter(&duo, 1, "rebuilt_packets") > 0);
	close_ends(&duo);
}

static void refused(void **state)
{
	struct gw_transfer_attr attr = { .length = 1 };
	struct gw_erasure_attr bad;
	struct gw_erasure *out;
	struct gw_send *send;
	struct duo duo;

	(void)state;
	open_ends(&duo, &code, &code, 0);
	for (int i = 0; i < 5; i++) {
		bad = code;
		bad.m = i == 0 ? K + 1 : M;
		bad.rows = i == 1 ? M + 1 : i == 2 ? M - 1 : M;
		bad.code = i == 3 ? GW_CODE_XOR + 1 : GW_CODE_XOR;
		bad.reserved[1] = i == 4;
		assert_int_equal(gw_erasure_open(duo.ctx[0], &bad, &out), -EINVAL);
	}
	attr.addr = duo.memory[0];
	attr.mr = duo.mr[0];
	attr.options = erasure[0];
	assert_int_equal(gw_transfer_send(duo.qp[0], &gw_auto, &attr, &send), -EINVAL);
	close_ends(&duo);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_lost),	   cmocka_unit_test(one_a_row),
		cmocka_unit_test(three_in_a_row),  cmocka_unit_test(parity_lost),
		cmocka_unit_test(all_parity_lost), cmocka_unit_test(repair_lost),
		cmocka_unit_test(everything_lost), cmocka_unit_test(ends_differ),
		cmocka_unit_test(unknown_code),	   cmocka_unit_test(random_loss),
		cmocka_unit_test(refused),	   cmocka_unit_test(small_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The erasure scheme: losses that parity mends without a word, bursts, too many losses, repairs and requests that are lost
 * themselves, and ends that do not agree. What is lost is chosen by the test, and every repair accounted for.
 */
#include "duo.h"

#include <errno.h>
#include <string.h>

#include <godwit/erasure.h>

#include "reliability/erasure_state.h"

#define PACKETS 100u
#define LENGTH	((uint64_t)PACKETS * DUO_PAYLOAD - 5)
#define RTT_NS	(4 * MS)

/* 10 data packets and 2 of parity a group; 100 packets are 10 groups: stripes of 4, 4 and 2. */
static const struct gw_erasure_attr small = {
	.max_length = LENGTH, .k = 10, .m = 2, .rows = 6, .depth = 4
};

static struct {
	bool data[PACKETS];	/* lost the first time */
	bool data_always;	/* those, always */
	bool parity[PACKETS];	/* packets of the parity message, the first time */
	unsigned fresh_lost;	/* so many fresh rows are lost */
	unsigned requests_lost; /* so many requests are lost */
	bool probes_lost;
	unsigned data_sent, parity_sent, fresh_sent, repeated, requests, nacks, probes;
} plan;

static struct gw_erasure *erasure[2];

static bool lose_data(struct duo *duo, uint32_t packet, bool again)
{
	bool data =
		duo->writing >= duo->memory[0] && duo->writing < duo->memory[0] + duo->memory_bytes;

	if (data) {
		plan.data_sent++;
		plan.repeated += again;
		return plan.data[packet] && (!again || plan.data_always);
	}
	plan.parity_sent++;
	if (packet < 20)
		return plan.parity[packet] && !again;
	plan.fresh_sent++;
	return plan.fresh_sent <= plan.fresh_lost;
}

static bool lose_control(struct duo *duo, int end, const struct control_message *message,
			 const void *bytes)
{
	(void)duo;
	(void)bytes;
	plan.nacks += message->header.type == CONTROL_NACK;
	if (message->header.type != CONTROL_SCHEME)
		return false;
	if (!end) {
		plan.probes++;
		return plan.probes_lost;
	}
	plan.requests++;
	return plan.requests <= plan.requests_lost;
}

static void open_ends(struct duo *duo, const struct gw_erasure_attr *sender,
		      const struct gw_erasure_attr *receiver)
{
	struct duo_attr attr = { .link = { .rate_bps = UINT64_C(10000000000),
					   .delay_ns = RTT_NS / 2 },
				 .memory_bytes = LENGTH };
	struct duo_transfer warm;

	memset(&plan, 0, sizeof(plan));
	duo_open(duo, &attr);
	duo_start(duo, DUO_PAYLOAD, &warm);
	duo_finish(&warm, S);
	assert_int_equal(gw_erasure_open(duo->ctx[0], sender, &erasure[0]), 0);
	assert_int_equal(gw_erasure_open(duo->ctx[1], receiver, &erasure[1]), 0);
	duo->scheme = &gw_erasure;
	duo->options[0] = erasure[0];
	duo->options[1] = erasure[1];
	duo->lose_data = lose_data;
	duo->lose_control = lose_control;
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
		0, 1, DUO_PAYLOAD, DUO_PAYLOAD + 1, 10 * DUO_PAYLOAD, 40 * DUO_PAYLOAD + 1, LENGTH
	};
	struct duo duo;

	(void)state;
	open_ends(&duo, &small, &small);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		move(&duo, lengths[i]);
	assert_int_equal(plan.requests + plan.nacks + plan.repeated + plan.fresh_sent, 0);
	close_ends(&duo);
}

/* Any single packet, the short one too: nobody is asked, and it takes no further round trip. */
static void one_lost(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &small, &small);
	for (uint32_t packet = 0; packet < PACKETS; packet++) {
		plan.data[packet] = true;
		assert_true(move(&duo, LENGTH) < RTT_NS + 2 * MS);
		plan.data[packet] = false;
	}
	assert_int_equal(plan.requests + plan.nacks + plan.repeated + plan.fresh_sent, 0);
	assert_int_equal(duo_counter(&duo, 1, "rebuilt_packets"), PACKETS);
	close_ends(&duo);
}

/* Four groups take turns and each can lose two: a burst of eight anywhere in a full stripe. */
static void burst(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &small, &small);
	for (uint32_t first = 0; first <= 72; first += 3) {
		memset(plan.data + first, 1, 8);
		assert_true(move(&duo, LENGTH) < RTT_NS + 2 * MS);
		memset(plan.data, 0, sizeof(plan.data));
	}
	assert_int_equal(plan.requests + plan.nacks + plan.repeated + plan.fresh_sent, 0);
	close_ends(&duo);
}

/* Group 0 loses packets 0, 4, 8, 12, 16. It lacks three rows, asks for three, and gets them. */
static void lose_five(void)
{
	for (uint32_t i = 0; i < 5; i++)
		plan.data[4 * i] = true;
}

static void too_many_lost(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &small, &small);
	lose_five();
	assert_true(move(&duo, LENGTH) < 2 * RTT_NS + 2 * MS);
	assert_int_equal(plan.requests, 1);
	assert_int_equal(plan.fresh_sent, 3);
	assert_int_equal(plan.nacks + plan.repeated, 0);
	close_ends(&duo);
}

/* The last stripe has no parity above it. That its last parity packet has landed is enough. */
static void last_stripe(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &small, &small);
	for (uint32_t i = 0; i < 3; i++)
		plan.data[PACKETS - 1 - 2 * i] = true;
	assert_true(move(&duo, LENGTH) < 2 * RTT_NS + 2 * MS);
	assert_int_equal(plan.requests, 1);
	assert_int_equal(plan.fresh_sent, 1);
	close_ends(&duo);
}

/* Nothing proves that the parity is lost: the sender has to ask. */
static void all_parity_lost(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &small, &small);
	memset(plan.parity, 1, sizeof(plan.parity));
	plan.data[50] = plan.data[99] = true;
	move(&duo, LENGTH);
	assert_int_equal(plan.requests, 1);
	assert_int_equal(plan.fresh_sent, 2);
	assert_int_equal(plan.repeated, 0);
	close_ends(&duo);
}

/* The repair is lost, in part: what is asked for then are other rows. There is one left, and it is enough. */
static void repair_lost(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &small, &small);
	lose_five();
	plan.fresh_lost = 1;
	move(&duo, LENGTH);
	assert_int_equal(plan.requests, 2);
	assert_int_equal(plan.fresh_sent, 4);
	assert_int_equal(plan.nacks + plan.repeated, 0);
	close_ends(&duo);
}

/* All rows were asked for: then it is the data that is repeated. */
static void rows_used_up(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &small, &small);
	lose_five();
	plan.fresh_lost = 3;
	move(&duo, LENGTH);
	assert_int_equal(plan.repeated, 5);
	assert_int_equal(plan.nacks, 1);
	close_ends(&duo);
}

/* Three stripes ask one after the other, and the first repair is lost. It is asked for again after one patience: that
 * others asked meanwhile is no silence. */
static void many_ask(void **state)
{
	uint64_t patience, took;
	struct duo duo;

	(void)state;
	open_ends(&duo, &small, &small);
	for (uint32_t i = 0; i < 3; i++)
		plan.data[4 * i] = plan.data[40 + 4 * i] = plan.data[80 + 2 * i] = true;
	plan.fresh_lost = 1;
	plan.probes_lost = true;
	patience = gw_qp_patience_ns(duo.qp[1]);
	took = move(&duo, LENGTH);
	assert_int_equal(plan.requests, 4);
	assert_int_equal(plan.fresh_sent, 4);
	assert_true(took < 2 * RTT_NS + MS + patience);
	close_ends(&duo);
}

static void requests_lost(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &small, &small);
	plan.data[0] = plan.data[4] = plan.data[8] = true;
	plan.requests_lost = 2;
	plan.probes_lost = true;
	move(&duo, LENGTH);
	assert_int_equal(plan.requests, 3);
	assert_int_equal(plan.fresh_sent, 1);
	close_ends(&duo);
}

/* Nothing at all arrives the first time. */
static void everything_lost(void **state)
{
	struct duo duo;

	(void)state;
	open_ends(&duo, &small, &small);
	memset(plan.data, 1, sizeof(plan.data));
	memset(plan.parity, 1, sizeof(plan.parity));
	move(&duo, LENGTH);
	assert_true(plan.nacks > 0);
	close_ends(&duo);
}

/* A receiver whose coder is too small for the sender's groups, or without room for its parity: data is repeated. One that
 * could code larger groups is none the worse. */
static void ends_differ(void **state)
{
	struct gw_erasure_attr other = small;
	struct duo duo;

	(void)state;
	for (int i = 0; i < 3; i++) {
		other = small;
		other.k = i == 0 ? 5 : i == 1 ? 20 : 10;
		other.rows = i == 2 ? 4 : 6;
		other.max_length = i == 2 ? 50 * DUO_PAYLOAD : 4 * LENGTH;
		open_ends(&duo, &small, &other);
		plan.data[7] = plan.data[20] = true;
		move(&duo, 50 * DUO_PAYLOAD);
		assert_int_equal(plan.repeated, i == 1 ? 0 : 2);
		assert_int_equal(plan.requests, 0); /* rows would help nobody */
		close_ends(&duo);
	}
}

/* One slot: the parity message is granted when the data is through, and the data must do without it. */
static void no_slot_for_parity(void **state)
{
	struct duo_attr attr = { .link = { .rate_bps = UINT64_C(10000000000),
					   .delay_ns = RTT_NS / 2 },
				 .qp = { .slots = 1 },
				 .memory_bytes = LENGTH };
	struct duo duo;

	(void)state;
	memset(&plan, 0, sizeof(plan));
	duo_open(&duo, &attr);
	assert_int_equal(gw_erasure_open(duo.ctx[0], &small, &erasure[0]), 0);
	assert_int_equal(gw_erasure_open(duo.ctx[1], &small, &erasure[1]), 0);
	duo.scheme = &gw_erasure;
	duo.options[0] = erasure[0];
	duo.options[1] = erasure[1];
	duo.lose_data = lose_data;
	duo.lose_control = lose_control;
	plan.data[3] = plan.data[99] = true;
	move(&duo, LENGTH);
	assert_int_equal(plan.repeated, 2);
	assert_int_equal(plan.parity_sent, 0);
	close_ends(&duo);
}

static void random_loss(void **state)
{
	struct gw_erasure_attr attr = { .max_length = LENGTH };
	struct duo_attr world = { .link = { .rate_bps = UINT64_C(10000000000),
					    .delay_ns = RTT_NS / 2,
					    .loss = 0.05,
					    .duplicate = 0.02,
					    .reorder = 0.05,
					    .reorder_ns = MS },
				  .memory_bytes = LENGTH };
	struct duo duo;

	(void)state;
	for (world.seed = 1; world.seed <= 5; world.seed++) {
		duo_open(&duo, &world);
		assert_int_equal(gw_erasure_open(duo.ctx[0], &attr, &erasure[0]), 0);
		assert_int_equal(gw_erasure_open(duo.ctx[1], &attr, &erasure[1]), 0);
		duo.scheme = &gw_erasure;
		duo.options[0] = erasure[0];
		duo.options[1] = erasure[1];
		for (int i = 0; i < 20; i++)
			move(&duo, LENGTH);
		close_ends(&duo);
	}
}

static void cancelled(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_ends(&duo, &small, &small);
	memset(plan.data, 1, sizeof(plan.data));
	plan.data_always = true;
	duo_start(&duo, LENGTH, &transfer);
	duo_run(&duo, 3 * RTT_NS);
	assert_int_equal(gw_erasure_close(erasure[0]), -EBUSY);
	assert_int_equal(gw_erasure_close(erasure[1]), -EBUSY);
	assert_int_equal(gw_recv_complete(transfer.recv), 0);
	world_touch(&duo.world, 1);
	duo_until(&duo, S, transfer.sent && transfer.received);
	assert_int_equal(transfer.sent_status, -ECANCELED);
	assert_int_equal(gw_send_close(transfer.send), 0);
	assert_int_equal(gw_recv_close(transfer.recv), 0);
	duo_run(&duo, S);
	/* And the next one is none the worse. */
	memset(plan.data, 0, sizeof(plan.data));
	move(&duo, LENGTH);
	close_ends(&duo);
}

/* Taking memory back takes a while here. Who is told of the end may close the coder at once. */
static void told_when_over(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = RTT_NS / 2 },
				 .host = { .fence_ns = MS },
				 .memory_bytes = LENGTH };
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	memset(&plan, 0, sizeof(plan));
	duo_open(&duo, &attr);
	assert_int_equal(gw_erasure_open(duo.ctx[0], &small, &erasure[0]), 0);
	assert_int_equal(gw_erasure_open(duo.ctx[1], &small, &erasure[1]), 0);
	duo.scheme = &gw_erasure;
	duo.options[0] = erasure[0];
	duo.options[1] = erasure[1];
	duo_start(&duo, LENGTH, &transfer);
	assert_int_equal(gw_recv_complete(transfer.recv), 0);
	world_touch(&duo.world, 1);
	duo_until(&duo, S, transfer.received);
	assert_int_equal(gw_erasure_close(erasure[1]), 0);
	duo_until(&duo, S, transfer.sent);
	assert_int_equal(gw_send_close(transfer.send), 0);
	assert_int_equal(gw_recv_close(transfer.recv), 0);
	duo_run(&duo, S);
	assert_int_equal(gw_erasure_close(erasure[0]), 0);
	duo_close(&duo);
}

static void refused(void **state)
{
	struct gw_transfer_attr attr = { .length = 1 };
	struct gw_erasure_attr bad;
	struct gw_erasure *out;
	struct gw_recv *recv;
	struct duo duo;

	(void)state;
	open_ends(&duo, &small, &small);
	attr.addr = duo.memory[1];
	attr.mr = duo.mr[1];
	assert_int_equal(gw_transfer_recv(duo.qp[1], &gw_erasure, &attr, &recv), -EINVAL);
	attr.options = erasure[1];
	attr.length = LENGTH + 1;
	assert_int_equal(gw_transfer_recv(duo.qp[1], &gw_erasure, &attr, &recv), -EMSGSIZE);
	for (int i = 0; i < 7; i++) {
		bad = small;
		bad.max_length = i == 0 ? 0 : LENGTH;
		bad.k = i == 1 ? 256 : 10;
		bad.rows = i == 2 ? 247 : 6;
		bad.m = i == 3 ? 7 : 2;
		bad.payload = i == 4 ? 32 : 0;
		bad.goal = i == 5 ? 3 : 0;
		bad.reserved[1] = i == 6;
		assert_int_equal(gw_erasure_open(duo.ctx[0], &bad, &out), -EINVAL);
	}
	close_ends(&duo);
}

/* The immediate counts 256 packets, and all rows of this message would be more. Both ends use as many rows as it counts, and
 * none if a single one is too long. */
static void counted_by_immediate(void **state)
{
	static const struct {
		uint32_t k, code, packets, rows;
	} tries[] = {
		{ 2, GW_CODE_REED_SOLOMON, 256, 1 }, { 2, GW_CODE_REED_SOLOMON, 64, 6 },
		{ 1, GW_CODE_REED_SOLOMON, 256, 0 }, { 2, GW_CODE_XOR, 256, 1 },
		{ 1, GW_CODE_XOR, 256, 0 },
	};
	struct duo_attr world = {
		.link = { .rate_bps = UINT64_C(10000000000), .delay_ns = RTT_NS / 2, .loss = 0.05 },
		.qp = { .slot_bits = 10, .packet_bits = 8, .user_bits = 14 },
		.memory_bytes = 256 * DUO_PAYLOAD
	};

	(void)state;
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct gw_erasure_attr attr = { .max_length = world.memory_bytes,
						.payload = DUO_PAYLOAD,
						.k = tries[i].k,
						.m = tries[i].k,
						.depth = 4,
						.code = tries[i].code };
		struct duo duo;

		attr.rows = attr.code == GW_CODE_XOR ? 0 : 6;
		duo_open(&duo, &world);
		for (int end = 0; end < 2; end++)
			assert_int_equal(gw_erasure_open(duo.ctx[end], &attr, &erasure[end]), 0);
		duo.scheme = &gw_erasure;
		duo.options[0] = erasure[0];
		duo.options[1] = erasure[1];
		for (int times = 0; times < 4; times++)
			move(&duo, (uint64_t)tries[i].packets * DUO_PAYLOAD);
		assert_int_equal(erasure[0]->layout.rows, tries[i].rows);
		close_ends(&duo);
	}
}

/* Three transfers at a time, two of them under way, with losses and lengths of their own. */
static void members(void **state)
{
	struct gw_erasure_attr attr = { .max_length = LENGTH,
					.payload = DUO_PAYLOAD,
					.transfers = 3 };
	struct duo_attr world = {
		.link = { .rate_bps = UINT64_C(10000000000), .delay_ns = RTT_NS / 2, .loss = 0.05 },
		.memory_bytes = LENGTH
	};
	struct duo duo;

	(void)state;
	duo_open(&duo, &world);
	for (int end = 0; end < 2; end++) {
		assert_int_equal(gw_erasure_open(duo.ctx[end], &attr, &erasure[end]), 0);
		assert_ptr_equal(gw_erasure_member(erasure[end], 0), erasure[end]);
		assert_non_null(gw_erasure_member(erasure[end], 2));
		assert_null(gw_erasure_member(erasure[end], 3));
	}
	duo.scheme = &gw_erasure;
	for (uint32_t i = 0; i < 30; i++) {
		struct duo_transfer transfer[2];

		for (uint32_t j = 0; j < 2; j++) {
			duo.options[0] = gw_erasure_member(erasure[0], (i + j) % 3);
			duo.options[1] = gw_erasure_member(erasure[1], (i + 2 * j) % 3);
			duo_start(&duo, LENGTH / (1 + j * 9), &transfer[j]);
		}
		assert_int_equal(gw_erasure_close(erasure[0]), -EBUSY);
		duo_finish(&transfer[0], 5 * S);
		duo_finish(&transfer[1], 5 * S);
	}
	assert_true(duo_counter(&duo, 1, "rebuilt_packets") > 0);
	close_ends(&duo);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_lost),	  cmocka_unit_test(one_lost),
		cmocka_unit_test(burst),	  cmocka_unit_test(too_many_lost),
		cmocka_unit_test(last_stripe),	  cmocka_unit_test(all_parity_lost),
		cmocka_unit_test(repair_lost),	  cmocka_unit_test(rows_used_up),
		cmocka_unit_test(requests_lost),  cmocka_unit_test(everything_lost),
		cmocka_unit_test(ends_differ),	  cmocka_unit_test(no_slot_for_parity),
		cmocka_unit_test(random_loss),	  cmocka_unit_test(cancelled),
		cmocka_unit_test(refused),	  cmocka_unit_test(many_ask),
		cmocka_unit_test(told_when_over), cmocka_unit_test(counted_by_immediate),
		cmocka_unit_test(members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

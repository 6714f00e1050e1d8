/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths that carry less than the interfaces at their ends. Large packets vanish without a word; the queue pair finds the
 * size that arrives before it sends data, and everything posted earlier still fits. A path that merely loses packets is
 * not taken for such a one.
 */
#include "../reliability/duo.h"

#include <errno.h>
#include <string.h>

#include "fabric/sim/network.h"
#include "message/state.h"

#define LENGTH 300001u
#define LIMIT  (20 * S)

static struct duo_attr path(uint32_t path_payload)
{
	return (struct duo_attr){ .link = { .rate_bps = 1000000000, .delay_ns = 5 * MS },
				  .rungs = { 1024, 512 },
				  .path_payload = path_payload };
}

static uint32_t payload(const struct duo *duo, int end)
{
	uint32_t bytes = 0;

	assert_int_equal(gw_qp_payload(duo->qp[end], &bytes), 0);
	return bytes;
}

static void finds_the_rung(void **state)
{
	static const struct {
		uint32_t carries, found, cuts;
	} cases[] = { { 0, DUO_PAYLOAD, 0 }, { 4096, 4096, 0 }, { 4095, 1024, 1 },
		      { 1024, 1024, 1 },     { 1023, 512, 2 },	{ 512, 512, 2 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct duo_attr attr = path(cases[i].carries);
		struct duo_transfer transfer;
		struct duo duo;

		duo_open(&duo, &attr);
		duo_start(&duo, LENGTH, &transfer);
		duo_finish(&transfer, LIMIT);
		assert_int_equal(payload(&duo, 0), cases[i].found);
		assert_int_equal(duo_counter(&duo, 0, "payload_cuts"), cases[i].cuts);
		/* It costs some round trips a rung, and none of the data. */
		assert_true(transfer.sent_at < S + (5 + 10 * cases[i].cuts) * 10 * MS + 20 * MS);
		assert_int_equal(duo_counter(&duo, 0, "retransmitted_packets"), 0);
		duo_start(&duo, LENGTH - 5000, &transfer);
		duo_finish(&transfer, LIMIT);
		duo_close(&duo);
	}
}

/* Receives that were posted before the path was known are cut anew, those in slots and those that wait for one. */
static void posted_before(void **state)
{
	struct duo_attr attr = path(600);
	struct gw_recv *recvs[6];
	struct gw_send *sends[6];
	struct duo duo;

	(void)state;
	attr.qp.slots = 2;
	duo_open(&duo, &attr);
	for (unsigned i = 0; i < 6; i++) {
		struct gw_recv_attr recv = { .addr = duo.memory[1] + i * 10000,
					     .length = 10000,
					     .mr = duo.mr[1] };

		assert_int_equal(gw_recv_post(duo.qp[1], &recv, &recvs[i]), 0);
	}
	world_touch(&duo.world, 1);
	duo_run(&duo, 20 * MS);
	for (unsigned i = 0; i < 6; i++) {
		struct gw_send_attr send = { .addr = duo.memory[0] + i * 10000,
					     .length = 10000 - i,
					     .mr = duo.mr[0] };

		assert_int_equal(gw_send_post(duo.qp[0], &send, &sends[i]), 0);
	}
	world_touch(&duo.world, 0);
	for (unsigned i = 0; i < 6; i++) {
		struct gw_recv_status status = { 0 };

		duo_until(&duo, LIMIT,
			  !gw_recv_status(recvs[i], &status) && status.flags & GW_RECV_FULL);
		assert_int_equal(status.packets, (10000 - i + 511) / 512);
		assert_int_equal(status.payload, 512);
		assert_int_equal(gw_recv_complete(recvs[i]), 0);
		world_touch(&duo.world, 1);
		assert_memory_equal(duo.memory[0] + i * 10000, duo.memory[1] + i * 10000,
				    10000 - i);
	}
	duo_run(&duo, 100 * MS);
	duo_close(&duo);
}

/* What fitted the immediate's count of packets does so no longer: said at both ends, not waited for. */
static void too_long_for_small_packets(void **state)
{
	struct duo_attr attr = path(600);
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	attr.qp.slot_bits = 16;
	attr.qp.packet_bits = 6;
	attr.qp.user_bits = 10;
	duo_open(&duo, &attr);
	duo_start(&duo, 64 * 4096, &transfer);
	duo_until(&duo, LIMIT, transfer.sent && transfer.received);
	assert_int_equal(transfer.received_status, -EMSGSIZE);
	assert_true(transfer.sent_status < 0);
	duo_close(&duo);
}

/* Loss alone, even much of it, is not a small MTU. */
static void loss_is_no_black_hole(void **state)
{
	unsigned cuts = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct duo_attr attr = path(0);
		struct duo_transfer transfer;
		struct duo duo;

		attr.link.loss = 0.2;
		attr.seed = seed;
		duo_open(&duo, &attr);
		duo_start(&duo, LENGTH, &transfer);
		duo_finish(&transfer, LIMIT);
		cuts += duo_counter(&duo, 0, "payload_cuts") != 0;
		duo_close(&duo);
	}
	assert_true(cuts <=
		    3); /* a large one and its answer are both needed, four times in a row */
}

/* Once data has landed the packets' size is settled: whoever asks for another one is told so. */
static void not_afterwards(void **state)
{
	struct control_reach smaller = { CONTROL_REACH_REQUEST, 512 };
	struct duo_attr attr = path(0);
	struct control_header header = { 0 };
	struct control_writer writer;
	struct duo_transfer transfer;
	uint8_t bytes[64];
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, LIMIT);
	header.token = duo.qp[0]->peer_token;
	header.announced = duo.qp[0]->announced;
	header.granted = duo.qp[0]->grants_seen;
	header.completed = duo.qp[0]->completed;
	header.results = duo.qp[0]->results_seen;
	assert_int_equal(control_begin(&writer, bytes, sizeof(bytes), CONTROL_REACH, &header), 0);
	assert_int_equal(control_put_reach(&writer, &smaller, 0), 0);
	duo_say(&duo, 0, bytes, control_end(&writer));
	duo_run(&duo, 100 * MS);
	assert_int_equal(duo.qp[1]->payload, DUO_PAYLOAD);
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, LIMIT);
	duo_close(&duo);
}

/* A path that shrinks later on takes what was agreed with it: an error that says so, and no endless repeating. */
static void shrinks_later(void **state)
{
	struct duo_attr attr = path(0);
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, LIMIT);
	duo.world.sim->attr.path_payload = 2000;
	duo_start(&duo, LENGTH, &transfer);
	duo_until(&duo, 2 * LIMIT, transfer.sent && transfer.received);
	assert_int_equal(transfer.sent_status, -EMSGSIZE);
	/* Told, not left to find out by the silence. */
	assert_int_equal(transfer.received_status, -ECONNRESET);
	duo_close(&duo);
}

/* A path that carries control and nothing else. */
static void no_rung_holds(void **state)
{
	struct duo_attr attr = path(300);
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	duo_start(&duo, LENGTH, &transfer);
	duo_until(&duo, 2 * LIMIT, transfer.sent && transfer.received);
	assert_int_equal(transfer.sent_status, -EMSGSIZE);
	/* It tries its own direction, too: either it found out by itself, or it was told. */
	assert_true(transfer.received_status == -EMSGSIZE ||
		    transfer.received_status == -ECONNRESET);
	assert_int_equal(duo_counter(&duo, 0, "payload_cuts"), 2);
	duo_close(&duo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_the_rung),
		cmocka_unit_test(posted_before),
		cmocka_unit_test(too_long_for_small_packets),
		cmocka_unit_test(loss_is_no_black_hole),
		cmocka_unit_test(not_afterwards),
		cmocka_unit_test(shrinks_later),
		cmocka_unit_test(no_rung_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

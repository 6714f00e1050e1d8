/* SPDX-License-Identifier: BSD-3-Clause */
/* A path that shrinks, piece by piece: what each end does about it. size_test.c has whole transfers. */
#include "shrinking.h"

#include <errno.h>
#include <string.h>

/* Its window opens when smaller packets have been asked for. */
static void opens_after_the_cut(void **state)
{
	struct duo_attr attr = path();
	struct gw_recv_status status;
	uint8_t bytes[DATAGRAM];
	struct gw_recv *recv;
	struct duo duo;

	(void)state;
	open_tapped(&duo, &attr);
	recv = duo_recv(&duo, LENGTH);
	assert_int_equal(duo.qp[1]->rx.slots[recv->msn & duo.qp[1]->rx.mask].state, SLOT_EXPOSING);
	control_received(duo.qp[1], bytes, (uint32_t)forge_cut(&duo, duo.qp[1]->rx.granted, bytes));
	duo_run(&duo, 100 * MS);
	assert_int_equal(gw_recv_status(recv, &status), 0);
	assert_int_equal(status.payload, FLOOR);
	duo_close(&duo);
}

/* Of a message whose length is not known, a packet that is not full says nothing about the bytes behind it; and a packet
 * counts as landed only if all of its bytes have. */
static void landed_bytes_only(void **state)
{
	struct duo_attr attr = path();
	struct gw_recv_status status;
	uint8_t bytes[DATAGRAM];
	struct gw_recv *recv;
	struct gw_send *send;
	struct duo duo;

	(void)state;
	open_tapped(&duo, &attr);
	tap.types[0] = 1u << CONTROL_ANNOUNCE;
	recv = duo_recv(&duo, 20000);
	assert_int_equal(gw_send_post(duo.qp[0],
				      &(struct gw_send_attr){ .addr = duo.memory[0],
							      .length = 2 * DUO_PAYLOAD + 100,
							      .mr = duo.mr[0] },
				      &send),
			 0);
	world_touch(&duo.world, 0);
	duo_run(&duo, 100 * MS);
	assert_int_equal(gw_recv_status(recv, &status), 0);
	assert_int_equal(status.landed, 3);
	control_received(duo.qp[1], bytes, (uint32_t)forge_cut(&duo, recv->msn, bytes));
	assert_int_equal(gw_recv_status(recv, &status), 0);
	assert_int_equal(status.payload, FLOOR);
	assert_int_equal(status.landed, 2 * DUO_PAYLOAD / FLOOR);
	assert_int_equal(status.highest, 2 * DUO_PAYLOAD / FLOOR);
	gw_send_close(send);
	duo_close(&duo);
}

/* ---- the sender ------------------------------------------------------------------------------------------------ */

/* A one-shot send goes on with the first byte that has not left: the hole ends there. */
static void one_shot_leaves_nothing_out(void **state)
{
	struct duo_attr attr = path();
	struct gw_recv_status status;
	struct gw_send *send;
	struct gw_recv *recv;
	struct gw_run hole;
	struct duo duo;

	(void)state;
	open_tapped(&duo, &attr);
	recv = duo_recv(&duo, 1500001);
	tap.sent = 0;
	assert_int_equal(gw_send_post(duo.qp[0],
				      &(struct gw_send_attr){ .addr = duo.memory[0],
							      .length = 1500001,
							      .mr = duo.mr[0] },
				      &send),
			 0);
	world_touch(&duo.world, 0);
	duo_run(&duo, 60 * MS);
	sim_path_payload(duo.world.sim, SHRUNK);
	duo_until(&duo, LIMIT, duo.qp[0]->size.state == SIZE_CUTTING);
	assert_in_range(tap.sent, 17, 1500001 / DUO_PAYLOAD);
	hole.first = tap.sent;
	duo_until(&duo, LIMIT, gw_send_test(send));
	duo_run(&duo, S);
	assert_int_equal(gw_recv_status(recv, &status), 0);
	assert_int_equal(status.payload, FLOOR);
	{
		uint32_t resumed = (uint32_t)((uint64_t)hole.first * DUO_PAYLOAD / FLOOR);

		assert_int_equal(gw_recv_next_hole(recv, 0, status.packets, &hole), 1);
		assert_int_equal(hole.first + hole.count, resumed);
		assert_int_equal(gw_recv_next_hole(recv, resumed, status.packets, &hole), 0);
	}
	gw_send_close(send);
	duo_close(&duo);
}

/* The message that was caught is given up before the peer has heard of the cut. The peer has to hear of it all the same: it
 * would go on granting large packets, and what it says of sizes would be of another epoch for ever. */
static void a_cut_that_nobody_waits_for(void **state)
{
	struct duo_attr attr = path();
	struct gw_send *stream;
	struct gw_recv *recv;
	struct duo duo;

	(void)state;
	open_tapped(&duo, &attr);
	recv = duo_recv(&duo, LENGTH);
	stream = duo_stream(&duo, LENGTH);
	duo_run(&duo, 50 * MS);
	duo_put(&duo, stream, 70);
	sim_path_payload(duo.world.sim, SHRUNK);
	tap.types[0] = 1u << CONTROL_SIZE;
	duo_until(&duo, LIMIT, duo.qp[0]->size.state == SIZE_DOUBTED);
	tap.types[0] = 0;
	duo_until(&duo, LIMIT, duo.qp[0]->size.state == SIZE_CUTTING);
	tap.types[0] = 1u << CONTROL_SIZE;
	gw_stream_abort(stream);
	gw_send_close(stream);
	gw_recv_complete(recv);
	world_touch(&duo.world, 0);
	world_touch(&duo.world, 1);
	duo_run(&duo, S);
	tap.types[0] = 0;
	carry(&duo, LENGTH);
	assert_int_equal(duo.qp[1]->size.applied, duo.qp[0]->size.epoch);
	duo_close(&duo);
}

static void count_lost(void *arg, const struct gw_path_report *report, uint64_t now)
{
	(void)now;
	*(uint64_t *)arg += report->lost_packets;
}

/* Packets that had become too large for the path say nothing about how many it loses. */
static void too_large_is_not_lost(void **state)
{
	static const struct gw_gate gate = { .report = count_lost };
	struct duo_attr attr = path();
	struct duo_transfer transfer;
	uint64_t lost = 0;
	struct duo duo;

	(void)state;
	open_tapped(&duo, &attr);
	assert_int_equal(gw_qp_set_gate(duo.qp[0], &gate, &lost), 0);
	sim_path_payload(duo.world.sim, SHRUNK);
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, LIMIT);
	assert_true(tap.sent > 20);
	for (int i = 0; i < 3; i++)
		carry(&duo, LENGTH);
	assert_int_equal(duo.qp[0]->size.epoch, 1);
	assert_int_equal(lost, 0);
	assert_true(duo_estimate(&duo, 0).loss == 0);
	duo_close(&duo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cut_that_nobody_waits_for),
		cmocka_unit_test(too_large_is_not_lost),
		cmocka_unit_test(opens_after_the_cut),
		cmocka_unit_test(landed_bytes_only),
		cmocka_unit_test(one_shot_leaves_nothing_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

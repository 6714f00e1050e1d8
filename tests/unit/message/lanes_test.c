/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control and lanes: what is said leaves by one lane, and by the next one when it seems not to arrive. Lanes fail here for
 * data and control alike, in one direction or in both.
 */
#include "../reliability/duo.h"

#include <string.h>

#include "message/state.h"

#define PACKETS 64u
#define LENGTH	((uint64_t)PACKETS * DUO_PAYLOAD)
#define RTT_NS	(4 * MS)

static bool lose_last; /* once */

static bool lose_data(struct duo *duo, uint32_t packet, bool again)
{
	(void)duo;
	(void)again;
	if (packet != PACKETS - 1 || !lose_last)
		return false;
	lose_last = false;
	return true;
}

static void open_lanes(struct duo *duo, uint32_t count)
{
	static const struct link_attr lanes[FABRIC_LANES_MAX];
	struct duo_attr attr = { .link = { .rate_bps = UINT64_C(10000000000),
					   .delay_ns = RTT_NS / 2 },
				 .host = { .lanes = count },
				 .lanes = lanes };
	struct duo_transfer warm;

	duo_open(duo, &attr);
	for (int i = 0; i < 8; i++) {
		duo_start(duo, LENGTH, &warm);
		duo_finish(&warm, S);
	}
	duo->lose_data = lose_data;
}

static void cut(struct duo *duo, int end, uint32_t lane)
{
	sim_lane(duo->world.sim, (uint32_t)end, lane)->down = true;
}

/* The last packet is lost, and with it the lane by which it would be asked about or asked for. Nothing follows that would
 * be repeated by a clock of the message layer: each end has only its questions. Returns how long it takes. */
static uint64_t mended_after(struct duo *duo, int ends)
{
	struct duo_transfer transfer;
	uint64_t failed_at;

	lose_last = true;
	duo_start(duo, LENGTH, &transfer);
	duo_until(duo, S,
		  !lose_last && duo->qp[0]->tx.announce_acked == duo->qp[0]->tx.matched &&
			  duo->qp[1]->rx.grants_acked == duo->qp[1]->rx.granted);
	for (int end = 0; end < 2; end++)
		if (ends & 1 << end)
			cut(duo, end, duo->qp[end]->control.lane);
	failed_at = duo_now(duo);
	duo_finish(&transfer, 10 * S);
	return transfer.received_at - failed_at;
}

static void asked_in_vain(void **state)
{
	(void)state;
	for (int ends = 1; ends < 4; ends++)
		for (uint32_t lanes = 2; lanes <= 4; lanes += 2) {
			struct duo duo;

			open_lanes(&duo, lanes);
			assert_in_range(mended_after(&duo, ends), RTT_NS, 60 * RTT_NS);
			duo_close(&duo);
		}
}

/* Who only waits asks seldom; once in vain, soon again and by another lane. */
static void asked_soon_again(void **state)
{
	struct gw_recv *recv;
	uint64_t cut_at, asked;
	struct duo duo;

	(void)state;
	open_lanes(&duo, 2);
	recv = duo_recv(&duo, LENGTH);
	duo_run(&duo, 5 * S);
	cut_at = duo_now(&duo);
	cut(&duo, 1, duo.qp[1]->control.lane);
	asked = duo.qp[1]->feedback.probe_at;
	duo_until(&duo, 10 * S, duo.qp[1]->control.heard_at > cut_at + RTT_NS);
	assert_in_range(duo_now(&duo), asked + RTT_NS, asked + 10 * RTT_NS);
	assert_int_equal(gw_recv_complete(recv), 0);
	duo_close(&duo);
}

static struct {
	unsigned questions, heard;
	uint32_t lose_every;
} vain;

static bool lose_answers(struct duo *duo, int end, const struct control_message *message,
			 const void *bytes)
{
	(void)duo;
	(void)bytes;
	if (end == 1)
		return true;
	if (message->header.type != CONTROL_PROBE)
		return false;
	vain.questions++;
	if (vain.lose_every && vain.questions % vain.lose_every)
		return true;
	vain.heard++;
	return false;
}

/* An end that asks for nothing itself learns from being asked again that its answers do not arrive, also where some of the
 * questions do not. */
static void answered_in_vain(void **state)
{
	(void)state;
	for (uint32_t every = 0; every <= 3; every++) {
		struct gw_send *send;
		struct duo duo;
		uint8_t lane;

		open_lanes(&duo, 2);
		duo_run(&duo, S);
		memset(&vain, 0, sizeof(vain));
		vain.lose_every = every;
		duo.lose_control = lose_answers;
		lane = duo.qp[1]->control.lane;
		send = duo_stream(&duo, LENGTH);
		duo_until(&duo, 10 * S, vain.heard == 1);
		duo_run(&duo, RTT_NS);
		assert_int_equal(duo.qp[1]->control.lane, lane);
		duo_until(&duo, 10 * S, vain.heard == 2);
		duo_run(&duo, RTT_NS);
		assert_int_not_equal(duo.qp[1]->control.lane, lane);
		duo.lose_control = NULL;
		duo_run(&duo, 100 * MS);
		assert_int_equal(gw_send_close(send), 0);
		duo_close(&duo);
	}
}

/* Both ends begin with a lane that is dead, and have a grant to repeat just when they ask. */
static void dead_from_the_start(void **state)
{
	static const struct link_attr lanes[2] = { { .loss = 1 }, { 0 } };
	struct duo_attr attr = { .link = { .rate_bps = UINT64_C(10000000000),
					   .delay_ns = RTT_NS / 2 },
				 .host = { .lanes = 2 },
				 .lanes = lanes };
	struct gw_recv_attr unused = { .length = DUO_PAYLOAD };
	struct duo_transfer transfer;
	struct gw_recv *recv;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	unused.addr = duo.memory[0];
	unused.mr = duo.mr[0];
	assert_int_equal(gw_recv_post(duo.qp[0], &unused, &recv), 0);
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, 2 * S);
	assert_int_equal(gw_recv_complete(recv), 0);
	duo_close(&duo);
}

static bool lose_first(struct duo *duo, uint32_t packet, bool again)
{
	(void)duo;
	(void)packet;
	return !again;
}

/* A message of one packet, which is its last one: the repeat takes the other lane, whoever has the turn. */
static void tail_is_repeated_elsewhere(void **state)
{
	struct duo duo;

	(void)state;
	open_lanes(&duo, 2);
	duo.lose_data = lose_first;
	for (int i = 0; i < 12; i++) {
		struct gw_lane before[2], after[2];
		struct duo_transfer transfer;

		for (uint32_t lane = 0; lane < 2; lane++)
			assert_int_equal(gw_qp_lane(duo.qp[0], lane, &before[lane]), 0);
		duo_start(&duo, DUO_PAYLOAD, &transfer);
		duo_finish(&transfer, S);
		for (uint32_t lane = 0; lane < 2; lane++) {
			assert_int_equal(gw_qp_lane(duo.qp[0], lane, &after[lane]), 0);
			assert_int_equal(after[lane].sent - before[lane].sent, 1);
		}
	}
	duo_close(&duo);
}

/* The only lane in use dies. Another was retired because it loses much: control that nobody answers takes it all the same. */
static void retired_lane_is_tried(bool long_dead)
{
	struct gw_recv *recv;
	uint64_t cut_at;
	struct duo duo;

	open_lanes(&duo, 2);
	recv = duo_recv(&duo, LENGTH);
	duo_run(&duo, S);
	for (int end = 0; end < 2; end++) {
		uint8_t lane = duo.qp[end]->control.lane;

		/* It was out of order for long. */
		if (long_dead)
			duo.qp[end]->control.in_vain[lane ^ 1] = UINT8_MAX;
		path_small(duo.qp[end]->path, lane ^ 1, 1000 * S, duo_now(&duo));
		cut(&duo, end, lane);
	}
	cut_at = duo_now(&duo);
	duo_until(&duo, 10 * S, duo.qp[1]->feedback.answered_ns > cut_at + RTT_NS);
	assert_int_equal(gw_recv_complete(recv), 0);
	duo_close(&duo);
}

static void retired_lane_carries_control(void **state)
{
	(void)state;
	retired_lane_is_tried(false);
	retired_lane_is_tried(true);
}

/* Where answers come nobody turns. */
static void stays_where_it_is(void **state)
{
	struct gw_recv *recv;
	struct duo duo;

	(void)state;
	open_lanes(&duo, 4);
	recv = duo_recv(&duo, LENGTH);
	duo_run(&duo, 100 * MS);
	for (int i = 0; i < 20; i++) {
		uint8_t before[2] = { duo.qp[0]->control.lane, duo.qp[1]->control.lane };

		duo_run(&duo, 3 * S);
		assert_int_equal(duo.qp[0]->control.lane, before[0]);
		assert_int_equal(duo.qp[1]->control.lane, before[1]);
	}
	assert_int_equal(gw_recv_complete(recv), 0);
	duo_close(&duo);
}

/* One lane is dead from the start, the other loses two of five packets: questions in vain are common on both. What each end
 * still has to say takes the one that carries something, most of the time. */
static void dead_lane_is_left_alone(void **state)
{
	static const struct link_attr lanes[2] = { { .loss = 1 }, { .loss = 0.4 } };
	struct duo_attr attr = { .link = { .rate_bps = UINT64_C(10000000000),
					   .delay_ns = RTT_NS / 2 },
				 .host = { .lanes = 2 },
				 .lanes = lanes };
	unsigned moments = 0, dead[2] = { 0 };
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	for (int i = 0; i < 60; i++) {
		struct duo_transfer transfer;

		duo_start(&duo, DUO_PAYLOAD, &transfer);
		while (!transfer.sent || !transfer.received) {
			duo_run(&duo, MS);
			/* They need some time to learn it. */
			if (i < 10)
				continue;
			moments++;
			for (int end = 0; end < 2; end++)
				dead[end] += duo.qp[end]->control.lane == 0;
		}
		duo_finish(&transfer, 10 * S);
	}
	assert_true(moments > 100 && dead[0] < moments / 5 && dead[1] < moments / 5);
	duo_close(&duo);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(asked_in_vain),
		cmocka_unit_test(asked_soon_again),
		cmocka_unit_test(answered_in_vain),
		cmocka_unit_test(dead_from_the_start),
		cmocka_unit_test(dead_lane_is_left_alone),
		cmocka_unit_test(stays_where_it_is),
		cmocka_unit_test(retired_lane_carries_control),
		cmocka_unit_test(tail_is_repeated_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several lanes to one peer, under Selective Repeat: lanes of different length do not look like loss, one that loses or is
 * dead goes out of use within a few round trips, and comes back when it is well again.
 */
#include "duo.h"

#include <errno.h>

#include "message/state.h"

#define LANES	 4u
#define TICK_NS	 (8 * US)
#define RATE_BPS (UINT64_C(8) * DUO_WIRE * 1000000000 / TICK_NS)
#define RTT_NS	 (4 * MS)
#define PACKETS	 6000u
#define LENGTH	 ((uint64_t)PACKETS * DUO_PAYLOAD - 9)

static void open_lanes(struct duo *duo, const struct link_attr *lanes, uint64_t seed)
{
	struct duo_attr attr = { .link = { .rate_bps = RATE_BPS, .delay_ns = RTT_NS / 2 },
				 .host = { .lanes = LANES, .queue = 1400, .window_most = 700 },
				 .lanes = lanes,
				 .seed = seed,
				 .memory_bytes = LENGTH };

	duo_open(duo, &attr);
}

static void move(struct duo *duo, int messages)
{
	for (int i = 0; i < messages; i++) {
		struct duo_transfer transfer;

		duo_start(duo, LENGTH, &transfer);
		duo_finish(&transfer, 10 * S);
	}
}

static uint64_t repeated(const struct duo *duo)
{
	return duo_counter(duo, 0, "retransmitted_packets");
}

static struct gw_lane lane_of(const struct duo *duo, uint32_t lane)
{
	struct gw_lane out;

	assert_int_equal(gw_qp_lane(duo->qp[0], lane, &out), 0);
	return out;
}

static void all_are_used(void **state)
{
	static const struct link_attr lanes[LANES];
	struct gw_lane lane;
	struct duo duo;

	(void)state;
	open_lanes(&duo, lanes, 1);
	move(&duo, 1);
	assert_int_equal(repeated(&duo), 0);
	for (uint32_t i = 0; i < LANES; i++) {
		lane = lane_of(&duo, i);
		assert_in_range(lane.sent, PACKETS / LANES - 64, PACKETS / LANES + 64);
		assert_int_equal(lane.landed, lane.sent);
		assert_in_range(lane.rtt_ns, RTT_NS, 3 * RTT_NS);
		assert_int_equal(lane.retired, 0);
	}
	assert_int_equal(gw_qp_lane(duo.qp[0], LANES, &lane), -ERANGE);
	duo_close(&duo);
}

/* A packet may come a millisecond, or 125 packets, after one that was sent later on a shorter lane. */
static void different_lengths(void **state)
{
	static const struct link_attr lanes[LANES] = {
		{ 0 }, { .delay_ns = 200 * US }, { .delay_ns = MS }, { .delay_ns = 500 * US }
	};
	uint64_t learning;
	struct duo duo;

	(void)state;
	open_lanes(&duo, lanes, 2);
	move(&duo, 1);
	/* How long a lane may be silent has to be learnt. */
	learning = repeated(&duo);
	assert_in_range(learning, 0, PACKETS / 20);
	move(&duo, 6);
	assert_int_equal(repeated(&duo), learning);
	assert_int_equal(duo_counter(&duo, 0, "lanes_retired"), 0);
	duo_close(&duo);
}

/* Each of them jumbles its packets besides. */
static void jumbled(void **state)
{
	static const struct link_attr lanes[LANES] = { { .jitter_ns = 200 * US },
						       { .delay_ns = 200 * US },
						       { .delay_ns = MS, .jitter_ns = 300 * US },
						       { .delay_ns = 500 * US } };
	uint64_t learning;
	struct duo duo;

	(void)state;
	open_lanes(&duo, lanes, 3);
	move(&duo, 2);
	learning = repeated(&duo);
	move(&duo, 6);
	assert_in_range(repeated(&duo) - learning, 0, 6 * PACKETS / 2000);
	duo_close(&duo);
}

static void losing(void **state)
{
	static const struct link_attr lanes[LANES] = { { 0 }, { .loss = 0.05 } };
	struct gw_lane lane;
	struct duo duo;

	(void)state;
	open_lanes(&duo, lanes, 4);
	move(&duo, 1);
	lane = lane_of(&duo, 1);
	assert_int_equal(lane.retired, 1);
	assert_int_equal(duo_counter(&duo, 0, "lanes_retired"), 1);
	/* Out of use after some hundreds of packets, and tried with few. */
	assert_in_range(lane.sent, 64, PACKETS / LANES - 100);
	for (uint32_t i = 0; i < LANES; i++)
		assert_int_equal(lane_of(&duo, i).retired, i == 1);
	/* Repeats do not take the lane that lost them. */
	assert_in_range(repeated(&duo), 3, 120);
	/* And it comes back when it is well. */
	sim_lane(duo.world.sim, 0, 1)->attr.loss = 0;
	move(&duo, 12);
	assert_int_equal(lane_of(&duo, 1).retired, 0);
	assert_int_equal(duo_counter(&duo, 0, "lanes_restored"), 1);
	assert_true(lane_of(&duo, 1).sent > PACKETS);
	duo_close(&duo);
}

static bool lose_one(struct duo *duo, uint32_t packet, bool again)
{
	(void)duo;
	return packet == 1000 && !again;
}

/* A hole on another lane is proved and mended long before the message ends. */
static void mended_soon(struct duo *duo)
{
	struct duo_transfer transfer;
	struct gw_recv_status status;
	struct gw_run hole;

	duo->lose_data = lose_one;
	duo_start(duo, LENGTH, &transfer);
	duo_until(duo, S,
		  !gw_recv_status(transfer.recv, &status) && status.highest > 1000 &&
			  gw_recv_next_hole(transfer.recv, 1000, 1001, &hole) == 0);
	assert_true(status.highest < PACKETS - 500);
	duo_finish(&transfer, 10 * S);
	duo->lose_data = NULL;
}

static void dead(void **state)
{
	static const struct link_attr lanes[LANES];
	uint32_t before;
	struct duo duo;

	(void)state;
	open_lanes(&duo, lanes, 5);
	move(&duo, 1);
	sim_lane(duo.world.sim, 0, 2)->down = true;
	before = lane_of(&duo, 2).sent;
	move(&duo, 4);
	assert_int_equal(lane_of(&duo, 2).retired, 1);
	/* Three probe timeouts until it is known, and then a few a try. */
	assert_in_range(lane_of(&duo, 2).sent - before, 16, 2000);
	assert_in_range(repeated(&duo), 16, 2000);
	mended_soon(&duo);
	sim_lane(duo.world.sim, 0, 2)->down = false;
	move(&duo, 24);
	assert_int_equal(lane_of(&duo, 2).retired, 0);
	duo_close(&duo);
}

/* Where all lose alike there is nothing to choose. */
static void all_alike(void **state)
{
	static const struct link_attr lanes[LANES] = {
		{ .loss = 0.03 }, { .loss = 0.03 }, { .loss = 0.03 }, { .loss = 0.03 }
	};
	struct duo duo;

	(void)state;
	open_lanes(&duo, lanes, 6);
	move(&duo, 4);
	assert_int_equal(duo_counter(&duo, 0, "lanes_retired"), 0);
	/* Losses are repeated, and little else. */
	assert_in_range(repeated(&duo), duo.data_lost * 9 / 10, duo.data_lost * 13 / 10);
	duo_close(&duo);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_are_used), cmocka_unit_test(different_lengths),
		cmocka_unit_test(jumbled),	cmocka_unit_test(losing),
		cmocka_unit_test(dead),		cmocka_unit_test(all_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

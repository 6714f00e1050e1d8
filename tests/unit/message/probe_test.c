/* SPDX-License-Identifier: BSD-3-Clause */
/* How the sender finds out which packets arrive: what it takes for a small path and what not, and when it tries again. */
#include "../reliability/duo.h"

#include <string.h>

#include "message/state.h"

#define FLOOR	 700u
#define MIDDLE	 1500u
#define LENGTH	 300001u
#define ONE_SHOT 1500001u
#define LIMIT	 (20 * S)

/* What the hooks lose. */
static struct {
	bool data;
	/* Padded probes still to be lost. */
	uint32_t probes;
	/* Padded probes on lane 1 that are larger than this; 0: none. */
	uint32_t lane_payload;
} lost;

static bool lose_control(struct duo *duo, int end, const struct control_message *message,
			 const void *bytes)
{
	(void)duo;
	(void)end;
	(void)bytes;
	if (message->header.type != CONTROL_SIZE || message->size.kind != CONTROL_SIZE_PROBE)
		return false;
	if (lost.lane_payload && message->size.lane == 1 &&
	    message->size.payload > lost.lane_payload)
		return true;
	return lost.probes && lost.probes--;
}

static bool lose_data(struct duo *duo, uint32_t packet, bool again)
{
	(void)duo;
	(void)packet;
	(void)again;
	return lost.data;
}

static struct duo_attr path(void)
{
	return (struct duo_attr){ .link = { .rate_bps = 20000000, .delay_ns = 5 * MS },
				  .host = { .queue = 32 },
				  .rungs = { MIDDLE, FLOOR },
				  .memory_bytes = 2 << 20 };
}

static void carry(struct duo *duo, uint64_t length)
{
	struct duo_transfer transfer;

	duo_start(duo, length, &transfer);
	duo_finish(&transfer, LIMIT);
}

static void open_hooked(struct duo *duo, const struct duo_attr *attr)
{
	memset(&lost, 0, sizeof(lost));
	duo_open(duo, attr);
	duo->lose_control = lose_control;
	duo->lose_data = lose_data;
}

/* A message has passed, and the largest packets are in use. */
static void open_settled(struct duo *duo)
{
	struct duo_attr attr = path();

	open_hooked(duo, &attr);
	carry(duo, 1000);
	duo_run(duo, S);
	assert_int_equal(duo->qp[0]->size.proven, DUO_PAYLOAD);
}

/* Many grants at once fit packets that every path carries. */
static void control_fits_the_floor(void **state)
{
	struct duo_attr attr = path();
	struct gw_recv *recvs[64];
	struct gw_send *sends[64];
	struct duo duo;

	(void)state;
	attr.qp.slots = 64;
	attr.host.queue = 0;
	attr.link.rate_bps = 1000000000;
	attr.path_payload = FLOOR;
	duo_open(&duo, &attr);
	for (unsigned i = 0; i < 64; i++)
		recvs[i] = duo_recv(&duo, 100);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(gw_send_post(duo.qp[0],
					      &(struct gw_send_attr){ .addr = duo.memory[0],
								      .length = 100,
								      .mr = duo.mr[0] },
					      &sends[i]),
				 0);
	world_touch(&duo.world, 0);
	for (unsigned i = 0; i < 64; i++) {
		struct gw_recv_status status = { 0 };

		duo_until(&duo, LIMIT,
			  !gw_recv_status(recvs[i], &status) && status.flags & GW_RECV_FULL);
		gw_send_close(sends[i]);
	}
	duo_close(&duo);
}

/* Where nothing is answered nothing is known of sizes. */
static void outage_is_no_black_hole(void **state)
{
	(void)state;
	for (int from = 0; from < 2; from++) {
		struct duo_transfer transfer;
		struct duo duo;

		open_settled(&duo);
		duo_start(&duo, LENGTH, &transfer);
		duo_run(&duo, 60 * MS);
		duo_link(&duo, from)->down = true;
		duo_run(&duo, 3 * S);
		duo_link(&duo, from)->down = false;
		duo_finish(&transfer, LIMIT);
		assert_int_equal(duo_counter(&duo, 0, "payload_cuts"), 0);
		duo_close(&duo);
	}
}

static bool doubted;

static void watch(struct duo *duo)
{
	doubted |= duo->qp[0]->size.state == SIZE_DOUBTED;
}

/* Data is lost, probes of its size arrive, all of them or the third: nothing is wrong with the size. */
static void one_large_probe_is_enough(void **state)
{
	(void)state;
	for (uint32_t probes = 0; probes <= 2; probes++) {
		struct gw_send *send;
		struct duo duo;

		open_settled(&duo);
		duo.each_step = watch;
		doubted = false;
		lost.data = true;
		duo_recv(&duo, ONE_SHOT);
		assert_int_equal(gw_send_post(duo.qp[0],
					      &(struct gw_send_attr){ .addr = duo.memory[0],
								      .length = ONE_SHOT,
								      .mr = duo.mr[0] },
					      &send),
				 0);
		world_touch(&duo.world, 0);
		duo_until(&duo, LIMIT, doubted);
		lost.probes = probes;
		duo_until(&duo, LIMIT, duo.qp[0]->size.state != SIZE_DOUBTED);
		assert_int_equal(duo.qp[0]->size.state, SIZE_SETTLED);
		duo_run(&duo, 3 * S);
		assert_int_equal(duo_counter(&duo, 0, "payload_cuts"), 0);
		gw_send_close(send);
		duo_close(&duo);
	}
}

/* A path that carried little is tried again later. */
static void grows_later(void **state)
{
	struct duo_attr attr = path();
	struct duo duo;

	(void)state;
	attr.path_payload = MIDDLE;
	duo_open(&duo, &attr);
	carry(&duo, LENGTH);
	duo_run(&duo, 5 * S);
	carry(&duo, LENGTH);
	assert_int_equal(duo_estimate(&duo, 0).payload_send, MIDDLE);
	sim_path_payload(duo.world.sim, 0);
	for (int i = 0; i < 12; i++) {
		duo_run(&duo, 10 * S);
		carry(&duo, LENGTH);
	}
	assert_int_equal(duo_estimate(&duo, 0).payload_send, DUO_PAYLOAD);
	duo_close(&duo);
}

/* A lane that carries less: one of two makes the packets of both small, one of four is not used. */
static void lanes_differ(void **state)
{
	static const struct link_attr lanes[FABRIC_LANES_MAX];

	(void)state;
	for (uint32_t count = 2; count <= 4; count += 2) {
		struct duo_attr attr = path();
		struct duo duo;

		attr.host.lanes = count;
		attr.lanes = lanes;
		open_hooked(&duo, &attr);
		lost.lane_payload = MIDDLE;
		carry(&duo, LENGTH);
		duo_run(&duo, 5 * S);
		carry(&duo, LENGTH);
		assert_int_equal(duo_estimate(&duo, 0).payload_send,
				 count == 2 ? MIDDLE : DUO_PAYLOAD);
		assert_int_equal(duo_counter(&duo, 0, "lanes_retired"), count == 4);
		duo_close(&duo);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(control_fits_the_floor),
		cmocka_unit_test(outage_is_no_black_hole),
		cmocka_unit_test(one_large_probe_is_enough),
		cmocka_unit_test(grows_later),
		cmocka_unit_test(lanes_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

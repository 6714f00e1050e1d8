/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of packets wrap: at 100 Gbit/s 2^32 packets take less than half an hour. The same transfers run twice over a path that
 * loses and marks packets, once with every counter just below its wrap and once with all of them far from it. Both runs must end at
 * the same nanosecond, with the same estimates.
 */
#include "../reliability/duo.h"

#include <string.h>

#include <godwit/flow.h>

#include "message/state.h"

#define LANES	  4
#define LENGTH	  (600u * DUO_PAYLOAD)
#define TRANSFERS 3
/* A count of packets that is far from a wrap. */
#define FAR (1u << 20)

/* What a run comes to. */
struct outcome {
	uint64_t took_ns;
	struct gw_estimate estimate;
	struct gw_lane lane[LANES];
};

/* As if that many packets had been sent, and had arrived, before. */
static void set_sender(struct gw_qp *qp, uint32_t packets, uint32_t lane_packets)
{
	struct feedback *f = &qp->feedback;

	f->sequence = f->echoed = f->dry = f->sampled = packets;
	f->asked_sequence = f->timeout_sequence = packets;
	f->path.meter.sequence = f->path.flow_sequence = packets;
	f->peer_arrived = f->echoed_arrived = f->told_arrived = packets;
	f->path.meter.arrived = f->path.flow_arrived = packets;
	f->peer_ce = f->told_ce = packets;
	f->path.peer_runs = f->path.peer_packets = packets;
	for (uint32_t i = 0; qp->path && i < qp->path->count; i++) {
		struct path_lane *lane = &qp->path->lane[i];

		lane->sent = lane->landed = lane->marked = lane_packets;
		lane->span_sent = lane->told_at = lane->tried_at = lane_packets;
	}
}

static void set_receiver(struct gw_qp *qp, uint32_t packets, uint32_t lane_packets)
{
	struct feedback *f = &qp->feedback;
	struct order_lanes *lanes = qp->order.lanes;

	f->landed = f->ce = packets;
	f->holes.runs = f->holes.packets = packets;
	qp->credit.landed = qp->order.looked_at = packets;
	for (uint32_t i = 0; lanes && i < lanes->count; i++) {
		lanes->landed[i] = lanes->ce[i] = lane_packets;
		lanes->heard_at[i] = packets;
	}
}

static void run(uint32_t lanes, uint32_t before, uint32_t lane_before, struct outcome *out)
{
	static const struct link_attr bad[LANES] = { { .loss = 0.01 },
						     { .loss = 0.01, .jitter_ns = 100 * US },
						     { .loss = 0.01 },
						     { .loss = 0.2 } };
	struct duo_attr attr = { .link = { .delay_ns = MS, .rate_bps = 1000000000 },
				 .host = { .lanes = lanes },
				 .lanes = lanes > 1 ? bad : NULL,
				 .memory_bytes = LENGTH,
				 .seed = 7 };
	struct duo_transfer transfer;
	struct gw_flow *flow;
	struct duo duo;
	uint64_t start;

	memset(out, 0, sizeof(*out));
	if (lanes == 1)
		attr.link.loss = 0.02;
	attr.link.queue_bytes = 400000;
	attr.link.ecn_bytes = 30000;
	duo_open(&duo, &attr);
	duo_run(&duo, 100 * MS);
	set_sender(duo.qp[0], before, lane_before);
	set_receiver(duo.qp[1], before, lane_before);
	assert_int_equal(gw_flow_open(duo.qp[0], NULL, &flow), 0);
	start = duo_now(&duo);
	for (int i = 0; i < TRANSFERS; i++) {
		duo_start(&duo, LENGTH, &transfer);
		duo_finish(&transfer, 10 * S);
	}
	out->took_ns = duo_now(&duo) - start;
	out->estimate = duo_estimate(&duo, 0);
	out->estimate.marked -= before;
	for (uint32_t i = 0; lanes > 1 && i < lanes; i++) {
		assert_int_equal(gw_qp_lane(duo.qp[0], i, &out->lane[i]), 0);
		out->lane[i].sent -= lane_before;
		out->lane[i].landed -= lane_before;
		out->lane[i].marked -= lane_before;
	}
	assert_int_equal(gw_flow_close(flow), 0);
	duo_close(&duo);
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
	assert_int_equal(a->took_ns, b->took_ns);
	assert_memory_equal(&a->estimate, &b->estimate, sizeof(a->estimate));
	assert_memory_equal(a->lane, b->lane, sizeof(a->lane));
}

static void one_lane(void **state)
{
	struct outcome sound, wraps;

	(void)state;
	run(1, FAR, 0, &sound);
	assert_true(sound.estimate.retransmitted > 20 && sound.estimate.marked > 20);
	assert_true(sound.estimate.loss > 0);
	for (uint32_t left = 1; left < 2000; left += 31) {
		run(1, 0 - left, 0, &wraps);
		assert_same(&sound, &wraps);
	}
}

/* Numbers on a lane are 26 bits in the log of what was sent. */
static void several_lanes(void **state)
{
	struct outcome sound, wraps;

	(void)state;
	run(LANES, FAR, FAR, &sound);
	assert_true(sound.lane[3].retired && sound.lane[0].landed > 100);
	for (uint32_t left = 1; left < 400; left += 133) {
		run(LANES, 0 - left, 0 - left, &wraps);
		assert_same(&sound, &wraps);
		run(LANES, FAR, (1u << 26) - left, &wraps);
		assert_same(&sound, &wraps);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_lane),
		cmocka_unit_test(several_lanes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

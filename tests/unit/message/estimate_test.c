/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is measured of a path, on one whose truth is known: rare losses, losses in bursts, packets out of order, and how
 * fast data lands.
 */
#include "../reliability/duo.h"

#include "message/state.h"

#define DELAY_NS (2 * MS)
#define RATE_BPS UINT64_C(10000000000)
#define SLOW_BPS UINT64_C(20000000)
/* Short messages, and packets of them in flight. */
#define SHORT_MESSAGES 100
#define SHORT_FLIGHT   8

static void assert_between(const char *what, double value, double low, double high)
{
	if (value < low || value > high) {
		print_error("%s is taken for %g, not within %g and %g\n", what, value, low, high);
		fail();
	}
}

/* So many messages of 2048 packets over such a link. */
static struct gw_estimate measure(const struct link_attr *link, unsigned messages)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS, .rate_bps = RATE_BPS },
				 .memory_bytes = 8u << 20 };
	struct gw_estimate estimate;
	struct duo_transfer transfer;
	struct duo duo;

	duo_open(&duo, &attr);
	duo_link(&duo, 0)->attr = *link;
	for (unsigned i = 0; i < messages; i++) {
		duo_start(&duo, duo.memory_bytes, &transfer);
		duo_finish(&transfer, 60 * S);
	}
	estimate = duo_estimate(&duo, 0);
	duo_close(&duo);
	return estimate;
}

static void independent(void **state)
{
	struct link_attr link = { .delay_ns = DELAY_NS, .rate_bps = RATE_BPS };
	struct gw_estimate estimate = measure(&link, 2);

	(void)state;
	assert_between("no loss", estimate.loss_mean, 0, 0);
	assert_between("the burst of no loss", estimate.burst, 1, 1);
	link.loss = 0.001;
	estimate = measure(&link, 40);
	assert_between("a loss of 0.001", estimate.loss_mean, 0.0005, 0.0015);
	assert_between("an independent burst", estimate.burst, 1, 1.2);
	link.loss = 0.05;
	estimate = measure(&link, 10);
	assert_between("a loss of 0.05", estimate.loss_mean, 0.03, 0.08);
	assert_between("an independent burst", estimate.burst, 1, 1.3);
}

static void in_bursts(void **state)
{
	static const double lengths[] = { 4, 16 };

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct link_attr link = { .delay_ns = DELAY_NS,
					  .rate_bps = RATE_BPS,
					  .burst_enter = 0.01 / lengths[i],
					  .burst_leave = 1 / lengths[i],
					  .burst_loss = 1 };
		struct gw_estimate estimate = measure(&link, 100);

		assert_between("a burst", estimate.burst, 0.6 * lengths[i], 1.5 * lengths[i]);
		assert_between("a loss of 0.01 in bursts", estimate.loss_mean, 0.003, 0.03);
	}
}

/* Losses that stop are forgotten, and ones that start are noticed soon. */
static void change(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS, .rate_bps = RATE_BPS },
				 .memory_bytes = 8u << 20 };
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	for (unsigned i = 0; i < 84; i++) {
		duo_link(&duo, 0)->attr.loss = i >= 40 && i < 44 ? 0.05 : 0;
		duo_start(&duo, duo.memory_bytes, &transfer);
		duo_finish(&transfer, 10 * S);
		if (i == 43)
			assert_between("a loss that began", duo_estimate(&duo, 0).loss_mean, 0.018,
				       0.08);
		/* A few thousand packets without a loss are enough where one in twenty was lost. */
		if (i == 46)
			assert_between("a loss that has just ended",
				       duo_estimate(&duo, 0).loss_mean, 0, 0.001);
	}
	assert_between("a loss that ended", duo_estimate(&duo, 0).loss_mean, 0, 0.001);
	duo_close(&duo);
}

/* Packets out of order are no losses, though they open holes. */
static void out_of_order(void **state)
{
	struct link_attr link = { .delay_ns = DELAY_NS,
				  .rate_bps = RATE_BPS,
				  .reorder = 0.01,
				  .reorder_ns = 20 * US,
				  .burst_enter = 0.001,
				  .burst_leave = 0.1,
				  .burst_loss = 1 };
	struct gw_estimate estimate = measure(&link, 20);

	(void)state;
	assert_between("a burst beside packets out of order", estimate.burst, 6, 15);
	link.burst_enter = 0;
	estimate = measure(&link, 20);
	assert_between("no loss", estimate.loss_mean, 0, 0.001);
	assert_between("packets out of order", estimate.burst, 1, 1.2);
}

static void count_lost(void *arg, const struct gw_path_report *report, uint64_t now)
{
	(void)now;
	*(uint64_t *)arg += report->lost_packets;
}

/* The gate is not told of losses where packets only overtake each other: what seems lost at one echo and makes up for it at the
 * next cancels. */
static void gate_and_order(void **state)
{
	static const struct gw_gate gate = { .report = count_lost };
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS, .rate_bps = RATE_BPS },
				 .memory_bytes = 8u << 20 };
	struct duo_transfer transfer;
	uint64_t lost = 0;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	duo_link(&duo, 0)->attr.reorder = 0.1;
	duo_link(&duo, 0)->attr.reorder_ns = 200 * US;
	assert_int_equal(gw_qp_set_gate(duo.qp[0], &gate, &lost), 0);
	for (unsigned i = 0; i < 40; i++) {
		duo_start(&duo, duo.memory_bytes, &transfer);
		duo_finish(&transfer, 10 * S);
	}
	assert_true(lost <= 10);
	duo_close(&duo);
}

/* Reports that told of losses, and those in which the share was far from the truth. */
struct shares {
	double truth;
	unsigned told;
	unsigned wrong;
};

static void check_share(void *arg, const struct gw_path_report *report, uint64_t now)
{
	struct shares *shares = arg;
	double share;

	(void)now;
	if (!report->counted_packets) {
		assert_int_equal(report->lost_packets, 0);
		return;
	}
	share = (double)report->lost_packets / (double)report->counted_packets;
	shares->told++;
	shares->wrong += share < shares->truth / 2 || share > 1.5 * shares->truth;
}

/* Losses are told with the packets that they are counted among. Whoever takes the share of the losses in one report and the
 * packets delivered since the last gets nothing most of the time, and far too much then. */
static void gate_and_share(void **state)
{
	static const struct gw_gate gate = { .report = check_share };
	struct duo_attr attr = {
		.link = { .delay_ns = DELAY_NS, .rate_bps = RATE_BPS, .loss = 0.3 },
		.memory_bytes = 8u << 20
	};
	struct shares shares = { .truth = 0.3 };
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	assert_int_equal(gw_qp_set_gate(duo.qp[0], &gate, &shares), 0);
	for (unsigned i = 0; i < 20; i++) {
		duo_start(&duo, duo.memory_bytes, &transfer);
		duo_finish(&transfer, 60 * S);
	}
	if (shares.told < 10 || shares.wrong > shares.told / 5)
		fail_msg("%u of %u reports with losses told a wrong share", shares.wrong,
			 shares.told);
	duo_close(&duo);
}

/* A scheme may leave packets out: that is no loss, if it says so. */
static void sparse(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS, .rate_bps = RATE_BPS } };
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	for (unsigned i = 0; i < 2; i++) {
		struct gw_recv_attr recv = { .addr = duo.memory[1],
					     .length = 100 * DUO_PAYLOAD,
					     .mr = duo.mr[1],
					     .flags = i ? 0 : GW_RECV_SPARSE };
		struct gw_send *stream;
		struct gw_recv *handle;

		assert_int_equal(gw_recv_post(duo.qp[1], &recv, &handle), 0);
		stream = duo_stream(&duo, 100 * DUO_PAYLOAD);
		duo_run(&duo, 20 * MS);
		for (uint32_t at = 0; at < 100; at += 20)
			assert_int_equal(gw_stream_put(stream, (uint64_t)at * DUO_PAYLOAD,
						       duo.memory[0], DUO_PAYLOAD, duo.mr[0]),
					 0);
		world_touch(&duo.world, 0);
		duo_run(&duo, 100 * MS);
		assert_int_equal(duo.qp[1]->feedback.holes.runs, i ? 4 : 0);
		assert_int_equal(duo.qp[1]->feedback.holes.packets, i ? 4 * 19 : 0);
	}
	duo_close(&duo);
}

static void rate(void **state)
{
	static const uint64_t rates[] = { UINT64_C(1000000000), UINT64_C(40000000000) };
	double share = (double)DUO_PAYLOAD / DUO_WIRE;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct link_attr link = { .delay_ns = DELAY_NS, .rate_bps = rates[i] };
		double truth = (double)rates[i] * share;

		assert_between("the rate", (double)measure(&link, 4).rate_bps, 0.8 * truth,
			       1.1 * truth);
		link.loss = 0.01;
		assert_between("the rate", (double)measure(&link, 8).rate_bps, 0.6 * truth,
			       1.2 * truth);
	}
}

static uint32_t allow_few(void *arg, uint32_t in_flight, uint32_t payload, uint64_t now,
			  uint64_t *again_ns)
{
	(void)arg;
	(void)payload;
	(void)now;
	*again_ns = UINT64_MAX;
	return in_flight < SHORT_FLIGHT ? SHORT_FLIGHT - in_flight : 0;
}

/* A path, or a controller, that becomes faster is known to be after two messages, though the slow ones took longer. */
static void rate_rises(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS, .rate_bps = RATE_BPS / 20 },
				 .memory_bytes = 8u << 20 };
	double truth = (double)RATE_BPS * DUO_PAYLOAD / DUO_WIRE;
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	for (unsigned i = 0; i < 4; i++) {
		if (i == 2)
			duo_link(&duo, 0)->attr.rate_bps = RATE_BPS;
		duo_start(&duo, duo.memory_bytes, &transfer);
		duo_finish(&transfer, 60 * S);
	}
	assert_between("a rate that rose", (double)duo_estimate(&duo, 0).rate_bps, 0.6 * truth,
		       1.2 * truth);
	duo_close(&duo);
}

/* Messages of two packets, all at once or one after another, over a slow link that a few packets in flight fill. */
static double rate_of_short(bool together)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS, .rate_bps = SLOW_BPS } };
	static const struct gw_gate gate = { .allow = allow_few };
	struct duo_transfer transfers[SHORT_MESSAGES];
	struct duo duo;
	double rate_bps;

	duo_open(&duo, &attr);
	assert_int_equal(gw_qp_set_gate(duo.qp[0], &gate, NULL), 0);
	for (unsigned i = 0; i < SHORT_MESSAGES; i++) {
		duo_start(&duo, 2 * DUO_PAYLOAD, &transfers[i]);
		if (!together)
			duo_finish(&transfers[i], 60 * S);
	}
	for (unsigned i = 0; together && i < SHORT_MESSAGES; i++)
		duo_finish(&transfers[i], 60 * S);
	rate_bps = (double)duo_estimate(&duo, 0).rate_bps;
	duo_close(&duo);
	return rate_bps;
}

/* Few echoes are of the same short message. Many such messages flow like a long one; between lone ones there are pauses. */
static void rate_short(void **state)
{
	double truth = (double)SLOW_BPS * DUO_PAYLOAD / DUO_WIRE, lone = rate_of_short(false);

	(void)state;
	assert_between("the rate", rate_of_short(true), 0.8 * truth, 1.2 * truth);
	if (lone > 0)
		assert_between("the rate of lone messages", lone, 0.8 * truth, 1.2 * truth);
}

/* What packets that come late leave of a hole are none, one or two holes. Only what is behind the latest is remembered. */
static void holes_are_split(void **state)
{
	/* Packet after packet: which, and the holes and packets in them after it. */
	static const struct {
		uint32_t packet, runs, packets;
	} steps[] = {
		{ 10, 1, 10 }, { 4, 2, 9 }, { 5, 2, 8 }, { 7, 3, 7 }, { 9, 3, 6 }, { 3, 3, 6 }
	};
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS } };
	struct gw_recv *recv;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	recv = duo_recv(&duo, 100 * DUO_PAYLOAD);
	duo_run(&duo, 100 * MS);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		estimate_gap(duo.qp[1], recv, steps[i].packet);
		if (steps[i].packet >= recv->highest)
			recv->highest = steps[i].packet + 1;
		assert_int_equal(duo.qp[1]->feedback.holes.runs, steps[i].runs);
		assert_int_equal(duo.qp[1]->feedback.holes.packets, steps[i].packets);
	}
	recv->highest = 0;
	duo_close(&duo);
}

/* A path that reordered packets once is not taken for one that does for ever. */
static void order_comes_back(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS } };
	uint64_t sent_ns = S;
	struct feedback *f;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	f = &duo.qp[0]->feedback;
	estimate_order(f, sent_ns);
	estimate_order(f, sent_ns - MS);
	assert_int_equal(duo_estimate(&duo, 0).overtaken_ns, MS);
	estimate_order(f, sent_ns - MS / 2);
	assert_int_equal(duo_estimate(&duo, 0).overtaken_ns, MS);
	for (int i = 0; i < 300; i++)
		estimate_order(f, ++sent_ns);
	assert_in_range(duo_estimate(&duo, 0).overtaken_ns, 1, MS / 50);
	duo_close(&duo);
}

/* There was always something to send between two messages, while the numbers of packets wrapped. */
static void rate_while_numbers_wrap(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS } };
	struct path_estimate *path;
	struct feedback *f;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	f = &duo.qp[0]->feedback;
	path = &f->path;
	f->dry = 0 - 50u;
	estimate_rate(duo.qp[0], 1, 10, S);
	assert_true(path->flow_packets == 0);
	f->peer_arrived += 100;
	estimate_rate(duo.qp[0], 2, 110, S + MS);
	assert_true(path->flow_packets == 100);
	/* There was nothing to send since. */
	f->dry = 110;
	f->peer_arrived += 100;
	estimate_rate(duo.qp[0], 3, 210, S + 2 * MS);
	assert_true(path->flow_packets == 100);
	f->peer_arrived = 0;
	duo_close(&duo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(independent),
		cmocka_unit_test(in_bursts),
		cmocka_unit_test(change),
		cmocka_unit_test(out_of_order),
		cmocka_unit_test(gate_and_order),
		cmocka_unit_test(sparse),
		cmocka_unit_test(rate),
		cmocka_unit_test(gate_and_share),
		cmocka_unit_test(rate_short),
		cmocka_unit_test(rate_rises),
		cmocka_unit_test(holes_are_split),
		cmocka_unit_test(order_comes_back),
		cmocka_unit_test(rate_while_numbers_wrap),
	};

	return cmocka_run_group_tests_name("message-estimate", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feedback on a network whose truth is known: the round trip, the loss, and what the receiver can hold.
 * Links here are infinitely fast unless a test needs a queue, so that a round trip is two delays and nothing else.
 */
#include "../reliability/duo.h"

#include <string.h>

#include "message/state.h"

#define DELAY_NS (2 * MS)
#define RTT_NS	 (2 * DELAY_NS)

static void assert_near(uint64_t value, uint64_t truth, unsigned per_cent)
{
	assert_in_range(value, truth - truth * per_cent / 100, truth + truth * per_cent / 100);
}

static void assert_round_trip(const struct duo *duo, int end, unsigned per_cent)
{
	struct gw_estimate estimate = duo_estimate(duo, end);

	assert_near(estimate.rtt_ns, RTT_NS, per_cent);
	assert_near(estimate.rtt_min_ns, RTT_NS, per_cent);
}

/* ---- the round trip -------------------------------------------------------------------------------------------- */

/* Messages that nobody completes: their reports wait for a while and have to say so. */
static void round_trip_from(uint64_t start_ns)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS }, .start_ns = start_ns };
	uint32_t packets = 20;
	struct duo duo;

	duo_open(&duo, &attr);
	for (int i = 0; i < 40; i++) {
		struct gw_send *stream;

		duo_recv(&duo, (uint64_t)packets * DUO_PAYLOAD);
		stream = duo_stream(&duo, (uint64_t)packets * DUO_PAYLOAD);
		duo_run(&duo, 10 * MS);
		duo_put(&duo, stream, packets);
		duo_run(&duo, 10 * MS);
	}
	assert_true(duo_counter(&duo, 1, "reports_sent") > 30);
	assert_true(duo_estimate(&duo, 0).rtt_var_ns < RTT_NS / 100);
	assert_round_trip(&duo, 0, 2);
	assert_round_trip(&duo, 1, 2);
	duo_close(&duo);
}

static void round_trip(void **state)
{
	(void)state;
	round_trip_from(S);
}

/* Times of sending are kept modulo 2^48 ns, which pass while packets are under way. */
static void round_trip_while_time_wraps(void **state)
{
	(void)state;
	for (uint64_t times = 1; times < 4; times++)
		round_trip_from((times << 48) - 331 * MS);
}

static void round_trip_with_loss(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS, .loss = 0.1 } };
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	for (int i = 0; i < 20; i++) {
		duo_start(&duo, 100 * DUO_PAYLOAD, &transfer);
		duo_finish(&transfer, 2 * S);
		assert_round_trip(&duo, 0, 2);
	}
	assert_true(duo_counter(&duo, 0, "retransmitted_packets") > 100);
	duo_close(&duo);
}

/* Packets are sent again just before the report on their first copies comes: taken for one on the second copies it would
 * tell of a round trip of almost nothing. */
static void sent_twice_soon(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS } };
	struct gw_send *stream;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	duo_recv(&duo, 64 * DUO_PAYLOAD);
	stream = duo_stream(&duo, 64 * DUO_PAYLOAD);
	duo_run(&duo, 100 * MS);
	for (int i = 0; i < 10; i++) {
		duo_put(&duo, stream, 64);
		duo_run(&duo, RTT_NS - 100 * US);
		duo_put(&duo, stream, 64);
		duo_run(&duo, 100 * MS);
		assert_round_trip(&duo, 0, 1);
	}
	duo_close(&duo);
}

/* The second copies are lost, and leave while the report on the first waits: what it held for is then no part of the time
 * since they left. */
static void sent_twice_while_held(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS } };
	struct gw_send *stream;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	duo_recv(&duo, 64 * DUO_PAYLOAD);
	stream = duo_stream(&duo, 64 * DUO_PAYLOAD);
	duo_run(&duo, 100 * MS);
	duo_put(&duo, stream,
		64); /* pays for reports that wait for a quarter of a round trip only */
	duo_run(&duo, 100 * MS);
	for (int i = 0; i < 10; i++) {
		duo_recv(&duo, 20 * DUO_PAYLOAD);
		stream = duo_stream(&duo, 20 * DUO_PAYLOAD);
		duo_run(&duo, 100 * MS);
		duo_put(&duo, stream, 20);
		duo_run(&duo, RTT_NS / 5);
		duo_link(&duo, 0)->down = true;
		duo_put(&duo, stream, 20);
		duo_run(&duo, 10 * US);
		duo_link(&duo, 0)->down = false;
		duo_run(&duo, 100 * MS);
		assert_round_trip(&duo, 0, 1);
	}
	duo_close(&duo);
}

/* The first copies are lost and the second come much later: counted from the first they would tell of a slow network. */
static void sent_twice_late(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS } };
	struct gw_send *stream;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	for (int i = 0; i < 10; i++) {
		duo_recv(&duo, 64 * DUO_PAYLOAD);
		stream = duo_stream(&duo, 64 * DUO_PAYLOAD);
		duo_run(&duo, 100 * MS);
		duo_link(&duo, 0)->down = true;
		duo_put(&duo, stream, 64);
		duo_run(&duo, 10 * US);
		duo_link(&duo, 0)->down = false;
		duo_run(&duo, 50 * MS);
		duo_put(&duo, stream, 64);
		duo_run(&duo, 100 * MS);
		assert_round_trip(&duo, 0, 1);
	}
	duo_close(&duo);
}

/* ---- loss ------------------------------------------------------------------------------------------------------ */

static struct {
	double sum;
	uint64_t samples;
	bool on;
} losses;

static void sample_loss(struct duo *duo)
{
	if (losses.on) {
		losses.sum += duo_estimate(duo, 0).loss;
		losses.samples++;
	}
}

static void loss_rate(void **state)
{
	static const double rates[] = { 0, 0.01, 0.1 };

	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		struct duo_attr attr = { .link = { .delay_ns = DELAY_NS,
						   .rate_bps = UINT64_C(10000000000) },
					 .memory_bytes = 8u << 20,
					 .seed = i };
		struct duo_transfer transfer;
		double mean;
		struct duo duo;

		duo_open(&duo, &attr);
		duo_link(&duo, 0)->attr.loss = rates[i];
		memset(&losses, 0, sizeof(losses));
		duo.each_step = sample_loss;
		for (int round = 0; round < 6; round++) {
			duo_start(&duo, duo.memory_bytes, &transfer);
			duo_finish(&transfer, 5 * S);
			losses.on = true; /* from the second on */
		}
		mean = losses.sum / (double)losses.samples;
		if (mean < rates[i] * 0.7 || mean > rates[i] * 1.3 + 0.0001) {
			print_error("a loss of %g was taken for %g\n", rates[i], mean);
			fail();
		}
		duo_close(&duo);
	}
}

/* ---- the window ------------------------------------------------------------------------------------------------ */

#define QUEUE  200u /* the window is then no multiple of a batch */
#define WINDOW (QUEUE / 2)

static uint64_t most_under_way;

static void watch_window(struct duo *duo)
{
	uint64_t sent = duo_counter(duo, 0, "sent_packets");
	uint64_t arrived = duo->ctx[1]->fabric->counters[FABRIC_RX_DATA];

	if (sent - arrived > most_under_way)
		most_under_way = sent - arrived;
}

static void window_is_kept(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS },
				 .host = { .queue = QUEUE, .window_most = WINDOW },
				 .memory_bytes = 4u << 20 };
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	most_under_way = 0;
	duo.each_step = watch_window;
	duo_start(&duo, duo.memory_bytes, &transfer);
	duo_finish(&transfer, 5 * S);
	assert_int_equal(duo_estimate(&duo, 0).window, WINDOW);
	assert_int_equal(most_under_way, WINDOW);
	assert_int_equal(duo_counter(&duo, 0, "window_stalls"), 0);
	assert_int_equal(duo_counter(&duo, 0, "retransmitted_packets"), 0);
	duo_close(&duo);
}

static struct {
	unsigned timeouts, undone;
} gate_seen;

static void see_timeout(void *arg, uint64_t now)
{
	(void)arg;
	(void)now;
	gate_seen.timeouts++;
}

static void see_undone(void *arg, uint64_t now)
{
	(void)arg;
	(void)now;
	gate_seen.undone++;
}

static const struct gw_gate watching_gate = { .timeout = see_timeout, .undo_timeout = see_undone };

/* Opens a pair behind a window of WINDOW packets, with one message sent and a gate that watches. */
static void open_watched(struct duo *duo)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS },
				 .host = { .queue = QUEUE, .window_most = WINDOW },
				 .memory_bytes = 4 * WINDOW * DUO_PAYLOAD };
	struct duo_transfer transfer;

	duo_open(duo, &attr);
	duo_start(duo, 64 * DUO_PAYLOAD, &transfer);
	duo_finish(&transfer, S);
	gate_seen.timeouts = gate_seen.undone = 0;
	assert_int_equal(gw_qp_set_gate(duo->qp[0], &watching_gate, NULL), 0);
}

/* A window is lost: each probe timeout lets two packets out beyond it, and the third tells the gate. Nothing is forgotten. */
static void lost_window_is_probed(void **state)
{
	struct duo_transfer transfer;
	uint64_t before, sent, pto;
	struct feedback *f;
	struct duo duo;
	uint32_t echoed;

	(void)state;
	open_watched(&duo);
	f = &duo.qp[0]->feedback;
	before = duo_counter(&duo, 0, "sent_packets");
	duo_start(&duo, duo.memory_bytes, &transfer);
	duo_link(&duo, 0)->down = true;
	duo_until(&duo, S, duo_counter(&duo, 0, "sent_packets") == before + WINDOW);
	echoed = f->echoed;
	for (unsigned i = 0; i < 4; i++) {
		/* Receivers report within 5 ms if that much landed. */
		pto = f->rtt_ns + (4 * f->rtt_var_ns > MS ? 4 * f->rtt_var_ns : MS) + 5 * MS;
		assert_int_equal(feedback_pto_ns(duo.qp[0]), pto);
		sent = duo_counter(&duo, 0, "sent_packets");
		duo_run(&duo, (pto << i) - MS);
		assert_int_equal(duo_counter(&duo, 0, "window_stalls"), i);
		assert_int_equal(duo_counter(&duo, 0, "sent_packets"), sent);
		duo_until(&duo, 2 * MS, duo_counter(&duo, 0, "window_stalls") == i + 1);
		assert_int_equal(duo_counter(&duo, 0, "sent_packets"), sent + 2);
		assert_int_equal(gate_seen.timeouts, i >= 2);
		assert_int_equal(f->echoed, echoed);
	}
	duo_link(&duo, 0)->down = false;
	duo_finish(&transfer, 5 * S);
	assert_int_equal(gate_seen.undone, 0);
	assert_int_equal(gate_seen.timeouts, 1);
	duo_close(&duo);
}

/* What was taken for lost comes late: it is a sample like any other, and the timeout is undone. */
static void late_echo_undoes_timeout(void **state)
{
	struct duo_transfer transfer;
	struct feedback *f;
	struct duo duo;
	uint64_t var;

	(void)state;
	open_watched(&duo);
	f = &duo.qp[0]->feedback;
	duo_start(&duo, duo.memory_bytes, &transfer);
	duo_run(&duo, DELAY_NS / 2);
	/* Sent before the link became slow: the grant. */
	duo_link(&duo, 0)->attr.delay_ns = 400 * MS;
	duo_until(&duo, S, gate_seen.timeouts == 1);
	assert_int_equal(gate_seen.undone, 0);
	var = f->rtt_var_ns;
	duo_until(&duo, S, gate_seen.undone == 1);
	duo_link(&duo, 0)->attr.delay_ns = DELAY_NS;
	assert_true(f->rtt_var_ns >= 2 * var - var / 2);
	assert_true(f->rtt_ns > 2 * RTT_NS);
	duo_finish(&transfer, 5 * S);
	assert_int_equal(gate_seen.timeouts, 1);
	assert_int_equal(gate_seen.undone, 1);
	duo_close(&duo);
}

/* Without a sample a round trip of a third of a second is assumed. */
static void unknown_round_trip_is_long(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS } };
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	duo.qp[0]->feedback.rtt_ns = 0;
	assert_int_equal(feedback_pto_ns(duo.qp[0]), (333 + 4 * 167 + 50) * MS);
	duo_close(&duo);
}

/* The minimum follows a path that became longer within 30 s, and no sample is forgotten within 15 s. */
static void minimum_is_of_late(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS } };
	struct gw_qp *qp;
	struct duo duo;
	uint64_t now;

	(void)state;
	duo_open(&duo, &attr);
	duo_run(&duo, S);
	qp = duo.qp[0];
	feedback_rtt(qp, RTT_NS);
	now = qp->ctx->now;
	for (unsigned second = 0; second <= 33; second++) {
		qp->ctx->now = now + second * S;
		feedback_rtt(qp, 4 * RTT_NS);
		if (second < 15)
			assert_near(qp->feedback.rtt_min_ns, RTT_NS, 5);
		/* The next 15 s have begun, and those before them still count. */
		else if (second < 31)
			assert_int_equal(qp->feedback.rtt_min_ns, RTT_NS);
	}
	assert_int_equal(qp->feedback.rtt_min_ns, 4 * RTT_NS);
	qp->ctx->now = now;
	duo_close(&duo);
}

/* ---- what is in flight ------------------------------------------------------------------------------------------ */

/* A message ends later than one that was sent after it and whose packets were echoed: nothing comes back into flight. */
static void ended_late_from(uint32_t sequence)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS } };
	struct gw_recv *recv[2];
	struct gw_send *stream[2];
	struct duo duo;

	duo_open(&duo, &attr);
	for (int i = 0; i < 2; i++)
		recv[i] = duo_recv(&duo, 40 * DUO_PAYLOAD);
	for (int i = 0; i < 2; i++)
		stream[i] = duo_stream(&duo, 40 * DUO_PAYLOAD);
	duo_run(&duo, 50 * MS);
	duo.qp[0]->feedback.sequence = duo.qp[0]->feedback.echoed = sequence;
	for (int i = 0; i < 2; i++)
		duo_put(&duo, stream[i], 40);
	duo_run(&duo, 100 * MS);
	assert_int_equal(duo_estimate(&duo, 0).in_flight, 0);
	assert_int_equal(gw_recv_complete(recv[0]), 0);
	world_touch(&duo.world, 1);
	duo_run(&duo, 50 * MS);
	assert_true(send_is_answered(stream[0]) && !send_is_answered(stream[1]));
	assert_int_equal(duo_estimate(&duo, 0).in_flight, 0);
	duo_close(&duo);
}

static void ended_late(void **state)
{
	(void)state;
	ended_late_from(0);
	/* Their numbers wrap between the two messages. */
	ended_late_from(0 - 60u);
}

/* ---- the price of reports -------------------------------------------------------------------------------------- */

#define WIRE_CONTROL 52 /* headers of a control datagram, as the simulator counts */

static uint64_t report_bytes;

static bool weigh_reports(struct duo *duo, int end, const struct control_message *message,
			  const void *bytes)
{
	(void)duo;
	(void)bytes;
	if (end == 1 && message->header.type == CONTROL_REPORT)
		report_bytes += message->header.length + WIRE_CONTROL;
	return false;
}

static void reports_are_cheap(void **state)
{
	static const double rates[] = { 0, 0.02 };

	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		struct duo_attr attr = { .link = { .delay_ns = 20 * US,
						   .rate_bps = UINT64_C(10000000000),
						   .loss = rates[i] },
					 .memory_bytes = 16u << 20 };
		struct duo_transfer transfer;
		uint64_t data;
		struct duo duo;

		report_bytes = 0;
		duo_open(&duo, &attr);
		duo.lose_control = weigh_reports;
		duo_start(&duo, duo.memory_bytes, &transfer);
		duo_finish(&transfer, 5 * S);
		data = duo.ctx[1]->fabric->counters[FABRIC_RX_DATA] * DUO_WIRE;
		assert_true(report_bytes > 0);
		assert_true(report_bytes * 100 < data);
		duo_close(&duo);
	}
}

/* The log of sent packets grows with what is in flight, not with the window alone, and packets in flight are recognised all the
 * same. */
static void log_grows_in_flight(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS }, .host = { .queue = 64 } };
	struct feedback *f;
	struct gw_send *stream;
	struct duo duo;
	uint32_t log_mask;

	(void)state;
	duo_open(&duo, &attr);
	f = &duo.qp[0]->feedback;
	duo_recv(&duo, UINT64_C(20) * DUO_PAYLOAD);
	stream = duo_stream(&duo, UINT64_C(20) * DUO_PAYLOAD);
	duo_run(&duo, 10 * MS);
	log_mask = f->log_mask;
	feedback_credit(duo.qp[0], 16 * f->window);
	assert_int_equal(feedback_allow(duo.qp[0], DUO_PAYLOAD, 1, false), 1);
	assert_int_equal(f->log_mask, log_mask);
	duo_put(&duo, stream, 20);
	duo_until(&duo, S, f->sequence - f->echoed == 20);
	assert_int_equal(feedback_allow(duo.qp[0], DUO_PAYLOAD, 1, false), 1);
	assert_true(f->log_mask > log_mask);
	duo_run(&duo, 20 * MS);
	assert_int_equal(f->echoed, f->sequence);
	assert_int_equal(duo_counter(&duo, 0, "window_stalls"), 0);
	duo_close(&duo);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip),
		cmocka_unit_test(round_trip_while_time_wraps),
		cmocka_unit_test(round_trip_with_loss),
		cmocka_unit_test(sent_twice_soon),
		cmocka_unit_test(sent_twice_while_held),
		cmocka_unit_test(sent_twice_late),
		cmocka_unit_test(loss_rate),
		cmocka_unit_test(window_is_kept),
		cmocka_unit_test(lost_window_is_probed),
		cmocka_unit_test(late_echo_undoes_timeout),
		cmocka_unit_test(unknown_round_trip_is_long),
		cmocka_unit_test(minimum_is_of_late),
		cmocka_unit_test(ended_late),
		cmocka_unit_test(reports_are_cheap),
		cmocka_unit_test(log_grows_in_flight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What passes between a queue pair and its gate: each packet that arrived, and each mark, is told once, whichever reports were
 * lost; a repair that a shut gate holds back is not put twice; a window of a few packets is reported in time; and who waits for a
 * report does not ask for it without end.
 */
#include "../reliability/duo.h"

#include "message/state.h"

#define DELAY_NS (2 * MS)
#define PACKETS	 64u
#define LENGTH	 (PACKETS * DUO_PAYLOAD)

static struct {
	uint64_t delivered, marked, lost;
	/* packets that may still leave; UINT32_MAX: any number */
	uint32_t room;
} gate;

static void take_report(void *arg, const struct gw_path_report *report, uint64_t now)
{
	(void)arg;
	(void)now;
	gate.delivered += report->delivered_packets;
	gate.marked += report->marked_packets;
	gate.lost += report->lost_packets;
}

static uint32_t allow(void *arg, uint32_t in_flight, uint32_t payload, uint64_t now,
		      uint64_t *again_ns)
{
	(void)arg;
	(void)in_flight;
	(void)payload;
	*again_ns = now + MS;
	return gate.room;
}

static void take_sent(void *arg, uint32_t packets, uint64_t bytes, uint64_t now)
{
	(void)arg;
	(void)bytes;
	(void)now;
	if (gate.room != UINT32_MAX)
		gate.room -= packets;
}

static const struct gw_gate counting = { .allow = allow, .sent = take_sent, .report = take_report };

static bool lose_some_reports(struct duo *duo, int end, const struct control_message *message,
			      const void *bytes)
{
	static unsigned reports;

	(void)duo;
	(void)bytes;
	return end == 1 && message->header.type == CONTROL_REPORT &&
	       !message->report.result_count && ++reports % 3 == 0;
}

/* The first messages go without a gate: what is known before it is set is not told to it. */
static void each_mark_is_told_once(void **state)
{
	struct duo_attr attr = { .link = { .rate_bps = UINT64_C(100000000),
					   .delay_ns = DELAY_NS,
					   .ecn_bytes = 8 * DUO_WIRE } };
	struct duo_transfer transfer;
	uint64_t arrived, marked;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, S);
	marked = duo.qp[1]->feedback.ce;
	arrived = duo.qp[0]->feedback.peer_arrived;
	assert_true(marked > 0 && arrived > 0);
	gate.delivered = gate.marked = 0;
	gate.room = UINT32_MAX;
	assert_int_equal(gw_qp_set_gate(duo.qp[0], &counting, NULL), 0);
	duo.lose_control = lose_some_reports;
	for (int i = 0; i < 20; i++) {
		duo_start(&duo, LENGTH, &transfer);
		duo_finish(&transfer, S);
	}
	assert_true(gate.marked > 100);
	assert_int_equal(gate.marked, duo.qp[1]->feedback.ce - marked);
	assert_int_equal(duo_estimate(&duo, 0).marked, duo.qp[1]->feedback.ce);
	assert_int_equal(gate.delivered, duo.qp[0]->feedback.peer_arrived - arrived);
	duo_close(&duo);
}

/* What lanes have marked and landed adds up to what the queue pair has. */
static void lanes_add_up(void **state)
{
	static const struct link_attr lanes[FABRIC_LANES_MAX];
	struct duo_attr attr = { .link = { .rate_bps = UINT64_C(100000000),
					   .delay_ns = DELAY_NS,
					   .ecn_bytes = 8 * DUO_WIRE },
				 .host = { .lanes = 3 },
				 .lanes = lanes };
	uint64_t marked = 0, landed = 0;
	struct duo_transfer transfer;
	struct gw_lane lane;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	for (int i = 0; i < 10; i++) {
		duo_start(&duo, LENGTH, &transfer);
		duo_finish(&transfer, S);
	}
	for (uint32_t i = 0; !gw_qp_lane(duo.qp[0], i, &lane); i++) {
		marked += lane.marked;
		landed += lane.landed;
	}
	assert_true(marked > 100);
	assert_int_equal(marked, duo.qp[1]->feedback.ce);
	assert_int_equal(landed, duo.qp[1]->feedback.landed);
	duo_close(&duo);
}

/* Receives are posted ahead, so that messages follow each other without a pause: what the gate is told, and the mean loss,
 * are within a tenth of what the path lost. */
enum { AHEAD = 8, MESSAGES = 800, WARM_UP = 200 };

static void losses_after(unsigned overruns)
{
	struct duo_attr attr = {
		.link = { .rate_bps = UINT64_C(1000000000), .delay_ns = DELAY_NS, .loss = 0.01 }
	};
	struct duo_transfer transfers[AHEAD];
	double sum = 0, sent;
	struct duo duo;

	duo_open(&duo, &attr);
	gate.lost = 0;
	gate.room = UINT32_MAX;
	assert_int_equal(gw_qp_set_gate(duo.qp[0], &counting, NULL), 0);
	for (unsigned i = 0; i < MESSAGES + AHEAD; i++) {
		if (i >= AHEAD) {
			struct duo_transfer *t = &transfers[i % AHEAD];

			duo_until(&duo, S, t->sent && t->received);
			assert_int_equal(gw_send_close(t->send), 0);
			assert_int_equal(gw_recv_close(t->recv), 0);
			/* The losses of that round trip are not the path's; all later ones are. */
			if (i - AHEAD < overruns)
				duo.ctx[1]->fabric->counters[FABRIC_DROP_OVERRUN]++;
			sum += i < WARM_UP + AHEAD ? 0 : duo_estimate(&duo, 0).loss_mean;
		}
		if (i < MESSAGES)
			duo_start(&duo, LENGTH, &transfers[i % AHEAD]);
	}
	sent = (double)duo_estimate(&duo, 0).sent;
	if (overruns == MESSAGES) {
		/* But for a few round trips that no message ended in. */
		assert_true((double)gate.lost < 0.2 * (double)duo.data_lost);
		duo_close(&duo);
		return;
	}
	assert_true((double)gate.lost > 0.9 * (double)duo.data_lost);
	assert_true((double)gate.lost < 1.1 * (double)duo.data_lost);
	assert_true(sum / (MESSAGES - WARM_UP) > 0.9 * (double)duo.data_lost / sent);
	assert_true(sum / (MESSAGES - WARM_UP) < 1.1 * (double)duo.data_lost / sent);
	duo_close(&duo);
}

static void losses_are_told(void **state)
{
	(void)state;
	losses_after(0);
	losses_after(3);
	/* The receiver overran all the time: hardly any is the path's. */
	losses_after(MESSAGES);
}

static int put(struct duo *duo, struct gw_send *stream, uint32_t first, uint32_t packets)
{
	uint64_t offset = (uint64_t)first * DUO_PAYLOAD;

	world_touch(&duo->world, 0);
	return gw_stream_put(stream, offset, duo->memory[0] + offset,
			     (uint64_t)packets * DUO_PAYLOAD, duo->mr[0]);
}

/* What is asked for again while the repair stands in line, or just after it left. */
static void a_repair_is_put_once(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS } };
	struct gw_send *stream;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	gate.room = UINT32_MAX;
	duo_recv(&duo, LENGTH);
	stream = duo_stream(&duo, LENGTH);
	duo_run(&duo, 10 * MS);
	assert_int_equal(gw_qp_set_gate(duo.qp[0], &counting, NULL), 0);
	duo_put(&duo, stream, PACKETS);
	duo_run(&duo, 20 * MS);
	assert_int_equal(gw_stream_waiting(stream), 0);
	gate.room = 16;
	assert_int_equal(put(&duo, stream, 0, 32), 0);
	duo_run(&duo, 10 * MS);
	assert_int_equal(gate.room, 0);
	assert_int_equal(gw_stream_waiting(stream), 1);
	assert_int_equal(put(&duo, stream, 20, 8), 0);
	assert_int_equal(put(&duo, stream, 4, 8), 0);
	assert_int_equal(put(&duo, stream, 10, 12), 0);
	assert_int_equal(gw_stream_waiting(stream), 1);
	/* Another part of the message is. */
	assert_int_equal(put(&duo, stream, 30, 3), 0);
	assert_int_equal(gw_stream_waiting(stream), 2);
	gate.room = UINT32_MAX;
	duo_run(&duo, 20 * MS);
	assert_int_equal(duo_estimate(&duo, 0).retransmitted, 32 + 3);
	assert_int_equal(gw_stream_abort(stream), 0);
	duo_close(&duo);
}

/* However small the window, its packets are reported as they land: a round trip for each. */
static void small_windows_are_reported(void **state)
{
	(void)state;
	for (uint32_t window = 2; window <= 8; window++) {
		struct duo_attr attr = { .link = { .delay_ns = DELAY_NS },
					 .host = { .queue = 2 * window, .window_most = window } };
		struct duo_transfer transfer;
		uint64_t start;
		struct duo duo;

		duo_open(&duo, &attr);
		duo_start(&duo, LENGTH, &transfer);
		duo_finish(&transfer, 5 * S);
		assert_int_equal(duo_estimate(&duo, 0).window, window);
		start = duo_now(&duo);
		duo_start(&duo, LENGTH, &transfer);
		duo_finish(&transfer, 5 * S);
		assert_true(transfer.received_at - start <
			    (PACKETS / window + 2) * (2 * DELAY_NS + MS / 4));
		assert_int_equal(duo_counter(&duo, 0, "window_stalls"), 0);
		duo_close(&duo);
	}
}

static uint32_t allow_until_told(void *arg, uint32_t in_flight, uint32_t payload, uint64_t now,
				 uint64_t *again_ns)
{
	(void)arg;
	(void)in_flight;
	(void)payload;
	(void)now;
	*again_ns = UINT64_MAX;
	return gate.room;
}

static const struct gw_gate waiting = { .allow = allow_until_told, .sent = take_sent };

/* A sender whose gate is shut asks for a report ten times in a millisecond where answers come within one, but not when none
 * comes. */
static void questions_in_vain_become_rare(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = 5 * US } };
	struct duo_transfer transfer;
	uint32_t asked;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, S);
	gate.room = 4;
	assert_int_equal(gw_qp_set_gate(duo.qp[0], &waiting, NULL), 0);
	duo_link(&duo, 0)->down = true;
	duo_start(&duo, LENGTH, &transfer);
	duo_until(&duo, S, !gate.room);
	asked = duo.qp[0]->feedback.probe_id;
	duo_run(&duo, 100 * MS);
	assert_in_range(duo.qp[0]->feedback.probe_id - asked, 4, 100);
	duo_link(&duo, 0)->down = false;
	gate.room = UINT32_MAX;
	gw_qp_reopen(duo.qp[0]);
	duo_finish(&transfer, S);
	duo_close(&duo);
}

static void count_end(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	unsigned *ended = arg;

	(void)now;
	assert_int_equal(result->status, 0);
	++*ended;
}

/* A question waits for its answer while the peer is heard all the time, by data of its own: on a slow link questions would fill it. */
static void questions_wait_for_answers(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = 20 * MS, .rate_bps = 2000000 } };
	struct gw_transfer_attr back = { .length = LENGTH, .done = count_end };
	struct duo_transfer transfer;
	struct gw_send *send;
	struct gw_recv *recv;
	unsigned ended = 0;
	uint32_t asked;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, 5 * S);
	gate.room = 2;
	assert_int_equal(gw_qp_set_gate(duo.qp[0], &waiting, NULL), 0);
	duo_start(&duo, LENGTH, &transfer);
	duo_until(&duo, S, !gate.room);
	back.arg = &ended;
	back.addr = duo.memory[0];
	back.mr = duo.mr[0];
	assert_int_equal(gw_transfer_recv(duo.qp[0], &gw_selective_repeat, &back, &recv), 0);
	back.addr = duo.memory[1];
	back.mr = duo.mr[1];
	assert_int_equal(gw_transfer_send(duo.qp[1], &gw_selective_repeat, &back, &send), 0);
	world_touch(&duo.world, 0);
	world_touch(&duo.world, 1);
	duo_until(&duo, 5 * S, duo.qp[0]->feedback.landed > 4);
	/* What is in flight stays so. */
	duo_link(&duo, 0)->down = true;
	gate.room = 2;
	gw_qp_reopen(duo.qp[0]);
	duo_until(&duo, S, !gate.room);
	asked = duo.qp[0]->feedback.probe_id;
	/* A gate that several queue pairs share is asked again whenever one of them hears something. */
	for (int i = 0; i < 100; i++) {
		duo_run(&duo, MS);
		gw_qp_reopen(duo.qp[0]);
	}
	assert_in_range(duo.qp[0]->feedback.probe_id - asked, 0, 2);
	duo_link(&duo, 0)->down = false;
	gate.room = UINT32_MAX;
	gw_qp_reopen(duo.qp[0]);
	duo_until(&duo, 5 * S, ended == 2 && transfer.sent && transfer.received);
	gw_send_close(send);
	gw_recv_close(recv);
	gw_send_close(transfer.send);
	gw_recv_close(transfer.recv);
	duo_close(&duo);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_mark_is_told_once),
		cmocka_unit_test(lanes_add_up),
		cmocka_unit_test(losses_are_told),
		cmocka_unit_test(a_repair_is_put_once),
		cmocka_unit_test(small_windows_are_reported),
		cmocka_unit_test(questions_in_vain_become_rare),
		cmocka_unit_test(questions_wait_for_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

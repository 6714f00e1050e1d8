/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective Repeat and how soon it knows: a repeat that is lost again while the message goes on, a tail behind which there
 * is nothing, a tail behind which the next message comes. Time is virtual, so that what a clock found out and what packets
 * proved can be told apart.
 */
#include "duo.h"

#include <string.h>

#include "reliability/selective_repeat_state.h"

#define PACKET_NS (100 * US)
#define RTT_NS	  (10 * MS)
#define WINDOW	  120u		       /* packets: what the path holds, and a few that wait */
#define FULL_NS	  (WINDOW * PACKET_NS) /* a round trip behind them */
#define PACKETS	  1000u		       /* ten round trips */
#define LENGTH	  ((uint64_t)PACKETS * DUO_PAYLOAD)

static struct {
	uint32_t first, count;
	unsigned times;
	unsigned lost[PACKETS];
	uint64_t lost_at; /* the last of them */
	uint8_t unheard;  /* what of the sender's scheme does not arrive */
	uint64_t nacked_at[8];
	unsigned nacks; /* rounds: each is said twice */
	uint32_t round;
} plan;

static bool lose_data(struct duo *duo, uint32_t packet, bool again)
{
	(void)again;
	if (packet - plan.first >= plan.count || plan.lost[packet] == plan.times)
		return false;
	plan.lost[packet]++;
	plan.lost_at = duo_now(duo);
	return true;
}

static bool lose_control(struct duo *duo, int end, const struct control_message *message,
			 const void *bytes)
{
	(void)bytes;
	if (end == 1 && message->header.type == CONTROL_NACK && plan.nacks < 8 &&
	    message->nack.round > plan.round) {
		plan.round = message->nack.round;
		plan.nacked_at[plan.nacks++] = duo_now(duo);
	}
	return message->header.type == CONTROL_SCHEME && message->scheme.payload[0] == plan.unheard;
}

/* A path that is known for long, so that deviations are small. */
static void open_known(struct duo *duo, uint32_t first, uint32_t count, unsigned times)
{
	struct duo_attr attr = { .link = { .rate_bps =
						   UINT64_C(8) * DUO_WIRE * 1000000000 / PACKET_NS,
					   .delay_ns = RTT_NS / 2 },
				 .host = { .queue = 2 * WINDOW, .window_most = WINDOW },
				 .memory_bytes = LENGTH };
	struct duo_transfer warm;

	memset(&plan, 0, sizeof(plan));
	duo_open(duo, &attr);
	for (int i = 0; i < 24; i++) {
		duo_start(duo, DUO_PAYLOAD, &warm);
		duo_finish(&warm, S);
	}
	assert_in_range(duo_estimate(duo, 1).rtt_ns, RTT_NS, RTT_NS + MS);
	plan.first = first;
	plan.count = count;
	plan.times = times;
	duo->lose_data = lose_data;
	duo->lose_control = lose_control;
}

static uint64_t repeated(const struct duo *duo)
{
	return duo_counter(duo, 0, "retransmitted_packets");
}

/* Its round trip and a few packets after a hole was named it is named again, and again: no clock is waited for. */
static void proved_by_what_follows(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_known(&duo, 300, 1, 4);
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, S);
	assert_int_equal(plan.nacks, 4);
	assert_int_equal(repeated(&duo), 4);
	for (int i = 1; i < 4; i++)
		assert_in_range(plan.nacked_at[i] - plan.nacked_at[i - 1], RTT_NS,
				FULL_NS + 10 * PACKET_NS);
	duo_close(&duo);
}

/* The answer to one round is lost, and the repeat: the next round's answer tells as much. */
static void answer_lost(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;
	struct gw_run hole;
	uint64_t named;

	(void)state;
	open_known(&duo, 300, 600, 1);
	for (uint32_t i = 0; i < 600; i++)
		plan.lost[300 + i] = i % 20 != 0; /* one in 20 is lost */
	plan.unheard = ANSWER;
	duo_start(&duo, LENGTH, &transfer);
	duo_until(&duo, S, plan.nacks == 1);
	named = duo_now(&duo);
	plan.lost[300] = 0; /* and 300 twice */
	duo_until(&duo, S, plan.lost[300] == 1);
	plan.unheard = 0;
	duo_until(&duo, S, gw_recv_next_hole(transfer.recv, 300, 301, &hole) == 0);
	/* Two round trips and a little, and not when the last hole was named. */
	assert_true(duo_now(&duo) - named < 3 * FULL_NS);
	duo_finish(&transfer, S);
	assert_int_equal(repeated(&duo), 31);
	duo_close(&duo);
}

/* A tail is asked about as soon as it must have arrived, and not a round trip later. */
static void tail(void **state)
{
	static const uint32_t tails[] = { 1, 40 };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct duo_transfer transfer;
		struct duo duo;

		open_known(&duo, PACKETS - tails[i], tails[i], 1);
		duo_start(&duo, LENGTH, &transfer);
		duo_finish(&transfer, S);
		assert_int_equal(repeated(&duo), tails[i]);
		/* The probe waits for an eighth of a round trip. Then it, the NACK and the repeats each take half of one. */
		assert_in_range(transfer.received_at - plan.lost_at, RTT_NS * 3 / 2,
				2 * RTT_NS + tails[i] * PACKET_NS);
		duo_close(&duo);
	}
}

/* And when its repeats are lost, each time again. */
static void tail_again(void **state)
{
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	open_known(&duo, PACKETS - 1, 1, 3);
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, S);
	/* The third time it leaves twice. */
	assert_int_equal(repeated(&duo), 3);
	assert_int_equal(plan.nacks, 2);
	assert_in_range(plan.nacked_at[1] - plan.nacked_at[0], RTT_NS, RTT_NS + RTT_NS / 4);
	duo_close(&duo);
}

/* Packets of the next message prove a tail lost: nobody has to ask. */
static void tail_before_the_next(void **state)
{
	struct duo_transfer transfer[2];
	struct duo duo;

	(void)state;
	open_known(&duo, PACKETS - 10, 10, 1);
	plan.unheard = TAIL_PROBE;
	duo_start(&duo, LENGTH, &transfer[0]);
	duo_start(&duo, LENGTH / 2, &transfer[1]); /* does not reach the packets that are lost */
	duo_until(&duo, S, transfer[0].received);
	assert_in_range(transfer[0].received_at - plan.lost_at, RTT_NS, 3 * RTT_NS);
	duo_finish(&transfer[1], S);
	assert_int_equal(transfer[0].received_status, 0);
	/* The queue is longer by now than was measured: they may be asked for twice. */
	assert_in_range(repeated(&duo), 10, 20);
	assert_int_equal(gw_send_close(transfer[0].send), 0);
	assert_int_equal(gw_recv_close(transfer[0].recv), 0);
	duo_close(&duo);
}

/* Asked for twice, a repair that still waits is sent once; parts of it likewise, and in the order of asking. */
static void waits_once(void **state)
{
	struct gw_recv *recv;
	struct gw_send *stream;
	struct duo duo;

	(void)state;
	open_known(&duo, 0, 0, 0);
	recv = duo_recv(&duo, LENGTH);
	stream = duo_stream(&duo, LENGTH);
	duo_run(&duo, 4 * RTT_NS);
	duo_put(&duo, stream, 10);
	duo_run(&duo, 4 * RTT_NS);
	duo_put(&duo, stream, 3);
	duo_put(&duo, stream, 3);
	duo_put(&duo, stream, 2);
	assert_int_equal(gw_stream_waiting(stream), 1);
	duo_put(&duo, stream, 4);
	assert_int_equal(gw_stream_waiting(stream), 2);
	duo_run(&duo, 4 * RTT_NS);
	assert_int_equal(repeated(&duo), 7);
	assert_int_equal(gw_recv_complete(recv), 0);
	duo_close(&duo);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(proved_by_what_follows),
		cmocka_unit_test(answer_lost),
		cmocka_unit_test(tail),
		cmocka_unit_test(tail_again),
		cmocka_unit_test(tail_before_the_next),
		cmocka_unit_test(waits_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

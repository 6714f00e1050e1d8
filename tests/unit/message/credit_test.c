/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive credit: it follows what the receiver reads, not the size of its buffer. Data goes from end 0 to end 1. */
#include "../reliability/duo.h"

#include "message/state.h"

#define QUEUE  64u
#define BUFFER (QUEUE / 2)

/* Packets that a transfer was given, and the time that it took. */
struct outcome {
	uint64_t packets;
	uint64_t ns;
	uint64_t overruns;
	uint64_t repeated;
};

static uint64_t overruns(const struct duo *duo)
{
	return duo->ctx[1]->fabric->counters[FABRIC_DROP_OVERRUN];
}

/* Sends `packets` packets and waits for them. */
static struct outcome transfer(struct duo *duo, uint32_t packets, uint64_t limit_ns)
{
	struct outcome outcome = { .packets = packets,
				   .ns = duo_now(duo),
				   .overruns = overruns(duo) };
	uint64_t repeated = duo_counter(duo, 0, "retransmitted_packets");
	struct duo_transfer t;

	duo_start(duo, (uint64_t)packets * DUO_PAYLOAD, &t);
	duo_finish(&t, limit_ns);
	outcome.ns = t.received_at - outcome.ns;
	outcome.overruns = overruns(duo) - outcome.overruns;
	outcome.repeated = duo_counter(duo, 0, "retransmitted_packets") - repeated;
	return outcome;
}

/* A long path holds far more than the buffer, and a receiver that reads at once needs no buffer for it. */
static void grows_with_the_path(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = 10 * MS, .rate_bps = UINT64_C(1000000000) },
				 .host = { .queue = QUEUE },
				 .memory_bytes = 16u << 20 };
	struct outcome outcome;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	assert_int_equal(duo.qp[0]->feedback.window, BUFFER);
	outcome = transfer(&duo, 4096, 5 * S);
	assert_int_equal(outcome.overruns, 0);
	/* With the buffer as the window it would be 128 round trips. The line alone takes 136 ms. */
	assert_true(outcome.ns < 500 * MS);
	assert_true(duo.ctx[1]->credit.pool >= 512);
	assert_true(duo.ctx[1]->credit.pool <= duo.ctx[1]->fabric->caps.buffer_most);
	duo_close(&duo);
}

/* Where nothing asks for more than the buffer holds the credit stays. */
static void stays_where_it_suffices(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = 10 * MS }, .host = { .queue = QUEUE } };
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	for (int i = 0; i < 20; i++) {
		transfer(&duo, BUFFER / 4, S);
		duo_run(&duo, 20 * MS);
	}
	assert_int_equal(duo.ctx[1]->credit.pool, BUFFER);
	duo_close(&duo);
}

/* A reader that is slower than its sender gets what it can read, on paths of any length, and little runs over. */
static void follows_a_slow_reader(void **state)
{
	static const uint64_t delays[] = { 5 * US, 100 * US, 2 * MS, 20 * MS };
	static const uint64_t drains[] = { 2 * US, 20 * US, 100 * US };

	(void)state;
	for (size_t d = 0; d < sizeof(delays) / sizeof(delays[0]); d++)
		for (size_t r = 0; r < sizeof(drains) / sizeof(drains[0]); r++) {
			struct duo_attr attr = { .link = { .delay_ns = delays[d],
							   .rate_bps = UINT64_C(40000000000) },
						 .host = { .queue = QUEUE, .drain_ns = drains[r] },
						 .memory_bytes = 64u << 20 };
			uint64_t reading_ns = 8192 * drains[r];
			struct outcome outcome;
			struct duo duo;

			duo_open(&duo, &attr);
			transfer(&duo, 8192, 30 * S); /* learns */
			outcome = transfer(&duo, 8192, 30 * S);
			print_message(
				"delay %lu us, %lu us a packet: %.2f of the reader's speed, %lu overruns, %lu repeated\n",
				delays[d] / US, drains[r] / US,
				(double)reading_ns / (double)outcome.ns, outcome.overruns,
				outcome.repeated);
			/* Where the path is longer than the message takes, unpaced bursts run over now and then. */
			assert_true(outcome.ns < 2 * reading_ns + 100 * delays[d]);
			assert_true(delays[d] > 100 * US ||
				    outcome.ns < reading_ns + reading_ns / 2);
			assert_true(outcome.overruns <
				    (delays[d] > 100 * US ? 8192 / 4 : 8192 / 20));
			duo_close(&duo);
		}
}

/* A process that was stopped is given little at first, and soon as much as before. */
static void recovers_from_a_stop(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = 10 * MS, .rate_bps = UINT64_C(1000000000) },
				 .host = { .queue = QUEUE },
				 .memory_bytes = 48u << 20 };
	uint64_t smallest = UINT64_MAX, before, start;
	struct duo_transfer t;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	transfer(&duo, 4096, 5 * S);
	before = duo.ctx[1]->credit.pool;
	start = duo_now(&duo);
	duo_start(&duo, UINT64_C(8192) * DUO_PAYLOAD, &t);
	duo_run(&duo, 100 * MS);
	world_stall(&duo.world, 1, true);
	duo_run(&duo, 100 * MS);
	world_stall(&duo.world, 1, false);
	assert_true(overruns(&duo) > 0);
	while (!t.sent || !t.received) {
		if (duo.ctx[1]->credit.pool < smallest)
			smallest = duo.ctx[1]->credit.pool;
		assert_true(duo_step(&duo, start + 10 * S));
	}
	duo_finish(&t, 5 * S);
	assert_in_range(smallest, BUFFER / 2, before / 2);
	/* The line takes 272 ms, and the stop 100. */
	assert_true(t.received_at - start < 1000 * MS);
	duo_close(&duo);
}

static unsigned credits_told;

static bool count_credits(struct duo *duo, int end, const struct control_message *message,
			  const void *bytes)
{
	(void)duo;
	(void)bytes;
	credits_told += end == 1 && message->header.type == CONTROL_CREDIT;
	return false;
}

/* The credit is told in each round trip, for it may have been lost, also when it does not change any more. */
static void told_in_each_round_trip(void **state)
{
	struct duo_attr attr = { .link = { .delay_ns = 10 * MS, .rate_bps = UINT64_C(1000000000) },
				 .host = { .queue = QUEUE, .window_most = BUFFER },
				 .memory_bytes = 16u << 20 };
	struct duo_transfer t;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	duo.lose_control = count_credits;
	duo_start(&duo, UINT64_C(2048) * DUO_PAYLOAD, &t);
	duo_run(&duo, 200 * MS);
	credits_told = 0;
	duo_run(&duo, 400 * MS);
	assert_in_range(credits_told, 15, 30);
	duo_finish(&t, 5 * S);
	duo_close(&duo);
}

/* Lets packets land on a queue pair, as far as the credit is concerned. */
static void land(struct gw_qp *qp, uint32_t packets)
{
	for (uint32_t i = 0; i < packets; i++) {
		qp->feedback.landed++;
		credit_used(qp);
	}
}

static void end_round_trip(struct gw_context *ctx)
{
	ctx->now = ctx->credit.ends_ns;
	credit_update(ctx);
}

/* Of two peers the one that needs little takes little, and the other has the rest; one that falls silent has a part of the
 * buffer left. */
static void shared_by_need(void **state)
{
	struct duo_attr attr = { .host = { .queue = 200, .window_most = 100 } };
	struct gw_qp_attr qp_attr = { 0 };
	struct gw_qp *other[2], *big, *small;
	struct gw_context *ctx;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	assert_int_equal(world_connect(&duo.world, 0, 1, &qp_attr, &qp_attr, &other[0], &other[1]),
			 0);
	ctx = duo.ctx[1];
	big = duo.qp[1];
	small = other[1];
	big->feedback.rtt_ns = big->feedback.rtt_min_ns = 10 * MS;
	small->feedback.rtt_ns = small->feedback.rtt_min_ns = 10 * MS;
	assert_int_equal(credit_packets(big), 50);
	land(big, 1);
	land(small, 1);
	end_round_trip(ctx);
	assert_int_equal(credit_packets(big), 100);
	land(big, 1000);
	land(small, 5);
	end_round_trip(ctx);
	assert_int_equal(credit_packets(big), 90);
	land(big, 1000);
	land(small, 1000);
	end_round_trip(ctx);
	assert_int_equal(credit_packets(big), 50);
	assert_int_equal(credit_packets(small), 50);
	for (int i = 0; i < 120; i++) {
		land(big, 1000);
		end_round_trip(ctx);
	}
	assert_int_equal(credit_packets(big), 100);
	assert_int_equal(credit_packets(small), 50);
	assert_true(small->control.owed & OWE_ACK);
	/* An overrun counts once a round trip, and leaves what is read in one and half of the buffer. */
	land(big, 20);
	end_round_trip(ctx);
	ctx->fabric->counters[FABRIC_DROP_OVERRUN]++;
	land(big, 20);
	credit_update(ctx);
	assert_int_equal(ctx->credit.pool, 70);
	ctx->fabric->counters[FABRIC_DROP_OVERRUN]++;
	credit_update(ctx);
	assert_int_equal(ctx->credit.pool, 70);
	ctx->fabric->counters[FABRIC_DROP_OVERRUN]++;
	credit_update(ctx);
	assert_int_equal(ctx->credit.cuts, 1);
	assert_int_equal(ctx->credit.ease, 75);
	/* Nor does it grow while the process finds the buffer full. */
	end_round_trip(ctx);
	ctx->fabric->emptied = false;
	land(big, 60);
	end_round_trip(ctx);
	assert_int_equal(ctx->credit.pool, 70);
	/* It grows to three quarters of what was too much, and slowly above that. */
	ctx->fabric->emptied = true;
	land(big, 60);
	end_round_trip(ctx);
	assert_int_equal(ctx->credit.pool, 75);
	ctx->fabric->emptied = true;
	land(big, 60);
	end_round_trip(ctx);
	assert_int_equal(ctx->credit.pool, 100);
	/* Which it has to find anew in each round trip. */
	assert_false(ctx->fabric->emptied);
	/* Each of two overruns counts that are further apart. */
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t read = 20 - 10 * i;

		land(big, read);
		end_round_trip(ctx);
		ctx->fabric->counters[FABRIC_DROP_OVERRUN]++;
		credit_update(ctx);
		assert_int_equal(ctx->credit.pool, read + 50);
	}
	gw_qp_close(other[0]);
	gw_qp_close(other[1]);
	duo_close(&duo);
}

/* A sender that doubles its window each round trip, and of whose doubling the receiver learns a round trip later, never has to
 * wait for credit. */
static void runs_ahead_of_a_sender_that_doubles(void **state)
{
	struct duo_attr attr = { .host = { .queue = 200, .window_most = 1u << 14 } };
	struct gw_context *ctx;
	struct gw_qp *qp;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	ctx = duo.ctx[1];
	qp = duo.qp[1];
	qp->feedback.rtt_ns = qp->feedback.rtt_min_ns = 100 * MS;
	for (uint32_t landed = 50; landed < 2000; landed *= 2) {
		ctx->fabric->emptied = true;
		land(qp, landed);
		end_round_trip(ctx);
		/* The first packet begins the first round. */
		assert_in_range(credit_packets(qp), 4 * landed - 4, 4 * landed);
	}
	duo_close(&duo);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows_with_the_path),
		cmocka_unit_test(stays_where_it_suffices),
		cmocka_unit_test(follows_a_slow_reader),
		cmocka_unit_test(recovers_from_a_stop),
		cmocka_unit_test(told_in_each_round_trip),
		cmocka_unit_test(shared_by_need),
		cmocka_unit_test(runs_ahead_of_a_sender_that_doubles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

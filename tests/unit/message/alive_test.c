/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is alive: silence counts only while something is waited for, for as long as was agreed, and never when it was
 * one's own.
 */
#include "../reliability/duo.h"

#include <errno.h>

#include "message/state.h"

#define DELAY_NS   (2 * MS)
#define TIMEOUT_NS S

static uint64_t last_heard_at, heard_before;

static void watch_hearing(struct duo *duo)
{
	uint64_t heard = duo_counter(duo, 1, "control_heard");

	if (heard != heard_before) {
		heard_before = heard;
		last_heard_at = duo_now(duo);
	}
}

static void open_waiting(struct duo *duo)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS },
				 .qp = { .peer_timeout_ns = TIMEOUT_NS } };

	duo_open(duo, &attr);
	last_heard_at = heard_before = 0;
	duo->each_step = watch_hearing;
	duo_recv(duo, DUO_PAYLOAD);
}

static void waiting_stays_alive(void **state)
{
	struct duo duo;

	(void)state;
	open_waiting(&duo);
	duo_run(&duo, 20 * TIMEOUT_NS);
	assert_int_equal(duo.gone[0] + duo.gone[1], 0);
	assert_int_equal(gw_qp_status(duo.qp[1]), 0);
	/* Not by talking all the time. */
	assert_in_range(heard_before, 20, 300);
	duo_close(&duo);
}

static void silence_is_given_up(void **state)
{
	(void)state;
	for (uint64_t at = 0; at < 10; at++) {
		struct duo duo;

		open_waiting(&duo);
		duo_run(&duo, 3 * TIMEOUT_NS + at * TIMEOUT_NS / 7);
		world_stall(&duo.world, 0, true);
		duo_until(&duo, 2 * TIMEOUT_NS, duo.gone[1]);
		assert_int_equal(duo.gone_status[1], -ETIMEDOUT);
		assert_in_range(duo.gone_at[1] - last_heard_at, TIMEOUT_NS,
				TIMEOUT_NS + TIMEOUT_NS / 100);
		duo_close(&duo);
	}
}

/* Its own clock jumps, as after a suspend: the silence was its own. */
static void sleeper_asks_first(void **state)
{
	struct gw_send *send;
	struct duo duo;
	uint64_t heard;

	(void)state;
	open_waiting(&duo);
	duo_run(&duo, 3 * TIMEOUT_NS);
	/* Nothing that is under way may speak for the peer. */
	heard = heard_before;
	duo_until(&duo, TIMEOUT_NS, heard_before > heard);
	sim_jump(duo.world.sim, 1, 5 * TIMEOUT_NS);
	world_touch(&duo.world, 1);
	duo_run(&duo, 5 * TIMEOUT_NS);
	assert_int_equal(duo.gone[1], 0);
	/* Everything goes on. */
	send = duo_stream(&duo, DUO_PAYLOAD);
	duo_run(&duo, 100 * MS);
	duo_put(&duo, send, 1);
	duo_run(&duo, 100 * MS);
	assert_int_equal(duo_counter(&duo, 1, "landed_packets"), 1);
	duo_close(&duo);
}

/* And when the peer has gone meanwhile, asking takes no longer than being silent. */
static void sleeper_asks_the_dead(void **state)
{
	uint64_t woke;
	struct duo duo;

	(void)state;
	open_waiting(&duo);
	duo_run(&duo, 3 * TIMEOUT_NS);
	world_stall(&duo.world, 0, true);
	sim_jump(duo.world.sim, 1, 5 * TIMEOUT_NS);
	world_touch(&duo.world, 1);
	woke = duo_now(&duo);
	duo_until(&duo, 2 * TIMEOUT_NS, duo.gone[1]);
	assert_in_range(duo.gone_at[1] - woke, TIMEOUT_NS / 10, TIMEOUT_NS);
	duo_close(&duo);
}

static bool lose_what_the_sender_says(struct duo *duo, int end,
				      const struct control_message *message, const void *bytes)
{
	(void)duo;
	(void)message;
	(void)bytes;
	return end == 0;
}

/* Data is a sign of life, too: control may be lost for long. */
static void data_is_a_sign_of_life(void **state)
{
	enum { PACKETS = 100 };
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS },
				 .qp = { .peer_timeout_ns = TIMEOUT_NS } };
	struct gw_send *stream;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	duo_recv(&duo, (uint64_t)PACKETS * DUO_PAYLOAD);
	stream = duo_stream(&duo, (uint64_t)PACKETS * DUO_PAYLOAD);
	duo_run(&duo, 20 * MS);
	duo.lose_control = lose_what_the_sender_says;
	for (uint64_t i = 0; i < PACKETS; i++) {
		assert_int_equal(gw_stream_put(stream, i * DUO_PAYLOAD,
					       duo.memory[0] + i * DUO_PAYLOAD, DUO_PAYLOAD,
					       duo.mr[0]),
				 0);
		world_touch(&duo.world, 0);
		duo_run(&duo, TIMEOUT_NS / 10);
		assert_int_equal(duo.gone[1], 0);
	}
	duo_until(&duo, 3 * TIMEOUT_NS, duo.gone[1]);
	duo_close(&duo);
}

/* A queue pair that hears something in every turn sets its timer in every turn: that must not put it off. */
static void due_timer_stays_due(void **state)
{
	struct gw_context *ctx;
	struct timer *timer;
	struct duo duo;

	(void)state;
	open_waiting(&duo);
	ctx = duo.qp[0]->ctx;
	timer = &duo.qp[0]->user_timer;
	timer_set(ctx, timer, ctx->now + 10);
	ctx->now += 100;
	timer_set(ctx, timer, ctx->now - 50);
	assert_true(timer->node.key <= ctx->now);
	/* One that is not set is due in the next turn at the earliest. */
	timer_set(ctx, timer, NEVER);
	timer_set(ctx, timer, ctx->now - 50);
	assert_true(timer->node.key > ctx->now);
	timer_set(ctx, timer, NEVER);
	duo_close(&duo);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(waiting_stays_alive),	  cmocka_unit_test(silence_is_given_up),
		cmocka_unit_test(sleeper_asks_first),	  cmocka_unit_test(sleeper_asks_the_dead),
		cmocka_unit_test(data_is_a_sign_of_life), cmocka_unit_test(due_timer_stays_due),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

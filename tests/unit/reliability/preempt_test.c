/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounded messages in a line: a newer one that begins to land ends the older, with what it has. Two messages, one behind the
 * other, of which the first loses packets for good.
 */
#include "duo.h"

#include <errno.h>
#include <string.h>

#include <godwit/bounded.h>

#define PACKETS	 100u
#define LENGTH	 ((uint64_t)PACKETS * DUO_PAYLOAD)
#define RTT_NS	 (4 * MS)
#define DEADLINE (200 * MS)

static struct {
	unsigned lost;	   /* so many packets at the end of the first message, always */
	uint64_t until_ns; /* announcements before this */
} plan;

/* A message, and how it ended. */
static struct shot {
	struct gw_send *send;
	struct gw_recv *recv;
	struct gw_bounded_options options;
	struct gw_bounded_outcome outcome;
	int sent, received, status;
	uint64_t began_at, ended_at;
} shots[2];

static bool lose_data(struct duo *duo, uint32_t packet, bool again)
{
	(void)again;
	return duo->writing < duo->memory[0] + LENGTH && packet >= PACKETS - plan.lost;
}

static bool lose_control(struct duo *duo, int end, const struct control_message *message,
			 const void *bytes)
{
	(void)end;
	(void)bytes;
	return message->header.type == CONTROL_ANNOUNCE && duo_now(duo) < plan.until_ns;
}

static void watch(struct duo *duo)
{
	for (int i = 0; i < 2; i++) {
		struct gw_recv_status status;

		if (!shots[i].recv || gw_recv_status(shots[i].recv, &status))
			continue;
		if (!shots[i].began_at && status.landed)
			shots[i].began_at = duo_now(duo);
	}
}

static void on_sent(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct shot *shot = arg;

	(void)now;
	shot->sent++;
	assert_int_equal(result->status, shot->status == -ECANCELED ? -ECANCELED : 0);
	gw_send_close(shot->send);
}

static void on_received(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct shot *shot = arg;

	shot->ended_at = now;
	shot->received++;
	shot->status = result->status;
	gw_recv_close(shot->recv);
	shot->recv = NULL;
}

static void open_ends(struct duo *duo)
{
	struct duo_attr attr = { .link = { .rate_bps = UINT64_C(10000000000),
					   .delay_ns = RTT_NS / 2 },
				 .memory_bytes = 2 * LENGTH };
	struct duo_transfer warm;

	memset(&plan, 0, sizeof(plan));
	memset(shots, 0, sizeof(shots));
	duo_open(duo, &attr);
	duo_start(duo, DUO_PAYLOAD, &warm);
	duo_finish(&warm, S);
	duo->lose_data = lose_data;
	duo->lose_control = lose_control;
	duo->each_step = watch;
	for (int i = 0; i < 2; i++)
		shots[i].options = (struct gw_bounded_options){ .deadline_ns = DEADLINE,
								.grace_ns = DEADLINE,
								.outcome = &shots[i].outcome };
}

static void run(struct duo *duo)
{
	for (int i = 0; i < 2; i++) {
		struct gw_transfer_attr attr = { .addr = duo->memory[1] + i * LENGTH,
						 .length = LENGTH,
						 .mr = duo->mr[1],
						 .done = on_received,
						 .arg = &shots[i],
						 .options = &shots[i].options };

		assert_int_equal(gw_transfer_recv(duo->qp[1], &gw_bounded, &attr, &shots[i].recv),
				 0);
		attr.addr = duo->memory[0] + i * LENGTH;
		attr.mr = duo->mr[0];
		attr.done = on_sent;
		attr.options = NULL;
		assert_int_equal(gw_transfer_send(duo->qp[0], &gw_bounded, &attr, &shots[i].send),
				 0);
	}
	world_touch(&duo->world, 0);
	world_touch(&duo->world, 1);
	duo_until(duo, 5 * S,
		  shots[0].sent && shots[1].sent && shots[0].received && shots[1].received);
	duo_run(duo, 100 * MS);
	assert_int_equal(shots[0].sent + shots[0].received + shots[1].sent + shots[1].received, 4);
	assert_int_equal(shots[1].outcome.reason, GW_BOUNDED_WHOLE);
	assert_int_equal(shots[1].status, 0);
	duo_close(duo);
}

static void older_ends(void **state)
{
	struct gw_line line = { 0 };
	struct gw_pace pace = { 0 };
	struct duo duo;

	(void)state;
	open_ends(&duo);
	plan.lost = 7;
	shots[0].options.line = shots[1].options.line = &line;
	shots[0].options.pace = &pace;
	run(&duo);
	assert_int_equal(shots[0].outcome.reason, GW_BOUNDED_PREEMPTED);
	assert_int_equal(shots[0].status, 0);
	assert_int_equal(shots[0].outcome.bytes, LENGTH - 7 * DUO_PAYLOAD);
	/* When the other begins, and that is no measure of how fast messages are. */
	assert_in_range(shots[0].ended_at, shots[1].began_at, shots[1].began_at + 100 * US);
	assert_int_equal(pace.messages, 0);
	assert_null(line.current);
}

/* Whole before the newer one came: nothing to pre-empt. Or in another line. */
static void unhurt(void **state)
{
	struct gw_line lines[2] = { { 0 } };
	struct duo duo;

	(void)state;
	open_ends(&duo);
	shots[0].options.line = shots[1].options.line = &lines[0];
	run(&duo);
	assert_int_equal(shots[0].outcome.reason, GW_BOUNDED_WHOLE);
	open_ends(&duo);
	plan.lost = 7;
	shots[0].options.line = &lines[0];
	shots[1].options.line = &lines[1];
	run(&duo);
	assert_int_equal(shots[0].outcome.reason, GW_BOUNDED_DEADLINE);
	assert_null(lines[0].current);
	assert_null(lines[1].current);
}

/* Its length is not known: it ends when it is. */
static void not_announced(void **state)
{
	struct gw_line line = { 0 };
	struct duo duo;

	(void)state;
	open_ends(&duo);
	plan.lost = 7;
	plan.until_ns = duo_now(&duo) + 50 * MS;
	shots[0].options.line = shots[1].options.line = &line;
	run(&duo);
	assert_int_equal(shots[0].outcome.reason, GW_BOUNDED_PREEMPTED);
	assert_int_equal(shots[0].outcome.bytes, LENGTH - 7 * DUO_PAYLOAD);
	assert_true(shots[0].ended_at > plan.until_ns);
	assert_true(shots[0].outcome.elapsed_ns < DEADLINE);
}

/* What it has may be too little for its caller. */
static void below_floor(void **state)
{
	struct gw_line line = { 0 };
	struct duo duo;

	(void)state;
	open_ends(&duo);
	plan.lost = 7;
	shots[0].options.line = shots[1].options.line = &line;
	shots[0].options.floor_ppm = 950000;
	run(&duo);
	assert_int_equal(shots[0].outcome.reason, GW_BOUNDED_PREEMPTED);
	assert_int_equal(shots[0].status, -ETIMEDOUT);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(older_ends),
		cmocka_unit_test(unhurt),
		cmocka_unit_test(not_announced),
		cmocka_unit_test(below_floor),
	};

	return cmocka_run_group_tests_name("reliability-preempt", tests, NULL, NULL);
}

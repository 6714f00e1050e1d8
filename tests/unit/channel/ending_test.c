/* SPDX-License-Identifier: BSD-3-Clause */
/* How operations end that do not end well: both ends hear of it, once, and those after them go on. */
#include "two.h"

#include <errno.h>
#include <string.h>

#define SMALL 100u
#define LARGE 200000u

static const struct link_attr wire = { .rate_bps = 100000000, .delay_ns = 500 * US };

static void open_two(struct two *two)
{
	struct two_attr attr = { .link = wire };

	two_open(two, &attr);
}

/* Whatever happened before, the next of each kind arrives, and everything was given back. */
static void goes_on(struct two *two)
{
	for (int i = 0; i < 4; i++) {
		uint64_t length = i % 2 ? SMALL : LARGE;
		struct act send = { 0 }, recv = { 0 };

		act_recv(two, 1, length + 7, &recv);
		act_send(two, 0, length, (uint64_t)i, &send);
		two_until(two, 5 * S, send.ended && recv.ended);
		act_check(&send, 0);
		act_check_bytes(&recv, length, (uint64_t)i);
	}
	two_run(two, S);
	two_close(two);
}

static void too_small(uint64_t length, uint64_t capacity, bool send_first)
{
	struct act send = { 0 }, recv = { 0 };
	struct two two;

	open_two(&two);
	if (send_first)
		act_send(&two, 0, length, 1, &send);
	two_run(&two, 10 * MS);
	act_recv(&two, 1, capacity, &recv);
	two_run(&two, 10 * MS);
	if (!send_first)
		act_send(&two, 0, length, 1, &send);
	two_until(&two, S, send.ended && recv.ended);
	act_check(&send, -EMSGSIZE);
	act_check(&recv, -EMSGSIZE);
	goes_on(&two);
}

static void receives_too_small(void **state)
{
	(void)state;
	for (int send_first = 0; send_first < 2; send_first++) {
		too_small(SMALL, SMALL - 1, send_first);
		too_small(LARGE, LARGE - 1, send_first);
		too_small(LARGE, SMALL, send_first); /* which grants nothing at all */
		too_small(LARGE, 0, send_first);
	}
}

/* Not after a timeout, when a later receive shows that there is no buffer for this one. */
static void overtaken(void **state)
{
	struct act sends[2] = { 0 }, recvs[2] = { 0 };
	struct two two;
	uint64_t start;

	(void)state;
	open_two(&two);
	/* Not the first: that one has a buffer of the channel's. Nor after a small one: that would ask in any case. */
	act_recv(&two, 1, LARGE, &recvs[0]);
	act_send(&two, 0, LARGE, 0, &sends[0]);
	two_until(&two, S, sends[0].ended && recvs[0].ended);
	act_check(&sends[0], 0);
	act_check_bytes(&recvs[0], LARGE, 0);
	sends[0] = recvs[0] = (struct act){ 0 };
	act_recv(&two, 1, SMALL, &recvs[0]);
	act_recv(&two, 1, LARGE, &recvs[1]);
	two_run(&two, 10 * MS);
	start = two_now(&two);
	act_send(&two, 0, LARGE, 0, &sends[0]);
	act_send(&two, 0, LARGE, 1, &sends[1]);
	two_until(&two, S, sends[1].ended && recvs[1].ended);
	assert_in_range(sends[0].at - start, 1, 10 * MS);
	act_check(&sends[0], -EMSGSIZE);
	act_check(&recvs[0], -EMSGSIZE);
	act_check(&sends[1], 0);
	act_check_bytes(&recvs[1], LARGE, 1);
	goes_on(&two);
}

static void cancel(struct act *act)
{
	assert_int_equal(gw_op_close(act->op), -EBUSY);
	assert_int_equal(gw_op_cancel(act->op), 0);
	world_touch(&act->two->world, (uint32_t)act->end);
}

enum moment { ALONE, UNDER_WAY, MOMENTS };

/* One of the two is cancelled before its match is posted, or while it goes on. */
static void cancelled(uint64_t length, bool receiver, enum moment moment)
{
	struct act send = { 0 }, recv = { 0 };
	struct act *first = receiver ? &recv : &send, *other = receiver ? &send : &recv;
	struct two two;

	open_two(&two);
	if (receiver || moment == UNDER_WAY)
		act_recv(&two, 1, length, &recv);
	if (!receiver || moment == UNDER_WAY)
		act_send(&two, 0, length, 1, &send);
	two_run(&two, moment == UNDER_WAY ? 4 * MS : 20 * MS);
	assert_false(first->ended);
	cancel(first);
	two_run(&two, 10 * MS);
	if (!first->ended) /* a small send may be there already, and only a receive can tell */
		fail();
	assert_int_equal(gw_op_cancel(first->op), -EALREADY);
	act_check(first, -ECANCELED);
	if (moment == ALONE && receiver)
		act_send(&two, 0, length, 1, &send);
	else if (moment == ALONE)
		act_recv(&two, 1, length, &recv);
	two_until(&two, S, other->ended);
	/* A small send that was cancelled had left already. */
	if (!receiver && length == SMALL)
		act_check(other, 0);
	else
		act_check(other, -ECANCELED);
	goes_on(&two);
}

static void cancels(void **state)
{
	(void)state;
	for (int receiver = 0; receiver < 2; receiver++) {
		cancelled(LARGE, receiver, UNDER_WAY);
		cancelled(LARGE, receiver, ALONE);
		cancelled(SMALL, receiver, ALONE);
	}
}

/* Sends that stand in line behind a full ring of packs. */
static void cancelled_in_line(void **state)
{
	enum { COUNT = 40 };
	struct two_attr attr = { .link = wire,
				 .channel = { { .packs = 4, .pack_bytes = 4500 },
					      { .packs = 4, .pack_bytes = 4500 } } };
	struct act sends[COUNT] = { 0 }, recvs[COUNT] = { 0 };
	struct two two;

	(void)state;
	two_open(&two, &attr);
	for (int i = 0; i < COUNT; i++)
		act_send(&two, 0, 2000, (uint64_t)i, &sends[i]);
	two_run(&two, 50 * MS);
	for (int i = COUNT - 10; i < COUNT; i++)
		cancel(&sends[i]);
	two_run(&two, 50 * MS);
	for (int i = COUNT - 10; i < COUNT; i++)
		act_check(&sends[i], -ECANCELED);
	for (int i = 0; i < COUNT; i++)
		act_recv(&two, 1, 2000, &recvs[i]);
	for (int i = 0; i < COUNT; i++)
		two_until(&two, 5 * S, recvs[i].ended && (i >= COUNT - 10 || sends[i].ended));
	for (int i = 0; i < COUNT; i++) {
		if (i < COUNT - 10) {
			act_check(&sends[i], 0);
			act_check_bytes(&recvs[i], 2000, (uint64_t)i);
		} else {
			act_check(&recvs[i], -ECANCELED);
		}
	}
	goes_on(&two);
}

static void deadlines(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		uint64_t length = i & 1 ? LARGE : SMALL;
		bool receiver = i & 2;
		struct gw_op_attr extra = { 0 };
		struct act first = { 0 }, other = { 0 };
		struct two two;
		uint64_t deadline;

		open_two(&two);
		deadline = two_now(&two) + 30 * MS;
		extra.deadline_ns = deadline;
		act_post(&two, receiver, receiver, length, 1, &extra, &first);
		two_run(&two, 29 * MS);
		assert_false(first.ended);
		two_until(&two, S, first.ended);
		assert_in_range(first.at, deadline, deadline + 2 * MS);
		act_check(&first, -ETIMEDOUT);
		act_post(&two, !receiver, !receiver, length, 1, NULL, &other);
		two_until(&two, S, other.ended);
		act_check(&other, !receiver && length == SMALL ? 0 : -ECANCELED);
		goes_on(&two);
	}
}

/* Two small sends in one pack: the first ends when its receive has it, though the second's is not posted. */
static void neighbours_in_a_pack(void **state)
{
	enum { COUNT = 6 };
	struct act sends[COUNT] = { 0 }, recvs[COUNT] = { 0 };
	struct two two;

	(void)state;
	open_two(&two);
	for (int i = 0; i < COUNT; i++)
		act_send(&two, 0, SMALL, (uint64_t)i, &sends[i]);
	for (int i = 0; i < COUNT; i++) {
		two_run(&two, 20 * MS);
		assert_false(sends[i].ended);
		act_recv(&two, 1, i == 3 ? SMALL - 1 : SMALL, &recvs[i]);
		two_until(&two, 20 * MS, sends[i].ended && recvs[i].ended);
	}
	for (int i = 0; i < COUNT; i++) {
		act_check(&sends[i], i == 3 ? -EMSGSIZE : 0);
		if (i == 3)
			act_check(&recvs[i], -EMSGSIZE);
		else
			act_check_bytes(&recvs[i], SMALL, (uint64_t)i);
	}
	goes_on(&two);
}

/* The sender must not hear that its pack was read before it hears that the receive did not take it. */
static void refusal_comes_first(void **state)
{
	struct act send = { 0 }, recv = { 0 };
	struct two two;

	(void)state;
	open_two(&two);
	two_run(&two, 10 * MS);
	assert_int_equal(gw_channel_set_rate(two.channel[1], 0),
			 0); /* refusals are data, answers are not */
	act_recv(&two, 1, SMALL - 1, &recv);
	act_send(&two, 0, SMALL, 1, &send);
	two_run(&two, 3 * S);
	assert_int_equal(recv.ended, 1);
	assert_int_equal(send.ended, 0);
	assert_int_equal(gw_channel_set_rate(two.channel[1], GW_RATE_UNLIMITED), 0);
	world_touch(&two.world, 1);
	two_until(&two, S, send.ended);
	act_check(&send, -EMSGSIZE);
	act_check(&recv, -EMSGSIZE);
	goes_on(&two);
}

/* The bytes change between the sum and the wire. */
static void crc_finds_changes(void **state)
{
	struct two_attr attr = { .link = wire };
	struct act send = { 0 }, recv = { 0 };
	struct two two;

	(void)state;
	attr.channel[0].flags = GW_CHANNEL_CRC;
	two_open(&two, &attr);
	act_recv(&two, 1, LARGE, &recv);
	two_run(&two, 50 * MS);
	assert_int_equal(gw_channel_set_rate(two.channel[0], 0), 0);
	act_send(&two, 0, LARGE, 1, &send);
	two_run(&two, 50 * MS);
	send.addr[LARGE - 1] ^= 1;
	assert_int_equal(gw_channel_set_rate(two.channel[0], GW_RATE_UNLIMITED), 0);
	world_touch(&two.world, 0);
	two_until(&two, S, recv.ended && send.ended);
	act_check(&send, 0);
	act_check(&recv, -EBADMSG);
	goes_on(&two);
}

/* Whatever ended how, its number and its place are free again: two operations at a time are enough for any number. */
static void places_come_back(void **state)
{
	struct two_attr attr = { .link = wire };
	struct two two;

	(void)state;
	attr.channel[0].operations = attr.channel[1].operations = 2;
	two_open(&two, &attr);
	for (int i = 0; i < 60; i++) {
		static const uint64_t lengths[] = { SMALL, LARGE, LARGE };
		static const uint64_t capacities[] = { SMALL - 1, LARGE - 1, SMALL };
		struct act send = { 0 }, recv = { 0 };
		int kind = i % 5;

		if (kind != 3)
			act_recv(&two, 1, kind < 3 ? capacities[kind] : LARGE, &recv);
		if (kind == 4)
			cancel(&recv);
		act_send(&two, 0, kind < 3 ? lengths[kind] : i % 2 ? SMALL : LARGE, 1, &send);
		if (kind == 3) {
			cancel(&send);
			two_run(&two, 2 * MS);
			act_recv(&two, 1, LARGE, &recv);
		}
		two_until(&two, S, send.ended && recv.ended);
		act_check(&recv, kind < 3 ? -EMSGSIZE : recv.result.status);
		act_check(&send, kind < 3 ? -EMSGSIZE : -ECANCELED);
		two_run(&two, 20 * MS);
	}
	goes_on(&two);
}

/* All packs of an end wait for receives that are not posted: it can still refuse what comes the other way. */
static void notices_find_a_pack(void **state)
{
	enum { COUNT = 40 };
	struct two_attr attr = { .link = wire,
				 .channel = { { .packs = 4, .pack_bytes = 4500 },
					      { .packs = 4, .pack_bytes = 4500 } } };
	struct act sends[COUNT] = { 0 }, recvs[COUNT] = { 0 }, send = { 0 }, recv = { 0 };
	struct two two;

	(void)state;
	two_open(&two, &attr);
	for (int i = 0; i < COUNT; i++)
		act_send(&two, 0, 2000, (uint64_t)i, &sends[i]);
	two_run(&two, 50 * MS);
	act_recv(&two, 0, SMALL - 1, &recv);
	act_send(&two, 1, SMALL, 1, &send);
	two_until(&two, S, send.ended && recv.ended);
	act_check(&send, -EMSGSIZE);
	act_check(&recv, -EMSGSIZE);
	for (int i = 0; i < COUNT; i++)
		act_recv(&two, 1, 2000, &recvs[i]);
	for (int i = 0; i < COUNT; i++) {
		two_until(&two, 5 * S, sends[i].ended && recvs[i].ended);
		act_check(&sends[i], 0);
		act_check_bytes(&recvs[i], 2000, (uint64_t)i);
	}
	goes_on(&two);
}

/* Whoever waits for a receive asks less and less often whether there will be one. */
static void questions_become_rare(void **state)
{
	struct act sends[2] = { 0 }, recvs[2] = { 0 };
	struct gw_channel_stats stats;
	struct two two;

	(void)state;
	open_two(&two);
	for (int i = 0; i < 2; i++)
		act_send(&two, 0, LARGE, (uint64_t)i, &sends[i]);
	two_run(&two, 60 * S);
	assert_int_equal(gw_channel_stats(two.channel[0], &stats), 0);
	assert_in_range(stats.records, 5, 30);
	for (int i = 0; i < 2; i++)
		act_recv(&two, 1, LARGE, &recvs[i]);
	for (int i = 0; i < 2; i++) {
		two_until(&two, S, sends[i].ended && recvs[i].ended);
		act_check(&sends[i], 0);
		act_check_bytes(&recvs[i], LARGE, (uint64_t)i);
	}
	goes_on(&two);
}

static bool window_full(struct two *two)
{
	uint8_t byte = 0;
	struct gw_op_attr attr = { .addr = &byte, .length = 1 };
	struct gw_op *op;

	return gw_channel_send(two->channel[0], &attr, &op) == -ENOBUFS;
}

/*
 * The first large send goes into the buffer that its receiver promised and is given up, then as many more as there are
 * numbers. None of them has met its receive, so that the number behind them is not free.
 */
static void given_up_first(uint64_t length)
{
	enum { OPERATIONS = 8 };
	struct two_attr attr = { .link = wire };
	struct act sends[OPERATIONS] = { 0 }, recvs[OPERATIONS] = { 0 };
	struct two two;

	attr.channel[0].operations = attr.channel[1].operations = OPERATIONS;
	two_open(&two, &attr);
	for (int i = 0; i < OPERATIONS; i++) {
		act_send(&two, 0, i ? LARGE : length, 1, &sends[i]);
		two_run(&two, 10 * MS);
		cancel(&sends[i]);
		two_run(&two, 20 * MS);
		act_check(&sends[i], -ECANCELED);
	}
	assert_true(window_full(&two));
	for (int i = 0; i < OPERATIONS; i++)
		act_recv(&two, 1, LARGE, &recvs[i]);
	for (int i = 0; i < OPERATIONS; i++) {
		two_until(&two, S, recvs[i].ended);
		act_check(&recvs[i], -ECANCELED);
	}
	two_run(&two, 50 * MS);
	goes_on(&two);
}

static void first_sends_given_up(void **state)
{
	(void)state;
	given_up_first(LARGE);
	given_up_first(20000);
}

/* It arrived, and its receive is over, when the sender gives it up: its number is free all the same. */
static void given_up_when_taken(void **state)
{
	(void)state;
	for (uint64_t us = 0; us < 6000; us += 50) {
		struct two_attr attr = { .link = wire };
		struct act send = { 0 }, recv = { 0 };
		struct two two;

		attr.channel[0].operations = attr.channel[1].operations = 2;
		two_open(&two, &attr);
		act_recv(&two, 1, 20000, &recv);
		act_send(&two, 0, 20000, 1, &send);
		two_run(&two, us * US);
		if (!send.ended)
			cancel(&send);
		two_until(&two, S, send.ended && recv.ended);
		act_free(&send);
		act_free(&recv);
		two_run(&two, 50 * MS);
		goes_on(&two);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(receives_too_small),
		cmocka_unit_test(overtaken),
		cmocka_unit_test(cancels),
		cmocka_unit_test(cancelled_in_line),
		cmocka_unit_test(deadlines),
		cmocka_unit_test(neighbours_in_a_pack),
		cmocka_unit_test(crc_finds_changes),
		cmocka_unit_test(refusal_comes_first),
		cmocka_unit_test(places_come_back),
		cmocka_unit_test(notices_find_a_pack),
		cmocka_unit_test(questions_become_rare),
		cmocka_unit_test(first_sends_given_up),
		cmocka_unit_test(given_up_when_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* As many operations as a channel has numbers: no more are taken, all of them end with the channel, and all come back. */
#include "two.h"

#include <errno.h>
#include <string.h>

#define OPERATIONS 8
#define OPEN	   4
#define SMALL	   100u
#define LARGE	   200000u

static const struct link_attr wire = { .rate_bps = 100000000, .delay_ns = 500 * US };

static void open_two(struct two *two, uint32_t operations, uint32_t peer_operations)
{
	struct two_attr attr = { .link = wire };

	attr.channel[0].operations = operations;
	attr.channel[1].operations = peer_operations;
	two_open(two, &attr);
}

static int post_one(struct two *two, int end, bool receiving)
{
	static uint8_t byte;
	struct gw_op_attr attr = { .addr = &byte, .length = 1 };
	struct gw_op *op;

	return receiving ? gw_channel_recv(two->channel[end], &attr, &op)
			 : gw_channel_send(two->channel[end], &attr, &op);
}

/* The last number of each table too. */
static void all_end_with_the_channel(void **state)
{
	(void)state;
	for (int large = 0; large < 2; large++) {
		uint64_t length = large ? LARGE : SMALL;
		struct act sends[OPERATIONS] = { 0 }, recvs[OPERATIONS] = { 0 };
		struct two two;

		open_two(&two, OPERATIONS, OPERATIONS);
		for (int i = 0; i < OPERATIONS; i++)
			act_recv(&two, 0, length, &recvs[i]);
		assert_int_equal(post_one(&two, 0, true), -ENOBUFS);
		for (int i = 0; i < OPERATIONS; i++)
			act_send(&two, 0, length, (uint64_t)i, &sends[i]);
		assert_int_equal(post_one(&two, 0, false), -ENOBUFS);
		two_run(&two, 20 * MS);
		assert_int_equal(gw_channel_close(two.channel[1]), 0);
		two.channel[1] = NULL;
		world_touch(&two.world, 1);
		two_until(&two, S, two.gone[0]);
		for (int i = 0; i < OPERATIONS; i++) {
			act_check(&sends[i], -ECONNRESET);
			act_check(&recvs[i], -ECONNRESET);
		}
		two_close(&two);
	}
}

/* A peer with fewer numbers has no room for more. */
static void the_smaller_end_counts(void **state)
{
	struct act sends[OPERATIONS] = { 0 }, recvs[OPERATIONS] = { 0 };
	struct two two;

	(void)state;
	open_two(&two, 4 * OPERATIONS, OPERATIONS);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < OPERATIONS; i++)
			act_send(&two, 0, SMALL, (uint64_t)i, &sends[i]);
		assert_int_equal(post_one(&two, 0, false), -ENOBUFS);
		two_run(&two, 20 * MS);
		for (int i = 0; i < OPERATIONS; i++)
			act_recv(&two, 1, SMALL, &recvs[i]);
		for (int i = 0; i < OPERATIONS; i++) {
			two_until(&two, S, sends[i].ended && recvs[i].ended);
			act_check(&sends[i], 0);
			act_check_bytes(&recvs[i], SMALL, (uint64_t)i);
			sends[i] = recvs[i] = (struct act){ 0 };
		}
		two_run(&two, 20 * MS);
	}
	two_close(&two);
}

/* The first ends last: then all numbers are free at once. */
static void numbers_come_back_together(void **state)
{
	struct two two;

	(void)state;
	open_two(&two, OPERATIONS, OPERATIONS);
	for (int round = 0; round < 5; round++) {
		struct act sends[OPERATIONS] = { 0 }, recvs[OPERATIONS] = { 0 };

		for (int i = 0; i < OPERATIONS; i++) {
			act_recv(&two, 1, i ? SMALL : LARGE, &recvs[i]);
			act_send(&two, 0, i ? SMALL : LARGE, (uint64_t)i, &sends[i]);
		}
		two_until(&two, S, sends[OPERATIONS - 1].ended);
		assert_int_equal(sends[0].ended, 0);
		for (int i = 0; i < OPERATIONS; i++) {
			two_until(&two, S, sends[i].ended && recvs[i].ended);
			act_check(&sends[i], 0);
			act_check_bytes(&recvs[i], i ? SMALL : LARGE, (uint64_t)i);
		}
		two_run(&two, 20 * MS);
	}
	two_close(&two);
}

struct reader {
	struct two *two;
	uint8_t bytes[2 * OPERATIONS][SMALL];
	unsigned posted, ended;
};

static void read_on(struct reader *reader);

static void was_read(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct reader *reader = arg;

	assert_int_equal(result->status, 0);
	gw_op_close(op);
	reader->ended++;
	read_on(reader);
}

static void read_on(struct reader *reader)
{
	struct gw_op_attr attr = { .addr = reader->bytes[reader->posted++],
				   .length = SMALL,
				   .done = was_read,
				   .arg = reader };
	struct gw_op *op;

	assert_int_equal(gw_channel_recv(reader->two->channel[1], &attr, &op), 0);
}

/* A receive that has ended needs its number no more, although the peer does not know yet that it took its message: of four that
 * are open at a time none is refused, however many messages wait for them. */
static void few_receives_take_many_messages(void **state)
{
	struct act sends[OPERATIONS] = { 0 };
	struct reader reader = { 0 };
	struct two two;

	(void)state;
	open_two(&two, OPERATIONS, OPERATIONS);
	reader.two = &two;
	for (int i = 0; i < OPERATIONS; i++)
		act_send(&two, 0, SMALL, (uint64_t)i, &sends[i]);
	two_run(&two, 20 * MS);
	for (int i = 0; i < OPEN; i++)
		read_on(&reader);
	world_touch(&two.world, 1);
	for (int i = 0; i < OPERATIONS; i++) {
		two_until(&two, S, sends[i].ended);
		act_check(&sends[i], 0);
	}
	assert_int_equal(reader.ended, OPERATIONS);
	two_close(&two);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_end_with_the_channel),
		cmocka_unit_test(the_smaller_end_counts),
		cmocka_unit_test(numbers_come_back_together),
		cmocka_unit_test(few_receives_take_many_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fabric that has no window for a receive: for now (expose() answers -EAGAIN), or for good (FABRIC_EXPOSE_FAILED). End
 * 1's fabric is one whose expose() and poll() the test answers itself where it says so.
 */
#include "pair.h"

#include <errno.h>
#include <string.h>

#include "message/state.h"

static struct {
	struct fabric_ops ops;
	const struct fabric_ops *real;
	/* Calls of expose() from now on that find no window. */
	unsigned refusals;
	/* Calls of expose() from now on whose window never opens. */
	unsigned failures;
	/* Generation that the last call named, and the last that was accepted. */
	uint32_t asked, accepted;
	/* Events to be told by the next poll. */
	struct fabric_event events[8];
	int count;
} scarce;

static int scarce_expose(struct fabric_qp *qp, uint32_t slot, uint32_t generation,
			 struct fabric_mr *mr, void *addr, uint64_t length, uint32_t payload)
{
	scarce.asked = generation;
	if (scarce.refusals) {
		scarce.refusals--;
		return -EAGAIN;
	}
	scarce.accepted = generation;
	if (!scarce.failures)
		return scarce.real->expose(qp, slot, generation, mr, addr, length, payload);
	scarce.failures--;
	scarce.events[scarce.count++] = (struct fabric_event){
		.type = FABRIC_EXPOSE_FAILED, .slot = slot, .generation = generation, .status = -EIO
	};
	return 0;
}

static int scarce_poll(struct fabric *fabric, struct fabric_event *events)
{
	int n = scarce.count;

	if (!n)
		return scarce.real->poll(fabric, events);
	memcpy(events, scarce.events, (size_t)n * sizeof(*events));
	scarce.count = 0;
	return n;
}

static void open_scarce(struct pair *pair)
{
	static const struct pair_attr attr = { .qp = { .payload = 512, .slots = 4 } };
	struct fabric *fabric;

	pair_open(pair, &attr);
	fabric = pair->ctx[1]->fabric;
	memset(&scarce, 0, sizeof(scarce));
	scarce.real = fabric->ops;
	scarce.ops = *fabric->ops;
	scarce.ops.expose = scarce_expose;
	scarce.ops.poll = scarce_poll;
	fabric->ops = &scarce.ops;
}

static void close_scarce(struct pair *pair)
{
	pair->ctx[1]->fabric->ops = scarce.real;
	pair_close(pair);
}

/* Events name the queue pair that they are for. */
static void name_events(struct pair *pair)
{
	for (int i = 0; i < scarce.count; i++)
		scarce.events[i].user = pair->qp[1];
}

/* A refusal uses up no generation: a NIC shows two bits of it, and a packet of four uses ago would pass. */
static void refused(void **state)
{
	struct seen_recv received = { 0 };
	struct seen_send sent = { 0 };
	struct gw_recv *recv;
	struct pair pair;
	uint32_t first;

	(void)state;
	open_scarce(&pair);
	scarce.refusals = 1;
	recv = pair_recv(&pair, 1, 0, 2000, &received);
	first = scarce.asked;
	assert_int_equal(first, 1);
	for (int i = 0; i < 5; i++) {
		scarce.refusals = 1;
		recv_place(pair.qp[1]);
		assert_int_equal(scarce.refusals, 0);
		assert_int_equal(scarce.asked, first);
	}
	recv_place(pair.qp[1]);
	assert_int_equal(scarce.accepted, first);
	fill_pattern(pair.memory[0], 2000, 1);
	pair_send(&pair, 0, 0, 2000, &sent);
	pair_until(&pair, pair_status(recv).landed == 4);
	assert_memory_equal(pair.memory[0], pair.memory[1], 2000);
	assert_int_equal(gw_recv_complete(recv), 0);
	pair_until(&pair, received.released);
	assert_int_equal(received.status, 0);
	close_scarce(&pair);
}

/* The receive ends with the fabric's reason, released; its sender learns that it is over; those behind it go on. */
static void failed(void **state)
{
	struct seen_recv received[3] = { { 0 } };
	struct seen_send sent[3] = { { 0 } };
	struct gw_recv *recv[3];
	struct pair pair;

	(void)state;
	open_scarce(&pair);
	fill_pattern(pair.memory[0], 2000, 2);
	for (int i = 0; i < 3; i++) {
		scarce.failures = i == 1;
		recv[i] = pair_recv(&pair, 1, 10000 * (uint64_t)i, 2000, &received[i]);
	}
	assert_int_equal(scarce.count, 1);
	name_events(&pair);
	pair_until(&pair, received[1].released);
	assert_int_equal(received[1].status, -EIO);
	assert_int_equal(received[0].released, 0);
	assert_int_equal(gw_recv_complete(recv[1]), -EALREADY);
	for (int i = 0; i < 3; i++)
		pair_send(&pair, 0, 0, 2000, &sent[i]);
	pair_until(&pair, pair_status(recv[2]).landed == 4);
	pair_until(&pair, sent[1].results);
	assert_int_equal(sent[1].missing, GW_MISSING_UNKNOWN);
	assert_int_equal(pair.memory[1][10000], 0);
	assert_memory_equal(pair.memory[0], pair.memory[1] + 20000, 2000);
	assert_int_equal(gw_recv_complete(recv[0]), 0);
	assert_int_equal(gw_recv_complete(recv[2]), 0);
	pair_until(&pair, received[0].released && received[2].released);
	assert_int_equal(received[1].released, 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(gw_recv_close(recv[i]), 0);
	assert_int_equal(gw_mr_deregister(pair.mr[1]), 0);
	close_scarce(&pair);
}

/* The slot can be used again, for the message that comes `slots` later. */
static void used_again(void **state)
{
	struct seen_recv received[9] = { { 0 } };
	struct gw_recv *recv;
	struct pair pair;

	(void)state;
	open_scarce(&pair);
	fill_pattern(pair.memory[0], 2000, 3);
	for (int i = 0; i < 9; i++) {
		struct seen_send sent = { 0 };

		scarce.failures = i % 4 == 0 && i < 8;
		recv = pair_recv(&pair, 1, 0, 2000, &received[i]);
		name_events(&pair);
		pair_send(&pair, 0, 0, 2000, &sent);
		if (i % 4 || i == 8) {
			pair_until(&pair, pair_status(recv).landed == 4);
			assert_int_equal(gw_recv_complete(recv), 0);
		}
		pair_until(&pair, received[i].released && sent.done);
		assert_int_equal(received[i].status, i % 4 || i == 8 ? 0 : -EIO);
	}
	close_scarce(&pair);
}

/* Given up while its window was still to open, or left behind by a queue pair that is over: released once. */
static void already_over(void **state)
{
	struct seen_recv received[2] = { { 0 } };
	struct gw_recv *recv[2];
	struct pair pair;

	(void)state;
	open_scarce(&pair);
	scarce.failures = 2;
	recv[0] = pair_recv(&pair, 1, 0, 2000, &received[0]);
	recv[1] = pair_recv(&pair, 1, 0, 2000, &received[1]);
	name_events(&pair);
	assert_int_equal(gw_recv_complete(recv[0]), 0);
	scarce.count = 1; /* the other's comes after the end */
	pair_until(&pair, received[0].released);
	assert_int_equal(received[0].status, 0);
	assert_int_equal(gw_qp_close(pair.qp[0]), 0);
	pair_until(&pair, pair.gone[1]);
	assert_int_equal(received[1].released, 0);
	scarce.events[0] = scarce.events[1];
	scarce.count = 1;
	pair_until(&pair, received[1].released);
	assert_int_equal(received[1].status, -ECONNRESET);
	assert_int_equal(received[0].released, 1);
	close_scarce(&pair);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused),
		cmocka_unit_test(failed),
		cmocka_unit_test(used_again),
		cmocka_unit_test(already_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How messages end when they do not end well: holes, late data, receives that are too small, requests given up before
 * their turn, queue pairs closed under everything. Afterwards the pools are as full as before.
 */
#include "pair.h"

#include <errno.h>
#include <string.h>

#include "message/state.h"

#define PAYLOAD 512u

static const struct pair_attr plain = { .qp = { .payload = PAYLOAD, .slots = 4 } };

static void assert_whole(struct pair *pair, struct gw_recv *recv, uint64_t in, uint64_t out,
			 uint64_t length)
{
	pair_until(pair, pair_status(recv).flags & GW_RECV_FULL);
	assert_int_equal(pair_status(recv).length, length);
	assert_memory_equal(pair->memory[1] + in, pair->memory[0] + out, length);
}

/* Nothing is left of any request once its handle is closed and the peer knows. */
static void assert_empty(struct pair *pair)
{
	for (int end = 0; end < 2; end++) {
		pair_until(pair, pair->ctx[end]->sends.used == 0);
		pair_until(pair, pair->ctx[end]->recvs.used == 0);
		assert_int_equal(pair->ctx[end]->puts.used, 0);
		assert_int_equal(pair->mr[end]->users, 0);
	}
}

/* Late data never lands: the sender does not know yet and goes on putting. */
static void late_data(void **state)
{
	const uint64_t length = 20 * PAYLOAD;
	uint8_t before[20 * PAYLOAD];
	struct seen_send sent = { 0 };
	struct gw_recv *recv;
	struct gw_send *send;
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	fill_pattern(pair.memory[0], length, 1);
	recv = pair_recv(&pair, 1, 0, length, NULL);
	send = pair_stream(&pair, 0, length, &sent);
	pair_put(&pair, 0, send, 0, length, 3, 5);
	pair_until(&pair, pair_status(recv).landed == 5);
	assert_int_equal(gw_recv_complete(recv), 0);
	memcpy(before, pair.memory[1], length);
	pair_put(&pair, 0, send, 0, length, 0, 20);
	for (int i = 0; i < 10; i++)
		gw_progress(pair.ctx[0]);
	assert_int_equal(counter(pair.ctx[0], "sent_packets"), 25);
	pair_until(&pair, gw_recv_test(recv) == 1 && sent.results);
	assert_memory_equal(pair.memory[1], before, length);
	assert_int_equal(pair_status(recv).landed, 5);
	assert_int_equal(sent.missing, 15);
	assert_int_equal(counter(pair.ctx[1], "drop_slot"), 20);
	assert_int_equal(gw_stream_put(send, 0, pair.memory[0], PAYLOAD, pair.mr[0]), -EALREADY);
	assert_int_equal(gw_stream_end(send), 0);
	pair_until(&pair, sent.done);
	assert_int_equal(sent.status, 0);
	assert_int_equal(gw_recv_close(recv), 0);
	assert_int_equal(gw_send_close(send), 0);
	assert_empty(&pair);
	pair_close(&pair);
}

static void receive_too_small(void **state)
{
	struct seen_send sent = { 0 };
	struct seen_recv received = { 0 };
	struct gw_recv *recv, *next;
	struct gw_send *send;
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	fill_pattern(pair.memory[0], 2000, 2);
	memset(pair.memory[1], 0x77, 3000);
	recv = pair_recv(&pair, 1, 0, 1999, &received);
	next = pair_recv(&pair, 1, 4000, 2000, NULL);
	send = pair_send(&pair, 0, 0, 2000, &sent);
	pair_send(&pair, 0, 0, 2000, NULL);
	pair_until(&pair, sent.done && received.released);
	assert_int_equal(sent.status, -EMSGSIZE);
	assert_int_equal(gw_send_test(send), -EMSGSIZE);
	assert_int_equal(received.status, -EMSGSIZE);
	assert_int_equal(gw_recv_test(recv), -EMSGSIZE);
	assert_false(pair_status(recv).flags & (GW_RECV_ANNOUNCED | GW_RECV_FULL));
	for (unsigned i = 0; i < 3000; i++)
		assert_int_equal(pair.memory[1][i], 0x77);
	assert_whole(&pair, next, 4000, 0, 2000);
	assert_int_equal(counter(pair.ctx[0], "sent_packets"), 4);
	pair_close(&pair);
}

/* Its number is used up: the next send lands in the next receive. */
static void send_abandoned_before_its_grant(void **state)
{
	struct seen_send sent = { 0 };
	struct seen_recv received = { 0 };
	struct gw_recv *first, *second;
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	fill_pattern(pair.memory[0], 9000, 3);
	assert_int_equal(gw_send_close(pair_send(&pair, 0, 0, 3000, &sent)), 0);
	pair_send(&pair, 0, 4000, 3000, NULL);
	pair_idle(&pair, 2);
	first = pair_recv(&pair, 1, 0, 3000, &received);
	second = pair_recv(&pair, 1, 4000, 3000, NULL);
	assert_whole(&pair, second, 4000, 4000, 3000);
	assert_int_equal(sent.done, 0);
	assert_int_equal(pair_status(first).landed, 0);
	assert_int_equal(counter(pair.ctx[0], "sent_packets"), 6);
	assert_int_equal(gw_recv_complete(first), 0);
	assert_int_equal(gw_recv_complete(second), 0);
	pair_until(&pair, gw_recv_test(first) == 1 && gw_recv_test(second) == 1);
	assert_int_equal(gw_recv_close(first), 0);
	assert_int_equal(gw_recv_close(second), 0);
	pair_until(&pair, pair.ctx[1]->recvs.used == 0 && pair.ctx[0]->sends.used == 1);
	pair_close(&pair);
}

/* No more puts will come: a stream that has none ends with its grant, and its receive learns the length. */
static void stream_ended_before_its_grant(void **state)
{
	struct seen_send seen = { 0 };
	struct seen_recv heard = { 0 };
	struct gw_recv *recv;
	struct gw_send *stream;
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	stream = pair_stream(&pair, 0, 5000, &seen);
	assert_int_equal(gw_stream_end(stream), 0);
	pair_idle(&pair, 5);
	assert_int_equal(gw_send_test(stream), 0);
	recv = pair_recv(&pair, 1, 0, 5000, &heard);
	pair_until(&pair, gw_send_test(stream) == 1);
	pair_until(&pair, pair_status(recv).flags & GW_RECV_ANNOUNCED);
	assert_int_equal(pair_status(recv).length, 5000);
	assert_int_equal(pair_status(recv).landed, 0);
	assert_int_equal(gw_send_close(stream), 0);
	assert_int_equal(gw_recv_complete(recv), 0);
	pair_until(&pair, gw_recv_test(recv) == 1);
	assert_int_equal(gw_recv_close(recv), 0);
	pair_close(&pair);
}

static void stream_abandoned_midway(void **state)
{
	struct seen_send sent = { 0 };
	struct gw_recv *recv;
	struct gw_send *send;
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	recv = pair_recv(&pair, 1, 0, 20 * PAYLOAD, NULL);
	send = pair_stream(&pair, 0, 20 * PAYLOAD, &sent);
	pair_put(&pair, 0, send, 0, 20 * PAYLOAD, 0, 4);
	pair_until(&pair, pair_status(recv).landed == 4);
	pair_put(&pair, 0, send, 0, 20 * PAYLOAD, 4, 16);
	assert_int_equal(gw_send_close(send), 0);
	assert_int_equal(gw_send_test(send), -ESTALE);
	pair_idle(&pair, 5);
	assert_int_equal(pair_status(recv).landed, 4);
	assert_int_equal(gw_recv_complete(recv), 0);
	pair_until(&pair, gw_recv_test(recv) == 1);
	assert_int_equal(gw_recv_close(recv), 0);
	assert_int_equal(sent.done + sent.results, 0);
	assert_empty(&pair);
	pair_close(&pair);
}

/* Receive `given_up` of ten is completed before anything; all others carry their messages. */
static void try_giving_up(unsigned given_up, bool at_once)
{
	enum { MESSAGES = 10, ROOM = 2048 };
	struct seen_send sent[MESSAGES] = { { 0 } };
	struct gw_recv *recvs[MESSAGES];
	struct gw_send *sends[MESSAGES];
	struct pair pair;

	pair_open(&pair, &plain);
	fill_pattern(pair.memory[0], MESSAGES * ROOM, 4);
	for (unsigned i = 0; i < MESSAGES; i++) {
		recvs[i] = pair_recv(&pair, 1, i * ROOM, ROOM, NULL);
		if (at_once && i == given_up)
			assert_int_equal(gw_recv_complete(recvs[i]), 0);
	}
	if (!at_once) {
		pair_idle(&pair, 5);
		assert_int_equal(gw_recv_complete(recvs[given_up]), 0);
	}
	pair_until(&pair, gw_recv_test(recvs[given_up]) == 1);
	for (unsigned i = 0; i < MESSAGES; i++)
		sends[i] = pair_stream(&pair, 0, ROOM, &sent[i]);
	for (unsigned i = 0; i < MESSAGES; i++) {
		if (i == given_up)
			continue;
		pair_put(&pair, 0, sends[i], i * ROOM, ROOM, 0, ROOM / PAYLOAD);
		assert_whole(&pair, recvs[i], i * ROOM, i * ROOM, ROOM);
		assert_int_equal(gw_recv_complete(recvs[i]), 0);
	}
	for (unsigned i = 0; i < MESSAGES; i++) {
		pair_until(&pair, sent[i].results && gw_recv_test(recvs[i]) == 1);
		assert_int_equal(sent[i].missing, i == given_up ? GW_MISSING_UNKNOWN : 0);
		assert_int_equal(gw_recv_close(recvs[i]), 0);
		assert_int_equal(gw_send_close(sends[i]), 0);
	}
	for (unsigned i = 0; i < ROOM; i++)
		assert_int_equal(pair.memory[1][given_up * ROOM + i], 0);
	assert_empty(&pair);
	pair_close(&pair);
}

/* Waiting for a slot, and waiting in one. */
static void receive_given_up_before_its_turn(void **state)
{
	(void)state;
	try_giving_up(7, true);
	try_giving_up(7, false);
	try_giving_up(2, false);
}

/* Before its grant ever left: the sender hears of grant and completion at once. */
static void receive_given_up_when_posted(void **state)
{
	(void)state;
	try_giving_up(0, true);
	try_giving_up(2, true);
}

struct everything {
	struct gw_recv *recvs[12];
	struct seen_recv received[12];
	struct gw_send *sends[12];
	struct seen_send sent[12];
};

/* Requests in every state there is. */
static void open_everything(struct pair *pair, struct everything *all)
{
	memset(all, 0, sizeof(*all));
	for (unsigned i = 0; i < 12; i++)
		all->recvs[i] = pair_recv(pair, 0, 2048 * i, 2048, &all->received[i]);
	for (unsigned i = 0; i < 4; i++)
		pair_recv(pair, 1, 2048 * i, 2048, NULL);
	all->sends[0] = pair_send(pair, 0, 0, 2048, &all->sent[0]);
	for (unsigned i = 1; i < 12; i++)
		all->sends[i] = pair_stream(pair, 0, 2048, &all->sent[i]);
	pair_until(pair, all->sent[0].done && all->sent[3].granted);
	pair_put(pair, 0, all->sends[1], 0, 2048, 0, 4);
	assert_int_equal(gw_stream_end(all->sends[2]), 0);
	pair_send(pair, 1, 0, 1000, NULL);
	pair_until(pair, all->received[0].progress);
	assert_int_equal(gw_recv_complete(all->recvs[0]), 0);
	pair_until(pair, all->received[0].released);
	assert_int_equal(gw_recv_complete(all->recvs[1]), 0); /* its fence is still to come */
	assert_int_equal(gw_recv_complete(all->recvs[10]), 0);
	/* Waiting puts. */
	assert_int_equal(gw_stream_put(all->sends[3], 0, pair->memory[0], 2048, pair->mr[0]), 0);
}

static void assert_all_ended(struct pair *pair, struct everything *all, int status)
{
	for (unsigned i = 0; i < 12; i++) {
		bool ended_before = i == 0 || i == 2;

		pair_until(pair, all->sent[i].done && all->received[i].released);
		assert_int_equal(all->sent[i].done, 1);
		assert_int_equal(all->received[i].released, 1);
		assert_int_equal(all->sent[i].status, ended_before ? 0 : status);
		assert_int_equal(all->received[i].status, i == 0 || i == 1 || i == 10 ? 0 : status);
		assert_int_equal(gw_send_close(all->sends[i]), 0);
		assert_int_equal(gw_recv_close(all->recvs[i]), 0);
	}
	assert_int_equal(pair->ctx[0]->sends.used, 0);
	assert_int_equal(pair->ctx[0]->recvs.used, 0);
	assert_int_equal(pair->ctx[0]->puts.used, 0);
	assert_int_equal(pair->ctx[0]->grants.used, 0);
	assert_int_equal(pair->mr[0]->users, 0);
}

static void close_with_everything_open(void **state)
{
	struct everything all;
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	open_everything(&pair, &all);
	assert_int_equal(gw_qp_close(pair.qp[0]), 0);
	assert_all_ended(&pair, &all, -ECANCELED);
	assert_int_equal(arena_used(&pair.ctx[0]->arena), 0);
	pair_until(&pair, pair.gone[1]);
	assert_int_equal(pair.gone_status[1], -ECONNRESET);
	assert_int_equal(pair.gone[0], 0);
	pair_close(&pair);
}

static void peer_closes_with_everything_open(void **state)
{
	struct everything all;
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	open_everything(&pair, &all);
	assert_int_equal(gw_qp_close(pair.qp[1]), 0);
	assert_all_ended(&pair, &all, -ECONNRESET);
	assert_int_equal(pair.gone[0], 1);
	assert_int_equal(pair.gone_status[0], -ECONNRESET);
	assert_int_equal(gw_qp_close(pair.qp[0]), 0);
	assert_int_equal(arena_used(&pair.ctx[0]->arena), 0);
	pair_close(&pair);
}

/* Handles and even the queue pair closed in the callbacks themselves. */
struct closer {
	struct gw_qp *qp; /* closed by the first that is called, if not null */
	unsigned called;
};

static void close_send(struct gw_send *send, void *arg, int status, uint64_t now)
{
	((struct closer *)arg)->called++;
	assert_int_equal(gw_send_close(send), 0);
}

static void close_recv(struct gw_recv *recv, void *arg, int status, uint64_t now)
{
	((struct closer *)arg)->called++;
	assert_int_equal(gw_recv_close(recv), 0);
}

static void close_qp(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct closer *closer = arg;

	if (closer->qp)
		assert_int_equal(gw_qp_close(closer->qp), 0);
	closer->qp = NULL;
}

static void closed_in_callbacks(void **state)
{
	static const struct gw_send_handler on_send = { .done = close_send };
	static const struct gw_recv_handler on_recv = { .progress = close_qp,
							.released = close_recv };
	struct closer closer = { 0 };
	struct gw_send_attr send_attr = { .length = 4000, .handler = &on_send, .arg = &closer };
	struct gw_recv_attr recv_attr = { .length = 4000, .handler = &on_recv, .arg = &closer };
	struct gw_send *send;
	struct gw_recv *recv;
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	closer.qp = pair.qp[1];
	for (unsigned i = 0; i < 8; i++) {
		send_attr.addr = pair.memory[0];
		send_attr.mr = pair.mr[0];
		recv_attr.addr = pair.memory[1] + 4000 * i;
		recv_attr.mr = pair.mr[1];
		assert_int_equal(gw_send_post(pair.qp[0], &send_attr, &send), 0);
		assert_int_equal(gw_recv_post(pair.qp[1], &recv_attr, &recv), 0);
	}
	pair_until(&pair, closer.called == 16);
	assert_int_equal(pair.ctx[0]->sends.used, 0);
	assert_int_equal(pair.ctx[1]->recvs.used, 0);
	pair_close(&pair);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(late_data),
		cmocka_unit_test(receive_too_small),
		cmocka_unit_test(send_abandoned_before_its_grant),
		cmocka_unit_test(stream_ended_before_its_grant),
		cmocka_unit_test(stream_abandoned_midway),
		cmocka_unit_test(receive_given_up_before_its_turn),
		cmocka_unit_test(receive_given_up_when_posted),
		cmocka_unit_test(close_with_everything_open),
		cmocka_unit_test(peer_closes_with_everything_open),
		cmocka_unit_test(closed_in_callbacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

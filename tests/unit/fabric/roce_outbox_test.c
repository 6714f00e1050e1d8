/* SPDX-License-Identifier: BSD-3-Clause */
/* How control leaves a socket: together with that of other queue pairs, when it is flushed, and whole at the other end. */
#include "../message/pair.h"

#include <errno.h>
#include <string.h>

#include "fabric/open.h"
#include "fabric/roce/endpoint.h"
#include "socket_spy.h"

#define QPS	    4u
#define PAYLOAD	    1436u
#define PATIENCE_NS UINT64_C(5000000000)
#define BYTES_MOST  8000u

struct ends {
	struct fabric *from, *to;
	struct fabric_qp *sender[QPS], *receiver[QPS];
	/* Datagrams sent by each queue pair, and received. */
	uint32_t sent[QPS], received[QPS];
};

static void connect_to(struct fabric *fabric, struct fabric_qp *qp, const struct fabric_qp *peer)
{
	uint8_t address[FABRIC_ADDRESS_MAX];
	size_t length = fabric->ops->qp_address(peer, address);

	assert_int_equal(fabric->ops->qp_connect(qp, address, length, PAYLOAD), 0);
}

static void meet(struct ends *ends, const char *where)
{
	memset(ends, 0, sizeof(*ends));
	assert_int_equal(fabric_open(where, NULL, &ends->from), 0);
	assert_int_equal(fabric_open(where, NULL, &ends->to), 0);
	for (uint32_t i = 0; i < QPS; i++) {
		struct fabric_qp_attr attr = { .split = { 10, 18, 4 },
					       .slots = 1,
					       .user = &ends->received[i] };

		assert_int_equal(ends->from->ops->qp_create(ends->from, &attr, &ends->sender[i]),
				 0);
		assert_int_equal(ends->to->ops->qp_create(ends->to, &attr, &ends->receiver[i]), 0);
		connect_to(ends->from, ends->sender[i], ends->receiver[i]);
		connect_to(ends->to, ends->receiver[i], ends->sender[i]);
	}
	spy_reset();
}

static void part(struct ends *ends)
{
	for (uint32_t i = 0; i < QPS; i++) {
		ends->from->ops->qp_destroy(ends->sender[i]);
		ends->to->ops->qp_destroy(ends->receiver[i]);
	}
	ends->from->ops->close(ends->from);
	ends->to->ops->close(ends->to);
}

/* A datagram whose bytes tell its queue pair, its number and its length. */
static void say(struct ends *ends, uint32_t qp, uint32_t length)
{
	uint8_t bytes[BYTES_MOST];

	memset(bytes, (int)(qp + length), length);
	bytes[0] = (uint8_t)ends->sent[qp]++;
	assert_int_equal(ends->from->ops->control(ends->sender[qp], bytes, length), 0);
}

static void check(const struct ends *ends, const struct fabric_event *event)
{
	uint32_t *received = event->user;
	uint32_t qp = (uint32_t)(received - ends->received), length = event->control.length;

	assert_int_equal(event->type, FABRIC_CONTROL);
	assert_in_range(qp, 0, QPS - 1);
	for (uint32_t i = 1; i < length; i++)
		assert_int_equal(event->control.bytes[i], (uint8_t)(qp + length));
	++*received;
}

/* Until as many datagrams have arrived as were sent, less those that were lost. */
static void hear(struct ends *ends, uint32_t lost)
{
	uint64_t limit = ends->to->ops->now_ns(ends->to) + PATIENCE_NS;
	struct fabric_event events[FABRIC_EVENTS];
	uint32_t sent, received;
	int n;

	do {
		n = ends->to->ops->poll(ends->to, events);
		for (int i = 0; i < n; i++)
			check(ends, &events[i]);
		sent = received = 0;
		for (uint32_t i = 0; i < QPS; i++) {
			sent += ends->sent[i];
			received += ends->received[i];
		}
		assert_true(ends->to->ops->now_ns(ends->to) < limit);
	} while (n || received + lost < sent);
	assert_int_equal(received + lost, sent);
	assert_int_equal(ends->from->counters[FABRIC_TX_CONTROL], received);
	assert_int_equal(ends->to->counters[FABRIC_DROP_ICRC], 0);
}

static void flush(struct ends *ends)
{
	ends->from->ops->flush(ends->from);
}

/* Those of one length make a batch, and all others one call. */
static void leave_together(void **state)
{
	static const char *const where[] = { "roce:127.0.0.1@0", "roce:::1@0" };
	struct ends ends;

	(void)state;
	for (size_t family = 0; family < 2; family++) {
		meet(&ends, where[family]);
		for (uint32_t i = 0; i < QPS; i++) {
			say(&ends, i, 100);
			say(&ends, i, 200 + 4 * i);
		}
		assert_int_equal(spy.calls[SPY_BATCH] + spy.calls[SPY_CONTROL], 0);
		flush(&ends);
		assert_int_equal(spy.calls[SPY_BATCH], 1);
		assert_int_equal(spy.calls[SPY_CONTROL], 1);
		hear(&ends, 0);
		flush(&ends);
		assert_int_equal(spy.calls[SPY_BATCH], 1);
		assert_int_equal(spy.calls[SPY_CONTROL], 1);
		part(&ends);
	}
}

/* More than the outbox holds, in number and in bytes: they leave in time. Those that are longer than control leave one by one,
 * though in one call. */
static void full(void **state)
{
	struct ends ends;

	(void)state;
	meet(&ends, "roce:127.0.0.1@0");
	for (uint32_t i = 0; i < 200; i++)
		say(&ends, i % QPS, 60);
	assert_int_equal(spy.calls[SPY_BATCH], 200 / OUTBOX_DATAGRAMS);
	flush(&ends);
	hear(&ends, 0);
	spy_reset();
	for (uint32_t i = 0; i < 40; i++)
		say(&ends, i % QPS, BYTES_MOST);
	assert_int_equal(spy.calls[SPY_BATCH], 0);
	assert_int_equal(spy.calls[SPY_CONTROL], 4);
	flush(&ends);
	hear(&ends, 0);
	part(&ends);
}

/* A device that takes no batches: they leave one by one with an ICRC for that, and those after them for ten seconds. */
static void refused_batch(void **state)
{
	struct ends ends;

	(void)state;
	meet(&ends, "roce:127.0.0.1@0");
	spy_refuse(SPY_BATCH, EIO, 1);
	for (int i = 0; i < 2; i++) {
		for (uint32_t qp = 0; qp < QPS; qp++)
			say(&ends, qp, 100);
		flush(&ends);
		assert_int_equal(spy.calls[SPY_BATCH], 0);
		assert_int_equal(spy.calls[SPY_CONTROL], i + 1);
		hear(&ends, 0);
	}
	endpoint_of(ends.from)->outbox.batches_again_ns -= UINT64_C(10000000000);
	for (uint32_t qp = 0; qp < QPS; qp++)
		say(&ends, qp, 100);
	flush(&ends);
	assert_int_equal(spy.calls[SPY_BATCH], 1);
	hear(&ends, 0);
	assert_int_equal(ends.from->counters[FABRIC_TX_ERRORS], 0);
	part(&ends);
}

/* What finds no room is lost; it does not stay in front of what follows. */
static void no_room(void **state)
{
	struct ends ends;

	(void)state;
	meet(&ends, "roce:127.0.0.1@0");
	spy_refuse(SPY_BATCH, EAGAIN, 1);
	spy_refuse(SPY_CONTROL, EAGAIN, 1);
	for (uint32_t i = 0; i < QPS; i++)
		say(&ends, i, 100);
	say(&ends, 0, 200);
	flush(&ends);
	assert_int_equal(ends.from->counters[FABRIC_TX_BUSY], 2);
	for (uint32_t i = 0; i < QPS; i++)
		say(&ends, i, 100);
	flush(&ends);
	hear(&ends, QPS + 1);
	part(&ends);
}

/* A queue pair may go before what it said has left. */
static void closed_before(void **state)
{
	struct ends ends;

	(void)state;
	meet(&ends, "roce:127.0.0.1@0");
	say(&ends, 0, 100);
	say(&ends, 1, 100);
	for (uint32_t i = 0; i < QPS; i++)
		ends.from->ops->qp_destroy(ends.sender[i]);
	flush(&ends);
	hear(&ends, 0);
	for (uint32_t i = 0; i < QPS; i++)
		ends.to->ops->qp_destroy(ends.receiver[i]);
	ends.from->ops->close(ends.from);
	ends.to->ops->close(ends.to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leave_together), cmocka_unit_test(full),
		cmocka_unit_test(refused_batch),  cmocka_unit_test(no_room),
		cmocka_unit_test(closed_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

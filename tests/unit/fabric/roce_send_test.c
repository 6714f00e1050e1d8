/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How packets leave a socket: in how many system calls, and what follows when the host takes no batch, no packet, or
 * nothing just now.
 */
#include "../message/pair.h"

#include <errno.h>
#include <string.h>

#include "fabric/address.h"
#include "fabric/open.h"
#include "fabric/roce/endpoint.h"
#include "message/state.h"
#include "socket_spy.h"

#define PAYLOAD	    1436u
#define PACKETS	    40u
#define PATIENCE_NS UINT64_C(5000000000)
/* Data packets of 1436 bytes are 1472 with their headers: 44 make a batch of at most 65000. */
#define BATCH_1436 44u
#define BATCH_8936 7u

struct ends {
	struct fabric *from, *to;
	/* Two queue pairs of the sender's, to one peer each. */
	struct fabric_qp *sender[2], *receiver[2];
	struct fabric_target target[2];
	uint32_t landed;
};

static uint8_t source[PACKETS * PAYLOAD], sink[2][PACKETS * PAYLOAD];

static void connect_to(struct fabric *fabric, struct fabric_qp *qp, const struct fabric_qp *peer)
{
	uint8_t address[FABRIC_ADDRESS_MAX];
	size_t length = fabric->ops->qp_address(peer, address);

	assert_int_equal(fabric->ops->qp_connect(qp, address, length, PAYLOAD), 0);
}

static void meet(struct ends *ends, const struct fabric_faults *faults)
{
	struct fabric_qp_attr attr = { .split = { 10, 18, 4 }, .slots = 1 };
	struct fabric_options options = { .faults = faults };
	struct fabric_event events[FABRIC_EVENTS];

	memset(ends, 0, sizeof(*ends));
	fill_pattern(source, sizeof(source), 7);
	memset(sink, 0, sizeof(sink));
	assert_int_equal(fabric_open("roce:127.0.0.1@0", &options, &ends->from), 0);
	assert_int_equal(fabric_open("roce:127.0.0.1@0", NULL, &ends->to), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ends->from->ops->qp_create(ends->from, &attr, &ends->sender[i]),
				 0);
		assert_int_equal(ends->to->ops->qp_create(ends->to, &attr, &ends->receiver[i]), 0);
		connect_to(ends->from, ends->sender[i], ends->receiver[i]);
		connect_to(ends->to, ends->receiver[i], ends->sender[i]);
		assert_int_equal(ends->to->ops->expose(ends->receiver[i], 0, 1, NULL, sink[i],
						       sizeof(sink[i]), PAYLOAD),
				 0);
		assert_int_equal(ends->to->ops->poll(ends->to, events), 1);
		ends->target[i].rkey = events[0].exposed.rkey;
	}
	spy_reset();
}

static void part(struct ends *ends)
{
	for (int i = 0; i < 2; i++) {
		ends->from->ops->qp_destroy(ends->sender[i]);
		ends->to->ops->qp_destroy(ends->receiver[i]);
	}
	ends->from->ops->close(ends->from);
	ends->to->ops->close(ends->to);
}

/* All packets on one of the queue pairs; how many were taken. */
static int put(struct ends *ends, int which)
{
	struct fabric_write writes[PACKETS];

	for (uint32_t i = 0; i < PACKETS; i++)
		writes[i] = (struct fabric_write){ .data = source + i * PAYLOAD,
						   .length = PAYLOAD,
						   .packet = i,
						   .va = i * PAYLOAD };
	return ends->from->ops->write(ends->sender[which], 0, &ends->target[which], writes,
				      PACKETS);
}

/* Until so many packets have landed, and no more come. */
static void take(struct ends *ends, uint32_t packets)
{
	uint64_t limit = ends->to->ops->now_ns(ends->to) + PATIENCE_NS;
	struct fabric_event events[FABRIC_EVENTS];
	int n;

	do {
		n = ends->to->ops->poll(ends->to, events);
		for (int i = 0; i < n; i++)
			ends->landed += events[i].type == FABRIC_DATA ? events[i].data.more + 1 : 0;
		assert_true(ends->to->ops->now_ns(ends->to) < limit);
	} while (ends->landed < packets || n);
	assert_int_equal(ends->landed, packets);
	ends->landed = 0;
}

static uint64_t errors(const struct ends *ends)
{
	return ends->from->counters[FABRIC_TX_ERRORS];
}

/* An error that says nothing about batches: the packets are lost, and the next ones leave in a batch as before. */
static void lost_batch(void **state)
{
	static const int reasons[] = { EPERM, EACCES, ENETUNREACH, EHOSTUNREACH, ENOBUFS };
	struct ends ends;

	(void)state;
	meet(&ends, NULL);
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		spy_refuse(SPY_BATCH, reasons[i], 1);
		assert_int_equal(put(&ends, 0), PACKETS);
		assert_int_equal(errors(&ends), (i + 1) * PACKETS);
		assert_int_equal(spy.calls[SPY_BATCH], i);
		assert_int_equal(put(&ends, 0), PACKETS);
		assert_int_equal(spy.calls[SPY_BATCH], i + 1);
		take(&ends, PACKETS);
	}
	assert_int_equal(spy.calls[SPY_DATA], 0);
	part(&ends);
}

/* A peer that says that it is everybody: the host refuses to send there, and goes on with the others as before. */
static void peer_is_everybody(void **state)
{
	uint8_t address[FABRIC_ADDRESS_MAX];
	struct ends ends;
	size_t length;

	(void)state;
	meet(&ends, NULL);
	length = ends.to->ops->qp_address(ends.receiver[1], address);
	memset(address + 4, 0xff, 4);
	assert_int_equal(ends.from->ops->qp_connect(ends.sender[1], address, length, PAYLOAD), 0);
	assert_int_equal(put(&ends, 1), PACKETS);
	assert_int_equal(errors(&ends), PACKETS);
	assert_int_equal(put(&ends, 0), PACKETS);
	assert_int_equal(spy.calls[SPY_DATA], 0);
	take(&ends, PACKETS);
	part(&ends);
}

/* A device that takes packets and no batches: they leave one by one, to this peer alone, and not for ever. */
static void refused_batch(void **state)
{
	static const int reasons[] = { EIO, EINVAL, EOPNOTSUPP, EMSGSIZE, 524 };
	struct ends ends;

	(void)state;
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		meet(&ends, NULL);
		spy_refuse(SPY_BATCH, reasons[i], 1);
		assert_int_equal(put(&ends, 0), PACKETS);
		take(&ends, PACKETS);
		assert_memory_equal(source, sink[0], sizeof(source));
		assert_int_equal(errors(&ends), 0);
		assert_int_equal(spy.calls[SPY_DATA], 2);
		assert_int_equal(put(&ends, 0), PACKETS);
		assert_int_equal(spy.calls[SPY_DATA], 3);
		assert_int_equal(spy.calls[SPY_BATCH], 0);
		take(&ends, PACKETS);
		assert_int_equal(put(&ends, 1), PACKETS);
		assert_int_equal(spy.calls[SPY_BATCH], 1);
		take(&ends, PACKETS);
		/* Ten seconds later. */
		roce_qp(ends.sender[0])->segments_again_ns -= UINT64_C(10000000000);
		assert_int_equal(put(&ends, 0), PACKETS);
		assert_int_equal(spy.calls[SPY_BATCH], 2);
		take(&ends, PACKETS);
		part(&ends);
	}
}

/* Single packets are refused as well: that is no reason to go without batches. */
static void refused_all(void **state)
{
	struct ends ends;

	(void)state;
	meet(&ends, NULL);
	spy_refuse(SPY_BATCH, EINVAL, 1);
	spy_refuse(SPY_DATA, EMSGSIZE, 1);
	assert_int_equal(put(&ends, 0), PACKETS);
	assert_int_equal(errors(&ends), PACKETS);
	assert_int_equal(spy.calls[SPY_DATA], 0);
	assert_int_equal(put(&ends, 0), PACKETS);
	assert_int_equal(spy.calls[SPY_BATCH], 1);
	take(&ends, PACKETS);
	part(&ends);
}

/* No room for what was left of a refused batch: those are tried again later, the others are not. */
static void refused_then_full(void **state)
{
	struct ends ends;

	(void)state;
	meet(&ends, NULL);
	spy_refuse(SPY_BATCH, EIO, 1);
	spy_refuse(SPY_DATA, EAGAIN, 1);
	assert_int_equal(put(&ends, 0), 0);
	assert_int_equal(put(&ends, 0), PACKETS);
	assert_int_equal(spy.calls[SPY_BATCH], 1);
	assert_int_equal(errors(&ends), 0);
	take(&ends, PACKETS);
	part(&ends);
}

/* Injected faults are drawn once for each packet, also where its batch is refused and sent anew. */
static void faults_drawn_once(void **state)
{
	struct fabric_faults faults = { .drop = 0.25, .seed = 5 };
	struct ends ends;
	uint64_t dropped;

	(void)state;
	meet(&ends, &faults);
	spy_refuse(SPY_BATCH, EIO, 1);
	assert_int_equal(put(&ends, 0), PACKETS);
	dropped = ends.from->counters[FABRIC_FAULT_DROPPED];
	assert_in_range(dropped, 2, 20);
	take(&ends, PACKETS - (uint32_t)dropped);
	part(&ends);
}

/* A socket that is full: whoever has data sleeps until it is not, and is woken then; nobody is woken again and again. */
static void full_socket(void **state)
{
	struct ends ends;

	(void)state;
	meet(&ends, NULL);
	spy_refuse(SPY_BATCH, EAGAIN, 1);
	assert_int_equal(put(&ends, 0), 0);
	assert_int_equal(ends.from->counters[FABRIC_TX_BUSY], 1);
	/* Writable at once; then there is nothing more to wake for. */
	assert_int_equal(fabric_wait(ends.from, UINT64_MAX), 0);
	for (int i = 0; i < 3; i++) {
		uint64_t now = ends.from->ops->now_ns(ends.from);

		assert_int_equal(fabric_wait(ends.from, now + 2000000), 0);
		assert_true(ends.from->ops->now_ns(ends.from) >= now + 2000000);
	}
	part(&ends);
}

/* A receiver whose only fault is that one of its control datagrams found no room. */
static void control_finds_no_room(void **state)
{
	static const struct pair_attr attr = { .qp = { .payload = 512 } };
	struct pair pair;
	uint64_t until;

	(void)state;
	pair_open(&pair, &attr);
	pair_idle(&pair, 20);
	spy_refuse(SPY_CONTROL, EAGAIN, 1);
	pair_recv(&pair, 1, 0, 1000, NULL);
	while (spy.refusals[SPY_CONTROL])
		assert_true(gw_progress(pair.ctx[1]) >= 0);
	spy.sleeps = 0;
	until = gw_now_ns(pair.ctx[1]) + 100000000;
	while (gw_now_ns(pair.ctx[1]) < until)
		assert_true(gw_wait(pair.ctx[1], until - gw_now_ns(pair.ctx[1])) >= 0);
	/* Timers wake it a few times a repeat; a socket that is always writable does so a hundred thousand times. */
	assert_in_range(spy.sleeps, 1, 100);
	pair_close(&pair);
}

/* Sends 1 MiB and returns how many system calls the data took. */
static unsigned calls_for_a_mib(uint32_t payload)
{
	const struct pair_attr attr = { .qp = { .payload = payload } };
	struct seen_recv received = { 0 };
	struct seen_send first = { 0 }, sent = { 0 };
	struct gw_recv *recv;
	struct pair pair;
	uint32_t packets = ((1u << 20) + payload - 1) / payload;
	unsigned calls;

	pair_open(&pair, &attr);
	/* Packets of this size are in use once probes of it have arrived. */
	recv = pair_recv(&pair, 1, 0, 1000, NULL);
	pair_send(&pair, 0, 0, 1000, &first);
	pair_until(&pair, pair_status(recv).flags & GW_RECV_FULL);
	assert_int_equal(gw_recv_complete(recv), 0);
	pair_until(&pair, pair.qp[1]->size.named == payload);
	recv = pair_recv(&pair, 1, 0, 1u << 20, &received);
	pair_idle(&pair, 5);
	spy_reset();
	pair_send(&pair, 0, 0, 1u << 20, &sent);
	pair_until(&pair, sent.done);
	calls = spy.calls[SPY_BATCH] + spy.calls[SPY_DATA];
	pair_until(&pair, pair_status(recv).landed == packets);
	assert_int_equal(counter(pair.ctx[0], "retransmitted_packets"), 0);
	assert_int_equal(gw_recv_complete(recv), 0);
	pair_until(&pair, received.released);
	pair_close(&pair);
	return calls;
}

/* No packet leaves alone behind a full batch: 731 packets of 1436 bytes take 17 calls, 118 of 8936 take 17. The bounds
 * leave room for a receiver's window that ends within a batch. */
static void calls_a_mib(void **state)
{
	struct ends ends;

	(void)state;
	meet(&ends, NULL);
	assert_int_equal(ends.from->ops->batch(ends.sender[0], 1436), BATCH_1436);
	assert_int_equal(ends.from->ops->batch(ends.sender[0], 8936), BATCH_8936);
	assert_int_equal(ends.from->ops->batch(ends.sender[0], 64), 64);
	part(&ends);
	assert_in_range(calls_for_a_mib(1436), 17, 20);
	assert_in_range(calls_for_a_mib(8936), 17, 20);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_batch),	     cmocka_unit_test(peer_is_everybody),
		cmocka_unit_test(refused_batch),     cmocka_unit_test(refused_all),
		cmocka_unit_test(refused_then_full), cmocka_unit_test(faults_drawn_once),
		cmocka_unit_test(full_socket),	     cmocka_unit_test(control_finds_no_room),
		cmocka_unit_test(calls_a_mib),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data that the kernel holds until its departure: what a queueing discipline's description says, the time that goes with a
 * packet, and how much is handed over. Loopback holds nothing, so that the packets of this test leave at once.
 */
#include "../message/pair.h"

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "fabric/open.h"
#include "fabric/roce/endpoint.h"
#include "fabric/roce/qdisc.h"
#include "socket_spy.h"

#define PAYLOAD 1436u
#define PACKETS 40u
#define MS	UINT64_C(1000000)

/* An answer of the kernel's, as far as it is built. */
struct answer {
	_Alignas(struct nlmsghdr) uint8_t bytes[2048];
	size_t length;
};

static void say(struct answer *answer, int interface, uint32_t parent, const char *kind)
{
	struct nlmsghdr *message = (void *)(answer->bytes + answer->length);
	struct tcmsg *qdisc = NLMSG_DATA(message);
	struct rtattr *attr = (void *)((uint8_t *)qdisc + NLMSG_ALIGN(sizeof(*qdisc)));

	message->nlmsg_type = RTM_NEWQDISC;
	qdisc->tcm_ifindex = interface;
	qdisc->tcm_parent = parent;
	attr->rta_type = TCA_KIND;
	attr->rta_len = (unsigned short)RTA_LENGTH(strlen(kind) + 1);
	memcpy(RTA_DATA(attr), kind, strlen(kind) + 1);
	message->nlmsg_len = (uint32_t)(NLMSG_LENGTH(sizeof(*qdisc)) + RTA_ALIGN(attr->rta_len));
	answer->length += NLMSG_ALIGN(message->nlmsg_len);
}

static bool held_by(const struct answer *answer)
{
	struct qdisc_view view = { .interface = 2 };

	assert_true(qdisc_take(&view, answer->bytes, answer->length));
	return qdisc_view_holds(&view);
}

static void only_fq_holds_packets(void **state)
{
	static const char *const others[] = { "pfifo_fast", "fq_codel", "noqueue", "f", "etf" };
	struct answer answer = { 0 };

	(void)state;
	assert_false(held_by(&answer));
	say(&answer, 1, TC_H_ROOT, "fq");
	assert_false(held_by(&answer));
	say(&answer, 2, TC_H_INGRESS, "fq");
	assert_false(held_by(&answer));
	say(&answer, 2, TC_H_ROOT, "fq");
	say(&answer, 3, TC_H_ROOT, "pfifo_fast");
	assert_true(held_by(&answer));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		memset(&answer, 0, sizeof(answer));
		say(&answer, 2, TC_H_ROOT, others[i]);
		assert_false(held_by(&answer));
	}
	/* Below something that has one queue and another rule. */
	memset(&answer, 0, sizeof(answer));
	say(&answer, 2, TC_H_ROOT, "htb");
	say(&answer, 2, 0x10001, "fq");
	assert_false(held_by(&answer));
}

static void all_queues_hold_packets(void **state)
{
	struct answer answer = { 0 };

	(void)state;
	say(&answer, 2, TC_H_ROOT, "mq");
	assert_false(held_by(&answer));
	say(&answer, 2, 1, "fq");
	say(&answer, 3, 1, "fq_codel");
	say(&answer, 2, 2, "fq");
	say(&answer, 2, TC_H_INGRESS, "clsact");
	assert_true(held_by(&answer));
	say(&answer, 2, 3, "fq_codel");
	assert_false(held_by(&answer));
}

static void an_answer_ends(void **state)
{
	struct qdisc_view view = { .interface = 2 };
	struct answer answer = { 0 };
	struct nlmsghdr *message;

	(void)state;
	say(&answer, 2, TC_H_ROOT, "fq");
	/* Cut short, or with an attribute that is longer than its message. */
	for (size_t length = 0; length < answer.length; length++) {
		struct qdisc_view cut = { .interface = 2 };

		qdisc_take(&cut, answer.bytes, length);
		assert_false(qdisc_view_holds(&cut));
	}
	message = (void *)(answer.bytes + answer.length);
	message->nlmsg_len = NLMSG_LENGTH(0);
	message->nlmsg_type = NLMSG_DONE;
	assert_false(qdisc_take(&view, answer.bytes, answer.length + message->nlmsg_len));
	assert_true(qdisc_view_holds(&view));
	message->nlmsg_type = NLMSG_ERROR;
	assert_false(qdisc_take(&view, message, message->nlmsg_len));
}

/* Whatever this machine answers, about its own loopback it says no. */
static void loopback_holds_nothing(void **state)
{
	union socket_address local;

	(void)state;
	assert_int_equal(address_parse("127.0.0.1@1", &local), 0);
	assert_false(qdisc_holds(&local.any, &local.any));
	assert_int_equal(address_parse("::1@1", &local), 0);
	assert_false(qdisc_holds(&local.any, &local.any));
}

struct end {
	struct fabric *fabric;
	struct fabric_qp *qp;
};

static void open_end(struct end *end, bool departures)
{
	struct fabric_qp_attr attr = { .split = { 10, 18, 4 }, .slots = 1 };
	struct fabric_options options = { .no_departures = !departures };

	assert_int_equal(fabric_open("roce:127.0.0.1@0", &options, &end->fabric), 0);
	assert_int_equal(end->fabric->ops->qp_create(end->fabric, &attr, &end->qp), 0);
}

static void connect_end(struct end *end, const struct end *peer)
{
	uint8_t address[FABRIC_ADDRESS_MAX];
	size_t length = peer->fabric->ops->qp_address(peer->qp, address);

	assert_int_equal(end->fabric->ops->qp_connect(end->qp, address, length, PAYLOAD), 0);
}

/* Two ends, of which the first believes that the kernel holds its packets. */
static void meet(struct end ends[2], bool departures)
{
	open_end(&ends[0], departures);
	open_end(&ends[1], true);
	connect_end(&ends[0], &ends[1]);
	connect_end(&ends[1], &ends[0]);
	roce_qp(ends[0].qp)->held = true;
	roce_qp(ends[0].qp)->held_again_ns = UINT64_MAX;
	spy_reset();
}

static void part(struct end ends[2])
{
	for (int i = 0; i < 2; i++) {
		ends[i].fabric->ops->qp_destroy(ends[i].qp);
		ends[i].fabric->ops->close(ends[i].fabric);
	}
}

static uint64_t ahead_ns(const struct end *end, uint64_t now_ns, bool *room)
{
	return end->fabric->ops->ahead_ns(end->qp, now_ns, room);
}

static void put(const struct end *end, uint32_t packets, uint64_t depart_ns)
{
	static uint8_t source[PACKETS * PAYLOAD];
	struct fabric_target target = { .depart_ns = depart_ns };
	struct fabric_write writes[PACKETS];

	for (uint32_t i = 0; i < packets; i++)
		writes[i] = (struct fabric_write){ .data = source + i * PAYLOAD,
						   .length = PAYLOAD,
						   .packet = i,
						   .va = i * PAYLOAD };
	assert_int_equal(end->fabric->ops->write(end->qp, 0, &target, writes, packets), packets);
}

/* A batch, and a packet by itself, which is not sent as one. */
static void packets_have_a_time(void **state)
{
	struct end ends[2];
	uint64_t at_ns = clock_now_ns() + MS;

	(void)state;
	meet(ends, true);
	put(&ends[0], PACKETS, 0);
	assert_int_equal(spy.timed, 0);
	put(&ends[0], PACKETS, at_ns);
	assert_int_equal(spy.timed, 1);
	assert_int_equal(spy.depart_ns, at_ns);
	put(&ends[0], 1, at_ns + 5);
	assert_int_equal(spy.timed, 2);
	assert_int_equal(spy.depart_ns, at_ns + 5);
	assert_int_equal(ends[0].fabric->counters[FABRIC_TX_AHEAD], PACKETS + 1);
	assert_int_equal(ends[0].fabric->counters[FABRIC_TX_ERRORS], 0);
	part(ends);
}

/* Batches count as one each, and are forgotten when they have left. */
static void the_host_holds_so_many(void **state)
{
	uint64_t now_ns = clock_now_ns();
	struct end ends[2];
	bool room = false;
	unsigned count;

	(void)state;
	meet(ends, true);
	/* More often than there are places in the ring that keeps account of them. */
	for (unsigned times = 0; times < 8; times++, now_ns += MS) {
		count = 0;
		while (ahead_ns(&ends[0], now_ns, &room) && room && count < 100) {
			put(&ends[0], 1 + count % 3, now_ns + MS);
			count++;
		}
		assert_int_equal(count, 33);
		assert_true(ahead_ns(&ends[0], now_ns + MS - 1, &room) > 0);
		assert_false(room);
		ahead_ns(&ends[0], now_ns + MS, &room);
		assert_true(room);
		assert_int_equal(roce_qp(ends[0].qp)->endpoint->departures.bytes, 0);
	}
	part(ends);
}

/* A quarter of the socket's buffer, whatever their number. */
static void the_socket_holds_so_much(void **state)
{
	uint64_t now_ns = clock_now_ns(), most;
	unsigned count = 0;
	struct end ends[2];
	bool room = false;

	(void)state;
	meet(ends, true);
	most = roce_qp(ends[0].qp)->endpoint->departures.most_bytes = 200000;
	while (ahead_ns(&ends[0], now_ns, &room) && room) {
		put(&ends[0], PACKETS, now_ns + MS);
		count++;
	}
	assert_int_equal(count, most / (PACKETS * PAYLOAD) + 1);
	part(ends);
}

static void it_can_be_turned_off(void **state)
{
	struct end ends[2];
	bool room;

	(void)state;
	meet(ends, false);
	assert_int_equal(ahead_ns(&ends[0], clock_now_ns(), &room), 0);
	part(ends);
	/* The kernel is asked, and says that loopback holds nothing. */
	meet(ends, true);
	roce_qp(ends[0].qp)->held_again_ns = 0;
	assert_int_equal(ahead_ns(&ends[0], clock_now_ns(), &room), 0);
	part(ends);
}

/* Queue pairs to one host share what the kernel answered, for ten seconds. */
static void hosts_are_asked_for_again(void **state)
{
	uint64_t now_ns = clock_now_ns();
	struct departures *d;
	struct end ends[2];
	bool room;

	(void)state;
	meet(ends, true);
	d = &roce_qp(ends[0].qp)->endpoint->departures;
	d->holds = true;
	d->peer = roce_qp(ends[0].qp)->peer;
	d->again_ns = now_ns + 1;
	roce_qp(ends[0].qp)->held_again_ns = 0;
	assert_true(ahead_ns(&ends[0], now_ns, &room) > 0);
	/* Another queue pair, after that time: loopback holds nothing. */
	roce_qp(ends[0].qp)->held_again_ns = 0;
	assert_int_equal(ahead_ns(&ends[0], now_ns + 1, &room), 0);
	assert_int_equal(d->again_ns, now_ns + 1 + 10000 * MS);
	/* Of another host the same was known. */
	d->holds = true;
	assert_int_equal(address_parse("192.0.2.1@1", &d->peer), 0);
	roce_qp(ends[0].qp)->held_again_ns = 0;
	assert_int_equal(ahead_ns(&ends[0], now_ns + 2, &room), 0);
	part(ends);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_fq_holds_packets),
		cmocka_unit_test(all_queues_hold_packets),
		cmocka_unit_test(an_answer_ends),
		cmocka_unit_test(loopback_holds_nothing),
		cmocka_unit_test(packets_have_a_time),
		cmocka_unit_test(the_host_holds_so_many),
		cmocka_unit_test(the_socket_holds_so_much),
		cmocka_unit_test(it_can_be_turned_off),
		cmocka_unit_test(hosts_are_asked_for_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

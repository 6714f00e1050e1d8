/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a packet meets on its way: lanes that leave by ports of their own, queues that mark it, notices about the marks,
 * and ends that agree to go without the ICRC. Two bare fabrics, so that every packet is the test's own.
 */
#include "../message/pair.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fabric/open.h"
#include "fabric/roce/rx.h"

#define PACKETS	 64u
#define PAYLOAD	 256u
#define ECN_CE	 3
#define SLACK_NS 5000000

struct ends {
	struct fabric *from, *to;
	struct fabric_qp *sender, *receiver;
	struct fabric_target target;
	bool landed[PACKETS];
	uint8_t lanes[PACKETS];
	bool ce[PACKETS];
	uint64_t at_ns[PACKETS];
	uint32_t count;
};

static uint8_t source[PACKETS * PAYLOAD], sink[PACKETS * PAYLOAD];

static struct fabric_qp *open_end(const char *name, const struct fabric_options *options,
				  struct fabric **fabric)
{
	struct fabric_qp_attr attr = { .split = { 10, 18, 4 }, .slots = 1 };
	struct fabric_qp *qp;

	assert_int_equal(fabric_open(name, options, fabric), 0);
	assert_int_equal((*fabric)->ops->qp_create(*fabric, &attr, &qp), 0);
	return qp;
}

static void connect_to(struct fabric *fabric, struct fabric_qp *qp, const struct fabric_qp *peer)
{
	uint8_t address[FABRIC_ADDRESS_MAX];
	size_t length = fabric->ops->qp_address(peer, address);

	assert_true(length <= FABRIC_ADDRESS_MAX);
	assert_int_equal(fabric->ops->qp_connect(qp, address, length, PAYLOAD), 0);
}

static void meet(struct ends *ends, const char *name, const struct fabric_options *options,
		 const struct fabric_options *receiver_options)
{
	struct fabric_event events[FABRIC_EVENTS];

	memset(ends, 0, sizeof(*ends));
	fill_pattern(source, sizeof(source), 7);
	memset(sink, 0, sizeof(sink));
	ends->sender = open_end(name, options, &ends->from);
	ends->receiver = open_end(name, receiver_options, &ends->to);
	connect_to(ends->from, ends->sender, ends->receiver);
	connect_to(ends->to, ends->receiver, ends->sender);
	assert_int_equal(
		ends->to->ops->expose(ends->receiver, 0, 1, NULL, sink, sizeof(sink), PAYLOAD), 0);
	assert_int_equal(ends->to->ops->poll(ends->to, events), 1);
	ends->target.rkey = events[0].exposed.rkey;
}

static void part(struct ends *ends)
{
	ends->from->ops->qp_destroy(ends->sender);
	ends->to->ops->qp_destroy(ends->receiver);
	ends->from->ops->close(ends->from);
	ends->to->ops->close(ends->to);
}

static void put(struct ends *ends, unsigned lane, uint32_t first, uint32_t count)
{
	struct fabric_write writes[PACKETS];

	for (uint32_t i = 0; i < count; i++)
		writes[i] = (struct fabric_write){ .data = source + (first + i) * PAYLOAD,
						   .length = PAYLOAD,
						   .packet = first + i,
						   .va = (first + i) * PAYLOAD };
	assert_int_equal(ends->from->ops->write(ends->sender, lane, &ends->target, writes, count),
			 count);
}

static void take(struct ends *ends)
{
	struct fabric_event events[FABRIC_EVENTS];
	int n = ends->to->ops->poll(ends->to, events);

	for (int i = 0; i < n; i++) {
		assert_int_equal(events[i].type, FABRIC_DATA);
		for (uint32_t j = 0; j <= events[i].data.more; j++) {
			uint32_t packet = events[i].data.packet + j;

			assert_false(ends->landed[packet]);
			ends->landed[packet] = true;
			ends->lanes[packet] = events[i].lane;
			ends->ce[packet] = events[i].ce;
			ends->at_ns[packet] = events[i].at_ns;
			ends->count++;
		}
	}
}

static void take_until(struct ends *ends, uint32_t count)
{
	uint64_t limit = ends->to->ops->now_ns(ends->to) + PAIR_PATIENCE_NS;

	while (ends->count < count) {
		assert_true(ends->to->ops->now_ns(ends->to) < limit);
		take(ends);
	}
}

/* Singly and in groups: the ICRC covers the port, so that a lane that left by another's would be dropped. */
static void lanes_on(const char *name)
{
	struct fabric_options options = { .lanes = FABRIC_LANES_MAX };
	struct ends ends;
	uint32_t packet = 0;

	meet(&ends, name, &options, NULL);
	assert_int_equal(ends.from->caps.lanes, FABRIC_LANES_MAX);
	assert_int_equal(ends.to->caps.lanes, 1);
	for (unsigned lane = 0; lane < FABRIC_LANES_MAX; lane++) {
		put(&ends, lane, packet, 1);
		put(&ends, lane, packet + 1, 7);
		packet += 8;
	}
	take_until(&ends, PACKETS);
	for (uint32_t i = 0; i < PACKETS; i++)
		assert_int_equal(ends.lanes[i], i / 8);
	assert_memory_equal(source, sink, sizeof(sink));
	part(&ends);
}

static void lanes(void **state)
{
	(void)state;
	lanes_on("roce:127.0.0.1@0");
	lanes_on("roce:::1@0");
}

static void lanes_keep_faults(void **state)
{
	struct fabric_faults faults = { .duplicate = 0.2, .reorder = 0.5, .seed = 3 };
	struct fabric_options options = { .lanes = 2, .faults = &faults };
	struct ends ends;
	struct fabric_event events[FABRIC_EVENTS];
	uint64_t limit;

	(void)state;
	meet(&ends, "roce:127.0.0.1@0", &options, NULL);
	put(&ends, 1, 0, PACKETS);
	limit = ends.to->ops->now_ns(ends.to) + PAIR_PATIENCE_NS;
	for (uint32_t seen = 0; seen < PACKETS;) {
		int n = ends.to->ops->poll(ends.to, events);

		assert_true(ends.to->ops->now_ns(ends.to) < limit);
		assert_int_equal(ends.from->ops->poll(ends.from, events + n), 0);
		for (int i = 0; i < n; i++) {
			assert_int_equal(events[i].lane, 1);
			for (uint32_t j = 0; j <= events[i].data.more; j++) {
				seen += !ends.landed[events[i].data.packet + j];
				ends.landed[events[i].data.packet + j] = true;
			}
		}
	}
	assert_true(ends.from->counters[FABRIC_FAULT_REORDERED] > 0);
	part(&ends);
}

static void set_class(struct ends *ends, bool v4, int class)
{
	assert_int_equal(setsockopt(endpoint_of(ends->from)->fd, v4 ? IPPROTO_IP : IPPROTO_IPV6,
				    v4 ? IP_TOS : IPV6_TCLASS, &class, sizeof(class)),
			 0);
}

/* A queue's mark is seen on the packets that have it and only there. A NIC is told of them, not of every one; a user-space
 * end learns of them by reports, and is not told. A notification is believed if it comes from a NIC. */
static void marks_on(const char *name, bool v4, bool nic)
{
	struct fabric_options options = { .traffic_class = 0x68 };
	struct fabric_event events[FABRIC_EVENTS];
	struct ends ends;
	uint64_t limit, cnps;
	int n = 0, class = 0;
	socklen_t length = sizeof(class);

	meet(&ends, name, &options, NULL);
	roce_qp(ends.receiver)->peer_nic = nic;
	assert_int_equal(getsockopt(endpoint_of(ends.from)->fd, v4 ? IPPROTO_IP : IPPROTO_IPV6,
				    v4 ? IP_TOS : IPV6_TCLASS, &class, &length),
			 0);
	assert_int_equal(class, 0x68 | 2);
	put(&ends, 0, 0, 16);
	take_until(&ends, 16);
	assert_int_equal(ends.to->counters[FABRIC_RX_CE], 0);
	set_class(&ends, v4, 0x68 | ECN_CE);
	put(&ends, 0, 16, 31);
	put(&ends, 0, 47, 1);
	take_until(&ends, 48);
	set_class(&ends, v4, 0x68 | 2);
	put(&ends, 0, 48, 16);
	take_until(&ends, PACKETS);
	for (uint32_t i = 0; i < PACKETS; i++)
		assert_int_equal(ends.ce[i], i >= 16 && i < 48);
	assert_int_equal(ends.to->counters[FABRIC_RX_CE], 32);
	cnps = ends.to->counters[FABRIC_TX_CNP];
	assert_true(nic ? cnps >= 1 && cnps <= 4 : !cnps);
	if (!nic)
		send_cnp(roce_qp(ends.receiver));
	roce_qp(ends.sender)->peer_nic = nic;
	limit = ends.from->ops->now_ns(ends.from) + PAIR_PATIENCE_NS;
	while ((uint64_t)n < cnps || !ends.from->counters[FABRIC_RX_CNP]) {
		assert_true(ends.from->ops->now_ns(ends.from) < limit);
		n += ends.from->ops->poll(ends.from, events + n);
	}
	for (int i = 0; i < n; i++)
		assert_int_equal(events[i].type, FABRIC_CNP);
	assert_int_equal(n, cnps);
	assert_int_equal(ends.from->counters[FABRIC_RX_CNP], nic ? cnps : 1);
	part(&ends);
}

static void marks(void **state)
{
	(void)state;
	for (int nic = 0; nic < 2; nic++) {
		marks_on("roce:127.0.0.1@0", true, nic);
		marks_on("roce:::1@0", false, nic);
	}
}

/* Whoever does not know the key of a window cannot make its owner tell anybody of marks. */
static void marks_under_a_wrong_key(void **state)
{
	struct fabric_event events[FABRIC_EVENTS];
	struct ends ends;
	uint64_t limit;

	(void)state;
	meet(&ends, "roce:127.0.0.1@0", NULL, NULL);
	roce_qp(ends.receiver)->peer_nic = true;
	set_class(&ends, true, ECN_CE);
	ends.target.rkey ^= 1;
	put(&ends, 0, 0, 8);
	limit = ends.to->ops->now_ns(ends.to) + PAIR_PATIENCE_NS;
	while (ends.to->counters[FABRIC_DROP_RKEY] < 8) {
		assert_true(ends.to->ops->now_ns(ends.to) < limit);
		assert_int_equal(ends.to->ops->poll(ends.to, events), 0);
	}
	assert_int_equal(ends.to->counters[FABRIC_RX_CE], 0);
	assert_int_equal(ends.to->counters[FABRIC_TX_CNP], 0);
	part(&ends);
}

/* A reader that comes late learns when packets came, merged or not. */
static void late_reader(void **state)
{
	static const struct timespec nap = { .tv_nsec = 20000000 };
	uint64_t before, middle, after;
	struct ends ends;

	(void)state;
	meet(&ends, "roce:127.0.0.1@0", NULL, NULL);
	before = ends.to->ops->now_ns(ends.to);
	put(&ends, 0, 0, 1);
	put(&ends, 0, 1, 31);
	middle = ends.to->ops->now_ns(ends.to);
	nanosleep(&nap, NULL);
	put(&ends, 0, 32, 32);
	after = ends.to->ops->now_ns(ends.to);
	nanosleep(&nap, NULL);
	take_until(&ends, PACKETS);
	/* Two clocks are read one after the other, with whatever comes between. */
	for (uint32_t i = 0; i < PACKETS; i++) {
		assert_in_range(ends.at_ns[i], (i < 32 ? before : middle) - SLACK_NS,
				(i < 32 ? middle : after) + SLACK_NS);
	}
	part(&ends);
}

/* By how much the time of day was set back; the program's own clock_gettime() comes before the C library's. */
static time_t set_back_s;

int clock_gettime(clockid_t id, struct timespec *out)
{
	long error = syscall(SYS_clock_gettime, id, out);

	if (id == CLOCK_REALTIME)
		out->tv_sec -= set_back_s;
	return (int)error;
}

/* The kernel stamps packets by the time of day. If that was set since, either way, it is not known when they came. */
static void the_time_of_day_is_set(void **state)
{
	/* The time of day is asked for once a millisecond. */
	static const struct timespec asked_again = { .tv_nsec = 2000000 };
	struct ends ends;

	(void)state;
	meet(&ends, "roce:127.0.0.1@0", NULL, NULL);
	put(&ends, 0, 0, 1);
	take_until(&ends, 1);
	assert_true(ends.at_ns[0] > 0);
	for (uint32_t i = 1; i < 3; i++) {
		set_back_s = i == 1 ? 3600 : -3600;
		nanosleep(&asked_again, NULL);
		put(&ends, 0, i, 1);
		take_until(&ends, i + 1);
		assert_int_equal(ends.at_ns[i], 0);
	}
	set_back_s = 0;
	part(&ends);
}

/* The ICRC is left out only where both ends say so: one that has changed its mind after the handshake is not believed. */
static void without_icrc(void **state)
{
	static const struct fabric_options skip = { .skip_icrc = true };
	struct ends ends;

	(void)state;
	meet(&ends, "roce:127.0.0.1@0", &skip, &skip);
	assert_int_equal(ends.from->counters[FABRIC_UNGUARDED], 1);
	assert_int_equal(ends.to->counters[FABRIC_UNGUARDED], 1);
	put(&ends, 0, 0, PACKETS);
	take_until(&ends, PACKETS);
	assert_memory_equal(source, sink, sizeof(sink));
	/* The receiver now looks again: nothing that was sent had one. */
	roce_qp(ends.receiver)->skip_icrc = false;
	put(&ends, 0, 0, PACKETS);
	take(&ends);
	assert_int_equal(ends.to->counters[FABRIC_DROP_ICRC], PACKETS);
	part(&ends);

	for (int end = 0; end < 2; end++) {
		meet(&ends, "roce:127.0.0.1@0", end ? &skip : NULL, end ? NULL : &skip);
		assert_false(roce_qp(ends.sender)->skip_icrc);
		assert_false(roce_qp(ends.receiver)->skip_icrc);
		assert_int_equal(ends.from->counters[FABRIC_UNGUARDED], 0);
		put(&ends, 0, 0, PACKETS);
		take_until(&ends, PACKETS);
		assert_int_equal(ends.to->counters[FABRIC_DROP_ICRC], 0);
		part(&ends);
	}
}

/* Takes one batch of packets with these numbers, each at this place, and of these user bits. Returns the number of events. */
static int batch(struct ends *ends, const uint32_t *packets, const uint32_t *places,
		 const uint32_t *user, uint32_t count, struct fabric_event *events)
{
	uint64_t limit = ends->to->ops->now_ns(ends->to) + PAIR_PATIENCE_NS;
	struct fabric_write writes[PACKETS];
	int n;

	for (uint32_t i = 0; i < count; i++)
		writes[i] = (struct fabric_write){ .data = source + packets[i] % PACKETS * PAYLOAD,
						   .length = PAYLOAD,
						   .packet = packets[i],
						   .user = user[i],
						   .va = places[i] * PAYLOAD };
	assert_int_equal(ends->from->ops->write(ends->sender, 0, &ends->target, writes, count),
			 count);
	while (!(n = ends->to->ops->poll(ends->to, events)))
		assert_true(ends->to->ops->now_ns(ends->to) < limit);
	return n;
}

static void assert_run(const struct fabric_event *event, uint32_t packet, uint32_t more,
		       uint32_t user)
{
	assert_int_equal(event->type, FABRIC_DATA);
	assert_int_equal(event->data.packet, packet);
	assert_int_equal(event->data.more, more);
	assert_int_equal(event->data.length, PAYLOAD);
	assert_int_equal(event->data.user_bits, user);
}

/* What is next in number becomes part of the event before it, and what is not makes one of its own. */
static void runs_of_packets(void **state)
{
	static const uint32_t packets[] = { 0, 1, 2, 2, 5, 6, 7, 8, 4, 62, 63 };
	static const uint32_t user[] = { 0, 0, 0, 0, 0, 0, 3, 3, 3, 0, 0 };
	struct fabric_event events[FABRIC_EVENTS];
	struct ends ends;

	(void)state;
	meet(&ends, "roce:127.0.0.1@0", NULL, NULL);
	assert_int_equal(batch(&ends, packets, packets, user, 11, events), 6);
	assert_run(&events[0], 0, 2, 0);
	assert_run(&events[1], 2, 0, 0);
	assert_run(&events[2], 5, 1, 0);
	assert_run(&events[3], 7, 1, 3);
	assert_run(&events[4], 4, 0, 3);
	assert_run(&events[5], 62, 1, 0);
	assert_int_equal(ends.to->counters[FABRIC_RX_DATA], 11);
	for (size_t i = 0; i < 11; i++)
		assert_memory_equal(sink + packets[i] * PAYLOAD, source + packets[i] * PAYLOAD,
				    PAYLOAD);
	part(&ends);
}

/* A packet of a run that is wrong is dropped for what is wrong with it, and those behind it land. */
static void wrong_packets_in_runs(void **state)
{
	static const uint32_t packets[] = { 60, 61, 62, 63, 64, 65, 8, 9, 10 };
	static const uint32_t places[] = { 60, 61, 62, 63, 64, 65, 8, 12, 10 };
	static const uint32_t user[9] = { 0 };
	struct fabric_event events[FABRIC_EVENTS];
	struct ends ends;

	(void)state;
	meet(&ends, "roce:127.0.0.1@0", NULL, NULL);
	assert_int_equal(batch(&ends, packets, places, user, 9, events), 3);
	assert_run(&events[0], 60, 3, 0);
	assert_run(&events[1], 8, 0, 0);
	assert_run(&events[2], 10, 0, 0);
	assert_int_equal(ends.to->counters[FABRIC_DROP_OFFSET], 3);
	assert_int_equal(ends.to->counters[FABRIC_RX_DATA], 6);
	/* The bytes of a place that no packet of its number went to. */
	for (size_t i = 12 * PAYLOAD; i < 13 * PAYLOAD; i++)
		assert_int_equal(sink[i], 0);
	part(&ends);
}

/* The ICRC of each packet of a run is checked, although its headers were foreseen. */
static void runs_without_the_right_icrc(void **state)
{
	static const struct fabric_options skip = { .skip_icrc = true };
	static const uint32_t packets[] = { 0, 1, 2, 3 }, user[4] = { 0 };
	struct fabric_event events[FABRIC_EVENTS];
	struct rx_run run = { 0 };
	struct ends ends;
	struct incoming in;
	uint8_t bytes[ROCE_DATA_OVERHEAD + PAYLOAD] = { 0 };

	(void)state;
	meet(&ends, "roce:127.0.0.1@0", &skip, &skip);
	assert_int_equal(batch(&ends, packets, packets, user, 4, events), 1);
	assert_run(&events[0], 0, 3, 0);
	roce_qp(ends.receiver)->skip_icrc = false;
	/* All that is expected of the next packet is zero, as it is. */
	run.qp = roce_qp(ends.receiver);
	run.window = pool_at(&run.qp->endpoint->windows, run.qp->windows[0] - 1);
	run.event = &events[0];
	run.length = sizeof(bytes);
	in = (struct incoming){ .from = &run.qp->peer, .bytes = bytes, .length = sizeof(bytes) };
	assert_false(rx_run_goes_on(&run, &in));
	assert_null(run.qp);
	assert_int_equal(events[0].data.more, 3);
	part(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lanes),
		cmocka_unit_test(lanes_keep_faults),
		cmocka_unit_test(marks),
		cmocka_unit_test(marks_under_a_wrong_key),
		cmocka_unit_test(late_reader),
		cmocka_unit_test(the_time_of_day_is_set),
		cmocka_unit_test(without_icrc),
		cmocka_unit_test(runs_of_packets),
		cmocka_unit_test(wrong_packets_in_runs),
		cmocka_unit_test(runs_without_the_right_icrc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

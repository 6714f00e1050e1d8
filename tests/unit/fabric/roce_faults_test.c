/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults made on purpose: the same seed makes the same ones, as often as asked for, and what is held back comes out.
 * Two bare fabrics and no message layer between them, whose timers would send packets of their own.
 */
#include "../message/pair.h"

#include <errno.h>
#include <string.h>

#include "fabric/open.h"
#include "fabric/roce/endpoint.h"

#define PACKETS 8192u
#define PAYLOAD 64u
#define BATCH	16u

struct arrivals {
	uint32_t times[PACKETS]; /* packet i arrived so often */
	uint32_t order[2 * PACKETS];
	uint32_t count;
	uint64_t dropped, duplicated, reordered;
};

static uint8_t memory[PACKETS * PAYLOAD];

static void take(struct fabric *fabric, struct arrivals *out)
{
	struct fabric_event events[FABRIC_EVENTS];
	int n;

	while ((n = fabric->ops->poll(fabric, events)) > 0)
		for (int i = 0; i < n; i++) {
			if (events[i].type != FABRIC_DATA)
				continue;
			for (uint32_t j = 0; j <= events[i].data.more; j++) {
				assert_true(out->count < 2 * PACKETS);
				out->times[events[i].data.packet + j]++;
				out->order[out->count++] = events[i].data.packet + j;
			}
		}
}

static struct fabric_qp *open_end(const struct fabric_faults *faults, struct fabric **fabric)
{
	struct fabric_qp_attr attr = { .split = { 10, 18, 4 }, .slots = 1 };
	struct fabric_options options = { .faults = faults };
	struct fabric_qp *qp;

	assert_int_equal(fabric_open("roce:127.0.0.1@0", &options, fabric), 0);
	assert_int_equal((*fabric)->ops->qp_create(*fabric, &attr, &qp), 0);
	return qp;
}

static void connect_to(struct fabric *fabric, struct fabric_qp *qp, const struct fabric_qp *peer)
{
	uint8_t address[FABRIC_ADDRESS_MAX];
	size_t length = fabric->ops->qp_address(peer, address);

	assert_int_equal(fabric->ops->qp_connect(qp, address, length, PAYLOAD), 0);
}

/* Sends packets 0 to PACKETS - 1 through the faults; everything has come that will come. */
static void send_all(const struct fabric_faults *faults, struct arrivals *out)
{
	struct fabric *from, *to;
	struct fabric_qp *sender = open_end(faults, &from);
	struct fabric_qp *receiver = open_end(NULL, &to);
	struct fabric_target target = { 0 };
	uint64_t limit, expected;
	struct fabric_event events[FABRIC_EVENTS];

	memset(out, 0, sizeof(*out));
	connect_to(from, sender, receiver);
	connect_to(to, receiver, sender);
	assert_int_equal(to->ops->expose(receiver, 0, 1, NULL, memory, sizeof(memory), PAYLOAD), 0);
	assert_int_equal(to->ops->poll(to, events), 1);
	assert_int_equal(events[0].type, FABRIC_EXPOSED);
	target.rkey = events[0].exposed.rkey;
	for (uint32_t packet = 0; packet < PACKETS; packet += BATCH) {
		struct fabric_write writes[BATCH];

		for (uint32_t i = 0; i < BATCH; i++)
			writes[i] = (struct fabric_write){ .data = memory,
							   .length = PAYLOAD,
							   .packet = packet + i,
							   .va = (packet + i) * PAYLOAD };
		assert_int_equal(from->ops->write(sender, 0, &target, writes, BATCH), BATCH);
		take(to, out);
	}
	limit = from->ops->now_ns(from) + PAIR_PATIENCE_NS;
	while (from->ops->deadline_ns(from) != UINT64_MAX) {
		assert_true(from->ops->now_ns(from) < limit);
		assert_int_equal(fabric_wait(from, from->ops->deadline_ns(from)), 0);
		assert_int_equal(from->ops->poll(from, events), 0);
	}
	out->dropped = from->counters[FABRIC_FAULT_DROPPED];
	out->duplicated = from->counters[FABRIC_FAULT_DUPLICATED];
	out->reordered = from->counters[FABRIC_FAULT_REORDERED];
	expected = PACKETS - out->dropped + out->duplicated;
	while (out->count < expected) {
		assert_true(from->ops->now_ns(from) < limit);
		take(to, out);
	}
	take(to, out);
	assert_int_equal(out->count, expected);
	assert_int_equal(from->counters[FABRIC_TX_DATA], PACKETS);
	from->ops->qp_destroy(sender);
	to->ops->qp_destroy(receiver);
	from->ops->close(from);
	to->ops->close(to);
}

/* Within six standard deviations of a binomial count. */
static void assert_rate(uint64_t number, double probability)
{
	double mean = PACKETS * probability;
	double off = (double)number - mean;

	if (off * off > 36 * mean * (1 - probability))
		fail_msg("%llu of %u at a rate of %g", (unsigned long long)number, PACKETS,
			 probability);
}

static void none(void **state)
{
	static const struct fabric_faults faults = { .seed = 1 };
	static struct arrivals a;

	(void)state;
	send_all(&faults, &a);
	for (uint32_t i = 0; i < PACKETS; i++)
		assert_int_equal(a.order[i], i);
}

static void drops(void **state)
{
	static const struct fabric_faults faults = { .drop = 0.1, .seed = 2 };
	static struct arrivals a;
	uint32_t last = 0;

	(void)state;
	send_all(&faults, &a);
	assert_rate(a.dropped, 0.1);
	assert_int_equal(a.duplicated + a.reordered, 0);
	for (uint32_t i = 1; i < a.count; i++) {
		assert_true(a.order[i] > last);
		last = a.order[i];
	}
}

static void drops_all(void **state)
{
	static const struct fabric_faults faults = { .drop = 1, .seed = 3 };
	static struct arrivals a;

	(void)state;
	send_all(&faults, &a);
	assert_int_equal(a.dropped, PACKETS);
	assert_int_equal(a.count, 0);
}

static void duplicates(void **state)
{
	static const struct fabric_faults faults = { .duplicate = 0.2, .seed = 4 };
	static struct arrivals a;
	uint64_t twice = 0;

	(void)state;
	send_all(&faults, &a);
	assert_rate(a.duplicated, 0.2);
	for (uint32_t i = 0; i < PACKETS; i++) {
		assert_true(a.times[i] == 1 || a.times[i] == 2);
		twice += a.times[i] == 2;
	}
	assert_int_equal(twice, a.duplicated);
}

/* Held back behind some later ones, the last of all included, and no other packet moves. */
static void reorders(void **state)
{
	static const struct fabric_faults faults = { .reorder = 0.15, .seed = 5 };
	static struct arrivals a;
	uint64_t overtaken = 0;
	uint32_t highest = 0;

	(void)state;
	send_all(&faults, &a);
	assert_rate(a.reordered, 0.15);
	assert_int_equal(a.count, PACKETS);
	for (uint32_t i = 0; i < a.count; i++) {
		assert_int_equal(a.times[i], 1);
		if (a.order[i] < highest) {
			overtaken++;
			assert_true(highest - a.order[i] < 64);
		} else {
			highest = a.order[i];
		}
	}
	/* One held at the very end may find nobody to overtake it. */
	assert_true(overtaken <= a.reordered && overtaken + 16 >= a.reordered);
}

/* Every packet: there is no room to hold them all. */
static void reorders_all(void **state)
{
	static const struct fabric_faults faults = { .reorder = 1, .seed = 6 };
	static struct arrivals a;

	(void)state;
	send_all(&faults, &a);
	assert_int_equal(a.count, PACKETS);
	for (uint32_t i = 0; i < PACKETS; i++)
		assert_int_equal(a.times[i], 1);
}

static void same_seed_same_faults(void **state)
{
	struct fabric_faults faults = { .drop = 0.1, .duplicate = 0.1, .reorder = 0.1, .seed = 7 };
	static struct arrivals a, b;

	(void)state;
	send_all(&faults, &a);
	assert_rate(a.dropped, 0.1);
	send_all(&faults, &b);
	assert_int_equal(a.dropped, b.dropped);
	assert_int_equal(a.duplicated, b.duplicated);
	assert_int_equal(a.reordered, b.reordered);
	assert_memory_equal(a.times, b.times, sizeof(a.times));
	faults.seed = 8;
	send_all(&faults, &b);
	assert_memory_not_equal(a.times, b.times, sizeof(a.times));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(none),
		cmocka_unit_test(drops),
		cmocka_unit_test(drops_all),
		cmocka_unit_test(duplicates),
		cmocka_unit_test(reorders),
		cmocka_unit_test(reorders_all),
		cmocka_unit_test(same_seed_same_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

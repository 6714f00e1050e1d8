/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The governor between queue pairs and a controller, both played by this test: the queue pairs say how many packets left and
 * arrived, and what the controller is told of bytes has to be right to the byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "congestion/governor.h"

#define MS	    UINT64_C(1000000)
#define SMALL	    1000u
#define WINDOW	    UINT64_C(1000000)
#define RATE_BPS    UINT64_C(1000000000)
#define START_NS    UINT64_C(1000000000)
#define QUEUE_PAIRS 2

/* ---- what stands in for queue pairs ---------------------------------------------------------------------------- */

struct gw_qp {
	const struct gw_gate *gate;
	void *arg;
	unsigned reopened;
};

static struct gw_qp pairs[QUEUE_PAIRS];

int gw_qp_set_gate(struct gw_qp *qp, const struct gw_gate *gate, void *arg)
{
	qp->gate = gate;
	qp->arg = arg;
	return 0;
}

int gw_qp_reopen(struct gw_qp *qp)
{
	qp->reopened++;
	return 0;
}

int gw_qp_estimate(const struct gw_qp *qp, struct gw_estimate *out)
{
	(void)qp;
	*out = (struct gw_estimate){ .payload_send = SMALL, .payload_most = 8 * SMALL };
	return 0;
}

/* ---- what stands in for a controller --------------------------------------------------------------------------- */

/* The latest report, and what the controller allows. */
static struct cc_report told;
static struct cc_limits allowed;

static void init(void *state, const struct cc_attr *attr, uint64_t now_ns)
{
	(void)state;
	(void)attr;
	(void)now_ns;
}

static void report(void *state, const struct cc_report *report, uint64_t now_ns)
{
	(void)state;
	(void)now_ns;
	told = *report;
}

static void limits(const void *state, struct cc_limits *out)
{
	(void)state;
	*out = allowed;
}

static const struct cc_ops controller = {
	.name = "test", .init = init, .report = report, .limits = limits
};

/* ---- the two together ------------------------------------------------------------------------------------------ */

static struct governor governor;
static uint64_t now;

static void begin(unsigned sides, uint64_t window_bytes)
{
	struct gw_qp *const qps[QUEUE_PAIRS] = { &pairs[0], &pairs[1] };

	memset(pairs, 0, sizeof(pairs));
	memset(&told, 0, sizeof(told));
	allowed = (struct cc_limits){ CC_UNPACED, window_bytes };
	now = START_NS;
	governor_open(&governor, &controller, UINT64_MAX, qps, sides, now);
}

/* Packets of one size leave. */
static void leave(unsigned pair, uint32_t packets, uint32_t bytes)
{
	pairs[pair].gate->sent(pairs[pair].arg, packets, (uint64_t)packets * bytes, now);
}

static uint32_t ask(unsigned pair, uint32_t in_flight, uint32_t payload, uint64_t *again_ns)
{
	return pairs[pair].gate->allow(pairs[pair].arg, in_flight, payload, now, again_ns);
}

/* So many arrived, and so many are still under way. Returns the bytes that the controller is told of. */
static uint64_t arrive(unsigned pair, uint32_t packets, uint32_t left)
{
	struct gw_path_report path = { .delivered_packets = packets, .in_flight_packets = left };

	now += MS;
	pairs[pair].gate->report(pairs[pair].arg, &path, now);
	assert_int_equal(told.delivered_packets, packets);
	assert_int_equal(told.in_flight_bytes, governor_in_flight(&governor));
	return told.delivered_bytes;
}

/* Packets become larger twice in a round trip: those that left before arrive first, and none of them is forgotten. */
static void packets_grow_while_they_are_in_flight(void **state)
{
	(void)state;
	begin(1, WINDOW);
	leave(0, 10, SMALL);
	leave(0, 10, 2 * SMALL);
	leave(0, 10, 4 * SMALL);
	assert_int_equal(governor_in_flight(&governor), 70 * SMALL);
	assert_int_equal(arrive(0, 20, 10), 30 * SMALL);
	assert_int_equal(governor_in_flight(&governor), 40 * SMALL);
	assert_int_equal(arrive(0, 5, 5), 20 * SMALL);
	assert_int_equal(arrive(0, 5, 0), 20 * SMALL);
	assert_int_equal(governor_in_flight(&governor), 0);
}

/* Those that left first are also the first that are given up: what is left then is the larger ones. */
static void lost_packets_are_the_former_ones(void **state)
{
	uint64_t again_ns;

	(void)state;
	begin(1, WINDOW);
	leave(0, 10, SMALL);
	leave(0, 10, 4 * SMALL);
	assert_int_equal(arrive(0, 5, 10), 5 * SMALL);
	assert_int_equal(governor_in_flight(&governor), 40 * SMALL);
	/* Without a report, too: their message is over. */
	ask(0, 2, 4 * SMALL, &again_ns);
	assert_int_equal(governor_in_flight(&governor), 8 * SMALL);
}

/* A flow that is opened on a queue pair with packets in flight takes them for packets of the size in use. */
static void packets_that_left_before_it_count(void **state)
{
	uint64_t again_ns;

	(void)state;
	begin(1, 60 * SMALL);
	assert_int_equal(ask(0, 50, SMALL, &again_ns), 10);
	assert_int_equal(governor_in_flight(&governor), 50 * SMALL);
	leave(0, 10, SMALL);
	assert_int_equal(ask(0, 60, SMALL, &again_ns), 0);
	assert_int_equal(arrive(0, 50, 10), 50 * SMALL);
	assert_int_equal(governor_in_flight(&governor), 10 * SMALL);
}

/* A message's result may say sooner than the report that nothing of it is in flight. Its packets have arrived all the same. */
static void packets_arrive_after_their_message(void **state)
{
	uint64_t again_ns;

	(void)state;
	begin(1, WINDOW);
	leave(0, 20, SMALL);
	assert_true(ask(0, 4, SMALL, &again_ns) > 0);
	assert_int_equal(governor_in_flight(&governor), 4 * SMALL);
	assert_int_equal(arrive(0, 20, 0), 20 * SMALL);
	assert_int_equal(governor_in_flight(&governor), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_grow_while_they_are_in_flight),
		cmocka_unit_test(lost_packets_are_the_former_ones),
		cmocka_unit_test(packets_that_left_before_it_count),
		cmocka_unit_test(packets_arrive_after_their_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

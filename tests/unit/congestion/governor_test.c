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
	governor_init(&governor, NULL);
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

/* ---- two queue pairs ------------------------------------------------------------------------------------------- */

/* A few packets of the second leave although the window is full, and no more than a few. */
static void short_messages_exceed_the_window(void **state)
{
	uint64_t again_ns;

	(void)state;
	begin(2, 50 * SMALL);
	leave(0, 50, SMALL);
	assert_int_equal(ask(0, 50, SMALL, &again_ns), 0);
	assert_int_equal(ask(1, 0, SMALL, &again_ns), 8);
	leave(1, 3, SMALL);
	assert_int_equal(ask(1, 3, SMALL, &again_ns), 5);
	leave(1, 5, SMALL);
	assert_int_equal(ask(1, 8, SMALL, &again_ns), 0);
}

/* The controller is told of a pause when neither has anything to send, and of the credit for both. */
static void two_are_one_sender(void **state)
{
	struct gw_path_report path = { .idle = true };

	(void)state;
	begin(2, WINDOW);
	arrive(0, 0, 0);
	pairs[1].gate->report(pairs[1].arg, &path, now);
	assert_false(told.app_limited);
	pairs[0].gate->report(pairs[0].arg, &path, now);
	assert_true(told.app_limited);
	pairs[0].gate->credit(pairs[0].arg, 30, now);
	pairs[1].gate->credit(pairs[1].arg, 10, now);
	assert_int_equal(governor.cc.credit_bytes, 40 * SMALL);
}

/* ---- the rate --------------------------------------------------------------------------------------------------- */

/* Who waits for the rate limit to be raised is asked again at once. */
static void a_new_limit_reopens_both(void **state)
{
	uint64_t again_ns;

	(void)state;
	begin(2, WINDOW);
	governor_cap(&governor, 0, now);
	assert_int_equal(ask(0, 0, SMALL, &again_ns), 0);
	assert_true(again_ns > now && again_ns != UINT64_MAX);
	pairs[0].reopened = pairs[1].reopened = 0;
	governor_cap(&governor, RATE_BPS, now);
	assert_int_equal(pairs[0].reopened, 1);
	assert_int_equal(pairs[1].reopened, 1);
	assert_true(ask(0, 0, SMALL, &again_ns) > 0);
}

/* A controller that reduces its rate without end would get no more reports that tell it otherwise. */
static void some_packets_a_second_leave(void **state)
{
	(void)state;
	begin(1, WINDOW);
	allowed.rate_bps = 1;
	arrive(0, 1, 0);
	/* It takes effect with the report. */
	assert_int_equal(governor.pacer.bucket.rate_bps, 10 * 8 * UINT64_C(8) * SMALL);
	/* But the user's limit holds. */
	governor_cap(&governor, 1000, now);
	assert_int_equal(governor.pacer.bucket.rate_bps, 1000);
}

/* On a long path a sender waits for a batch, but not for more than half of what the pacer ever lets out at once; and who was
 * late catches up on half of a round trip. */
static void batches_follow_the_round_trip(void **state)
{
	struct gw_path_report path = { .rtt_ns = 80 * MS };
	struct bucket *bucket = &governor.pacer.bucket;
	uint64_t again_ns, half;

	(void)state;
	begin(1, WINDOW);
	allowed.rate_bps = RATE_BPS / 10;
	pairs[0].gate->report(pairs[0].arg, &path, now);
	pairs[0].gate->report(pairs[0].arg, &path, now);
	assert_int_equal(bucket->late_ns, 40 * MS);
	/* 4 ms at 100 Mbit/s. */
	assert_int_equal(bucket_depth_bytes(bucket), 50000);
	half = bucket_depth_bytes(bucket) / 2;
	pacer_take(&governor.pacer, pacer_allow(&governor.pacer, now), now);
	assert_int_equal(ask(0, 0, SMALL, &again_ns), 0);
	assert_in_range(again_ns - now, 2 * MS, 2 * MS + 100);
	now = again_ns;
	assert_int_equal(ask(0, 0, SMALL, &again_ns), half / SMALL);
}

/* ---- governors of one path --------------------------------------------------------------------------------------- */

/* A controller whose window is what arrived last. */
static void learn_nothing(void *state, const struct cc_attr *attr, uint64_t now_ns)
{
	(void)attr;
	(void)now_ns;
	*(uint64_t *)state = SMALL;
}

static void learn(void *state, const struct cc_report *report, uint64_t now_ns)
{
	(void)now_ns;
	*(uint64_t *)state = report->delivered_bytes;
}

static void learned(const void *state, struct cc_limits *out)
{
	*out = (struct cc_limits){ CC_UNPACED, *(const uint64_t *)state };
}

static const struct cc_ops learner = { .name = "learner",
				       .state_size = sizeof(uint64_t),
				       .init = learn_nothing,
				       .report = learn,
				       .limits = learned };

static struct governor paths[QUEUE_PAIRS];

/* One governor for each queue pair, the second beside the first. */
static void begin_beside(const struct cc_ops *first, const struct cc_ops *second)
{
	memset(pairs, 0, sizeof(pairs));
	now = START_NS;
	for (unsigned i = 0; i < QUEUE_PAIRS; i++) {
		struct gw_qp *const qp = &pairs[i];

		governor_init(&paths[i], i ? &paths[0] : NULL);
		governor_open(&paths[i], i ? second : first, UINT64_MAX, &qp, 1, now);
	}
}

/* A flight of so many packets arrives. */
static void fly(unsigned pair, uint32_t packets)
{
	struct gw_path_report path = { .delivered_packets = packets, .rtt_ns = 80 * MS };

	now += MS;
	leave(pair, packets, SMALL);
	pairs[pair].gate->report(pairs[pair].arg, &path, now);
}

static uint32_t window_of(unsigned pair, uint32_t in_flight)
{
	uint64_t again_ns;

	return ask(pair, in_flight, SMALL, &again_ns);
}

/* Work moves from one to the other and back. */
static void the_latest_window_goes_on(void **state)
{
	(void)state;
	begin_beside(&learner, &learner);
	fly(0, 50);
	assert_int_equal(window_of(1, 0), 50);
	/* A flight lasts as long, with all that hangs on it. */
	assert_int_equal(paths[1].pacer.burst_ns, paths[0].pacer.burst_ns);
	assert_int_equal(paths[1].pacer.bucket.late_ns, 40 * MS);
	fly(1, 20);
	assert_int_equal(window_of(0, 0), 20);
	assert_int_equal(window_of(1, 0), 20);
}

/* What one has under way is part of what its own controller knows; and what it was told itself may be newer. */
static void a_flight_ends_with_its_own_window(void **state)
{
	(void)state;
	begin_beside(&learner, &learner);
	fly(1, 10);
	leave(1, 4, SMALL);
	fly(0, 50);
	assert_int_equal(window_of(1, 4), 6);
	fly(1, 30);
	assert_int_equal(window_of(1, 0), 30);
}

/* The receiver's credit is that of a queue pair. */
static void credit_is_not_the_paths(void **state)
{
	(void)state;
	begin_beside(&learner, &learner);
	pairs[1].gate->credit(pairs[1].arg, 7, now);
	fly(0, 50);
	assert_int_equal(window_of(1, 0), 7);
	assert_int_equal(window_of(0, 0), 50);
}

static void others_learn_nothing(void **state)
{
	(void)state;
	begin_beside(&learner, &controller);
	allowed = (struct cc_limits){ CC_UNPACED, 9 * SMALL };
	fly(1, 3);
	fly(0, 50);
	assert_int_equal(window_of(1, 0), 9);
	/* One that has left the path. */
	begin_beside(&learner, &learner);
	governor_leave(&paths[0]);
	fly(0, 50);
	assert_int_equal(window_of(1, 0), 8); /* one of the largest packets */
	governor_close(&paths[0]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_grow_while_they_are_in_flight),
		cmocka_unit_test(lost_packets_are_the_former_ones),
		cmocka_unit_test(packets_that_left_before_it_count),
		cmocka_unit_test(packets_arrive_after_their_message),
		cmocka_unit_test(short_messages_exceed_the_window),
		cmocka_unit_test(two_are_one_sender),
		cmocka_unit_test(a_new_limit_reopens_both),
		cmocka_unit_test(some_packets_a_second_leave),
		cmocka_unit_test(batches_follow_the_round_trip),
		cmocka_unit_test(the_latest_window_goes_on),
		cmocka_unit_test(a_flight_ends_with_its_own_window),
		cmocka_unit_test(credit_is_not_the_paths),
		cmocka_unit_test(others_learn_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

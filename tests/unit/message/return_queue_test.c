/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a report waited on its way back, by two clocks that differ and drift. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "message/state.h"

#define US	UINT64_C(1000)
#define MS	UINT64_C(1000000)
#define TRIP	(100 * US)
#define EVERY	(200 * US)
#define FOREIGN UINT64_C(0xfffff00000000)
/* the other part of a round trip without queues */
#define FORWARD (100 * US)

static struct gw_context ctx;
static struct gw_qp qp;

static int setup(void **state)
{
	(void)state;
	ctx = (struct gw_context){ .now = 0 };
	qp = (struct gw_qp){ .ctx = &ctx, .feedback.rtt_ns = FORWARD + TRIP };
	return 0;
}

/* A report that was written at `now` by our clock, and at `clock` by its writer's, waits for `queue` on its way. */
static uint64_t report(uint64_t now, uint64_t clock, uint64_t queue)
{
	struct control_report report = { .has_clock = true, .clock_us = (uint32_t)(clock / 1000) };

	ctx.arrived = now + TRIP + queue;
	return estimate_return_queue(&qp, &report, FORWARD + TRIP + queue);
}

static void assert_near(uint64_t value, uint64_t expected, uint64_t by)
{
	assert_in_range(value, expected > by ? expected - by : 0, expected + by);
}

/* The writer's clock shows another time, and wraps on the way. */
static void clocks_differ(void **state)
{
	uint64_t at = 0;

	(void)state;
	for (; at < 20 * MS; at += EVERY)
		assert_near(report(at, FOREIGN + at, 0), 0, 2 * US);
	assert_near(report(at, FOREIGN + at, 700 * US), 700 * US, 12 * US);
	assert_near(report(at + EVERY, FOREIGN + at + EVERY, 40 * US), 40 * US, 12 * US);
	at += 8000 * MS;
	assert_near(report(at, FOREIGN + at, 0), 0, 2 * US);
}

/* Without a queue, a clock that runs `ppm` faster than ours lets none appear, for ten seconds. */
static void drift(int64_t ppm)
{
	uint64_t most = 0;

	for (uint64_t at = 0; at < 10000 * MS; at += EVERY) {
		uint64_t queue =
			report(at, FOREIGN + at + (uint64_t)((int64_t)at * ppm / 1000000), 0);

		most = queue > most ? queue : most;
	}
	assert_in_range(most, 0, 3 * US);
}

static void clocks_drift(void **state)
{
	(void)state;
	drift(400);
	setup(NULL);
	drift(-400);
}

/* A queue that does not drain is forgotten slowly; one that drains is seen all the time. */
static void a_queue_stands(void **state)
{
	uint64_t at = 0, queue = 0;

	(void)state;
	report(at, FOREIGN + at, 0);
	for (; at < 1000 * MS; at += EVERY)
		queue = report(at, FOREIGN + at, at % (20 * MS) ? 600 * US : 0);
	assert_near(queue, 600 * US, 12 * US);
	for (; at < 1500 * MS; at += EVERY)
		queue = report(at, FOREIGN + at, 600 * US);
	assert_near(queue, 350 * US, 20 * US);
}

/* However much longer than any round trip before. */
static void a_queue_comes_at_once(void **state)
{
	(void)state;
	report(0, FOREIGN, 0);
	assert_near(report(EVERY, FOREIGN + EVERY, 5 * MS), 5 * MS, 5 * US);
	assert_near(report(2 * EVERY, FOREIGN + 2 * EVERY, 3 * MS), 3 * MS, 5 * US);
}

/* The way back cannot take longer than the round trip. */
static void a_clock_is_set(void **state)
{
	(void)state;
	report(0, FOREIGN, 0);
	assert_near(report(EVERY, FOREIGN + EVERY - 300 * MS, 0), 0, 2 * US);
	assert_near(report(2 * EVERY, FOREIGN + 2 * EVERY - 300 * MS, 50 * US), 50 * US, 2 * US);
	assert_near(report(3 * EVERY, FOREIGN + 3 * EVERY + 500 * MS, 0), 0, 2 * US);
}

static void no_clock(void **state)
{
	struct control_report report = { .has_clock = false, .clock_us = 5 };

	(void)state;
	ctx.arrived = 7 * MS;
	assert_int_equal(estimate_return_queue(&qp, &report, FORWARD + TRIP), 0);
	assert_int_equal(qp.feedback.path.return_at, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(clocks_differ, setup),
		cmocka_unit_test_setup(clocks_drift, setup),
		cmocka_unit_test_setup(a_queue_stands, setup),
		cmocka_unit_test_setup(a_queue_comes_at_once, setup),
		cmocka_unit_test_setup(a_clock_is_set, setup),
		cmocka_unit_test_setup(no_clock, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

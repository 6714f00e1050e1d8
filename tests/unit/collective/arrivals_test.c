/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rate of a link is taken to be, by what arrives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collective/arrivals.h"

#define MS    UINT64_C(1000000)
#define MBIT  UINT64_C(1000000)
#define LINK  (200 * MBIT)
#define RTT   (5 * MS)
#define TURN  (MS / 4)
#define NEVER UINT64_MAX

struct feed {
	struct arrivals arrivals;
	uint64_t now, bytes;
	/* what the link carries, and what senders send if they are not limited */
	uint64_t link_bps, offered_bps;
	unsigned windows;
};

static struct feed feed_of(uint64_t link_bps)
{
	return (struct feed){ .now = MS, .link_bps = link_bps, .offered_bps = NEVER };
}

/* Data arrives for some time, at the least of what is offered, allowed and carried. */
static void run(struct feed *f, uint64_t ns)
{
	for (uint64_t end = f->now + ns; f->now < end; f->now += TURN) {
		uint64_t allowed = arrivals_allowed_bps(&f->arrivals), bps = f->link_bps;

		if (allowed && allowed < bps)
			bps = allowed;
		if (f->offered_bps < bps)
			bps = f->offered_bps;
		f->bytes += bps / 8 * TURN / (1000 * MS);
		f->windows +=
			arrivals_see(&f->arrivals, arrivals_window_ns(RTT, 0), f->bytes, f->now);
	}
}

static void exchange_as(struct feed *f, uint64_t ns, bool trial)
{
	bool limited = f->arrivals.rate_bps != 0;

	arrivals_begin(&f->arrivals, trial);
	run(f, ns);
	arrivals_end(&f->arrivals, limited);
	f->now += 100 * MS;
}

static void exchange(struct feed *f, uint64_t ns)
{
	exchange_as(f, ns, false);
}

static void assert_near(uint64_t value, uint64_t wanted)
{
	assert_in_range(value, wanted - wanted / 50, wanted + wanted / 50);
}

static void a_window_is_two_round_trips(void **state)
{
	(void)state;
	assert_int_equal(arrivals_window_ns(RTT, 0), 2 * RTT);
	assert_int_equal(arrivals_window_ns(0, 0), MS);
	/* Of a long operation they are longer: a process is late by some ms at times, and then takes in more than the link carries. */
	assert_int_equal(arrivals_window_ns(RTT, 32.0 * RTT), 2 * RTT);
	assert_int_equal(arrivals_window_ns(RTT, 1e9), 62500000);
	assert_int_equal(arrivals_window_ns(0, 16e6), MS);
	assert_int_equal(arrivals_window_ns(0, 160e6), 10 * MS);
}

/* The link is full: what arrives is its rate, and what is allowed is a little less, or a tenth more. */
static void a_full_link_tells_its_rate(void **state)
{
	struct feed f = feed_of(LINK);
	unsigned less = 0, more = 0;

	(void)state;
	exchange(&f, 200 * MS);
	assert_near(f.arrivals.rate_bps, LINK);
	arrivals_begin(&f.arrivals, false);
	for (unsigned i = 0; i < 12; i++) {
		uint64_t allowed;

		run(&f, 2 * RTT);
		allowed = arrivals_allowed_bps(&f.arrivals);
		assert_in_range(allowed, LINK / 100 * 93, LINK / 100 * 113);
		less += allowed < LINK;
		more += allowed > LINK;
	}
	/* Mostly less. */
	assert_true(less > more);
	assert_true(more > 1);
}

/* Senders that still find out what they may send tell nothing: twice as much in each window is no rate. */
static void the_start_tells_nothing(void **state)
{
	struct feed f = feed_of(LINK);

	(void)state;
	f.offered_bps = LINK / 40;
	arrivals_begin(&f.arrivals, false);
	for (unsigned i = 0; i < 5; i++) {
		run(&f, 2 * RTT);
		assert_int_equal(f.arrivals.rate_bps, 0);
		assert_int_equal(arrivals_allowed_bps(&f.arrivals), 0);
		f.offered_bps *= 2;
	}
}

/* A rate that was much too low is left within some exchanges: each success allows twice as much more. */
static void a_link_that_has_more_shows_it(void **state)
{
	struct feed f = feed_of(LINK);

	(void)state;
	exchange(&f, 200 * MS);
	f.link_bps = 10 * LINK;
	exchange(&f, 600 * MS);
	assert_true(f.arrivals.rate_bps > 5 * LINK);
}

/* A slower link is followed, by an eighth of the way in each trial; one that did not fill it loses as little. */
static void a_slower_link_is_followed_slowly(void **state)
{
	struct feed f = feed_of(LINK);
	uint64_t before;

	(void)state;
	exchange(&f, 200 * MS);
	before = f.arrivals.rate_bps;
	f.link_bps = LINK / 2;
	exchange_as(&f, 200 * MS, true);
	assert_near(f.arrivals.rate_bps, before - before / 16);
	for (unsigned i = 0; i < 30; i++)
		exchange_as(&f, 200 * MS, true);
	assert_near(f.arrivals.rate_bps, LINK / 2);
}

/* Senders that kept to a limit, and waited for each other beside, bring less than the link carries: limits from that would fall and fall. */
static void what_was_limited_lowers_nothing(void **state)
{
	struct feed f = feed_of(LINK);

	(void)state;
	exchange(&f, 200 * MS);
	for (unsigned i = 0; i < 30; i++) {
		f.offered_bps = arrivals_allowed_bps(&f.arrivals) / 10 * 9;
		exchange(&f, 200 * MS);
	}
	assert_near(f.arrivals.rate_bps, LINK);
}

/* A trial allows half as much more for as long as it lasts, so that a rate that is too low is left; and then it is over. */
static void a_trial_allows_more(void **state)
{
	struct feed f = feed_of(LINK);

	(void)state;
	exchange(&f, 200 * MS);
	f.arrivals.rate_bps = LINK / 2;
	arrivals_begin(&f.arrivals, true);
	for (unsigned i = 0; i < 5; i++) {
		assert_near(arrivals_allowed_bps(&f.arrivals), f.arrivals.rate_bps / 2 * 3);
		run(&f, 2 * RTT);
	}
	arrivals_end(&f.arrivals, true);
	assert_true(f.arrivals.rate_bps > LINK / 10 * 9);
	assert_true(arrivals_allowed_bps(&f.arrivals) < f.arrivals.rate_bps);
}

/* Windows end before a pause: half a window of data and half of none is not half the rate. */
static void a_pause_is_in_no_window(void **state)
{
	struct feed f = feed_of(LINK);
	unsigned before;

	(void)state;
	exchange(&f, 200 * MS);
	before = f.windows;
	arrivals_begin(&f.arrivals, false);
	for (unsigned i = 0; i < 20; i++) {
		run(&f, RTT);
		f.now += RTT;
	}
	arrivals_end(&f.arrivals, false);
	assert_int_equal(f.windows, before);
	assert_near(f.arrivals.rate_bps, LINK);
}

/* A process that looks rarely sees much at a time: a window has eight looks. */
static void few_looks_are_no_window(void **state)
{
	struct feed f = feed_of(LINK);

	(void)state;
	arrivals_begin(&f.arrivals, false);
	for (unsigned i = 0; i < 9; i++) {
		f.now += 4 * MS;
		f.bytes += 100000;
		assert_int_equal(
			arrivals_see(&f.arrivals, arrivals_window_ns(RTT, 0), f.bytes, f.now),
			i == 8);
	}
}

/* A packet of 4 KiB takes two thirds of a millisecond on a link of 50 Mbit/s, and a window of a short path one. */
static void a_slow_link_has_long_windows(void **state)
{
	struct arrivals arrivals = { 0 };
	uint64_t bytes = 0, now = MS, least_ns = NEVER, ended = 0;

	(void)state;
	arrivals_begin(&arrivals, false);
	for (unsigned i = 0; i < 100; i++) {
		now += MS * 2 / 3;
		bytes += 4167;
		if (!arrivals_see(&arrivals, arrivals_window_ns(0, 0), bytes, now))
			continue;
		if (ended && now - ended < least_ns)
			least_ns = now - ended;
		ended = now;
	}
	assert_near(arrivals.rate_bps, 50 * MBIT);
	assert_in_range(least_ns, 5 * MS, 7 * MS);
	/* But a pause is none: only windows of data count, in which more arrives. */
	now += 100 * MS;
	for (unsigned i = 0; i < 100; i++) {
		now += MS / 10;
		bytes += 1250;
		arrivals_see(&arrivals, arrivals_window_ns(0, 0), bytes, now);
	}
	assert_near(arrivals.rate_bps, 100 * MBIT);
}

/* Near the end of an operation the last senders do not fill the link, for two windows or for more. */
static void the_end_tells_nothing(void **state)
{
	struct feed f = feed_of(LINK);

	(void)state;
	arrivals_begin(&f.arrivals, false);
	f.offered_bps = LINK / 4;
	run(&f, 2 * RTT + TURN);
	f.offered_bps = NEVER;
	run(&f, 2 * RTT);
	f.offered_bps = LINK / 20;
	run(&f, 8 * RTT);
	assert_int_equal(f.arrivals.rate_bps, 0);
	arrivals_end(&f.arrivals, false);
	/* A rate that was taken too low all the same is found again. */
	f.arrivals.rate_bps = LINK / 10;
	arrivals_begin(&f.arrivals, false);
	f.bytes += LINK / 8 * 2 * RTT / (1000 * MS);
	for (unsigned i = 0; i < 10; i++) {
		f.now += RTT / 4;
		f.bytes += LINK / 8 * RTT / 4 / (1000 * MS);
		arrivals_see(&f.arrivals, arrivals_window_ns(RTT, 0), f.bytes, f.now);
	}
	arrivals_end(&f.arrivals, false);
	assert_int_equal(f.arrivals.rate_bps, 0);
}

/* What comes once in many round trips is held back by something else than the link. */
static void what_comes_rarely_tells_nothing(void **state)
{
	struct arrivals arrivals = { 0 };
	uint64_t now = MS;

	(void)state;
	arrivals_begin(&arrivals, false);
	for (unsigned i = 0; i < 100; i++) {
		now += 10 * MS;
		assert_false(arrivals_see(&arrivals, arrivals_window_ns(0, 0), i * 65536, now));
	}
	assert_int_equal(arrivals.rate_bps, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_window_is_two_round_trips),
		cmocka_unit_test(a_full_link_tells_its_rate),
		cmocka_unit_test(the_start_tells_nothing),
		cmocka_unit_test(a_link_that_has_more_shows_it),
		cmocka_unit_test(a_slower_link_is_followed_slowly),
		cmocka_unit_test(what_was_limited_lowers_nothing),
		cmocka_unit_test(a_trial_allows_more),
		cmocka_unit_test(a_pause_is_in_no_window),
		cmocka_unit_test(few_looks_are_no_window),
		cmocka_unit_test(a_slow_link_has_long_windows),
		cmocka_unit_test(the_end_tells_nothing),
		cmocka_unit_test(what_comes_rarely_tells_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

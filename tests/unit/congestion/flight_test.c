/* SPDX-License-Identifier: BSD-3-Clause */
/* Flights: what leaves between two pauses, when it left, and whether that was at the window's rate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "congestion/flight.h"

#define MS	 UINT64_C(1000000)
#define START_NS UINT64_C(1000000000)
#define TRIP_NS	 (10 * MS)
#define BYTES	 10000u
/* A window of which BYTES are no small part. */
#define WINDOW (4.0 * BYTES)

static struct flights flights;

static void leave(uint64_t after_ns, uint64_t bytes)
{
	flights_sent(&flights, bytes, TRIP_NS, START_NS + after_ns);
}

static double paced(double window)
{
	return flights_paced(&flights, window, TRIP_NS);
}

/* The host holds data until its departure, while short messages leave at once: the flight lasts until its latest departure, and
 * does not end before it begins. */
static void departures_are_not_in_order(void **state)
{
	(void)state;
	flights = (struct flights){ 0 };
	leave(3 * MS, BYTES);
	leave(0, BYTES);
	assert_true(paced(WINDOW) == 2 * BYTES);
	leave(7 * MS, BYTES);
	leave(1 * MS, BYTES);
	assert_int_equal(flights.latest.last_at, START_NS + 7 * MS);
	/* 40000 bytes in 4 ms: the rate of 100000 in a round trip, of which half would be enough. */
	assert_true(paced(1.9 * 10 * BYTES) == 4 * BYTES);
	assert_true(paced(2.1 * 10 * BYTES) == 0);
}

/* A report tells of what left a round trip ago, when the next flight has begun. */
static void the_former_flight_is_remembered(void **state)
{
	(void)state;
	flights = (struct flights){ 0 };
	leave(0, BYTES);
	leave(TRIP_NS / 2 + 1, 1);
	assert_true(flights.latest.bytes == 1);
	assert_true(paced(WINDOW) == BYTES);
	/* The one before that is not. */
	leave(TRIP_NS + 2, 1);
	assert_true(paced(WINDOW) == 0);
}

/* Data that leaves all the time is cut into flights of a round trip, so that none is larger than what was under way. */
static void a_flight_lasts_a_round_trip_at_most(void **state)
{
	(void)state;
	flights = (struct flights){ 0 };
	for (uint64_t at = 0; at < 10 * TRIP_NS; at += TRIP_NS / 10)
		leave(at, BYTES);
	assert_true(flights.former.bytes == 11 * BYTES);
	assert_true(flights.former.last_at - flights.former.first_at == TRIP_NS);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(departures_are_not_in_order),
		cmocka_unit_test(the_former_flight_is_remembered),
		cmocka_unit_test(a_flight_lasts_a_round_trip_at_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

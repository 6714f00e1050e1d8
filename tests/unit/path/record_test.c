/* SPDX-License-Identifier: BSD-3-Clause */
/* A lane's record: what is forgotten in time, so that the past neither excuses nor condemns a lane. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "path/path.h"

#define TRIP_NS UINT64_C(1000000)
#define SECOND	UINT64_C(1000000000)
#define LANES	4u
#define NO_LANE LANES
#define LOSING	4 /* packets of a turn of a bad lane */
#define EXTRA	200u

static struct path *path;
static uint64_t now;

static int open_path(void **state)
{
	(void)state;
	now = 1;
	path = path_open(LANES);
	path->dead_ns = 3 * TRIP_NS;
	return path ? 0 : -1;
}

static int close_path(void **state)
{
	(void)state;
	path_close(path);
	return 0;
}

/* Packets leave on a lane; a round trip later it is known how many arrived. */
static enum path_news turn(uint32_t lane, uint32_t packets, uint32_t arrived, uint64_t trip_ns)
{
	uint32_t number = path_sent(path, lane, packets, now);
	enum path_news news;

	path->landed_sent_ns = now;
	now += trip_ns + 1;
	news = path_told(path, lane, path->lane[lane].landed + arrived, 0, trip_ns, now);
	return news != PATH_NO_NEWS ? news : path_echoed(path, lane, number, trip_ns, trip_ns, now);
}

/* Turns of all lanes in use, until there is news of one; one of them is bad. Returns how many it took, 0: `count` were not
 * enough. */
static uint32_t turns(uint32_t count, uint32_t bad)
{
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t lane = 0; lane < LANES; lane++)
			if (path->lane[lane].state == PATH_USED &&
			    turn(lane, PATH_TURN, PATH_TURN - (lane == bad ? LOSING : 0),
				 TRIP_NS) != PATH_NO_NEWS)
				return i + 1;
	return 0;
}

/* Packets that the network duplicated make up for none that are lost later. */
static void duplicates_excuse_nothing(void **state)
{
	uint32_t usual;

	(void)state;
	turns(10, NO_LANE);
	usual = turns(100, 1);
	assert_true(usual > 0);
	close_path(state);
	open_path(state);
	turns(10, NO_LANE);
	assert_int_equal(turn(1, PATH_TURN, PATH_TURN + EXTRA, TRIP_NS), PATH_NO_NEWS);
	assert_in_range(turns(100, 1), 1, 2 * usual);
}

/* Packets were very late once. A lane that is bad long after that is found as soon as any. */
static void disorder_is_forgotten(void **state)
{
	uint32_t number, usual;

	(void)state;
	turns(200, NO_LANE);
	usual = turns(100, 1);
	assert_true(usual > 0);
	close_path(state);
	open_path(state);
	turns(10, NO_LANE);
	/* The last one overtakes the others. */
	number = path_sent(path, 1, EXTRA, now);
	path_told(path, 1, path->lane[1].landed + 1, 0, TRIP_NS, now);
	path_echoed(path, 1, number, TRIP_NS, TRIP_NS, now);
	path_told(path, 1, path->lane[1].landed + EXTRA - 1, 0, TRIP_NS, now);
	path_echoed(path, 1, number, TRIP_NS, TRIP_NS, now);
	assert_int_equal(path->lane[1].disorder, EXTRA - 1);
	turns(400, NO_LANE);
	assert_in_range(turns(100, 1), 1, 2 * usual);
}

/* Packets that were excused and have landed after all leave room for others. */
static void excuses_are_given_back(void **state)
{
	(void)state;
	turns(2, NO_LANE);
	path_sent(path, 2, 20, now);
	now += TRIP_NS + 1;
	assert_int_equal(path_excused(path, 20, TRIP_NS, now), 20);
	path_told(path, 2, path->lane[2].landed + 20, 0, TRIP_NS, now);
	assert_int_equal(path_excused(path, 1, TRIP_NS, now), 0);
	path_sent(path, 2, 5, now);
	now += TRIP_NS + 1;
	assert_int_equal(path_excused(path, 9, TRIP_NS, now), 5);
}

/* After an outage a few packets in flight do not make a lane dead, whatever it lost before. */
static void an_outage_leaves_nothing_in_flight(void **state)
{
	(void)state;
	turns(2, NO_LANE);
	for (uint32_t lane = 0; lane < LANES; lane++)
		path_sent(path, lane, 2 * PATH_TURN, now);
	now += 10 * TRIP_NS;
	path_told(path, 0, path->lane[0].landed + 1, 0, TRIP_NS, now);
	path_sent(path, 1, 4, now);
	now += 10 * TRIP_NS;
	path->landed_sent_ns = now;
	path_told(path, 0, path->lane[0].landed + 1, 0, TRIP_NS, now);
	assert_int_equal(path_told(path, 1, path->lane[1].landed, 0, TRIP_NS, now), PATH_NO_NEWS);
	path_sent(path, 1, PATH_TURN, now);
	assert_int_equal(path_told(path, 1, path->lane[1].landed, 0, TRIP_NS, now), PATH_DEAD);
}

/* All lanes are tried when nothing arrives any more. One that was dead has as much time to be heard as the others. */
static void a_stall_begins_anew(void **state)
{
	(void)state;
	turns(2, NO_LANE);
	path_sent(path, 1, 2 * PATH_TURN, now);
	now += 10 * TRIP_NS;
	path->landed_sent_ns = now;
	assert_int_equal(path_told(path, 1, path->lane[1].landed, 0, TRIP_NS, now), PATH_DEAD);
	path_stalled(path);
	path_sent(path, 1, PATH_TURN, now);
	path->landed_sent_ns = now + 1;
	now += TRIP_NS;
	assert_int_equal(path_told(path, 1, path->lane[1].landed, 0, TRIP_NS, now), PATH_NO_NEWS);
}

/* However long the path is and however often a lane was bad: it is tried again after half a minute. */
static void pauses_have_an_end(void **state)
{
	uint64_t trip_ns = SECOND / 10;

	(void)state;
	for (int i = 0; i < 12; i++) {
		assert_int_equal(path_small(path, 1, trip_ns, now), PATH_SMALL);
		assert_in_range(path->lane[1].until_ns - now, 16 * trip_ns, 30 * SECOND);
		now = path->lane[1].until_ns;
	}
	assert_int_equal(path->lane[1].pauses, 10);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(duplicates_excuse_nothing, open_path, close_path),
		cmocka_unit_test_setup_teardown(disorder_is_forgotten, open_path, close_path),
		cmocka_unit_test_setup_teardown(excuses_are_given_back, open_path, close_path),
		cmocka_unit_test_setup_teardown(an_outage_leaves_nothing_in_flight, open_path,
						close_path),
		cmocka_unit_test_setup_teardown(a_stall_begins_anew, open_path, close_path),
		cmocka_unit_test_setup_teardown(pauses_have_an_end, open_path, close_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Lanes without a network: whose turn it is, and what it takes to be put out of use and to come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "path/path.h"

#define TRIP_NS UINT64_C(1000000)

static struct path *path;
static uint64_t now;

static int open_path(void **state)
{
	(void)state;
	now = 1;
	path = path_open(4);
	path->dead_ns = 3 * TRIP_NS;
	return path ? 0 : -1;
}

static int close_path(void **state)
{
	(void)state;
	path_close(path);
	return 0;
}

/* A turn of the lane that has it: `lost` of its packets do not arrive, and a round trip later all of that is known. */
static enum path_news turn(uint32_t lane, uint32_t packets, uint32_t lost)
{
	uint32_t number = path_sent(path, lane, packets, now);
	enum path_news news;

	if (lost < packets)
		path->landed_sent_ns = now;
	now += TRIP_NS + 1;
	news = path_told(path, lane, path->lane[lane].landed + packets - lost, 0, TRIP_NS, now);
	if (news != PATH_NO_NEWS || lost == packets)
		return news;
	return path_echoed(path, lane, number, TRIP_NS, TRIP_NS, now);
}

static enum path_news turns(uint32_t count, uint32_t bad, uint32_t lost)
{
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t lane = 0; lane < 4; lane++) {
			enum path_news news;

			if (path->lane[lane].state != PATH_USED)
				continue;
			news = turn(lane, PATH_TURN, lane == bad ? lost : 0);
			if (news != PATH_NO_NEWS)
				return news;
		}
	return PATH_NO_NEWS;
}

static uint32_t lanes_out_of_use(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < path->count; i++)
		count += path->lane[i].state != PATH_USED;
	return count;
}

static void take_turns(void **state)
{
	uint32_t most;

	(void)state;
	for (uint32_t i = 0; i < 8; i++) {
		uint32_t lane = path_spray(path, now, &most);

		assert_int_equal(lane, i % 4);
		assert_int_equal(most, PATH_TURN);
		path_sent(path, lane, 10, now);
		/* It is not over, and repairs in between do not end it. */
		assert_int_equal(path_repeat(path, lane), (lane + 1) % 4);
		path_sent(path, (lane + 1) % 4, 1, now);
		assert_int_equal(path_spray(path, now, &most), lane);
		assert_int_equal(most, PATH_TURN - 10);
		path_sent(path, lane, most, now);
	}
}

/* A packet whose lane is not known may have been lost on any: it is not repeated by the same one for ever. */
static void unknown_lane_rotates(void **state)
{
	uint32_t seen = 0;

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		seen |= 1u << path_repeat(path, PATH_NONE);
	assert_int_equal(seen, 0xf);
}

static void loses(void **state)
{
	(void)state;
	assert_int_equal(turns(100, 1, 1), PATH_LOSES);
	assert_int_equal(path->lane[1].state, PATH_RETIRED);
	assert_int_equal(lanes_out_of_use(), 1);
	assert_in_range(path->lane[1].sent, 128, 1024);
	/* Nobody is given to it any more. */
	assert_int_equal(path_repeat(path, 0), 2);
}

/* All lose alike: three times what the others lose is needed, and more. */
static void alike(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++)
		for (uint32_t lane = 0; lane < 4; lane++)
			assert_int_equal(turn(lane, PATH_TURN, lane == 2 ? 2 : 1), PATH_NO_NEWS);
	assert_true(path->lane[2].loss > 0.11f && path->lane[2].loss < 0.14f);
	assert_true(path->lane[3].loss > 0.05f && path->lane[3].loss < 0.07f);
}

/* One burst of loss is no habit. */
static void once(void **state)
{
	(void)state;
	assert_int_equal(turns(10, 4, 0), PATH_NO_NEWS);
	assert_int_equal(turn(3, PATH_TURN, PATH_TURN - 1), PATH_NO_NEWS);
	assert_int_equal(turns(100, 4, 0), PATH_NO_NEWS);
	assert_int_equal(lanes_out_of_use(), 0);
}

static void dead(void **state)
{
	(void)state;
	turns(2, 4, 0);
	assert_int_equal(turns(10, 2, PATH_TURN), PATH_DEAD);
	assert_in_range(path->lane[2].sent, 2 * PATH_TURN, 8 * PATH_TURN);
}

/* When all are, nobody is better than the others. */
static void all_dead(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++)
		for (uint32_t lane = 0; lane < 4; lane++)
			assert_int_equal(turn(lane, PATH_TURN, PATH_TURN), PATH_NO_NEWS);
}

/* A pause, a few packets, more of them, and then it is back; in vain the next pause is longer. */
static void tried(void **state)
{
	uint64_t first_pause;
	uint32_t most, lane;

	(void)state;
	assert_int_equal(turns(100, 1, 1), PATH_LOSES);
	first_pause = path->lane[1].until_ns - now;
	now = path->lane[1].until_ns;
	turns(1, 4, 0);
	do {
		lane = path_spray(path, now, &most);
		if (lane != 1)
			turn(lane, most, 0);
	} while (lane != 1);
	assert_int_equal(path->lane[1].state, PATH_TRIED);
	assert_true(most < PATH_TURN);
	assert_int_equal(turn(1, most, most), PATH_NO_NEWS);
	now += 2 * TRIP_NS;
	assert_int_equal(path_told(path, 1, path->lane[1].landed, 0, TRIP_NS, now),
			 PATH_STAYS_AWAY);
	assert_true(path->lane[1].until_ns - now >= 2 * first_pause);
	now = path->lane[1].until_ns;
	for (int i = 0; i < 100 && path->lane[1].state != PATH_USED; i++) {
		lane = path_spray(path, now, &most);
		turn(lane, most, 0);
	}
	assert_int_equal(path->lane[1].state, PATH_USED);
}

/* The pause of lane 1 passes, and its trial goes well. */
static void come_back(void)
{
	uint32_t most;

	now = path->lane[1].until_ns;
	for (int i = 0; i < 100 && path->lane[1].state != PATH_USED; i++) {
		uint32_t lane = path_spray(path, now, &most);

		turn(lane, most, 0);
	}
	assert_int_equal(path->lane[1].state, PATH_USED);
}

/* Whatever it lost before, and however it was put out of use: it begins with a clean record, and is watched as at first. */
static void past_is_forgotten(void **state)
{
	(void)state;
	for (uint32_t lost = 4; lost <= PATH_TURN; lost += PATH_TURN - 4) {
		open_path(state);
		turns(10, 4, 0);
		assert_int_equal(turns(100, 1, lost), lost < PATH_TURN ? PATH_LOSES : PATH_DEAD);
		come_back();
		assert_int_equal(path->lane[1].seen_lost, 0);
		for (int i = 0; i < 100; i++) {
			assert_int_equal(turns(1, 4, 0), PATH_NO_NEWS);
			assert_true(path->lane[1].loss <= 0);
		}
		assert_int_equal(turns(20, 1, 3), PATH_LOSES);
		close_path(state);
	}
}

/* Once more it has to be found bad twice. */
static void suspicion_is_forgotten(void **state)
{
	(void)state;
	assert_int_equal(turns(100, 1, 4), PATH_LOSES);
	come_back();
	assert_int_equal(turns(4, 1, 4), PATH_NO_NEWS);
	assert_int_equal(path->lane[1].seen, 4 * PATH_TURN);
	assert_int_equal(turns(100, 4, 0), PATH_NO_NEWS);
	assert_int_equal(lanes_out_of_use(), 0);
}

/* A lane that is bad again soon after it came back rests for longer; one that worked for long, as at first. */
static void pauses(void **state)
{
	uint64_t first_pause;

	(void)state;
	assert_int_equal(turns(100, 1, 4), PATH_LOSES);
	first_pause = path->lane[1].until_ns - now;
	for (int i = 1; i < 4; i++) {
		come_back();
		assert_int_equal(turns(100, 1, 4), PATH_LOSES);
		assert_int_equal(path->lane[1].until_ns - now, first_pause << i);
	}
	come_back();
	assert_int_equal(turns(200, 4, 0), PATH_NO_NEWS);
	assert_int_equal(turns(100, 1, 4), PATH_LOSES);
	assert_int_equal(path->lane[1].until_ns - now, first_pause);
}

#define JUMBLED 20u /* packets more or less */

/* Packets of lane 1 arrive out of order: when one is told to have landed, up to so many sent before it have not, or so many
 * sent after it have. */
static enum path_news jumbled_turns(uint32_t count, uint32_t lost, struct rng *rng)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = path_sent(path, 1, 4 * PATH_TURN, now);
		enum path_news news = turns(1, 4, 0);

		path_told(path, 1, path->lane[1].landed + 4 * PATH_TURN - lost, 0, TRIP_NS, now);
		for (int sample = 0; sample < 3 && news == PATH_NO_NEWS; sample++) {
			uint32_t off = (uint32_t)rng_below(rng, 2 * JUMBLED + 1);

			now += TRIP_NS / 2;
			news = path_echoed(path, 1, number - JUMBLED + off, TRIP_NS, TRIP_NS, now);
		}
		if (news != PATH_NO_NEWS)
			return news;
	}
	return PATH_NO_NEWS;
}

/* What comes late is not lost, however long this goes on; what is lost besides is found out all the same. */
static void jumbled(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct rng rng;

		rng_seed(&rng, seed);
		open_path(state);
		assert_int_equal(jumbled_turns(300, 0, &rng), PATH_NO_NEWS);
		assert_int_equal(jumbled_turns(300, 5, &rng), PATH_LOSES);
		close_path(state);
	}
}

/* What a silent lane swallows says nothing about congestion: as many as it was given, and not before it is silent. */
static void excused(void **state)
{
	(void)state;
	turns(2, 4, 0);
	assert_int_equal(path_excused(path, 9, TRIP_NS, now), 0);
	path_sent(path, 2, 20, now);
	assert_int_equal(path_excused(path, 9, TRIP_NS, now), 0);
	now += TRIP_NS + 1;
	assert_int_equal(path_excused(path, 15, TRIP_NS, now), 15);
	assert_int_equal(path_excused(path, 15, TRIP_NS, now), 5);
	assert_int_equal(path_excused(path, 15, TRIP_NS, now), 0);
	path_sent(path, 2, 5, now);
	assert_int_equal(path_excused(path, 15, TRIP_NS, now), 5);
}

/* A lane that was dead from the start is known by what the others bring, without waiting for its silence. */
static void never_heard(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < path->count; i++)
		path_sent(path, i, 16, now);
	assert_int_equal(path_excused(path, 48, TRIP_NS, now), 0);
	now += TRIP_NS / 2;
	path_told(path, 0, 16, 0, TRIP_NS, now);
	path_told(path, 1, 10, 0, TRIP_NS, now);
	path_told(path, 3, 16, 0, TRIP_NS, now);
	assert_int_equal(path_excused(path, 22, TRIP_NS, now), 16);
	path_told(path, 2, 1, 0, TRIP_NS, now);
	assert_int_equal(path_excused(path, 22, TRIP_NS, now), 0);
}

/* A receiver that is slow takes in late what left long ago: that proves nothing about a lane. */
static void what_left_before_proves_nothing(void **state)
{
	uint64_t sent_ns = now;

	(void)state;
	path_sent(path, 0, 4 * PATH_TURN, sent_ns);
	path_sent(path, 1, 4 * PATH_TURN, sent_ns);
	now += 10 * TRIP_NS;
	path->landed_sent_ns = sent_ns;
	path_told(path, 0, 2 * PATH_TURN, 0, TRIP_NS, now);
	assert_int_equal(path_told(path, 1, 0, 0, TRIP_NS, now), PATH_NO_NEWS);
	path->landed_sent_ns = sent_ns + path->dead_ns + 1;
	path_told(path, 0, 3 * PATH_TURN, 0, TRIP_NS, now);
	assert_int_equal(path_told(path, 1, 0, 0, TRIP_NS, now), PATH_DEAD);
	/* The last lane in use stays in use. */
	for (uint32_t lane = 0; lane < 4; lane += lane ? 1 : 2) {
		path_sent(path, lane, 4 * PATH_TURN, now);
		path->landed_sent_ns = now + path->dead_ns + 1;
		now += 10 * TRIP_NS;
		assert_int_equal(path_told(path, lane, path->lane[lane].landed, 0, TRIP_NS, now),
				 lane < 3 ? PATH_DEAD : PATH_NO_NEWS);
	}
}

/* All lanes were down for a while: which of them is heard first afterwards says nothing about the others. */
static void outage_retires_no_lane(void **state)
{
	(void)state;
	assert_int_equal(turns(10, 4, 0), PATH_NO_NEWS);
	for (uint32_t lane = 0; lane < 4; lane++)
		path_sent(path, lane, lane * 2 * PATH_TURN + PATH_TURN, now);
	now += 10 * TRIP_NS;
	path_sent(path, 0, 2, now);
	path->landed_sent_ns = now;
	now += TRIP_NS;
	assert_int_equal(path_told(path, 0, path->lane[0].landed + 2, 0, TRIP_NS, now),
			 PATH_NO_NEWS);
	for (uint32_t lane = 1; lane < 4; lane++)
		assert_int_equal(path_told(path, lane, path->lane[lane].landed, 0, TRIP_NS, now),
				 PATH_NO_NEWS);
	/* Nor does what they lost meanwhile, of which one had more than another. */
	assert_int_equal(turns(40, 4, 0), PATH_NO_NEWS);
	assert_int_equal(lanes_out_of_use(), 0);
	/* One that stays dead is found as ever. */
	assert_int_equal(turns(10, 2, PATH_TURN), PATH_DEAD);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(outage_retires_no_lane, open_path, close_path),
		cmocka_unit_test(past_is_forgotten),
		cmocka_unit_test_setup_teardown(suspicion_is_forgotten, open_path, close_path),
		cmocka_unit_test_setup_teardown(pauses, open_path, close_path),
		cmocka_unit_test_setup_teardown(what_left_before_proves_nothing, open_path,
						close_path),
		cmocka_unit_test_setup_teardown(take_turns, open_path, close_path),
		cmocka_unit_test_setup_teardown(unknown_lane_rotates, open_path, close_path),
		cmocka_unit_test_setup_teardown(loses, open_path, close_path),
		cmocka_unit_test_setup_teardown(alike, open_path, close_path),
		cmocka_unit_test_setup_teardown(once, open_path, close_path),
		cmocka_unit_test_setup_teardown(dead, open_path, close_path),
		cmocka_unit_test_setup_teardown(all_dead, open_path, close_path),
		cmocka_unit_test_setup_teardown(tried, open_path, close_path),
		cmocka_unit_test(jumbled),
		cmocka_unit_test_setup_teardown(excused, open_path, close_path),
		cmocka_unit_test_setup_teardown(never_heard, open_path, close_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

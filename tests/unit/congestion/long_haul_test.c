/* SPDX-License-Identifier: BSD-3-Clause */
/* How long-haul answers to each sign, fed by hand; how it fares in a closed loop is in loop_test.c. */
#include "feed.h"

#include "base/rng.h"

#define RTT (25 * MS)

/* Past the start, on a path of 1 Gbit/s: balanced at a queue of 1.2 ms. */
static void open_cruising(struct feed *feed)
{
	feed_open(feed, "long-haul", GBIT, RTT);
	feed_for(feed, 12 * RTT);
	feed->rtt_ns = RTT + 1200 * US;
	feed_for(feed, 20 * RTT);
	assert_explained(feed, "cruising");
}

static void start_doubles_until_the_rate_stops_growing(void **state)
{
	struct feed feed;
	uint64_t before = 0;

	(void)state;
	feed_open(&feed, "long-haul", GBIT, RTT);
	assert_true(feed_rate(&feed) == CC_UNPACED);
	assert_int_equal(feed_window(&feed), 32 * PACKET);
	feed_for(&feed, 2 * RTT);
	for (int i = 0; i < 3; i++) {
		before = feed_window(&feed);
		feed_for(&feed, RTT);
		assert_in_range(feed_window(&feed), 16 * before / 10, 3 * before);
	}
	feed_for(&feed, 10 * RTT);
	/* What the path holds, and what may be in flight beyond it because reports are old. */
	assert_in_range(feed_window(&feed), 3125000, 3 * 3125000);
	assert_in_range(feed_rate(&feed), 950 * MBIT, 1700 * MBIT);
}

/* The peer sends too, and its reports wait behind its data. */
static void a_queue_on_the_way_back_is_none(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_cruising(&feed);
	before = feed_rate(&feed);
	feed.return_ns = 10 * MS;
	feed.rtt_ns += feed.return_ns;
	feed_for(&feed, 20 * RTT);
	assert_in_range(feed_rate(&feed), before * 9 / 10, before * 12 / 10);
	assert_explained(&feed, "queue 1.2 ms over 25.0 ms");
}

static void start_ends_with_a_queue(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	feed_open(&feed, "long-haul", 10 * GBIT, RTT);
	feed_for(&feed, 4 * RTT);
	assert_explained(&feed, "starting");
	before = feed_window(&feed);
	/* One late report is no queue. */
	feed.rtt_ns = RTT + 5 * MS;
	feed_report(&feed);
	feed.rtt_ns = RTT;
	feed_report(&feed);
	assert_explained(&feed, "starting");
	feed.rtt_ns = RTT + 5 * MS;
	feed_for(&feed, RTT);
	assert_explained(&feed, "draining");
	assert_true(feed_window(&feed) < 2 * before);
}

/* Hosts are late now and then; that is no queue. */
static void one_late_report_is_no_queue(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_cruising(&feed);
	before = feed_rate(&feed);
	for (int i = 0; i < 80; i++) {
		feed.rtt_ns = RTT + (i % 3 == 2 ? 9200 * US : 1200 * US);
		feed_report(&feed);
		assert_in_range(feed_rate(&feed), 95 * before / 100, 107 * before / 100);
	}
	assert_explained(&feed, "cruising");
}

/* One slow round, behind a faster one: the window falls to what the faster one brought, not to what the slow one did. */
static void the_slower_of_two_rounds_does_not_count(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_cruising(&feed);
	before = feed_window(&feed);
	feed.rtt_ns = 2 * RTT;
	feed.rate_bps = GBIT / 10;
	feed_for(&feed, 4 * RTT);
	feed.rtt_ns = RTT + 1200 * US;
	feed.rate_bps = GBIT;
	feed_for(&feed, RTT);
	assert_in_range(feed_window(&feed), before / 5, before * 11 / 10);
}

static void a_queue_shrinks_the_window_and_its_absence_lets_it_grow(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_cruising(&feed);
	before = feed_window(&feed);
	feed.rtt_ns = RTT + 3 * MS;
	feed_for(&feed, 10 * RTT);
	assert_explained(&feed, "backing off: the queue is long");
	assert_in_range(feed_window(&feed), before / 2, 9 * before / 10);
	before = feed_window(&feed);
	feed.rtt_ns = RTT;
	feed.rate_bps = 10 * GBIT;
	feed_for(&feed, 12 * RTT);
	assert_explained(&feed, "probing up");
	assert_true(feed_window(&feed) > 3 * before);
}

/* The share to grow by falls with the window, that to shrink by does not: so flows become equal. */
static void small_windows_grow_faster(void **state)
{
	double grown[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct feed feed;
		uint64_t before;

		feed_open(&feed, "long-haul", i ? 200 * MBIT : GBIT, RTT);
		feed_for(&feed, 14 * RTT);
		feed.rtt_ns = RTT + 1500 * US;
		feed_for(&feed, 2 * RTT);
		before = feed_window(&feed);
		feed_for(&feed, 10 * RTT);
		grown[i] = (double)feed_window(&feed) / (double)before;
	}
	assert_true(grown[0] < 1);
	assert_true(grown[1] > 1.05);
}

static void chance_loss_changes_nothing(void **state)
{
	static const double losses[] = { 0.001, 0.01, 0.05, 0.1 };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct feed feed;
		uint64_t before;

		open_cruising(&feed);
		before = feed_window(&feed);
		/* A queue below the balance: there is no reason to yield. */
		feed.rtt_ns = RTT + 600 * US;
		feed.loss = losses[i];
		feed_for(&feed, 40 * RTT);
		assert_true(feed_window(&feed) >= before);
	}
}

static void loss_with_a_queue_is_congestion(void **state)
{
	struct feed with, without;

	(void)state;
	open_cruising(&with);
	open_cruising(&without);
	with.rtt_ns = without.rtt_ns = RTT + 2 * MS;
	with.loss = 0.05;
	feed_for(&with, 8 * RTT);
	feed_for(&without, 8 * RTT);
	assert_true(feed_window(&with) < 9 * feed_window(&without) / 10);
}

static bool says(const struct feed *feed, const char *part)
{
	char text[CC_TEXT_SIZE];

	cc_explain(&feed->cc, text, sizeof(text));
	return strstr(text, part) != NULL;
}

/* Counts the tests of the loss in so much time; `most` is the longest of them. */
static unsigned tests_in(struct feed *feed, uint64_t time_ns, uint64_t *most)
{
	uint64_t begun = 0;
	unsigned count = 0;

	*most = 0;
	for (uint64_t end = feed->now + time_ns; feed->now < end;) {
		bool testing;

		feed_report(feed);
		testing = says(feed, "is the loss chance?");
		if (testing && !begun) {
			begun = feed->now;
			count++;
		}
		if (begun && !testing) {
			*most = feed->now - begun > *most ? feed->now - begun : *most;
			begun = 0;
		}
	}
	return count;
}

/* Loss that does not fall when less is sent is chance. It is tested for two round trips, and again every 10 s. */
static void much_loss_by_chance_is_tested_and_borne(void **state)
{
	static const double losses[] = { 0.2, 0.3, 0.5 };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct feed feed;
		uint64_t before, most;

		open_cruising(&feed);
		before = feed_window(&feed);
		feed.rtt_ns = RTT + 600 * US;
		feed.loss = losses[i];
		assert_int_equal(tests_in(&feed, 8 * RTT, &most), 1);
		assert_in_range(most, 2 * RTT, 3 * RTT + RTT / 2);
		assert_true(feed_window(&feed) >= 95 * before / 100);
		assert_int_equal(tests_in(&feed, 9 * S, &most), 0);
		assert_int_equal(tests_in(&feed, 8 * S, &most), 1);
		assert_true(feed_window(&feed) >= 95 * before / 100);
		assert_true(feed_rate(&feed) > 900 * MBIT);
		/* Half as much again is above the ceiling, and tested at once. */
		feed.loss = losses[i] * 1.5 + 0.02;
		if (feed.loss < 0.65)
			assert_int_equal(tests_in(&feed, 8 * RTT, &most), 1);
	}
}

/* While less is sent, less is sent. */
static void the_test_sends_less(void **state)
{
	struct feed feed;
	uint64_t before, least = UINT64_MAX;

	(void)state;
	open_cruising(&feed);
	before = feed_rate(&feed);
	feed.loss = 0.3;
	for (int i = 0; i < 32; i++) {
		feed_report(&feed);
		least = feed_rate(&feed) < least ? feed_rate(&feed) : least;
	}
	assert_in_range(least, 65 * before / 100, 75 * before / 100);
}

/* Loss that falls when less is sent is congestion, although no queue is seen. */
static void loss_that_falls_is_congestion(void **state)
{
	struct feed feed;

	(void)state;
	open_cruising(&feed);
	feed.rtt_ns = RTT;
	feed.polices = true;
	feed.rate_bps = 700 * MBIT;
	feed_for(&feed, 12 * RTT);
	for (uint64_t end = feed.now + 12 * S; feed.now < end;) {
		feed_report(&feed);
		/* Probing for more costs a moment. */
		assert_true(feed_rate(&feed) < 1700 * MBIT);
	}
	assert_true(feed_rate(&feed) < 1200 * MBIT);
	/* Several times too fast: no test, for the loss would hardly fall. */
	feed.rate_bps = 100 * MBIT;
	feed_for(&feed, 12 * RTT);
	assert_true(feed_rate(&feed) < 200 * MBIT);
}

/* Loss that stays although a queue stands is congestion, too: others cause it. */
static void much_loss_with_a_queue_is_congestion(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_cruising(&feed);
	before = feed_window(&feed);
	feed.rtt_ns = RTT + 10 * MS;
	feed.loss = 0.4;
	feed_for(&feed, 40 * RTT);
	assert_true(feed_window(&feed) < before / 2);
}

/* Single packets that are late by up to half a round trip are no queue. */
static void jitter_is_no_queue(void **state)
{
	struct feed feed;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 3);
	feed_open(&feed, "long-haul", GBIT, RTT);
	for (int i = 0; i < 400; i++) {
		feed.rtt_ns = RTT;
		feed_report(&feed);
		feed.now -= RTT / 4;
		feed.rtt_ns = RTT + rng_below(&rng, RTT / 2);
		feed.now += RTT / 4 - feed.rtt_ns / 4;
		feed_report(&feed);
	}
	assert_true(feed_rate(&feed) > 850 * MBIT);
}

static void marks_shrink_the_window(void **state)
{
	uint64_t left[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct feed feed;

		open_cruising(&feed);
		feed.ce = i == 1 ? 1 : i == 2 ? 0.1 : 0;
		feed_for(&feed, 6 * RTT);
		if (i)
			assert_explained(&feed, "packets were marked");
		left[i] = feed_window(&feed);
	}
	assert_true(left[1] < 7 * left[0] / 10);
	assert_true(left[2] > left[1] && left[2] < left[0]);
}

static void notifications_count_as_marks(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_cruising(&feed);
	before = feed_window(&feed);
	for (int i = 0; i < 24; i++) {
		cc_cnp(&feed.cc, feed.now);
		feed_report(&feed);
	}
	assert_explained(&feed, "packets were marked");
	assert_in_range(feed_window(&feed), before / 2, 95 * before / 100);
}

/* One notification costs a part of the window, once, and that comes back. So does a later one, and one long after a time in
 * which all packets were marked. */
static void one_notification_is_got_over(void **state)
{
	uint64_t first = 0;
	struct feed feed;

	(void)state;
	open_cruising(&feed);
	feed_for(&feed, 100 * RTT);
	for (int i = 0; i < 3; i++) {
		uint64_t before, least;

		if (i == 2) {
			feed.ce = 1;
			feed_for(&feed, 8 * RTT);
			feed.ce = 0;
			feed_for(&feed, 400 * RTT);
		}
		before = least = feed_window(&feed);
		cc_cnp(&feed.cc, feed.now);
		for (int j = 0; j < 40; j++) {
			feed_report(&feed);
			if (feed_window(&feed) < least)
				least = feed_window(&feed);
		}
		assert_in_range(least, 9 * before / 10, 99 * before / 100);
		if (!first)
			first = before - least;
		assert_in_range(before - least, first / 2, 3 * first / 2);
		feed_for(&feed, 100 * RTT);
		assert_true(feed_window(&feed) > 97 * before / 100);
	}
}

/* The path became slower: the window falls to what it delivers, in two rounds. */
static void a_slower_path_is_followed_down(void **state)
{
	struct feed feed;

	(void)state;
	open_cruising(&feed);
	feed.rate_bps = 200 * MBIT;
	feed.rtt_ns = 4 * RTT;
	feed_for(&feed, 8 * RTT);
	assert_true(feed_rate(&feed) < 300 * MBIT);
	feed.rtt_ns = RTT + 2 * MS;
	feed_for(&feed, 10 * RTT);
	assert_in_range(feed_rate(&feed), 150 * MBIT, 260 * MBIT);
}

/* A queue that stays although the window fell is others'; then half of what was had is claimed. */
static void who_yields_in_vain_competes(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_cruising(&feed);
	feed.rtt_ns = RTT + 15 * MS;
	feed_for(&feed, 3 * RTT);
	assert_explained(&feed, "backing off");
	feed_for(&feed, 20 * RTT);
	assert_explained(&feed, "competing");
	assert_true(feed_rate(&feed) > 400 * MBIT);
	/* A loss at a full queue cuts, by half for two round trips and then by as much as CUBIC, and the next only after some time. */
	feed.rate_bps = feed_rate(&feed);
	before = feed_window(&feed);
	feed.loss = 0.01;
	feed_for(&feed, 3 * RTT);
	assert_in_range(feed_window(&feed), 48 * before / 100, 52 * before / 100);
	feed_for(&feed, 3 * RTT);
	assert_in_range(feed_window(&feed), 65 * before / 100, 75 * before / 100);
	feed_for(&feed, 17 * RTT);
	assert_in_range(feed_window(&feed), 65 * before / 100, before);
	/* CUBIC comes back to where it was in K: some eight seconds here. */
	feed.loss = 0;
	feed_for(&feed, 10 * S);
	assert_in_range(feed_window(&feed), 95 * before / 100, 12 * before / 10);
	/* And when the queue drains, that was it. */
	feed.rtt_ns = RTT + MS;
	feed_for(&feed, 4 * RTT);
	assert_explained(&feed, "cruising");
}

/* A long queue for a moment is not others'. */
static void a_burst_is_not_competition(void **state)
{
	struct feed feed;

	(void)state;
	open_cruising(&feed);
	for (int i = 0; i < 20; i++) {
		feed.rtt_ns = RTT + 10 * MS;
		feed_for(&feed, 3 * RTT);
		feed.rtt_ns = RTT + MS;
		feed_for(&feed, 3 * RTT);
	}
	/* It would claim half of what it once had. */
	assert_true(feed_rate(&feed) < 450 * MBIT);
	assert_explained(&feed, "1.0 ms over 25.0 ms");
}

/* A link that fell to a fifth of its rate: five round trips until the queue of our own making is gone, and one through that
 * queue until it is seen. */
static void an_own_queue_is_not_competition(void **state)
{
	struct feed feed;

	(void)state;
	open_cruising(&feed);
	feed.rate_bps = 200 * MBIT;
	feed.rtt_ns = 6 * RTT;
	for (uint64_t end = feed.now + 14 * RTT; feed.now < end;) {
		char text[CC_TEXT_SIZE];

		feed_report(&feed);
		cc_explain(&feed.cc, text, sizeof(text));
		assert_null(strstr(text, "competing"));
	}
	feed.rtt_ns = RTT + MS;
	feed_for(&feed, 10 * RTT);
	assert_true(feed_rate(&feed) < 400 * MBIT);
}

/* Competing where nobody else is: what was had once is not claimed again and again, at the price of most packets. */
static void what_is_lost_is_not_claimed_again(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_cruising(&feed);
	feed.rtt_ns = RTT + 15 * MS;
	feed_for(&feed, 30 * RTT);
	assert_explained(&feed, "competing");
	feed.loss = 0.01;
	feed_for(&feed, 3 * RTT);
	before = feed_window(&feed);
	for (int i = 0; i < 10; i++) {
		feed.loss = 0.5;
		feed_for(&feed, 10 * RTT);
		feed.loss = 0;
		feed_for(&feed, 3 * RTT);
	}
	assert_true(feed_window(&feed) < before / 2);
}

/* The least round trip is looked for every five seconds, with less data for one round trip, and a longer way believed after half a
 * minute. */
static void the_least_round_trip_is_measured_anew(void **state)
{
	unsigned probes = 0, reports = 0;
	bool probing = false;
	struct feed feed;

	(void)state;
	open_cruising(&feed);
	for (uint64_t end = feed.now + 20 * S; feed.now < end;) {
		char text[CC_TEXT_SIZE];
		bool now;

		feed_report(&feed);
		cc_explain(&feed.cc, text, sizeof(text));
		now = strstr(text, "letting the queue drain");
		probes += now && !probing;
		if (now && !probing)
			assert_true(feed_rate(&feed) < 900 * MBIT);
		reports += feed_rate(&feed) < 900 * MBIT;
		probing = now;
	}
	assert_in_range(probes, 3, 4);
	/* Four a round trip, and one more until a round ends. */
	assert_in_range(reports, 4 * probes, 5 * probes);
	assert_explained(&feed, "over 25.0 ms");
	feed_for(&feed, 30 * S);
	assert_explained(&feed, "over 26.2 ms");
}

/* On a long path a probe takes long, and is as much rarer. */
static void the_least_of_a_long_path_is_measured_seldom(void **state)
{
	unsigned probes = 0;
	bool probing = false;
	struct feed feed;

	(void)state;
	feed_open(&feed, "long-haul", 100 * MBIT, 500 * MS);
	feed_for(&feed, 15 * S);
	feed.rtt_ns = 520 * MS;
	for (uint64_t end = feed.now + 30 * S; feed.now < end;) {
		char text[CC_TEXT_SIZE];
		bool now;

		feed_report(&feed);
		cc_explain(&feed.cc, text, sizeof(text));
		now = strstr(text, "letting the queue drain");
		probes += now && !probing;
		probing = now;
	}
	assert_in_range(probes, 1, 2);
}

/* Larger packets have a minimum of their own, which was first measured behind the queue of smaller ones. */
static void larger_packets_are_measured_without_a_queue(void **state)
{
	struct feed feed;

	(void)state;
	feed_open(&feed, "long-haul", 100 * MBIT, RTT);
	feed.rtt_bytes = 1000;
	feed_for(&feed, 12 * RTT);
	feed.rtt_ns = RTT + 3 * MS;
	feed.rtt_bytes = 4000;
	feed_for(&feed, 2 * RTT);
	assert_explained(&feed, "letting the queue drain");
	feed.rtt_ns = RTT;
	feed_for(&feed, 4 * RTT);
	assert_explained(&feed, "over 25.0 ms");
}

/* Where they take microseconds longer, of milliseconds. */
static void larger_packets_on_a_fast_path_compare(void **state)
{
	struct feed feed;

	(void)state;
	feed_open(&feed, "long-haul", GBIT, RTT);
	feed.rtt_bytes = 1000;
	feed_for(&feed, 12 * RTT);
	feed.rtt_ns = RTT + 3 * MS;
	feed.rtt_bytes = 4000;
	feed_for(&feed, 2 * RTT);
	assert_explained(&feed, "queue 3.0 ms over 25.0 ms");
}

static void idling_proves_nothing(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_cruising(&feed);
	before = feed_window(&feed);
	feed.rtt_ns = RTT;
	feed.app_limited = true;
	feed.rate_bps = 10 * MBIT;
	feed_for(&feed, 2 * S);
	/* What was sent before may still earn something. */
	assert_in_range(feed_window(&feed), 9 * before / 10, 104 * before / 100);
	/* Nor does it shrink what was proven: work that comes back finds its rate. */
	feed.app_limited = false;
	feed.rate_bps = GBIT;
	feed_for(&feed, 2 * RTT);
	assert_true(feed_rate(&feed) > 900 * MBIT);
}

/* Where others begin at the same time the first packets after a pause meet a queue, and few of them have arrived when a round ends. */
static void what_arrives_after_a_pause_is_not_the_rate(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_cruising(&feed);
	feed.rtt_ns = RTT;
	feed.app_limited = true;
	feed_for(&feed, 4 * RTT);
	before = feed_window(&feed);
	feed.app_limited = false;
	feed.rtt_ns = RTT + 6 * MS;
	feed.rate_bps = 200 * MBIT;
	feed_for(&feed, 2 * feed.rtt_ns);
	assert_true(feed_window(&feed) > 8 * before / 10);
}

/* A message that leaves within that time and arrives a round trip later, before the next is sent. */
static void send_alone(struct feed *feed, uint64_t bytes, uint64_t took_ns)
{
	uint64_t began = feed->now;

	for (uint64_t i = 0; i < 8; i++)
		cc_sent(&feed->cc, bytes / 8, began + took_ns * i / 8);
	for (uint64_t i = 1; i <= 4; i++) {
		uint64_t packets = bytes / 4 / PACKET;
		struct cc_report report = { .delivered_packets = packets,
					    .delivered_bytes = bytes / 4,
					    .counted_packets = packets,
					    .lost_packets =
						    (uint64_t)((double)packets * feed->loss),
					    .rtt_ns = RTT,
					    .in_flight_bytes = bytes - bytes / 4 * i,
					    .app_limited = true };

		feed->now = began + RTT + took_ns * i / 4;
		cc_report(&feed->cc, &report, feed->now);
	}
}

static uint64_t leaves_in_ns(const struct feed *feed, uint64_t bytes)
{
	return feed_rate(feed) == CC_UNPACED ? 0 : bytes * 8 * S / feed_rate(feed);
}

/* They do not fill the window, but show that the path takes the rate that it stands for. */
static void lone_messages_earn_the_rate(void **state)
{
	const uint64_t bytes = 400 * PACKET;
	struct feed feed;

	(void)state;
	feed_open(&feed, "long-haul", GBIT, RTT);
	send_alone(&feed, 32 * PACKET, 0);
	for (int i = 0; i < 5; i++)
		send_alone(&feed, bytes, leaves_in_ns(&feed, bytes));
	assert_true(leaves_in_ns(&feed, bytes) < RTT / 10);
	/* No more than that is worth the risk. */
	for (int i = 0; i < 50; i++)
		send_alone(&feed, bytes, leaves_in_ns(&feed, bytes));
	assert_in_range(feed_window(&feed), 4 * bytes, 20 * bytes);
}

/* After the start, too; but losses that began when they left faster are due to that. */
static void lone_messages_earn_while_cruising(void **state)
{
	const uint64_t bytes = 400 * PACKET;
	struct feed feed;
	uint64_t before;

	(void)state;
	feed_open(&feed, "long-haul", 100 * MBIT, RTT);
	feed_for(&feed, 12 * RTT);
	feed.rtt_ns = RTT + 1200 * US;
	feed_for(&feed, 20 * RTT);
	before = feed_window(&feed);
	for (int i = 0; i < 20; i++)
		send_alone(&feed, bytes, leaves_in_ns(&feed, bytes));
	assert_true(feed_window(&feed) > 2 * before);
	before = feed_window(&feed);
	feed.loss = 0.1;
	for (int i = 0; i < 5; i++)
		send_alone(&feed, bytes, leaves_in_ns(&feed, bytes));
	assert_in_range(feed_window(&feed), bytes, before * 8 / 10);
}

/* Flows of a collective operation fill their windows for some rounds and pause together. That the last of them meet no queue does
 * not show that the path takes more of all of them. */
static void the_end_of_several_windows_earns_nothing(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	feed_open(&feed, "long-haul", 100 * MBIT, RTT);
	feed_for(&feed, 12 * RTT);
	feed.rtt_ns = RTT + 1200 * US;
	feed_for(&feed, 20 * RTT);
	before = feed_window(&feed);
	for (int i = 0; i < 20; i++) {
		feed_for(&feed, 6 * RTT);
		send_alone(&feed, before, leaves_in_ns(&feed, before));
	}
	assert_in_range(feed_window(&feed), before / 2, before * 3 / 2);
}

/* A sender that has little to send all the time does not show that. */
static void a_slow_sender_earns_nothing(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	feed_open(&feed, "long-haul", GBIT, RTT);
	send_alone(&feed, 32 * PACKET, 0);
	for (int i = 0; i < 20; i++)
		send_alone(&feed, 400 * PACKET, leaves_in_ns(&feed, 400 * PACKET));
	before = feed_window(&feed);
	for (int i = 0; i < 20; i++)
		send_alone(&feed, before / 4, RTT);
	assert_in_range(feed_window(&feed), before * 9 / 10, before * 11 / 10);
}

static void silence_starts_anew(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_cruising(&feed);
	before = feed_window(&feed);
	cc_timeout(&feed.cc, feed.now);
	assert_explained(&feed, "nothing was heard");
	assert_int_equal(feed_window(&feed), 4 * PACKET);
	feed.rtt_ns = RTT;
	feed_for(&feed, 14 * RTT);
	assert_true(feed_window(&feed) > 7 * before / 10);
}

/* A timeout that was wrong is undone, also if it came twice; after a report it is too late for that. */
static void a_wrong_timeout_is_undone(void **state)
{
	static const char *const names[] = { "long-haul", "swift", "default" };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct feed feed;
		struct cc before;

		feed_open(&feed, names[i], GBIT, RTT);
		feed_for(&feed, 12 * RTT);
		before = feed.cc;
		cc_timeout(&feed.cc, feed.now);
		cc_timeout(&feed.cc, feed.now + RTT);
		assert_true(feed_window(&feed) <= 6 * PACKET);
		cc_undo_timeout(&feed.cc);
		assert_ptr_equal(feed.cc.ops, before.ops);
		assert_memory_equal(feed.cc.state, before.state, sizeof(before.state));
		cc_timeout(&feed.cc, feed.now);
		feed_report(&feed);
		cc_undo_timeout(&feed.cc);
		assert_true(feed_window(&feed) < cc_limits(&before).window_bytes / 4);
	}
}

/* No sequence of events makes it stop, run away or give nonsense. */
static void survives_anything(void **state)
{
	struct rng rng;

	(void)state;
	for (uint64_t seed = 0; seed < 200; seed++) {
		struct feed feed;

		rng_seed(&rng, seed);
		feed_open(&feed, seed % 2 ? "long-haul" : "swift", GBIT, RTT);
		for (int i = 0; i < 2000; i++) {
			if (rng_chance(&rng, 0.05)) {
				feed.rate_bps = 1 + rng_below(&rng, 10 * GBIT);
				feed.rtt_ns =
					1000 +
					rng_below(&rng, rng_chance(&rng, 0.1) ? 10 * S : 50 * MS);
				feed.loss = rng_chance(&rng, 0.5) ? 0 : rng_unit(&rng);
				feed.ce = rng_chance(&rng, 0.7) ? 0 : rng_unit(&rng);
				feed.app_limited = rng_chance(&rng, 0.2);
			}
			if (rng_chance(&rng, 0.01))
				cc_cnp(&feed.cc, feed.now);
			if (rng_chance(&rng, 0.002))
				cc_timeout(&feed.cc, feed.now);
			feed_report(&feed);
			assert_in_range(feed_window(&feed), PACKET, UINT64_C(1) << 45);
			assert_true(feed_rate(&feed) > 0);
		}
		assert_explained(&feed, "bit/s");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(start_doubles_until_the_rate_stops_growing),
		cmocka_unit_test(a_queue_on_the_way_back_is_none),
		cmocka_unit_test(start_ends_with_a_queue),
		cmocka_unit_test(one_late_report_is_no_queue),
		cmocka_unit_test(the_slower_of_two_rounds_does_not_count),
		cmocka_unit_test(a_queue_shrinks_the_window_and_its_absence_lets_it_grow),
		cmocka_unit_test(small_windows_grow_faster),
		cmocka_unit_test(chance_loss_changes_nothing),
		cmocka_unit_test(loss_with_a_queue_is_congestion),
		cmocka_unit_test(much_loss_by_chance_is_tested_and_borne),
		cmocka_unit_test(the_test_sends_less),
		cmocka_unit_test(loss_that_falls_is_congestion),
		cmocka_unit_test(much_loss_with_a_queue_is_congestion),
		cmocka_unit_test(marks_shrink_the_window),
		cmocka_unit_test(notifications_count_as_marks),
		cmocka_unit_test(one_notification_is_got_over),
		cmocka_unit_test(a_slower_path_is_followed_down),
		cmocka_unit_test(who_yields_in_vain_competes),
		cmocka_unit_test(a_burst_is_not_competition),
		cmocka_unit_test(an_own_queue_is_not_competition),
		cmocka_unit_test(what_is_lost_is_not_claimed_again),
		cmocka_unit_test(the_least_round_trip_is_measured_anew),
		cmocka_unit_test(the_least_of_a_long_path_is_measured_seldom),
		cmocka_unit_test(larger_packets_are_measured_without_a_queue),
		cmocka_unit_test(larger_packets_on_a_fast_path_compare),
		cmocka_unit_test(idling_proves_nothing),
		cmocka_unit_test(what_arrives_after_a_pause_is_not_the_rate),
		cmocka_unit_test(lone_messages_earn_the_rate),
		cmocka_unit_test(lone_messages_earn_while_cruising),
		cmocka_unit_test(the_end_of_several_windows_earns_nothing),
		cmocka_unit_test(a_slow_sender_earns_nothing),
		cmocka_unit_test(silence_starts_anew),
		cmocka_unit_test(a_wrong_timeout_is_undone),
		cmocka_unit_test(jitter_is_no_queue),
		cmocka_unit_test(survives_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

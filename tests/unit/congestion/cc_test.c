/* SPDX-License-Identifier: BSD-3-Clause */
/* What all controllers share: names, caps and credit, which of them `default` takes, and the line for a person. */
#include <math.h>

#include "feed.h"

static void names_find_controllers(void **state)
{
	size_t count = 0;

	(void)state;
	for (const struct cc_ops *ops; (ops = cc_at(count)); count++) {
		assert_ptr_equal(cc_find(ops->name), ops);
		assert_true(ops->state_size <= sizeof(((struct cc *)0)->state));
	}
	assert_int_equal(count, 4);
	assert_ptr_equal(cc_find("long-haul"), &cc_long_haul);
	assert_ptr_equal(cc_find("swift"), &cc_swift);
	assert_ptr_equal(cc_find("none"), &cc_none);
	assert_ptr_equal(cc_find("default"), &cc_default);
	assert_null(cc_find("swif"));
	assert_null(cc_find(""));
}

static void none_leaves_the_window_to_the_receiver(void **state)
{
	struct feed feed;

	(void)state;
	feed_open(&feed, "none", GBIT, 25 * MS);
	assert_true(feed_rate(&feed) == CC_UNPACED);
	assert_true(feed_window(&feed) == UINT64_MAX);
	cc_credit(&feed.cc, 123456, feed.now);
	feed.loss = 0.5;
	feed_for(&feed, S);
	cc_cnp(&feed.cc, feed.now);
	cc_timeout(&feed.cc, feed.now);
	assert_true(feed_rate(&feed) == CC_UNPACED);
	assert_int_equal(feed_window(&feed), 123456);
}

static void caps_and_credit_lie_over_everything(void **state)
{
	(void)state;
	for (size_t i = 0; cc_at(i); i++) {
		struct cc_attr attr = { .packet_bytes = PACKET,
					.link_rate_bps = 100 * MBIT,
					.max_window_bytes = 200000 };
		struct feed feed = { .now = S, .rate_bps = 10 * GBIT, .rtt_ns = 10 * MS };

		cc_init(&feed.cc, cc_at(i), &attr, S);
		feed_for(&feed, S);
		assert_in_range(feed_rate(&feed), 1, 100 * MBIT);
		assert_in_range(feed_window(&feed), PACKET, 200000);
		cc_credit(&feed.cc, 7000, feed.now);
		assert_in_range(feed_window(&feed), PACKET, 7000);
		/* A receiver with no room at all is believed; it says when it has some. */
		cc_credit(&feed.cc, 0, feed.now);
		assert_int_equal(feed_window(&feed), 0);
	}
}

/* Whatever happens, a packet may leave some time. */
static void nothing_stops_a_controller_for_good(void **state)
{
	(void)state;
	for (size_t i = 0; cc_at(i); i++) {
		struct feed feed;

		feed_open(&feed, cc_at(i)->name, GBIT, MS);
		for (int round = 0; round < 1000; round++) {
			feed.rtt_ns = MS + (uint64_t)round * MS / 4;
			feed.loss = 0.9;
			feed.ce = 1;
			feed_report(&feed);
			cc_cnp(&feed.cc, feed.now);
			cc_timeout(&feed.cc, feed.now);
		}
		assert_true(feed_window(&feed) >= PACKET);
		/* A packet in two minutes at the very least, at round trips of a quarter of a second. */
		assert_true(feed_rate(&feed) >= 100);
	}
}

/* Notifications can be forged. However many come, they count as one in a round trip, which takes an eighth at most. */
static void a_flood_of_notifications_is_one(void **state)
{
	(void)state;
	for (size_t i = 0; cc_at(i); i++) {
		struct feed calm, flooded;
		uint64_t before, rounds = 0;

		feed_open(&calm, cc_at(i)->name, GBIT, 10 * MS);
		feed_open(&flooded, cc_at(i)->name, GBIT, 10 * MS);
		feed_for(&calm, 2 * S);
		feed_for(&flooded, 2 * S);
		before = feed_window(&flooded);
		for (uint64_t start = flooded.now; rounds < 20;
		     rounds = (flooded.now - start) / (10 * MS)) {
			cc_cnp(&calm.cc, calm.now);
			for (int j = 0; j < 1000; j++)
				cc_cnp(&flooded.cc, flooded.now);
			feed_report(&calm);
			feed_report(&flooded);
			assert_int_equal(feed_window(&calm), feed_window(&flooded));
			assert_true((double)feed_window(&flooded) >=
				    (double)before * pow(7 / 8.0, (double)rounds + 2));
		}
	}
}

/* Reports that hold nothing, or come twice at one time. */
static void empty_reports_do_no_harm(void **state)
{
	(void)state;
	for (size_t i = 0; cc_at(i); i++) {
		struct cc_report nothing = { 0 };
		struct feed feed;
		uint64_t window;

		feed_open(&feed, cc_at(i)->name, GBIT, 10 * MS);
		cc_report(&feed.cc, &nothing, feed.now);
		cc_report(&feed.cc, &nothing, feed.now);
		feed_for(&feed, S);
		window = feed_window(&feed);
		for (int j = 0; j < 100; j++)
			cc_report(&feed.cc, &nothing, feed.now);
		assert_true(feed_window(&feed) == window);
	}
}

static void default_takes_what_fits_the_round_trip(void **state)
{
	struct feed feed;
	uint64_t window;

	(void)state;
	feed_open(&feed, "default", GBIT, 25 * MS);
	assert_explained(&feed, "long-haul: starting");
	feed_for(&feed, S);
	assert_explained(&feed, "long-haul");

	feed_open(&feed, "default", GBIT, 200 * US);
	feed_report(&feed);
	assert_explained(&feed, "swift");
	/* A queue of some milliseconds is no reason to change; a way that is longer for long is. */
	feed.rtt_ns = 5 * MS;
	feed_for(&feed, 30 * S);
	assert_explained(&feed, "swift");
	window = feed_window(&feed);
	feed.rtt_ns = 25 * MS;
	feed_for(&feed, 25 * S);
	assert_explained(&feed, "long-haul");
	assert_true(feed_window(&feed) >= window);

	/* The first sample may have been late. */
	feed_open(&feed, "default", GBIT, 8 * MS);
	feed_for(&feed, 100 * MS);
	assert_explained(&feed, "long-haul");
	feed.rtt_ns = 100 * US;
	feed_report(&feed);
	assert_explained(&feed, "swift");
}

static int sent_bytes;

/* One report about a packet of that many bytes on an idle link of 4 Mbit/s with two hops, whose round trip is 1 ms without it. */
static void slow_link_report(struct feed *feed, uint32_t bytes)
{
	feed->rtt_bytes = bytes;
	feed->rtt_ns = MS + (uint64_t)2 * bytes * 8 * S / feed->rate_bps;
	feed_report(feed);
}

/* The last packet of a message takes less time on the link than the others do: what they take more is no queue. */
static void a_short_packet_makes_no_queue_of_long_ones(void **state)
{
	static const char *const names[] = { "default", "swift", "long-haul" };
	struct feed feed;

	(void)state;
	for (unsigned n = 0; n < 3; n++) {
		feed_open(&feed, names[n], 4 * MBIT, MS);
		for (unsigned i = 0; i < 2000; i++)
			slow_link_report(&feed, i % 25 == 24 ? 8 : 1216);
		assert_true(feed_rate(&feed) > 2 * MBIT);
	}
}

/* Packets grow as larger ones are found to arrive. */
static void larger_packets_make_no_queue(void **state)
{
	struct feed feed;

	(void)state;
	feed_open(&feed, "swift", 30 * MBIT, MS);
	for (unsigned i = 0; i < 100; i++)
		slow_link_report(&feed, 1216);
	for (unsigned i = 0; i < 500; i++)
		slow_link_report(&feed, 8936);
	assert_true(feed_rate(&feed) > 15 * MBIT);
}

/* Once only short packets are sent, they are what is measured. */
static void short_packets_alone_are_measured(void **state)
{
	struct feed feed;

	(void)state;
	feed_open(&feed, "swift", 4 * MBIT, MS);
	for (unsigned i = 0; i < 100; i++)
		slow_link_report(&feed, 1216);
	for (unsigned i = 0; i < 200; i++)
		slow_link_report(&feed, 8);
	assert_explained(&feed, "over 1.0 ms");
}

static void count_sent(void *state, uint64_t bytes, uint64_t now_ns)
{
	sent_bytes += (int)bytes;
}

/* Now and then a message ends with a short packet. However many do, long ones are what is measured as long as some come between. */
static void short_packets_between_long_ones_do_not_count(void **state)
{
	struct feed feed;

	(void)state;
	feed_open(&feed, "long-haul", 100 * MBIT, 20 * MS);
	for (unsigned i = 0; i < 400; i++) {
		feed.rtt_bytes = i % 2 ? 100 : PACKET;
		feed_report(&feed);
		assert_int_equal(feed.cc.sample_bytes, PACKET);
	}
}

/* Where reports are rare a window has to last for longer. They are rare in a pause, too, but a window need not last for that. */
static void a_pause_is_no_lack_of_reports(void **state)
{
	static const struct {
		const char *name;
		uint64_t rtt_ns;
	} controllers[] = { { "swift", MS / 2 }, { "long-haul", 20 * MS } };
	struct feed feed;

	(void)state;
	for (unsigned i = 0; i < sizeof(controllers) / sizeof(controllers[0]); i++) {
		uint64_t before;

		feed_open(&feed, controllers[i].name, GBIT, controllers[i].rtt_ns);
		feed_for(&feed, 400 * feed.rtt_ns);
		before = feed_window(&feed);
		feed.app_limited = true;
		for (unsigned reports = 0; reports < 6; reports++) {
			feed.now += 10 * feed.rtt_ns;
			feed_report(&feed);
		}
		assert_in_range(feed_window(&feed), before / 2, before + before / 10);
	}
}

/* What a controller does not care for need not be there; what it does care for reaches it. */
static void events_reach_a_controller(void **state)
{
	struct cc_ops ops = cc_none;
	struct cc_attr attr = { 0 };
	struct cc cc;

	(void)state;
	ops.sent = count_sent;
	cc_init(&cc, &ops, &attr, 0);
	sent_bytes = 0;
	cc_sent(&cc, 1000, 0);
	cc_sent(&cc, 234, 1);
	assert_int_equal(sent_bytes, 1234);
	cc_init(&cc, &cc_none, &attr, 0);
	cc_sent(&cc, 1000, 0);
	assert_int_equal(sent_bytes, 1234);
}

static void the_line_is_for_a_person(void **state)
{
	struct cc_attr attr = { .packet_bytes = PACKET, .link_rate_bps = 250 * MBIT };
	char text[CC_TEXT_SIZE], small[12];
	struct feed feed;

	(void)state;
	feed_open(&feed, "none", GBIT, 25 * MS);
	cc_explain(&feed.cc, text, sizeof(text));
	assert_string_equal(text, "none: not controlled: unpaced, window not limited");
	cc_credit(&feed.cc, 2500000, feed.now);
	cc_explain(&feed.cc, text, sizeof(text));
	assert_string_equal(text, "none: not controlled: unpaced, window 2.50 MB (the receiver's)");
	assert_int_equal(cc_explain(&feed.cc, small, sizeof(small)), sizeof(small) - 1);
	assert_string_equal(small, "none: not c");
	assert_int_equal(cc_explain(&feed.cc, NULL, 0), 0);

	feed = (struct feed){ .now = S, .rate_bps = 250 * MBIT, .rtt_ns = 25 * MS };
	cc_init(&feed.cc, &cc_long_haul, &attr, S);
	feed_for(&feed, S);
	feed.rtt_ns = 26200 * US;
	feed_for(&feed, S);
	assert_explained(&feed, "long-haul: ");
	assert_explained(
		&feed,
		": 250 Mbit/s (the cap), 249 Mbit/s arriving, queue 1.2 ms over 25.0 ms, window ");

	feed_open(&feed, "swift", 5 * GBIT, 200 * US);
	feed_for(&feed, 10 * MS);
	feed.rtt_ns = 280 * US;
	feed_for(&feed, 10 * MS);
	assert_explained(&feed, ", queue 0.08 ms over 0.200 ms");
}

/* A queue that holds ten large packets does not hold thirty-two. */
static void a_first_window_has_few_large_packets(void **state)
{
	static const struct {
		uint32_t packet;
		uint64_t window;
	} sizes[] = { { 1408, 32 * 1408 }, { 4096, 64 << 10 }, { 8936, 10 * 8936 } };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct cc_attr attr = { .packet_bytes = sizes[i].packet };
		struct cc cc;

		cc_init(&cc, cc_find("default"), &attr, S);
		assert_int_equal(cc_limits(&cc).window_bytes, sizes[i].window);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_find_controllers),
		cmocka_unit_test(none_leaves_the_window_to_the_receiver),
		cmocka_unit_test(caps_and_credit_lie_over_everything),
		cmocka_unit_test(nothing_stops_a_controller_for_good),
		cmocka_unit_test(a_flood_of_notifications_is_one),
		cmocka_unit_test(empty_reports_do_no_harm),
		cmocka_unit_test(default_takes_what_fits_the_round_trip),
		cmocka_unit_test(a_short_packet_makes_no_queue_of_long_ones),
		cmocka_unit_test(larger_packets_make_no_queue),
		cmocka_unit_test(short_packets_alone_are_measured),
		cmocka_unit_test(short_packets_between_long_ones_do_not_count),
		cmocka_unit_test(a_pause_is_no_lack_of_reports),
		cmocka_unit_test(a_first_window_has_few_large_packets),
		cmocka_unit_test(events_reach_a_controller),
		cmocka_unit_test(the_line_is_for_a_person),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

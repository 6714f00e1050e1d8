/* SPDX-License-Identifier: BSD-3-Clause */
/* How swift answers to each sign, fed by hand: a round trip of 200 us has a target of 350 us and a little more. */
#include "feed.h"

#define RTT    (200 * US)
#define TARGET (350 * US)

/* Reports until the window shrinks: what is left of it, in thousandths. The delay has to stand for a while first. */
static uint64_t left_by_cut(struct feed *feed)
{
	uint64_t before, end = feed->now + 10 * feed->rtt_ns;

	do {
		assert_true(feed->now < end);
		before = feed_window(feed);
		feed_report(feed);
	} while (feed_window(feed) >= before);
	return feed_window(feed) * 1000 / before;
}

/* Past the start, with a window of some 100 packets. */
static void open_settled(struct feed *feed)
{
	feed_open(feed, "swift", 5 * GBIT, RTT);
	feed_for(feed, 8 * RTT);
	feed->rtt_ns = 2 * RTT;
	left_by_cut(feed);
	feed->rtt_ns = TARGET - 20 * US;
	feed_for(feed, 4 * RTT);
	assert_explained(feed, "probing up");
}

static void start_doubles_until_the_delay_is_above_target(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	feed_open(&feed, "swift", 100 * GBIT, RTT);
	feed_for(&feed, 2 * RTT);
	before = feed_window(&feed);
	feed_for(&feed, RTT);
	assert_in_range(feed_window(&feed), 15 * before / 10, 25 * before / 10);
	assert_explained(&feed, "starting");
	feed.rtt_ns = 2 * TARGET;
	left_by_cut(&feed);
	assert_explained(&feed, "backing off: the queue is long");
}

/* A host was busy, or the packet left behind others: no queue that a smaller window would shorten. */
static void a_late_sample_is_no_queue(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_settled(&feed);
	for (int i = 0; i < 100; i++) {
		before = feed_window(&feed);
		feed.rtt_ns = i % 4 ? 3 * TARGET : TARGET - 20 * US;
		feed_report(&feed);
		assert_true(feed_window(&feed) >= before);
	}
}

/* On a path of 10 us a delay of 40 us more is a process that had to be woken, or a queue where hosts are faster than that. */
static void a_host_that_wakes_is_no_queue(void **state)
{
	static const uint64_t wakes_ns[] = { 0, 50 * US, 25 * US };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct cc_attr attr = { .packet_bytes = PACKET, .wake_ns = wakes_ns[i] };
		struct feed feed;
		uint64_t before;

		feed_open(&feed, "swift", 100 * GBIT, 10 * US);
		cc_init(&feed.cc, cc_find("swift"), &attr, feed.now);
		feed_for(&feed, 80 * US);
		before = feed_window(&feed);
		feed.rtt_ns = 50 * US;
		feed_for(&feed, MS);
		if (i < 2)
			assert_true(feed_window(&feed) > before);
		else
			assert_true(feed_window(&feed) < before);
	}
}

/* The peer sends too, and its reports wait behind its data. */
static void a_queue_on_the_way_back_is_none(void **state)
{
	struct feed feed;
	uint64_t before, rate_bps;

	(void)state;
	open_settled(&feed);
	rate_bps = feed_rate(&feed);
	before = feed_window(&feed);
	/* Reports come later by nine tenths of a round trip: the window grows by as much, and the rate stays. */
	feed.return_ns = feed.rtt_ns * 9 / 10;
	feed.rtt_ns += feed.return_ns;
	feed_for(&feed, 3 * feed.rtt_ns);
	assert_in_range(feed_rate(&feed), rate_bps * 8 / 10, rate_bps * 12 / 10);
	assert_in_range(feed_window(&feed), before * 15 / 10, before * 23 / 10);
	feed.rtt_ns += 5 * TARGET - feed.return_ns;
	feed.return_ns = 5 * TARGET;
	feed_for(&feed, 20 * feed.rtt_ns);
	assert_true(feed_window(&feed) > before);
	assert_explained(&feed, "queue 0.13 ms over 0.200 ms");
	feed.rtt_ns += TARGET;
	feed_for(&feed, 10 * feed.rtt_ns);
	assert_explained(&feed, "backing off: the queue is long");
}

static void below_target_it_adds(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_settled(&feed);
	feed.rate_bps = 100 * GBIT;
	feed_for(&feed, 20 * RTT);
	before = feed_window(&feed);
	feed_for(&feed, 20 * feed.rtt_ns);
	/* The pacer's slack and the gap between reports move it a little off 20. */
	assert_in_range(feed_window(&feed) - before, 14 * PACKET, 26 * PACKET);
}

/* A window without a queue, and then less than a sixth of it because of one; returns the first. */
static uint64_t open_cut(struct feed *feed)
{
	uint64_t before;

	feed_open(feed, "swift", 5 * GBIT, RTT);
	feed_for(feed, 8 * RTT);
	before = feed_window(feed);
	feed->rtt_ns = 2 * TARGET;
	while (feed_window(feed) > before / 6)
		left_by_cut(feed);
	return before;
}

/* Flows beside this one began and have ended: what it had without a queue it has again within a few round trips, and little more than
 * arrives. It is paced by the round trip as it is, not by what it was on average. */
static void a_window_returns_when_the_queue_is_gone(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	before = open_cut(&feed);
	before = before < 5 * GBIT / 8 * RTT / S ? before : 5 * GBIT / 8 * RTT / S;
	feed.rtt_ns = RTT;
	feed_for(&feed, RTT);
	assert_true(feed_rate(&feed) > feed_window(&feed) * 8 * S / (2 * RTT));
	feed_for(&feed, 13 * RTT);
	assert_true(feed_window(&feed) > before * 9 / 10);
	feed_for(&feed, 40 * RTT);
	assert_true(feed_window(&feed) < before * 2);
}

/* Whoever polices drops packets without a queue: what arrived before that is not tried again. */
static void a_window_that_lost_packets_does_not_return(void **state)
{
	uint64_t arrives = GBIT / 8 * RTT / S;
	struct feed feed;

	(void)state;
	open_cut(&feed);
	feed.rtt_ns = RTT;
	feed.rate_bps = GBIT;
	feed.polices = true;
	feed_for(&feed, 20 * RTT);
	for (int i = 0; i < 200; i++) {
		feed_report(&feed);
		assert_true(feed_window(&feed) < 3 * arrives);
	}
}

/* Whoever polices drops what is too much, and no queue shows: the window is what arrives, and soon again. */
static void losses_leave_what_arrives(void **state)
{
	uint64_t least = UINT64_MAX, arrives = 2 * GBIT / 8 * RTT / S;
	struct feed feed;

	(void)state;
	feed_open(&feed, "swift", 2 * GBIT, RTT);
	feed.polices = true;
	feed_for(&feed, 20 * RTT);
	for (int i = 0; i < 400; i++) {
		feed_report(&feed);
		least = feed_rate(&feed) < least ? feed_rate(&feed) : least;
		assert_true(feed_window(&feed) < 3 * arrives);
	}
	assert_true(least > 15 * GBIT / 10);
}

/* A queue that holds less than the target allows for overflows once: then the target is lower, until that is long ago. */
static void a_short_queue_lowers_the_target(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_settled(&feed);
	feed.rtt_ns = RTT + 100 * US;
	before = feed_window(&feed);
	feed_for(&feed, 10 * feed.rtt_ns);
	assert_true(feed_window(&feed) > before);
	feed.rate_bps = GBIT;
	feed.polices = true;
	feed_for(&feed, 10 * feed.rtt_ns);
	feed.polices = false;
	feed.rate_bps = 5 * GBIT;
	feed.rtt_ns = RTT + 80 * US;
	feed_for(&feed, 4 * feed.rtt_ns);
	before = feed_window(&feed);
	feed_for(&feed, 10 * feed.rtt_ns);
	assert_true(feed_window(&feed) < before);
	feed.rtt_ns = RTT + 30 * US;
	feed_for(&feed, 400 * feed.rtt_ns);
	feed.rtt_ns = RTT + 80 * US;
	feed_for(&feed, 2 * feed.rtt_ns);
	before = feed_window(&feed);
	feed_for(&feed, 10 * feed.rtt_ns);
	assert_true(feed_window(&feed) > before);
}

/* Once a round trip, in proportion to the excess, by half at most. */
static void above_target_it_shrinks_once(void **state)
{
	static const uint64_t delays[] = { TARGET + 50 * US, TARGET + 150 * US, 20 * TARGET };
	uint64_t left[3], before;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct feed feed;

		open_settled(&feed);
		feed_for(&feed, 3 * feed.rtt_ns);
		feed.rtt_ns = delays[i];
		left[i] = left_by_cut(&feed);
		assert_explained(&feed, "backing off: the queue is long");
		before = feed_window(&feed);
		feed_report(&feed);
		assert_int_equal(feed_window(&feed), before);
		feed_for(&feed, 3 * delays[i]);
		assert_true(feed_window(&feed) < before);
	}
	assert_in_range(left[0], 860, 970);
	assert_in_range(left[1], 700, 800);
	assert_in_range(left[2], 495, 505);
}

/* Reports about repeats have no round-trip time: what was measured before is not news. */
static void a_delay_is_answered_once(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_settled(&feed);
	feed.rtt_bytes = PACKET;
	feed.rtt_ns = 3 * TARGET;
	left_by_cut(&feed);
	before = feed_window(&feed);
	/* Too small to be compared. */
	feed.rtt_bytes = PACKET / 10;
	for (int i = 0; i < 40; i++)
		feed_report(&feed);
	assert_int_equal(feed_window(&feed), before);
}

/* Where packets pay for a report once in ten round trips, the window lasts from one report to the next, at the same rate. */
static void rare_reports_widen_the_window(void **state)
{
	struct cc_attr attr = { .packet_bytes = PACKET };
	uint64_t now = S, gap_ns = 10 * RTT;
	struct cc_limits before, after;
	struct cc cc;

	(void)state;
	cc_init(&cc, cc_find("swift"), &attr, now);
	for (int i = 0; i < 100; i++) {
		struct cc_report report = { .delivered_packets = 16,
					    .delivered_bytes = 16 * PACKET,
					    .counted_packets = 16,
					    .rtt_ns = RTT,
					    .in_flight_bytes = 16 * PACKET };

		before = cc_limits(&cc);
		cc_report(&cc, &report, now += gap_ns);
	}
	after = cc_limits(&cc);
	assert_true(after.window_bytes > 16 * PACKET);
	/* What the window holds is not sent in one round trip. */
	assert_true(after.rate_bps < after.window_bytes * 8 * (S / RTT) / 5);
	assert_true(after.window_bytes >= before.window_bytes);
}

/* The smaller the window, the more delay it is granted. */
static void a_small_flow_is_granted_more_delay(void **state)
{
	struct feed small, large;
	uint64_t before[2];

	(void)state;
	feed_open(&small, "swift", 5 * GBIT, RTT);
	feed_report(&small);
	small.rtt_ns = 10 * RTT;
	for (int i = 0; i < 5; i++) {
		small.now += 3 * small.rtt_ns;
		feed_report(&small);
	}
	open_settled(&large);
	small.rtt_ns = large.rtt_ns = TARGET + 60 * US;
	small.now += 10 * RTT;
	large.now += 10 * RTT;
	before[0] = feed_window(&small);
	before[1] = feed_window(&large);
	small.rate_bps = 100 * GBIT;
	feed_for(&small, 8 * RTT);
	feed_for(&large, 8 * RTT);
	assert_true(feed_window(&small) > before[0]);
	assert_true(feed_window(&large) < before[1]);
}

/* Less than a packet in a round trip: one packet in flight, and a rate that is less than that. */
static void windows_below_a_packet_are_rates(void **state)
{
	struct feed feed;

	(void)state;
	feed_open(&feed, "swift", 5 * GBIT, RTT);
	feed_report(&feed);
	feed.rtt_ns = 10 * MS;
	for (int i = 0; i < 12; i++) {
		feed.now += 5 * feed.rtt_ns;
		feed_report(&feed);
	}
	assert_int_equal(feed_window(&feed), PACKET);
	assert_true(feed_rate(&feed) < PACKET * 8 * (S / feed.rtt_ns) / 4);
	assert_true(feed_rate(&feed) > PACKET * 8 * (S / feed.rtt_ns) / 50);
}

/* A delay that does not change while one packet in many round trips is sent is that of the path: a link may become so slow that one
 * packet takes longer than its queue might. */
static void the_delay_of_a_slower_path_is_accepted(void **state)
{
	struct cc_status status;
	struct feed feed;

	(void)state;
	feed_open(&feed, "swift", 5 * GBIT, RTT);
	feed_report(&feed);
	feed.rtt_ns = 10 * MS;
	feed_for(&feed, S);
	feed.cc.ops->status(feed.cc.state, &status);
	assert_int_equal(status.base_rtt_ns, feed.rtt_ns);
}

static void chance_loss_changes_nothing(void **state)
{
	struct feed with, without;

	(void)state;
	open_settled(&with);
	open_settled(&without);
	with.loss = 0.03;
	feed_for(&with, 20 * RTT);
	feed_for(&without, 20 * RTT);
	assert_true(feed_window(&with) >= 95 * feed_window(&without) / 100);
}

static void loss_with_delay_shrinks_it(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct feed feed;
		uint64_t before;

		open_settled(&feed);
		feed_for(&feed, 4 * RTT);
		before = feed_window(&feed);
		feed.loss = i ? 0.2 : 0.03;
		feed.rtt_ns += 60 * US;
		feed_for(&feed, (i ? 30 : 6) * feed.rtt_ns);
		assert_true(feed_window(&feed) < 8 * before / 10);
	}
}

/* What the path loses without a queue, it also loses with one. */
static void loss_without_delay_is_remembered(void **state)
{
	struct feed feed, other;

	(void)state;
	open_settled(&feed);
	open_settled(&other);
	feed.loss = 0.03;
	feed_for(&feed, 100 * RTT);
	feed_for(&other, 100 * RTT);
	feed.rtt_ns += 60 * US;
	other.rtt_ns += 60 * US;
	feed_for(&feed, 6 * feed.rtt_ns);
	feed_for(&other, 6 * other.rtt_ns);
	assert_true(feed_window(&feed) > 85 * feed_window(&other) / 100);
}

static void marks_and_notifications_shrink_it(void **state)
{
	uint64_t left[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct feed feed;

		open_settled(&feed);
		feed.ce = i == 1 ? 0.5 : 0;
		for (int j = 0; j < 16; j++) {
			if (i == 2)
				cc_cnp(&feed.cc, feed.now);
			feed_report(&feed);
		}
		left[i] = feed_window(&feed);
	}
	assert_true(left[1] < 8 * left[0] / 10);
	assert_true(left[2] < 9 * left[0] / 10);
}

/* One notification costs a part of the window, once. */
static void one_notification_is_got_over(void **state)
{
	struct feed feed, other;

	(void)state;
	open_settled(&feed);
	open_settled(&other);
	for (int i = 0; i < 200; i++) {
		feed_report(&feed);
		feed_report(&other);
	}
	cc_cnp(&feed.cc, feed.now);
	for (int i = 0; i < 8; i++) {
		feed_report(&feed);
		feed_report(&other);
	}
	assert_true(feed_window(&feed) < 99 * feed_window(&other) / 100);
	for (int i = 0; i < 400; i++) {
		feed_report(&feed);
		feed_report(&other);
	}
	assert_true(feed_window(&feed) > 95 * feed_window(&other) / 100);
}

/* It ends the start at once, not when the round is over. */
static void a_notification_ends_the_start(void **state)
{
	struct feed feed, other;

	(void)state;
	feed_open(&feed, "swift", 10 * GBIT, 400 * US);
	feed_open(&other, "swift", 10 * GBIT, 400 * US);
	for (int i = 0; i < 8; i++) {
		feed_report(&feed);
		feed_report(&other);
	}
	assert_explained(&feed, "starting");
	cc_cnp(&feed.cc, feed.now);
	feed_report(&feed);
	feed_report(&other);
	assert_true(feed_window(&feed) < 95 * feed_window(&other) / 100);
}

static void a_window_that_is_not_used_does_not_grow(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_settled(&feed);
	before = feed_window(&feed);
	feed.app_limited = true;
	feed.rate_bps = 100 * MBIT;
	feed_for(&feed, 100 * RTT);
	assert_int_equal(feed_window(&feed), before);
}

static void silence_leaves_a_few_packets(void **state)
{
	struct feed feed;

	(void)state;
	open_settled(&feed);
	cc_timeout(&feed.cc, feed.now);
	assert_int_equal(feed_window(&feed), 4 * PACKET);
	assert_explained(&feed, "nothing was heard");
}

/* Loss that stays when much less is sent is chance. */
static void much_loss_by_chance_is_borne(void **state)
{
	struct feed feed;
	uint64_t before, least = UINT64_MAX;

	(void)state;
	open_settled(&feed);
	before = feed_window(&feed);
	feed.loss = 0.3;
	for (int i = 0; i < 400; i++) {
		feed_report(&feed);
		least = feed_window(&feed) < least ? feed_window(&feed) : least;
	}
	assert_in_range(least, before / 10, before / 6);
	assert_true(feed_window(&feed) >= 95 * before / 100);
}

/* Of a window of which a third is lost, two thirds are reported. */
static void what_is_lost_was_used(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_settled(&feed);
	feed.loss = 0.3;
	for (int i = 0; i < 400; i++)
		feed_report(&feed);
	before = feed_window(&feed);
	for (int i = 0; i < 40; i++) {
		uint64_t packets = feed_window(&feed) / PACKET;
		struct cc_report report = { .delivered_packets = 35 * packets / 100,
					    .delivered_bytes = 35 * packets / 100 * PACKET,
					    .counted_packets = 50 * packets / 100,
					    .lost_packets = 15 * packets / 100,
					    .in_flight_bytes = 10 * packets / 100 * PACKET,
					    .rtt_ns = feed.rtt_ns };

		feed.now += feed.rtt_ns;
		cc_report(&feed.cc, &report, feed.now);
	}
	assert_true(feed_window(&feed) > before + 4 * PACKET);
}

/* A sender with nothing to send tests nothing: the doubling of the start does not begin again. */
static void a_pause_ends_a_test(void **state)
{
	struct feed feed;
	uint64_t before;

	(void)state;
	open_settled(&feed);
	before = feed_window(&feed);
	feed.loss = 0.3;
	while (feed_window(&feed) > before / 2)
		feed_report(&feed);
	assert_explained(&feed, "is the loss chance?");
	feed.app_limited = true;
	feed.loss = 0;
	feed_for(&feed, 4 * feed.rtt_ns);
	feed.app_limited = false;
	feed_for(&feed, 2 * feed.rtt_ns);
	assert_in_range(feed_window(&feed), before / 2, before + 8 * PACKET);
}

/* Who started into a queue takes it for the path, until it drains. */
static void the_path_is_looked_at_bare(void **state)
{
	uint64_t least = UINT64_MAX, most = 0;
	struct feed feed;

	(void)state;
	open_settled(&feed);
	feed.rtt_ns = RTT + 100 * US;
	feed.rate_bps = GBIT;
	for (int i = 0; i < 2000; i++) {
		feed_report(&feed);
		least = feed_rate(&feed) < least ? feed_rate(&feed) : least;
		most = feed_rate(&feed) > most ? feed_rate(&feed) : most;
	}
	assert_true(least < 6 * most / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(start_doubles_until_the_delay_is_above_target),
		cmocka_unit_test(a_late_sample_is_no_queue),
		cmocka_unit_test(a_host_that_wakes_is_no_queue),
		cmocka_unit_test(a_queue_on_the_way_back_is_none),
		cmocka_unit_test(below_target_it_adds),
		cmocka_unit_test(a_window_returns_when_the_queue_is_gone),
		cmocka_unit_test(a_window_that_lost_packets_does_not_return),
		cmocka_unit_test(losses_leave_what_arrives),
		cmocka_unit_test(a_short_queue_lowers_the_target),
		cmocka_unit_test(above_target_it_shrinks_once),
		cmocka_unit_test(a_delay_is_answered_once),
		cmocka_unit_test(rare_reports_widen_the_window),
		cmocka_unit_test(a_small_flow_is_granted_more_delay),
		cmocka_unit_test(windows_below_a_packet_are_rates),
		cmocka_unit_test(the_delay_of_a_slower_path_is_accepted),
		cmocka_unit_test(chance_loss_changes_nothing),
		cmocka_unit_test(loss_with_delay_shrinks_it),
		cmocka_unit_test(loss_without_delay_is_remembered),
		cmocka_unit_test(marks_and_notifications_shrink_it),
		cmocka_unit_test(one_notification_is_got_over),
		cmocka_unit_test(a_notification_ends_the_start),
		cmocka_unit_test(a_window_that_is_not_used_does_not_grow),
		cmocka_unit_test(silence_leaves_a_few_packets),
		cmocka_unit_test(much_loss_by_chance_is_borne),
		cmocka_unit_test(what_is_lost_was_used),
		cmocka_unit_test(a_pause_ends_a_test),
		cmocka_unit_test(the_path_is_looked_at_bare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

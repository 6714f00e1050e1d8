/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pacer's rate, from 10 Mbit/s to 100 Gbit/s, however one asks; its bursts, also after idling and when the clock
 * jumps; and that the time it names for the next bytes is the right one.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "congestion/pacer.h"

#define MS     UINT64_C(1000000)
#define S      UINT64_C(1000000000)
#define MBIT   UINT64_C(1000000)
#define GBIT   UINT64_C(1000000000)
#define PACKET 1500u
#define GROUP  65536u
#define BURST  (1u << 20)

static const uint64_t rates[] = {
	10 * MBIT, 33333333,  100 * MBIT,  999999937,  GBIT,
	10 * GBIT, 40 * GBIT, 99999999977, 100 * GBIT,
};

#define RATES (sizeof(rates) / sizeof(rates[0]))

static struct pacer pacer_at(uint64_t rate_bps, uint64_t now_ns)
{
	struct pacer_attr attr = { .packet_bytes = PACKET };
	struct pacer pacer;

	pacer_init(&pacer, &attr, now_ns);
	pacer_set_rate(&pacer, rate_bps, now_ns);
	return pacer;
}

/* What the rate sends in that time, in bytes. */
static double due(uint64_t rate_bps, uint64_t time_ns)
{
	return (double)rate_bps / 8e9 * (double)time_ns;
}

/* The depth the header promises. */
static uint64_t depth(uint64_t rate_bps)
{
	double bytes = due(rate_bps, MS);

	if (bytes > BURST)
		return BURST;
	return bytes < PACKET ? PACKET : (uint64_t)bytes;
}

static void assert_rate(uint64_t sent, uint64_t rate_bps, uint64_t time_ns, double within)
{
	double error = (double)sent / due(rate_bps, time_ns) - 1;

	if (error > within || error < -within)
		fail_msg("%" PRIu64 " bytes in %" PRIu64 " ns at %" PRIu64 " bit/s: off by %g",
			 sent, time_ns, rate_bps, error);
}

/* As many whole packets as are allowed. */
static uint64_t take_packets(struct pacer *pacer, uint64_t now_ns)
{
	uint64_t bytes = pacer_allow(pacer, now_ns) / PACKET * PACKET;

	pacer_take(pacer, bytes, now_ns);
	return bytes;
}

/* Comes by at random, up to `most_ns` apart. */
static uint64_t poll_at_random(uint64_t rate_bps, uint64_t most_ns, uint64_t time_ns, uint64_t seed)
{
	struct pacer pacer = pacer_at(rate_bps, 0);
	uint64_t now = 0, sent = 0;
	struct rng rng;

	rng_seed(&rng, seed);
	while (now < time_ns) {
		sent += take_packets(&pacer, now);
		now += 1 + rng_below(&rng, most_ns);
	}
	return sent;
}

static void holds_its_rate_however_it_is_asked(void **state)
{
	(void)state;
	for (size_t i = 0; i < RATES; i++) {
		/* A whole packet must fit beside what comes in meanwhile; see the header. */
		uint64_t fill = (uint64_t)((double)depth(rates[i]) / due(rates[i], 1));
		uint64_t packet = (uint64_t)(PACKET / due(rates[i], 1));
		uint64_t most = fill > 2 * packet ? fill - packet : packet / 50;
		uint64_t time = 20000 * (most / 2 > packet ? most / 2 : packet);

		time = time > 10 * S ? 10 * S : time;
		assert_rate(poll_at_random(rates[i], most, time, i), rates[i], time, 0.01);
		assert_rate(poll_at_random(rates[i], most / 20 + 1, time, i), rates[i], time, 0.01);
	}
}

/* Sleeps until the time it is told, as an event loop does, here and there a little longer. */
static void holds_its_rate_when_it_sleeps_as_told(void **state)
{
	(void)state;
	for (size_t i = 0; i < RATES; i++) {
		for (uint64_t late = 0; late <= 1; late++) {
			struct pacer pacer = pacer_at(rates[i], 7);
			uint64_t step = (uint64_t)(PACKET / due(rates[i], 1)), now = 7, sent = 0;
			uint64_t time = 20000 * (step + 1);
			struct rng rng;

			rng_seed(&rng, i);
			while (now < 7 + time) {
				assert_true(pacer_allow(&pacer, now) >= PACKET);
				pacer_take(&pacer, PACKET, now);
				sent += PACKET;
				now = pacer_next_ns(&pacer, PACKET, now);
				now += late * rng_below(&rng, step / 100 + 1);
			}
			assert_rate(sent, rates[i], time, 0.01);
		}
	}
}

/* To the byte: after an hour, in steps that divide nothing, not a token is missing. */
static void does_not_drift(void **state)
{
	struct pacer pacer = pacer_at(999999937, 0);
	uint64_t now = 0, sent = 0;

	(void)state;
	sent += pacer_allow(&pacer, 0);
	pacer_take(&pacer, sent, 0);
	while (now < 3600 * S) {
		uint64_t bytes;

		now += 777777;
		bytes = pacer_allow(&pacer, now);
		pacer_take(&pacer, bytes, now);
		sent += bytes;
	}
	assert_in_range(sent - PACKET, (uint64_t)((unsigned __int128)999999937 * now / (8 * S)) - 1,
			(uint64_t)((unsigned __int128)999999937 * now / (8 * S)) + 1);
}

static void bursts_are_bounded(void **state)
{
	(void)state;
	for (size_t i = 0; i < RATES; i++) {
		struct pacer pacer = pacer_at(rates[i], 0);

		/* An hour of sleep, a year, and a clock at its end. */
		assert_int_equal(pacer_allow(&pacer, 3600 * S), depth(rates[i]));
		take_packets(&pacer, 3600 * S);
		assert_int_equal(pacer_allow(&pacer, 365 * 86400 * S), depth(rates[i]));
		take_packets(&pacer, 365 * 86400 * S);
		assert_int_equal(pacer_allow(&pacer, UINT64_MAX), depth(rates[i]));
	}
}

/* In any stretch of time no more than the rate and one burst. */
static void no_stretch_has_more_than_a_burst(void **state)
{
	static uint64_t at[4000], total[4000];
	struct rng rng;

	(void)state;
	for (size_t r = 0; r < RATES; r++) {
		struct pacer pacer = pacer_at(rates[r], 0);
		uint64_t now = 0, sent = 0;

		rng_seed(&rng, r);
		for (size_t i = 0; i < 4000; i++) {
			now += rng_below(&rng, rng_chance(&rng, 0.1) ? 5 * MS : MS / 5);
			at[i] = now;
			total[i] = sent;
			sent += take_packets(&pacer, now);
		}
		for (size_t i = 0; i < 4000; i += 7)
			for (size_t j = i + 1; j < 4000; j += 13)
				assert_true((double)(total[j] - total[i]) <=
					    due(rates[r], at[j] - at[i]) + (double)depth(rates[r]) +
						    1);
	}
}

/* Sleeps as it is told, and is woken late now and then; returns the bytes that left. */
static uint64_t woken_late(struct pacer *pacer, uint64_t late_ns, uint64_t time_ns)
{
	uint64_t now = 0, sent = 0;

	for (unsigned turn = 0; now < time_ns; turn++) {
		sent += take_packets(pacer, now);
		now = pacer_next_ns(pacer, 64 * PACKET, now) + (turn % 8 == 7 ? late_ns : 0);
	}
	return sent;
}

static void a_late_sender_makes_up_for_it(void **state)
{
	struct pacer pacer = pacer_at(GBIT, 0);

	(void)state;
	pacer_set_times(&pacer, MS, 10 * MS, 0);
	assert_rate(woken_late(&pacer, 3 * MS / 2, 10 * S), GBIT, 10 * S, 0.01);
	/* Without it the time is lost. */
	pacer = pacer_at(GBIT, 0);
	assert_true((double)woken_late(&pacer, 3 * MS / 2, 10 * S) < 0.95 * due(GBIT, 10 * S));
}

/* On a short path the bucket holds less than a host sends when it is woken late, as a busy one always is. */
static void a_sender_that_is_always_late_has_its_rate(void **state)
{
	(void)state;
	for (uint64_t late_ns = 50000; late_ns <= 800000; late_ns *= 4) {
		struct pacer pacer = pacer_at(200 * MBIT, 0);
		uint64_t now = 0, sent = 0;
		struct rng rng;

		rng_seed(&rng, late_ns);
		pacer_set_times(&pacer, MS / 40, MS / 10, 0);
		while (now < 2 * S) {
			sent += take_packets(&pacer, now);
			now = pacer_next_ns(&pacer, 2 * PACKET, now) + rng_below(&rng, late_ns);
			/* The news that it finds then changes the rate a little. */
			pacer_set_rate(&pacer, 200 * MBIT + (now & 1), now);
		}
		assert_rate(sent, 200 * MBIT, 2 * S, 0.02);
	}
}

/* What a late sender missed of the last millisecond is there at once, up to 1 MiB, and then it is gone. */
static void lateness_is_a_bounded_burst(void **state)
{
	(void)state;
	for (size_t i = 0; i < RATES; i++) {
		struct pacer pacer = pacer_at(rates[i], 0);
		uint64_t more = (uint64_t)due(rates[i], MS), bytes;

		more = more > BURST ? BURST : more;
		pacer_set_times(&pacer, MS, MS, 0);
		take_packets(&pacer, 0);
		pacer_next_ns(&pacer, BURST, 0);
		bytes = pacer_allow(&pacer, S);
		assert_in_range(bytes, depth(rates[i]) + more - 1, depth(rates[i]) + more);
		/* Another depth does not change that. */
		pacer_set_times(&pacer, MS / 100, MS, S);
		pacer_set_times(&pacer, MS, MS, S);
		bytes = pacer_allow(&pacer, S);
		assert_in_range(bytes, more - 1, depth(rates[i]) + more);
		assert_int_equal(pacer_allow(&pacer, 2 * S), depth(rates[i]));
	}
}

/* A quarter more than the rate, for as long as it takes, and for no more than was allowed to be missed. */
static void it_makes_up_for_the_rest_slowly(void **state)
{
	struct pacer pacer = pacer_at(GBIT, 0);
	uint64_t sent = 0, now = 0;

	(void)state;
	pacer_set_times(&pacer, MS, 10 * MS, 0);
	take_packets(&pacer, now);
	pacer_next_ns(&pacer, 64 * PACKET, now);
	now = 500 * MS;
	assert_int_equal(pacer_allow(&pacer, now), depth(GBIT) + (uint64_t)due(GBIT, MS));
	take_packets(&pacer, now);
	for (int i = 0; i < 100; i++) {
		now += MS / 10;
		assert_true((double)pacer_allow(&pacer, now) <=
			    5 * due(GBIT, MS / 10) / 4 + PACKET);
		sent += take_packets(&pacer, now);
	}
	assert_in_range(sent, (uint64_t)due(GBIT, 10 * MS) * 5 / 4 - 2 * PACKET,
			(uint64_t)due(GBIT, 10 * MS) * 5 / 4 + 2 * PACKET);
	for (int i = 0; i < 1000; i++) {
		now += MS / 10;
		sent += take_packets(&pacer, now);
	}
	/* 110 ms, and the 10 that were missed. */
	assert_in_range(sent, (uint64_t)due(GBIT, 120 * MS) - 2 * PACKET,
			(uint64_t)due(GBIT, 120 * MS) + 2 * PACKET);
}

/* Who had nothing to send is owed nothing. */
static void an_idle_sender_missed_nothing(void **state)
{
	struct pacer pacer = pacer_at(GBIT, 0);

	(void)state;
	pacer_set_times(&pacer, MS, 10 * MS, 0);
	take_packets(&pacer, 0);
	pacer_next_ns(&pacer, PACKET, 0);
	take_packets(&pacer, MS / 2);
	take_packets(&pacer, 50 * MS);
	assert_in_range(pacer_allow(&pacer, 50 * MS + MS / 10), 0,
			(uint64_t)due(GBIT, MS / 10) + PACKET);
}

static void a_clock_that_goes_back_earns_nothing(void **state)
{
	struct pacer pacer = pacer_at(GBIT, S);

	(void)state;
	pacer_take(&pacer, pacer_allow(&pacer, S), S);
	assert_int_equal(pacer_allow(&pacer, S / 2), 0);
	/* And is not waited for. */
	assert_int_equal(pacer_allow(&pacer, S / 2 + 12000), 1500);
	pacer_take(&pacer, 1500, S / 2 + 12000);
	/* Back and forth: time that passes twice counts at most to the brim. */
	for (int i = 0; i < 100; i++) {
		pacer_allow(&pacer, S);
		pacer_allow(&pacer, S / 2);
	}
	assert_int_equal(pacer_allow(&pacer, S), depth(GBIT));
}

static void rates_change_at_any_time(void **state)
{
	struct pacer pacer = pacer_at(GBIT / 10, 0);

	(void)state;
	pacer_take(&pacer, pacer_allow(&pacer, 0), 0);
	/* Half a millisecond at one rate, half at the other. */
	pacer_set_rate(&pacer, GBIT, MS / 2);
	assert_int_equal(pacer_allow(&pacer, MS), 6250 + 62500);
	pacer_take(&pacer, 6250 + 62500, MS);
	/* What was saved at a high rate is too much of a burst at a low one. */
	pacer_set_rate(&pacer, GBIT / 10, 20 * MS);
	assert_int_equal(pacer_allow(&pacer, 20 * MS), 12500);
	pacer_take(&pacer, 12500, 20 * MS);
	pacer_set_rate(&pacer, GBIT / 10, MS);
	pacer_set_rate(&pacer, 8 * GBIT, MS);
	assert_int_equal(pacer_allow(&pacer, MS + 1000), 1000);
	/* To stop, to let go, and to hold again. */
	pacer_set_rate(&pacer, 0, MS + 1000);
	assert_int_equal(pacer_allow(&pacer, 10 * S), 1000);
	assert_int_equal(pacer_next_ns(&pacer, 1500, 10 * S), UINT64_MAX);
	pacer_set_rate(&pacer, PACER_UNPACED, 10 * S);
	assert_true(pacer_allow(&pacer, 10 * S) == UINT64_MAX);
	pacer_take(&pacer, UINT64_MAX, 10 * S);
	assert_int_equal(pacer_next_ns(&pacer, UINT64_MAX, 10 * S), 10 * S);
	pacer_set_rate(&pacer, GBIT, 11 * S);
	assert_in_range(pacer_allow(&pacer, 11 * S), 0, depth(GBIT));
	/* The same rate again and again is the same rate. */
	pacer_take(&pacer, pacer_allow(&pacer, 12 * S), 12 * S);
	for (uint64_t now = 12 * S; now < 12 * S + 12000; now++)
		pacer_set_rate(&pacer, GBIT, now);
	assert_int_equal(pacer_allow(&pacer, 12 * S + 12000), 1500);
}

static void debts_are_paid(void **state)
{
	struct pacer pacer = pacer_at(GBIT, 0);
	uint64_t brim = pacer_allow(&pacer, S);

	(void)state;
	pacer_take(&pacer, brim + 1500, S);
	assert_int_equal(pacer_allow(&pacer, S + 12000), 0);
	assert_int_equal(pacer_allow(&pacer, S + 24000), 1500);
	/* However much was taken, it ends. */
	for (int i = 0; i < 100; i++)
		pacer_take(&pacer, UINT64_MAX, 2 * S);
	assert_int_equal(pacer_allow(&pacer, 10 * S), depth(GBIT));
}

static void the_time_it_names_is_the_first(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 5);
	for (size_t i = 0; i < 20000; i++) {
		uint64_t rate = rates[rng_below(&rng, RATES)], now = rng_below(&rng, S), next;
		struct pacer pacer = pacer_at(rate, now), probe;
		uint64_t bytes = 1 + rng_below(&rng, depth(rate));

		pacer_take(&pacer, rng_below(&rng, 3 * depth(rate)), now);
		next = pacer_next_ns(&pacer, bytes, now);
		probe = pacer;
		assert_true(pacer_allow(&probe, next) >= bytes);
		if (next > now) {
			probe = pacer;
			assert_true(pacer_allow(&probe, next - 1) < bytes);
		}
	}
}

static void the_bucket_has_the_depth_it_should(void **state)
{
	struct pacer_attr attr = { .packet_bytes = 4096, .batch_bytes = GROUP, .burst_ns = 20000 };
	struct pacer pacer;

	(void)state;
	pacer_init(&pacer, &attr, 0);
	/* One packet where the rate is low, whatever the time. */
	pacer_set_rate(&pacer, 10 * MBIT, 0);
	assert_int_equal(pacer_allow(&pacer, S), 4096);
	/* What leaves in a time that hosts can keep, up to a group. */
	pacer_set_rate(&pacer, 500 * MBIT, S);
	assert_int_equal(pacer_allow(&pacer, 2 * S), 6250);
	pacer_set_rate(&pacer, 10 * GBIT, 2 * S);
	assert_int_equal(pacer_allow(&pacer, 3 * S), GROUP);
	/* The time, where that is more. */
	pacer_set_rate(&pacer, 100 * GBIT, 3 * S);
	assert_int_equal(pacer_allow(&pacer, 4 * S), 250000);
	/* A packet that is larger than the bytes allowed in a burst can still leave. */
	attr = (struct pacer_attr){ .packet_bytes = 9000, .burst_bytes = 4000 };
	pacer_init(&pacer, &attr, 0);
	pacer_set_rate(&pacer, GBIT, 0);
	assert_int_equal(pacer_allow(&pacer, S), 9000);
	assert_int_equal(pacer_next_ns(&pacer, 1 << 20, S), S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holds_its_rate_however_it_is_asked),
		cmocka_unit_test(holds_its_rate_when_it_sleeps_as_told),
		cmocka_unit_test(does_not_drift),
		cmocka_unit_test(bursts_are_bounded),
		cmocka_unit_test(no_stretch_has_more_than_a_burst),
		cmocka_unit_test(a_late_sender_makes_up_for_it),
		cmocka_unit_test(a_sender_that_is_always_late_has_its_rate),
		cmocka_unit_test(lateness_is_a_bounded_burst),
		cmocka_unit_test(it_makes_up_for_the_rest_slowly),
		cmocka_unit_test(an_idle_sender_missed_nothing),
		cmocka_unit_test(a_clock_that_goes_back_earns_nothing),
		cmocka_unit_test(rates_change_at_any_time),
		cmocka_unit_test(debts_are_paid),
		cmocka_unit_test(the_time_it_names_is_the_first),
		cmocka_unit_test(the_bucket_has_the_depth_it_should),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

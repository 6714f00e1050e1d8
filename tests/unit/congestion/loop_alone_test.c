/* SPDX-License-Identifier: BSD-3-Clause */
/* One flow and a bottleneck: it is used whatever is lost by chance, and the queue stays short. */
#include "loop_check.h"

/* A fifth of the round trip, with a buffer of one bandwidth-delay product. */
static const struct bounds short_queue = { .used_least = 0.95,
					   .queue_most_ms = 5,
					   .overflow_most = 0.01 };

static void loss_by_chance_does_not_matter(void **state)
{
	(void)state;
	check("alone", &short_queue);
	check("alone-loss-1e-4", &short_queue);
	check("alone-loss-1e-3", &short_queue);
	check("alone-loss-1e-2", &short_queue);
	check("alone-loss-5e-2", &short_queue);
}

/* Loss that no ceiling may stop, with both controllers. */
static void half_of_all_may_be_lost(void **state)
{
	struct bounds lossy = { .used_least = 0.9, .queue_most_ms = 2.5, .overflow_most = 0.01 };
	/* Beside a buffer too short to be seen, overflow cannot be told from chance exactly. */
	struct bounds shallow = { .used_least = 0.75, .overflow_most = 0.3 };

	(void)state;
	check("lossy-0.1", &lossy);
	check("lossy-0.2", &lossy);
	check("lossy-0.3", &lossy);
	check("lossy-0.5", &lossy);
	check("lossy-swift-0.1", &lossy);
	check("lossy-swift-0.3", &lossy);
	check("lossy-shallow", &shallow);
}

/* Packets that are late by up to twice the round trip do not look like a queue. */
static void jitter_does_not_matter(void **state)
{
	struct bounds jitter = { .used_least = 0.8, .queue_most_ms = 10, .overflow_most = 0.02 };
	struct bounds swift = { .used_least = 0.97, .queue_most_ms = 1, .overflow_most = 0.005 };

	(void)state;
	check("jitter-half", &jitter);
	/* A queue shorter than that cannot be seen. */
	jitter.queue_most_ms = 40;
	jitter.overflow_most = 0.1;
	check("jitter-twice", &jitter);
	check("jitter-swift", &swift);
}

static void loss_in_bursts_does_not_matter(void **state)
{
	(void)state;
	check("alone-bursts-1e-4", &short_queue);
	check("alone-bursts-1e-3", &short_queue);
	check("alone-bursts-1e-2", &short_queue);
}

static void rates_and_distances(void **state)
{
	struct bounds far = { .used_least = 0.95, .queue_most_ms = 20, .overflow_most = 0.01 };
	struct bounds near = { .used_least = 0.95, .queue_most_ms = 1, .overflow_most = 0.01 };

	(void)state;
	check("alone-100M", &short_queue);
	check("alone-5ms", &near);
	check("alone-100ms", &far);
	far.used_least = 0.97;
	far.queue_most_ms = 100;
	check("alone-500ms", &far);
}

static void buffers_of_other_sizes(void **state)
{
	/* Too short to be seen: what it costs is bounded. */
	struct bounds hardly_any = { .used_least = 0.95, .overflow_most = 0.08 };

	(void)state;
	check("alone-shallow-0.2", &short_queue);
	check("alone-shallow-0.02", &hardly_any);
	check("alone-deep", &short_queue);
}

static void late_reports_and_marks(void **state)
{
	(void)state;
	check("alone-noise", &short_queue);
	check("alone-marks", &short_queue);
}

static void work_that_comes_and_goes(void **state)
{
	/* 5 parts of 8 is all there is. */
	struct bounds busy = { .used_least = 0.95 * 5 / 8, .overflow_most = 0.01 };

	(void)state;
	check("alone-on-off", &busy);
}

static void short_round_trips(void **state)
{
	struct bounds swift = { .used_least = 0.95, .queue_most_ms = 0.25, .overflow_most = 0.001 };

	(void)state;
	check("swift", &swift);
	check("swift-loss-1e-3", &swift);
	check("swift-10G", &swift);
	check("swift-10G-loss-1e-3", &swift);
}

/* The slot of the run that holds this time. */
static unsigned slot_at(const struct loop_case *one, uint64_t time_ns)
{
	return (unsigned)(time_ns * LOOP_SLOTS / (one->to_ns + 1));
}

/* From 1 Gbit/s to 200 Mbit/s at 4 s, and back at 8 s; a slot of the run is about a round trip. */
static void follow_step(uint64_t seed)
{
	const struct loop_case *one = case_find("step");
	struct bounds none = { 0 };
	struct loop_result r;

	check_seed("step", &none, seed, &r);
	/* What was in flight is five times too much, and nine round trips of queue; it takes that and a round. */
	for (unsigned i = slot_at(one, 4400 * MS); i < slot_at(one, 8 * S); i++) {
		assert_true(r.slot_queue_ns[i] < 10e6);
		assert_true(i < slot_at(one, 4500 * MS) || r.delivered_bps[i] > 0.95 * 200e6);
	}
	for (unsigned i = slot_at(one, 8 * S + 300 * MS); i < slot_at(one, 12 * S); i++)
		assert_true(r.delivered_bps[i] > 0.85 * 1e9);
	for (unsigned i = slot_at(one, 8 * S + 500 * MS); i < slot_at(one, 12 * S); i++)
		assert_true(r.delivered_bps[i] > 0.95 * 1e9);
	for (unsigned i = slot_at(one, 9 * S); i < slot_at(one, 12 * S); i++)
		assert_true(r.slot_queue_ns[i] < 5e6);
}

/* Whenever the step comes in a round. */
static void a_step_is_followed(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++)
		follow_step(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss_by_chance_does_not_matter),
		cmocka_unit_test(half_of_all_may_be_lost),
		cmocka_unit_test(jitter_does_not_matter),
		cmocka_unit_test(loss_in_bursts_does_not_matter),
		cmocka_unit_test(rates_and_distances),
		cmocka_unit_test(buffers_of_other_sizes),
		cmocka_unit_test(late_reports_and_marks),
		cmocka_unit_test(work_that_comes_and_goes),
		cmocka_unit_test(short_round_trips),
		cmocka_unit_test(a_step_is_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Which algorithm is chosen on which network, and what an operation tells about the rate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collective/choose.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define MS  UINT64_C(1000000)

static const enum operation operations[] = { OPERATION_BROADCAST, OPERATION_ALLGATHER,
					     OPERATION_REDUCE_SCATTER, OPERATION_ALLREDUCE };

/* A network on which all algorithms have reached a rate. */
static struct network known(uint64_t rtt_ns, uint64_t kbps)
{
	struct network network = { .rtt_ns = rtt_ns };

	for (unsigned i = CHOOSE_LINKS + 1; i < CHOOSE_RATES; i++)
		network.rate_kbps[i] = kbps;
	return network;
}

/* A ring's rounds cost delays, which do not count while bytes take longer. */
static void rate_decides(void **state)
{
	struct network slow = known(10 * MS, 200000), fast = known(10 * MS, 10000000);

	(void)state;
	assert_int_equal(choose_algorithm(OPERATION_ALLREDUCE, 8 * MIB, 8, &slow, false),
			 GW_ALGORITHM_RING);
	assert_int_equal(choose_algorithm(OPERATION_ALLREDUCE, 8 * MIB, 8, &fast, false),
			 GW_ALGORITHM_DIRECT);
	assert_int_equal(choose_algorithm(OPERATION_ALLREDUCE, 8 * MIB, 8, &fast, true),
			 GW_ALGORITHM_DIRECT);
	assert_int_equal(choose_algorithm(OPERATION_ALLREDUCE, 8 * MIB, 8, &slow, true),
			 GW_ALGORITHM_DIRECT);
}

static void round_trip_decides(void **state)
{
	struct network near = known(MS / 5, 1000000), far = known(100 * MS, 1000000);

	(void)state;
	assert_int_equal(choose_algorithm(OPERATION_ALLGATHER, 4 * MIB, 8, &near, false),
			 GW_ALGORITHM_RING);
	assert_int_equal(choose_algorithm(OPERATION_ALLGATHER, 4 * MIB, 8, &far, false),
			 GW_ALGORITHM_DIRECT);
}

/* Not every rank is connected with every other where there are many. */
static void many_ranks_are_not_all_connected(void **state)
{
	struct network far = known(100 * MS, 1000000);

	(void)state;
	for (unsigned i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		assert_int_not_equal(choose_algorithm(operations[i], MIB, 64, &far, false),
				     GW_ALGORITHM_DIRECT);
}

/* An operation that takes what was predicted was as fast as predicted. */
static void rate_is_found_again(void **state)
{
	static const uint64_t rates[] = { 100000, 1000000, 20000000 };

	(void)state;
	for (unsigned r = 0; r < sizeof(rates) / sizeof(rates[0]); r++)
		for (unsigned i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
			for (unsigned a = 1; a < CHOOSE_ALGORITHMS; a++) {
				struct network network = known(MS, rates[r]),
					       unknown = { .rtt_ns = MS };
				enum gw_algorithm algorithm = (enum gw_algorithm)a;
				uint64_t ns, kbps;

				if (!algorithm_fits(operations[i], algorithm))
					continue;
				ns = choose_predict_ns(operations[i], 256 * MIB, 6, algorithm,
						       &network);
				kbps = choose_rate_kbps(operations[i], 256 * MIB, 6, algorithm,
							&unknown, ns);
				assert_in_range(kbps, rates[r] / 100 * 90, rates[r] / 100 * 110);
			}
}

/* A small operation that waited for something says nothing about the rate. */
static void waiting_is_no_rate(void **state)
{
	struct network network = { .rtt_ns = 10 * MS };

	(void)state;
	assert_int_equal(choose_rate_kbps(OPERATION_ALLREDUCE, 4 * KIB, 8, GW_ALGORITHM_DIRECT,
					  &network, 40 * MS),
			 0);
	assert_int_equal(
		choose_rate_kbps(OPERATION_ALLREDUCE, 0, 8, GW_ALGORITHM_DIRECT, &network, 40 * MS),
		0);
}

/* A rank that began when the data of others had arrived already says nothing about the rate, either. */
static void late_is_not_fast(void **state)
{
	struct network network = { .rtt_ns = 10 * MS };

	(void)state;
	assert_int_equal(
		choose_rate_kbps(OPERATION_ALLREDUCE, 40, 4, GW_ALGORITHM_DOUBLING, &network, 0),
		0);
	assert_int_equal(
		choose_rate_kbps(OPERATION_ALLGATHER, MIB, 4, GW_ALGORITHM_DIRECT, &network, MS),
		0);
}

/* A ring whose rounds took as long as their delays: the rate is higher than was assumed, and something else is tried. */
static void ring_of_delays_is_left(void **state)
{
	struct network network = { .rtt_ns = 10 * MS };
	uint64_t delays_ns = 2 * 7 * 5 * MS;

	(void)state;
	assert_int_equal(choose_algorithm(OPERATION_ALLREDUCE, 8 * MIB, 8, &network, false),
			 GW_ALGORITHM_RING);
	network.rate_kbps[GW_ALGORITHM_RING] = choose_rate_kbps(
		OPERATION_ALLREDUCE, 8 * MIB, 8, GW_ALGORITHM_RING, &network, delays_ns + 15 * MS);
	assert_true(network.rate_kbps[GW_ALGORITHM_RING] > 1000000);
	assert_int_equal(choose_algorithm(OPERATION_ALLREDUCE, 8 * MIB, 8, &network, false),
			 GW_ALGORITHM_DIRECT);
}

/* What was tried and is slow is left; what was not tried must be better by a quarter. */
static void measured_counts(void **state)
{
	struct network network = known(10 * MS, 1000000);
	uint64_t bytes = 512 * KIB, ring_ns, direct_ns;

	(void)state;
	assert_int_equal(choose_algorithm(OPERATION_ALLGATHER, bytes, 8, &network, false),
			 GW_ALGORITHM_DIRECT);
	network.rate_kbps[GW_ALGORITHM_DIRECT] = 50000;
	assert_int_not_equal(choose_algorithm(OPERATION_ALLGATHER, bytes, 8, &network, false),
			     GW_ALGORITHM_DIRECT);

	/* Not much better than a ring that is known. */
	network = known(10 * MS, 200000);
	bytes = 530 * KIB;
	ring_ns = choose_predict_ns(OPERATION_ALLGATHER, bytes, 8, GW_ALGORITHM_RING, &network);
	direct_ns = choose_predict_ns(OPERATION_ALLGATHER, bytes, 8, GW_ALGORITHM_DIRECT, &network);
	while (direct_ns + direct_ns / 10 < ring_ns) {
		bytes += 16 * KIB;
		ring_ns = choose_predict_ns(OPERATION_ALLGATHER, bytes, 8, GW_ALGORITHM_RING,
					    &network);
		direct_ns = choose_predict_ns(OPERATION_ALLGATHER, bytes, 8, GW_ALGORITHM_DIRECT,
					      &network);
	}
	assert_true(direct_ns < ring_ns);
	assert_int_equal(choose_algorithm(OPERATION_ALLGATHER, bytes, 8, &network, false),
			 GW_ALGORITHM_DIRECT);
	network.rate_kbps[GW_ALGORITHM_DIRECT] = 0;
	assert_int_equal(choose_algorithm(OPERATION_ALLGATHER, bytes, 8, &network, false),
			 GW_ALGORITHM_RING);
}

/* A slow algorithm is no slow link: what was not tried goes by what arrives. */
static void the_links_rate_counts_where_nothing_was_tried(void **state)
{
	struct network network = { .rtt_ns = 10 * MS };

	(void)state;
	network.rate_kbps[GW_ALGORITHM_DIRECT] = 100000;
	assert_int_equal(choose_algorithm(OPERATION_ALLGATHER, MIB, 8, &network, false),
			 GW_ALGORITHM_DIRECT);
	network.rate_kbps[CHOOSE_LINKS] = 300000;
	assert_int_equal(choose_algorithm(OPERATION_ALLGATHER, MIB, 8, &network, false),
			 GW_ALGORITHM_RING);
	/* Once it was, it goes by that. */
	network.rate_kbps[GW_ALGORITHM_RING] = 90000;
	assert_int_equal(choose_algorithm(OPERATION_ALLGATHER, MIB, 8, &network, false),
			 GW_ALGORITHM_DIRECT);
}

/* Any size, rate and round trip has an answer, and none overflows: more bytes never take less time. */
static void more_takes_longer(void **state)
{
	(void)state;
	for (uint64_t rtt = 1000; rtt <= UINT64_C(10000000000); rtt *= 10)
		for (uint64_t kbps = 1000; kbps <= UINT64_C(1000000000); kbps *= 10)
			for (uint32_t size = 2; size <= 2048; size *= 4) {
				struct network network = known(rtt, kbps);
				uint64_t before = 0;

				for (uint64_t bytes = MIB; bytes <= UINT64_C(1) << 40; bytes *= 4) {
					uint64_t ns =
						choose_predict_ns(OPERATION_ALLREDUCE, bytes, size,
								  GW_ALGORITHM_RING, &network);

					assert_true(ns >= before);
					before = ns;
				}
			}
}

/* A link that carries little in a round trip is filled by short segments. */
static void light_is_little_in_flight(void **state)
{
	struct network slow = known(10 * MS, 200000), fast = known(10 * MS, 1000000);

	(void)state;
	assert_true(choose_is_light(OPERATION_ALLREDUCE, 8 * MIB, 4, GW_ALGORITHM_RING, &slow));
	assert_false(choose_is_light(OPERATION_ALLREDUCE, 8 * MIB, 4, GW_ALGORITHM_RING, &fast));
}

/* Short messages to each of the other ranks wait for answers where their share of the link carries more, unless they are few. Others wait
 * for grants, which is predicted to take less. */
static void direct_is_light_without_answers(void **state)
{
	struct network slow = known(10 * MS, 200000), fast = known(10 * MS, 4000000);
	uint64_t bytes = 16 * MIB, chunk = bytes / 4,
		 waits_ns = 2 * (chunk / (448 * KIB)) * 10 * MS;

	(void)state;
	assert_true(choose_is_light(OPERATION_ALLREDUCE, bytes, 4, GW_ALGORITHM_DIRECT, &slow));
	assert_false(choose_is_light(OPERATION_ALLREDUCE, bytes, 4, GW_ALGORITHM_DIRECT, &fast));
	assert_false(choose_is_light(OPERATION_BROADCAST, bytes, 4, GW_ALGORITHM_DIRECT, &fast));
	assert_true(choose_is_light(OPERATION_ALLREDUCE, MIB, 4, GW_ALGORITHM_DIRECT, &fast));
	assert_true(choose_predict_ns(OPERATION_ALLREDUCE, bytes, 4, GW_ALGORITHM_DIRECT, &fast) <
		    waits_ns);
	/* One whose rate was measured while it waited does not stay with short messages. */
	fast.rate_kbps[GW_ALGORITHM_DIRECT] = 1000000;
	assert_false(choose_is_light(OPERATION_ALLREDUCE, bytes, 4, GW_ALGORITHM_DIRECT, &fast));
	/* A tree has short messages only, and waits. */
	fast = known(40 * MS, 4000000);
	assert_int_equal(choose_algorithm(OPERATION_BROADCAST, 504 * KIB, 5, &fast, false),
			 GW_ALGORITHM_DIRECT);
}

/* A chain's segments delay the last rank the less the shorter they are, but each costs time, and some of them have to fill the link. */
static void chain_segments_weigh_delay_against_number(void **state)
{
	struct network slow = known(MS / 5, 200000), fast = known(MS / 5, 4000000), unknown = { 0 };
	uint32_t eight = choose_chain_bytes(MIB, 8, &slow);

	(void)state;
	assert_in_range(eight, 16 * KIB, 24 * KIB);
	assert_in_range(choose_chain_bytes(MIB, 4, &slow), eight + 1, 64 * KIB);
	assert_in_range(choose_chain_bytes(4 * MIB, 8, &slow), eight + 1, 64 * KIB);
	assert_in_range(choose_chain_bytes(64 * KIB, 8, &slow), 8 * KIB, 16 * KIB);
	assert_int_equal(choose_chain_bytes(UINT64_MAX, 3, &slow), 64 * KIB);
	assert_int_equal(choose_chain_bytes(MIB, 2, &slow), 64 * KIB);
	assert_in_range(choose_chain_bytes(128 * KIB, 16, &fast), 48 * KIB, 52 * KIB);
	assert_int_equal(choose_chain_bytes(16 * MIB, 8, &fast), 64 * KIB);
	assert_int_equal(choose_chain_bytes(MIB, 8, &unknown), 64 * KIB);
}

/* Short ones wait for answers, for 448 KiB in a round trip; long ones for a grant, and each rank delays the last one by more. */
static void far_chain_segments_weigh_answers_against_grants(void **state)
{
	struct network slow = known(10 * MS, 300000), fast = known(10 * MS, 4000000);

	(void)state;
	assert_int_equal(choose_chain_bytes(MIB, 8, &slow), 64 * KIB);
	assert_int_equal(choose_chain_bytes(64 * MIB, 8, &slow), 64 * KIB);
	assert_int_equal(choose_chain_bytes(256 * KIB, 8, &fast), 64 * KIB);
	assert_int_equal(choose_chain_bytes(16 * MIB, 8, &fast), 256 * KIB);
	assert_int_equal(choose_chain_bytes(UINT64_MAX, 2, &fast), 256 * KIB);
	/* Among many ranks a channel has no memory for them: all wait for grants. */
	assert_int_equal(choose_chain_bytes(16 * MIB, 17, &fast), 64 * KIB);
	/* The time that waiting takes counts. */
	assert_true(
		choose_predict_ns(OPERATION_BROADCAST, 768 * KIB, 16, GW_ALGORITHM_RING, &fast) >
		choose_predict_ns(OPERATION_BROADCAST, 768 * KIB, 17, GW_ALGORITHM_RING, &fast));
}

/* A ring that was slow with small allgathers is no slow chain, and all to all at the full rate is no broadcast at it. */
static void broadcasts_have_rates_of_their_own(void **state)
{
	struct network network = { .rtt_ns = MS / 5 };
	unsigned chain = choose_rate_at(OPERATION_BROADCAST, GW_ALGORITHM_RING);

	(void)state;
	network.rate_kbps[CHOOSE_LINKS] = 177000;
	network.rate_kbps[choose_rate_at(OPERATION_ALLGATHER, GW_ALGORITHM_RING)] = 40000;
	network.rate_kbps[choose_rate_at(OPERATION_ALLGATHER, GW_ALGORITHM_DIRECT)] = 280000;
	assert_int_equal(choose_algorithm(OPERATION_BROADCAST, MIB, 8, &network, false),
			 GW_ALGORITHM_RING);
	network.rate_kbps[chain] = 40000;
	assert_int_equal(choose_algorithm(OPERATION_BROADCAST, MIB, 8, &network, false),
			 GW_ALGORITHM_DIRECT);
	for (unsigned a = 1; a < CHOOSE_ALGORITHMS; a++)
		for (unsigned i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
			assert_in_range(choose_rate_at(operations[i], (enum gw_algorithm)a),
					CHOOSE_LINKS + 1, CHOOSE_RATES - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rate_decides),
		cmocka_unit_test(round_trip_decides),
		cmocka_unit_test(chain_segments_weigh_delay_against_number),
		cmocka_unit_test(far_chain_segments_weigh_answers_against_grants),
		cmocka_unit_test(broadcasts_have_rates_of_their_own),
		cmocka_unit_test(many_ranks_are_not_all_connected),
		cmocka_unit_test(rate_is_found_again),
		cmocka_unit_test(waiting_is_no_rate),
		cmocka_unit_test(late_is_not_fast),
		cmocka_unit_test(ring_of_delays_is_left),
		cmocka_unit_test(measured_counts),
		cmocka_unit_test(the_links_rate_counts_where_nothing_was_tried),
		cmocka_unit_test(more_takes_longer),
		cmocka_unit_test(light_is_little_in_flight),
		cmocka_unit_test(direct_is_light_without_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

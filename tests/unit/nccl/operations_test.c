/* SPDX-License-Identifier: BSD-3-Clause */
/* How long operations of NCCL take on some paths, as multiples of the least time; opsim prints the same of any path. */
#include "operations.h"

#define LINK_BPS UINT64_C(4000000000)

/* Runs of each size, with a few packets more in each: where queues overflow single runs differ by some per cent. */
#define RUNS	   2
#define MORE_BYTES 6000u

/* Time of an operation in hundredths of the floor, in the mean. */
static uint64_t of_the_floor(const struct operations_attr *path, uint64_t kib)
{
	double share = 0;

	for (unsigned i = 0; i < RUNS; i++) {
		struct operations_attr attr = *path;
		struct operations_result result;

		attr.bytes = (kib << 10) + i * MORE_BYTES;
		operations_run(&attr, &result);
		share += (double)result.mean_ns / (double)result.floor_ns / RUNS;
	}
	print_message("%llu KiB: %.2f of the floor\n", (unsigned long long)kib, share);
	return (uint64_t)(share * 100);
}

static void a_step_takes_a_one_way_delay(void **state)
{
	static const struct operations_attr far = { .link = { .rate_bps = LINK_BPS,
							      .delay_ns = 5 * MS },
						    .channels = 1,
						    .operations = 25,
						    .both_ways = true };
	static const uint64_t kib[] = { 1, 4, 16, 64, 256, 1024 };

	(void)state;
	/* What fits in a few packets is paced by nothing. The rate of messages that are sent one at a time is not learnt: they are paced
	 * more slowly than the link, and miss the goal of 1.15. */
	for (size_t i = 0; i < sizeof(kib) / sizeof(kib[0]); i++)
		assert_true(of_the_floor(&far, kib[i]) < (kib[i] <= 4 ? 102 : 125));
}

/* Flows begin together, end one after the other, and wait for each other: none may be left with a small window. */
static void channels_share_a_short_path(void **state)
{
	static const struct operations_attr near = { .link = { .rate_bps = LINK_BPS,
							       .delay_ns = 100 * US },
						     .channels = 2,
						     .operations = 30 };
	static const uint64_t kib[] = { 64, 1024, 2048 };

	(void)state;
	for (size_t i = 0; i < sizeof(kib) / sizeof(kib[0]); i++)
		assert_true(of_the_floor(&near, kib[i]) < (kib[i] <= 64 ? 102 : 115));
}

/* Queues that flows which begin together overflow, and losses by chance beside. */
static void channels_share_a_short_queue(void **state)
{
	static const struct {
		uint64_t queue_bytes, gap_ns;
		double loss;
		unsigned channels;
		/* most that an operation may take, in hundredths of the floor */
		uint64_t most;
	} cases[] = {
		{ 65536, 0, 0, 2, 140 },       { 100000, 0, 0, 2, 140 },
		{ 100000, 2 * MS, 0, 2, 140 }, { 100000, 0, 0, 4, 160 },
		{ 100000, 0, 1e-2, 2, 150 },   { 400000, 0, 1e-2, 2, 140 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct operations_attr near = {
			.link = { .rate_bps = LINK_BPS,
				  .delay_ns = 100 * US,
				  .queue_bytes = cases[i].queue_bytes,
				  .loss = cases[i].loss },
			.gap_ns = cases[i].gap_ns,
			.channels = cases[i].channels,
			.operations = 30,
		};

		assert_true(of_the_floor(&near, 1024) < cases[i].most);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_takes_a_one_way_delay),
		cmocka_unit_test(channels_share_a_short_path),
		cmocka_unit_test(channels_share_a_short_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

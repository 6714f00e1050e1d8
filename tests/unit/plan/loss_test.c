/* SPDX-License-Identifier: BSD-3-Clause */
/* Losses drawn have the share and the runs that were asked for, and the chances computed are those of the draws. */
#include "plan_test.h"

#include "plan/loss.h"

#define UNITS 2000000

static void test_streams_keep_share_and_runs(void **state)
{
	static const double cases[][2] = { { 0.01, 1 }, { 0.1, 1 }, { 0.01, 8 }, { 0.2, 3 } };

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct loss_model model = loss_model(cases[i][0], cases[i][1]);
		unsigned lost = 0, runs = 0;
		struct loss_stream stream;
		bool before = false;

		loss_stream_start(&stream, &model, 3);
		for (unsigned unit = 0; unit < UNITS; unit++) {
			bool now = loss_stream_next(&stream);

			lost += now;
			runs += now && !before;
			before = now;
		}
		close_to((double)lost / UNITS, cases[i][0], 0.04, "share lost");
		/* Independent losses meet by chance too. */
		close_to((double)lost / runs, fmax(cases[i][1], 1 / (1 - cases[i][0])), 0.04,
			 "run of losses");
	}
}

static void test_a_new_message_meets_the_average(void **state)
{
	struct loss_model model = loss_model(0.2, 10);
	struct loss_stream stream;
	unsigned lost = 0;

	(void)state;
	loss_stream_start(&stream, &model, 3);
	for (unsigned i = 0; i < 200000; i++) {
		loss_stream_renew(&stream);
		lost += loss_stream_next(&stream);
	}
	close_to(lost / 200000.0, 0.2, 0.02, "share of first units lost");
}

static void test_nothing_is_lost_at_zero(void **state)
{
	struct loss_model model = loss_model(0, 5);
	struct loss_stream stream;

	(void)state;
	loss_stream_start(&stream, &model, 3);
	for (unsigned i = 0; i < 1000; i++)
		assert_false(loss_stream_next(&stream));
	assert_true(loss_none(&model, 1e9) == 1);
}

static void test_independent_counts_are_binomial(void **state)
{
	struct loss_model model = loss_model(0.1, 1);
	double counts[LOSS_UNITS_MAX + 1], sum = 0;

	(void)state;
	loss_counts(&model, 40, 1, counts);
	for (unsigned b = 0; b <= 40; b++) {
		double binomial = exp(lgamma(41) - lgamma(b + 1) - lgamma(41 - b) + b * log(0.1) +
				      (40 - b) * log(0.9));

		close_to(counts[b], binomial, 1e-9, "binomial");
		sum += counts[b];
	}
	close_to(sum, 1, 1e-12, "sum");
	close_to(counts[0], loss_none(&model, 40), 1e-12, "none lost");
}

/* The recursion, against draws; also for units that lie apart. */
static void test_counts_in_bursts_are_those_drawn(void **state)
{
	static const unsigned aparts[] = { 1, 4 };
	struct loss_model model = loss_model(0.05, 6);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		unsigned n = 20, apart = aparts[i], seen[21] = { 0 }, rounds = 200000;
		double counts[LOSS_UNITS_MAX + 1];
		struct loss_stream stream;

		loss_stream_start(&stream, &model, 5);
		for (unsigned round = 0; round < rounds; round++) {
			unsigned lost = 0;

			loss_stream_renew(&stream);
			for (unsigned unit = 0; unit < n * apart; unit++) {
				bool now = loss_stream_next(&stream);

				lost += now && unit % apart == 0;
			}
			seen[lost]++;
		}
		loss_counts(&model, n, apart, counts);
		for (unsigned b = 0; b <= 6; b++)
			close_to((double)seen[b] / rounds, counts[b], 0.06, "count");
		if (apart == 1)
			close_to(counts[0], loss_none(&model, n), 1e-9, "none lost");
	}
}

static void test_chunks_lose_more_than_packets(void **state)
{
	struct loss_model packets = loss_model(1e-3, 1), runs = loss_model(1e-3, 33), chunks;

	(void)state;
	chunks = loss_of_chunks(&packets, 16);
	close_to(chunks.mean, 1 - pow(1 - 1e-3, 16), 1e-9, "chunk");
	assert_true(chunks.burst == 1);
	chunks = loss_of_chunks(&runs, 16);
	close_to(chunks.burst, 3, 1e-9, "run of chunks");
	assert_true(chunks.mean > 1e-3 && chunks.mean < 2e-3);
	chunks = loss_of_chunks(&runs, 1);
	assert_true(chunks.burst == 33);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_streams_keep_share_and_runs),
		cmocka_unit_test(test_a_new_message_meets_the_average),
		cmocka_unit_test(test_nothing_is_lost_at_zero),
		cmocka_unit_test(test_independent_counts_are_binomial),
		cmocka_unit_test(test_counts_in_bursts_are_those_drawn),
		cmocka_unit_test(test_chunks_lose_more_than_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SDR-RDMA's model: its formulas summed the long way, and the figures it quotes, on its path: 400 Gbit/s, 25 ms, 128 MiB
 * in chunks of 64 KiB.
 */
#include "plan_test.h"

#define CHUNKS 2048

static struct plan_path paper_path(double loss)
{
	struct plan_path path;

	plan_path_paper(&path, RTT_NS, RATE, loss);
	return path;
}

#define STEP  32 /* chunks' times from one q to the next */
#define TIMES 64

/* E[T] = sum over q of 1 - prod_i (1 - p^ceil((q - t_i) / O)), and a round trip. */
static double repeat_the_long_way(double loss, double rto_rtts)
{
	double unit_ns = 65536 * 8 / 400.0, over_ns = rto_rtts * RTT_NS + unit_ns;
	double step_ns = STEP * unit_ns, sum = 0, lost[TIMES] = { 1 };

	for (unsigned n = 1; n < TIMES; n++)
		lost[n] = lost[n - 1] * loss;
	for (double q = step_ns / 2;; q += step_ns) {
		double all = 1;

		for (unsigned i = 1; i <= CHUNKS; i++) {
			double left = q - i * unit_ns;

			/* Not yet sent at all, or sent so many times in vain. */
			all *= left < 0 ? 0 : 1 - lost[(unsigned)(left / over_ns) + 1];
		}
		if (1 - all < 1e-9)
			return sum + RTT_NS;
		sum += (1 - all) * step_ns;
	}
}

static void test_repeating_is_the_papers_sum(void **state)
{
	static const double losses[] = { 1e-4, 1e-2, 1e-1 };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct plan_path path = paper_path(losses[i]);
		struct plan_result by_timer = predict(&rto, &path, MESSAGE, 0);
		struct plan_result by_nack = predict(&nack, &path, MESSAGE, 0);

		assert_true(by_timer.exact && by_nack.exact);
		close_to(by_timer.mean.ns, repeat_the_long_way(losses[i], 3), 0.001, "sr-rto");
		close_to(by_nack.mean.ns, repeat_the_long_way(losses[i], 1), 0.001, "sr-nack");
	}
}

static double slowdown(const struct plan_estimate *estimate, const struct plan_result *result)
{
	return estimate->ns / result->ideal_ns;
}

static void test_known_slowdowns(void **state)
{
	/* loss; mean and 99.9th percentile by timer, and by NACK */
	static const double known[][5] = {
		{ 1e-5, 1.05, 3.7, 1.02, 1.9 },
		{ 1e-4, 1.49, 3.7, 1.16, 1.9 },
		{ 1e-3, 3.3, 6.4, 1.76, 2.8 },
		{ 1e-2, 4.2, 9.1, 2.06, 3.7 },
	};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct plan_path path = paper_path(known[i][0]);
		struct plan_result result = predict(&rto, &path, MESSAGE, 0);

		close_to(result.ideal_ns, 27.68e6, 0.001, "ideal");
		close_to(slowdown(&result.mean, &result), known[i][1], 0.015, "mean by timer");
		close_to(slowdown(&result.p999, &result), known[i][2], 0.015, "tail by timer");
		result = predict(&nack, &path, MESSAGE, 0);
		close_to(slowdown(&result.mean, &result), known[i][3], 0.015, "mean by NACK");
		close_to(slowdown(&result.p999, &result), known[i][4], 0.015, "tail by NACK");
	}
}

/* "Up to 6.5 times the mean and 12.2 times the 99.9th percentile": one loss, between 1e-2 and 1e-1, has both. */
static void test_the_worst_slowdowns_quoted(void **state)
{
	struct plan_path path = paper_path(0.036);
	struct plan_result result = predict(&rto, &path, MESSAGE, 0);

	(void)state;
	close_to(slowdown(&result.mean, &result), 6.5, 0.02, "mean");
	close_to(slowdown(&result.p999, &result), 12.2, 0.04, "99.9th percentile");
}

static void test_codes_and_their_fallback(void **state)
{
	/* loss; chance of a fallback of MDS(32,8), of XOR(32,8) */
	static const double known[][3] = {
		{ 1e-3, -1, 0.005 },
		{ 1e-2, 1.3e-8, 0.40 },
		{ 5e-2, 0.008, -1 },
		{ 1e-1, 0.63, -1 },
	};
	struct plan_params mds = code(PLAN_MDS, 32, 8, 1), xor = code(PLAN_XOR, 32, 8, 1);

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct plan_path path = paper_path(known[i][0]);
		struct plan_result result = predict(&mds, &path, MESSAGE, 0);

		if (known[i][1] >= 0)
			close_to(result.repair_chance, known[i][1], 0.08, "MDS falls back");
		if (known[i][0] <= 1e-2)
			close_to(slowdown(&result.mean, &result), 1.024, 0.001, "MDS");
		result = predict(&xor, &path, MESSAGE, 0);
		if (known[i][2] >= 0)
			close_to(result.repair_chance, known[i][2], 0.03, "XOR falls back");
	}
}

/* P = sum over i <= m of C(k+m, i) p^i (1-p)^(k+m-i) a group; the whole from its parts, and by sampling. */
static void test_fallback_costs_what_the_paper_says(void **state)
{
	struct plan_params mds = code(PLAN_MDS, 32, 8, 1);
	struct plan_path path = paper_path(0.07);
	struct plan_result closed = predict(&mds, &path, MESSAGE, 0);
	struct plan_result sampled = predict(&mds, &path, MESSAGE, 20000);
	double good = 0;

	(void)state;
	for (unsigned i = 0; i <= 8; i++)
		good += exp(lgamma(41) - lgamma(i + 1) - lgamma(41 - i) + i * log(0.07) +
			    (40 - i) * log1p(-0.07));
	close_to(closed.repair_chance, 1 - pow(good, 64), 1e-6, "chance");
	close_to(sampled.repair_chance, closed.repair_chance, 0.06, "chance, sampled");
	close_to(sampled.mean.ns, closed.mean.ns, 0.02, "mean");
	/* At least the wait and one more round trip, for each that falls back. */
	assert_true(closed.mean.ns > 1.024 * closed.ideal_ns + closed.repair_chance * 3 * RTT_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_repeating_is_the_papers_sum),
		cmocka_unit_test(test_known_slowdowns),
		cmocka_unit_test(test_the_worst_slowdowns_quoted),
		cmocka_unit_test(test_codes_and_their_fallback),
		cmocka_unit_test(test_fallback_costs_what_the_paper_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

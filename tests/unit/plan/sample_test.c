/* SPDX-License-Identifier: BSD-3-Clause */
/* Sampling: the same seed the same answer, honest bounds, and processes small enough to know the answer. */
#include "plan_test.h"

static struct plan_result sample(const struct plan_params *params, const struct plan_path *path,
				 uint64_t size, uint64_t seed, unsigned samples)
{
	struct plan_result result;

	assert_int_equal(plan_predict(params, path, size, seed, samples, &result), 0);
	return result;
}

static void test_a_seed_decides(void **state)
{
	struct plan_path path;
	struct plan_result one, same, other;

	(void)state;
	plan_path_init(&path, RTT_NS, RATE, 1e-3);
	path.burst = 4;
	one = sample(&nack, &path, MIB, 1, 500);
	same = sample(&nack, &path, MIB, 1, 500);
	other = sample(&nack, &path, MIB, 2, 500);
	assert_true(one.mean.ns == same.mean.ns && one.mean.low_ns == same.mean.low_ns);
	assert_true(one.p99.ns == same.p99.ns && one.p999.high_ns == same.p999.high_ns);
	assert_true(one.mean.ns != other.mean.ns);
	assert_int_equal(one.samples, 500);
}

static void test_bounds_hold_the_truth_nearly_always(void **state)
{
	struct plan_path path;
	unsigned mean_held = 0, tail_held = 0;
	double truth, tail;

	(void)state;
	plan_path_init(&path, RTT_NS, RATE, 1e-3);
	truth = predict(&rto, &path, MIB, 0).mean.ns;
	tail = predict(&rto, &path, MIB, 0).p99.ns;
	for (uint64_t seed = 0; seed < 400; seed++) {
		struct plan_result result = sample(&rto, &path, MIB, seed, 1000);

		mean_held += result.mean.low_ns <= truth * 1.0001 &&
			     result.mean.high_ns >= truth * 0.9999;
		tail_held +=
			result.p99.low_ns <= tail * 1.0001 && result.p99.high_ns >= tail * 0.9999;
	}
	/* 95 % of them should. */
	assert_in_range(mean_held, 360, 395);
	assert_in_range(tail_held, 360, 400);
}

/*
 * One packet and its announcement: the later of the two counts. Either is sent until it arrives, the announcement soon a
 * second time and then after waits that double. The packet's first repeat waits for the sender to ask, which is soon; each
 * is asked for in two datagrams, and from the second one on they leave twice. A result is said twice, and then both repeated
 * and asked for.
 */
#define TRIES 12

static double mean_of_later(const struct plan_path *path, double unit_ns)
{
	/* Not asked for, of the first one also because the question was lost; and asked for, and lost. */
	double never = 1 - 0.9 * 0.99, lost = 0.9 * 0.99 * 0.2, over = 0.8;
	double mean = 0, at_ns = unit_ns, chance = over;

	for (unsigned sent = 0; sent < TRIES; sent++) {
		for (unsigned told = 0; told < TRIES / 2; told++) {
			double told_ns =
				(pow(2, told - 1.0) - 1) * (double)path->patience_ns + RTT_NS / 8.0;

			mean += chance * 0.9 * pow(0.1, told) * fmax(at_ns, told ? told_ns : 0);
		}
		/* Lost or not asked for, it is known after an eighth of a round trip; where it left twice after half as much again. */
		at_ns += unit_ns + RTT_NS * (sent < 2 ? 9.0 / 8 : 19.0 / 16);
		if (sent > 0) {
			lost = lost * (0.01 + 0.99 * 0.04) + never * 0.99 * 0.2;
			never *= 0.01;
		}
		chance = 0.8 + 0.2 * (1 - never - lost) - over;
		over += chance;
	}
	return mean;
}

static void test_one_packet(void **state)
{
	struct plan_path path;
	struct plan_result result;
	double unit_ns, mean, lost = 0.1 * (1 - 0.9 * 0.9);

	(void)state;
	plan_path_init(&path, RTT_NS, 10 * GBIT, 0.2);
	path.control_loss = 0.1;
	result = predict(&nack, &path, 4096, 200000);
	unit_ns = result.ideal_ns - RTT_NS;
	mean = mean_of_later(&path, unit_ns) + RTT_NS + (double)path.result_wait_ns +
	       0.1 * RTT_NS / 8 + 0.01 / (1 - 2 * lost) * (double)path.patience_ns;
	close_to(result.mean.ns, mean, 0.01, "sampled");
	close_to(predict(&nack, &path, 4096, 0).mean.ns, mean, 0.001, "closed");
	close_to(result.repair_chance, 0.2, 0.02, "repair");
}

/* Two packets of which one is enough: over with the first if that arrives, with the second if only that does; repaired if
 * neither does. */
static void test_one_group(void **state)
{
	struct plan_params mds = code(PLAN_MDS, 1, 1, 1);
	struct plan_path path;
	struct plan_result result;
	double unit_ns, mean;

	(void)state;
	plan_path_init(&path, RTT_NS, 10 * GBIT, 0.3);
	path.rs_bytes_a_second = path.control_loss = 0;
	result = predict(&mds, &path, 4096, 200000);
	unit_ns = result.ideal_ns - RTT_NS;
	mean = 1.3 * unit_ns + RTT_NS + (double)path.result_wait_ns +
	       0.09 * (RTT_NS + 3 * unit_ns + unit_ns +
		       0.3 / 0.7 * ((double)path.patience_ns + unit_ns));
	close_to(result.mean.ns, mean, 0.01, "sampled");
	close_to(predict(&mds, &path, 4096, 0).mean.ns, mean, 0.001, "closed");
	close_to(result.repair_chance, 0.09, 0.03, "repair");
	assert_true(result.sent_share == 2);
}

/* Repairs take time on the wire: nothing is faster than all that has to be sent. */
static void test_repairs_take_the_wire(void **state)
{
	struct plan_path path;
	struct plan_result result;

	(void)state;
	plan_path_init(&path, 100000, GBIT, 0.2);
	result = predict(&nack, &path, 64 * MIB, 100);
	assert_true(result.p50.ns > (result.ideal_ns - 100000) / 0.8);
	close_to(result.p50.ns, (result.ideal_ns - 100000) / 0.8, 0.03, "1 / (1 - loss)");
}

/* A burst as long as the interleaving takes one from each group. */
static void test_interleaving_spreads_bursts(void **state)
{
	struct plan_params together = code(PLAN_MDS, 32, 2, 1), apart = code(PLAN_MDS, 32, 2, 16);
	struct plan_path path;

	(void)state;
	plan_path_init(&path, RTT_NS, RATE, 1e-4);
	path.burst = 8;
	path.rs_bytes_a_second = 0;
	assert_true(predict(&together, &path, 64 * MIB, 2000).repair_chance >
		    5 * predict(&apart, &path, 64 * MIB, 2000).repair_chance);
}

static void test_nonsense_is_refused(void **state)
{
	struct plan_path good, path;
	struct plan_result result = { .samples = 99 };
	struct plan_params params;

	(void)state;
	plan_path_init(&good, RTT_NS, RATE, 1e-3);
	assert_int_equal(plan_predict(&nack, &good, 0, 1, 0, &result), -EINVAL);
	assert_int_equal(plan_predict(&nack, &good, UINT64_MAX, 1, 0, &result), -EINVAL);
	assert_int_equal(plan_predict(&nack, &good, 1, 1, PLAN_SAMPLES_MAX + 1, &result), -EINVAL);
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		path = good;                                                                       \
		path.change;                                                                       \
		assert_int_equal(plan_predict(&nack, &path, MIB, 1, 0, &result), -EINVAL);         \
	} while (0)
	REFUSED(loss = -0.1);
	REFUSED(loss = NAN);
	REFUSED(loss = PLAN_LOSS_MAX);
	REFUSED(burst = -1);
	REFUSED(burst = NAN);
	REFUSED(rate_bps = 0);
	REFUSED(payload = 0);
	REFUSED(chunk = 0);
	REFUSED(report_share = 1);
	REFUSED(rto_rtts = 0);
	REFUSED(control_loss = 1);
	REFUSED(rs_bytes_a_second = NAN);
	REFUSED(rtt_ns = UINT64_MAX);
	static const struct plan_params bad[] = {
		{ PLAN_MDS, 0, 1, 1 },	  { PLAN_MDS, 1, 0, 1 },	  { PLAN_MDS, 250, 7, 1 },
		{ PLAN_XOR, 32, 5, 1 },	  { PLAN_MDS, UINT32_MAX, 2, 1 }, { PLAN_SCHEMES, 1, 1, 1 },
		{ PLAN_MDS, 8, 2, 1000 }, { PLAN_MDS, 2, UINT32_MAX, 1 },
	};
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		params = bad[i];
		assert_int_equal(plan_predict(&params, &good, MIB, 1, 0, &result), -EINVAL);
	}
	assert_int_equal(result.samples, 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_seed_decides),
		cmocka_unit_test(test_bounds_hold_the_truth_nearly_always),
		cmocka_unit_test(test_one_packet),
		cmocka_unit_test(test_one_group),
		cmocka_unit_test(test_repairs_take_the_wire),
		cmocka_unit_test(test_interleaving_spreads_bursts),
		cmocka_unit_test(test_nonsense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Closed forms against sampling over a grid of paths and sizes: within 2 % where they are exact, and near it elsewhere. */
#include "plan_test.h"

/* What sampling itself is unsure of is allowed on top. */
static void compare(const struct plan_params *params, const struct plan_path *path, uint64_t size,
		    unsigned samples, double share)
{
	struct plan_result closed = predict(params, path, size, 0);
	struct plan_result sampled = predict(params, path, size, samples);
	double doubt = (sampled.mean.high_ns - sampled.mean.low_ns) / 2 / sampled.mean.ns;
	char name[PLAN_NAME_SIZE], what[128];

	snprintf(what, sizeof(what), "mean of %s, loss %g, burst %g, rtt %g ms, %llu bytes",
		 plan_name(params, name), path->loss, path->burst, (double)path->rtt_ns / MS,
		 (unsigned long long)size);
	assert_true(doubt < 0.04);
	close_to(closed.mean.ns, sampled.mean.ns, share + doubt, what);
	assert_true(closed.p50.ns <= closed.p99.ns && closed.p99.ns <= closed.p999.ns);
	/* A quantile lies within the bounds that sampling gives, or a little off them. */
	if (closed.exact && samples >= 10000 && path->control_loss == 0) {
		assert_true(closed.p99.ns >= sampled.p99.low_ns * 0.98);
		assert_true(closed.p99.ns <= sampled.p99.high_ns * 1.02);
	}
}

static void test_exact_where_it_says_so(void **state)
{
	static const double losses[] = { 1e-5, 1e-4, 1e-3, 1e-2, 1e-1 };
	static const uint64_t sizes[] = { 1, 5000, 65536, MIB, 16 * MIB };
	const struct plan_params schemes[] = { rto, nack, code(PLAN_MDS, 32, 8, 1),
					       code(PLAN_MDS, 8, 2, 1) };

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		for (unsigned j = 0; j < 5; j++) {
			struct plan_path path;

			plan_path_init(&path, RTT_NS, RATE, losses[i]);
			for (unsigned s = 0; s < 4; s++) {
				struct plan_result closed =
					predict(&schemes[s], &path, sizes[j], 0);

				assert_true(closed.exact);
				compare(&schemes[s], &path, sizes[j],
					losses[i] * (double)sizes[j] > 1e4 ? 2000 : 20000, 0.02);
				path.control_loss = 0;
				compare(&schemes[s], &path, sizes[j],
					losses[i] * (double)sizes[j] > 1e4 ? 2000 : 20000, 0.02);
				path.control_loss = losses[i];
			}
		}
	}
}

/*
 * Requests that are lost more often than repairs are: a repair that was not asked for is waited for otherwise than one that
 * was lost, and here that is most of what a message waits for.
 */
static void test_lost_requests_have_their_own_wait(void **state)
{
	static const uint64_t rtts_ns[] = { MS, 2 * MS };
	static const double control_losses[] = { 0.1, 0.3 };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned j = 0; j < 2; j++) {
			struct plan_path path;

			plan_path_init(&path, rtts_ns[i], RATE, 0.001);
			path.control_loss = control_losses[j];
			compare(&nack, &path, 4 * MIB, 20000, 0.02);
		}
	}
}

/* Longer than a repair takes: repairs keep fresh packets waiting. */
static void test_near_where_repairs_interfere(void **state)
{
	static const double losses[] = { 1e-3, 1e-2, 1e-1 };
	const struct plan_params schemes[] = { rto, nack, code(PLAN_MDS, 16, 2, 1),
					       code(PLAN_XOR, 32, 8, 1) };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct plan_path path;

		plan_path_init(&path, MS, 10 * GBIT, losses[i]);
		for (unsigned s = 0; s < 4; s++) {
			struct plan_result closed = predict(&schemes[s], &path, 32 * MIB, 0);

			assert_false(closed.exact);
			compare(&schemes[s], &path, 32 * MIB, 300, 0.05);
		}
	}
}

static void test_bursts_are_near(void **state)
{
	static const double losses[] = { 1e-4, 1e-3, 1e-2 };
	const struct plan_params schemes[] = { rto, nack, code(PLAN_MDS, 32, 8, 1),
					       code(PLAN_MDS, 32, 8, 8), code(PLAN_XOR, 32, 8, 1) };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct plan_path path;

		plan_path_init(&path, RTT_NS, RATE, losses[i]);
		path.burst = 8;
		for (unsigned s = 0; s < 5; s++)
			compare(&schemes[s], &path, 128 * MIB, 4000, 0.08);
	}
}

static void test_without_loss_there_is_no_doubt(void **state)
{
	struct plan_path path;
	struct plan_result result;
	struct plan_params mds = code(PLAN_MDS, 4, 2, 1);
	double wire_ns, known_ns = RTT_NS;

	(void)state;
	plan_path_init(&path, RTT_NS, 10 * GBIT, 0);
	path.report_share = 0;
	result = predict(&nack, &path, 40960, 0);
	wire_ns = 10 * (4096 + path.overhead) * 8 / 10.0;
	known_ns += 200000; /* a result waits that long for company */
	close_to(result.mean.ns, wire_ns + known_ns, 1e-9, "lossless");
	close_to(result.p999.ns, wire_ns + known_ns, 1e-9, "lossless tail");
	/* Nobody waits for the parity. */
	result = predict(&mds, &path, 40960, 0);
	close_to(result.mean.ns, wire_ns + known_ns, 1e-9, "lossless code");
	close_to(predict(&mds, &path, 40960, 10).mean.ns, wire_ns + known_ns, 1e-9,
		 "lossless code, sampled");
	close_to(result.sent_share, 1.6, 1e-9, "parity is sent");
	close_to(result.ideal_ns, wire_ns + RTT_NS, 1e-9, "ideal");
	assert_true(result.repair_chance == 0);
	/* The last packet is short: its headers are not. */
	result = predict(&nack, &path, 4097, 0);
	close_to(result.mean.ns, (4097 + 2 * path.overhead) * 8 / 10.0 + known_ns, 1e-9,
		 "two packets");
	path.report_share = 0.01;
	result = predict(&nack, &path, 40960, 0);
	close_to(result.mean.ns, wire_ns / 0.99 + known_ns, 1e-9, "with reports");
}

static void test_coding_shows_where_it_is_slower_than_the_wire(void **state)
{
	struct plan_params mds = code(PLAN_MDS, 32, 8, 1), xor = code(PLAN_XOR, 32, 8, 1);
	struct plan_path path;
	double hidden_ns;

	(void)state;
	plan_path_init(&path, RTT_NS, 100 * GBIT, 0);
	path.rs_bytes_a_second = path.xor_bytes_a_second = 0;
	hidden_ns = predict(&mds, &path, MESSAGE, 0).mean.ns;
	/* 12.5 GB/s, eight rows: 100e9 would do; parity on the wire leaves some time. */
	path.rs_bytes_a_second = 101e9;
	close_to(predict(&mds, &path, MESSAGE, 0).mean.ns, hidden_ns, 1e-9, "hidden");
	path.rs_bytes_a_second = 10e9;
	path.result_wait_ns = 0;
	/* Of k + m packets, all as slow, the k of data are waited for where nothing is lost. */
	close_to(predict(&mds, &path, MESSAGE, 0).mean.ns, MESSAGE * 8 / 10.0 * 32 / 40 + RTT_NS,
		 1e-6, "as slow as coding");
	path.xor_bytes_a_second = 13e9;
	close_to(predict(&xor, &path, MESSAGE, 0).mean.ns, hidden_ns - 200000, 1e-9, "hidden xor");
	path.xor_bytes_a_second = 1e9;
	close_to(predict(&xor, &path, MESSAGE, 0).mean.ns, (double)MESSAGE * 32 / 40 + RTT_NS, 1e-6,
		 "as slow as exclusive or");
}

/* Never more than a little, and in the right direction, from one loss to the next. */
static void test_more_loss_is_never_faster(void **state)
{
	const struct plan_params schemes[] = { rto, nack, code(PLAN_MDS, 32, 8, 1),
					       code(PLAN_XOR, 32, 8, 1) };

	(void)state;
	for (unsigned s = 0; s < 4; s++) {
		for (uint64_t size = 1000; size < 10000 * MIB; size *= 7) {
			double before = 0, tail = 0;

			for (double loss = 1e-7; loss < 0.5; loss *= 1.5) {
				struct plan_result result;
				struct plan_path path;

				plan_path_init(&path, RTT_NS, RATE, loss);
				result = predict(&schemes[s], &path, size, 0);
				assert_true(result.mean.ns >= before * 0.999);
				assert_true(result.p999.ns >= tail * 0.999);
				before = result.mean.ns;
				tail = result.p999.ns;
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exact_where_it_says_so),
		cmocka_unit_test(test_lost_requests_have_their_own_wait),
		cmocka_unit_test(test_near_where_repairs_interfere),
		cmocka_unit_test(test_bursts_are_near),
		cmocka_unit_test(test_without_loss_there_is_no_doubt),
		cmocka_unit_test(test_coding_shows_where_it_is_slower_than_the_wire),
		cmocka_unit_test(test_more_loss_is_never_faster),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

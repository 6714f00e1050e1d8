/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spraying, and what it is for: a channel over four lanes of which one loses a packet in twenty, or all of them, moves as
 * much as over four good ones, under either controller. A channel that has that one lane only does not. The bottleneck is
 * shared by the lanes, so that three can carry what four do.
 */
#include "two.h"

#include <string.h>

#define LANES	 4u
#define SEEDS	 2u
#define SENDS	 16u
#define BYTES	 (UINT64_C(6) << 20)
#define RATE_BPS UINT64_C(1000000000)

struct world_of {
	const char *controller;
	uint64_t rtt_ns;
	uint64_t queue_bytes;
};

static const struct world_of far = { "long-haul", 25 * MS, 4000000 };
static const struct world_of near = { "swift", 200 * US, 400000 };

#define FEW 3u /* sends */

/* Bytes a second, of those that were received within ten times as long as they should take. A lane begins to lose so much
 * when `after` sends have been received. */
static double goodput_of(const struct world_of *w, uint32_t lanes, double loss, uint32_t after,
			 uint64_t seed)
{
	static const struct link_attr well[LANES];
	struct two_attr attr = { .link = { .rate_bps = RATE_BPS,
					   .delay_ns = w->rtt_ns / 2,
					   .queue_bytes = w->queue_bytes },
				 .host = { .lanes = lanes, .queue = 16384 },
				 .lanes = well,
				 .seed = seed,
				 .channel = { { .congestion = w->controller },
					      { .congestion = w->controller } } };
	uint64_t limit = SENDS * BYTES * 8 * S / RATE_BPS * 10;
	struct act send[SENDS] = { 0 }, recv[SENDS] = { 0 };
	uint64_t began, ended = 0, bytes = 0;
	struct two two;

	two_open(&two, &attr);
	if (!after)
		sim_lane(two.world.sim, 0, lanes / 2)->attr.loss = loss;
	two_run(&two, 4 * w->rtt_ns);
	began = two_now(&two);
	for (uint32_t i = 0; i < SENDS; i++) {
		act_recv(&two, 1, BYTES, &recv[i]);
		act_send(&two, 0, BYTES, i, &send[i]);
	}
	while (!(recv[SENDS - 1].ended && send[SENDS - 1].ended) && two_step(&two, began + limit))
		if (after && recv[after - 1].ended)
			sim_lane(two.world.sim, 0, lanes / 2)->attr.loss = loss;
	for (uint32_t i = 0; i < SENDS; i++) {
		bytes += recv[i].ended ? BYTES : 0;
		ended = recv[i].at > ended ? recv[i].at : ended;
	}
	print_message(
		"%s over %u lanes: %u %% received in %.3f s, %lu sent again, %lu out of use\n",
		w->controller, lanes, (unsigned)(100 * bytes / (SENDS * BYTES)),
		(double)((ended ? ended : two_now(&two)) - began) / 1e9,
		(unsigned long)two_counter(&two, 0, "retransmitted_packets"),
		(unsigned long)two_counter(&two, 0, "lanes_retired"));
	if (lanes > 1 && loss > 0) {
		uint64_t retired = two_counter(&two, 0, "lanes_retired");
		char text[512];

		assert_true(retired > 0);
		assert_true(gw_channel_explain(two.channel[0], text, sizeof(text)) > 0);
		if (retired > two_counter(&two, 0, "lanes_restored"))
			assert_non_null(strstr(text, "is out of use"));
	}
	for (uint32_t i = 0; i < SENDS; i++) {
		if (recv[i].ended)
			act_check_bytes(&recv[i], BYTES, i);
		if (send[i].ended)
			act_check(&send[i], 0);
	}
	for (int end = 0; end < 2; end++)
		assert_int_equal(gw_channel_close(two.channel[end]), 0);
	two.channel[0] = two.channel[1] = NULL;
	for (uint32_t i = 0; i < SENDS; i++) {
		if (recv[i].memory)
			act_free(&recv[i]);
		if (send[i].memory)
			act_free(&send[i]);
	}
	two_close(&two);
	return (double)bytes / ((double)(bytes == SENDS * BYTES ? ended - began : limit) / 1e9);
}

/* How a controller starts is a matter of luck: the mean of a few. */
static double goodput(const struct world_of *w, uint32_t lanes, double loss, uint32_t after)
{
	double sum = 0;

	for (uint64_t seed = 0; seed < SEEDS; seed++)
		sum += goodput_of(w, lanes, loss, after, seed);
	return sum / SEEDS;
}

static void one_of_four(const struct world_of *w)
{
	double healthy = goodput(w, LANES, 0, 0);

	/* Not far from the line's rate, or there would be nothing to lose. */
	assert_true(healthy > 0.5 * RATE_BPS / 8);
	assert_true(goodput(w, LANES, 0.05, FEW) > 0.9 * healthy);
	assert_true(goodput(w, LANES, 1, FEW) > 0.9 * healthy);
	/* Also when it was dead before anything was sent. */
	assert_true(goodput(w, LANES, 1, 0) > 0.9 * healthy);
}

static void one_alone(const struct world_of *w)
{
	double healthy = goodput(w, 1, 0, FEW);

	assert_true(goodput(w, 1, 1, FEW) < 0.3 * healthy);
}

static void long_haul(void **state)
{
	(void)state;
	one_of_four(&far);
}

static void swift(void **state)
{
	(void)state;
	one_of_four(&near);
}

static void long_haul_alone(void **state)
{
	(void)state;
	/* Loss by chance costs it little more than what is lost; but that it does. */
	one_alone(&far);
}

static void swift_alone(void **state)
{
	(void)state;
	one_alone(&near);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_haul),
		cmocka_unit_test(swift),
		cmocka_unit_test(long_haul_alone),
		cmocka_unit_test(swift_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

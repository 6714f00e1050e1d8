/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * That controller, pacer and channel together fill a path, with and without loss, and leave its queue short. Each of them
 * is tested by itself; this finds what they tell each other wrongly.
 */
#include "two.h"

#define LINK_BPS UINT64_C(1000000000)
#define DELAY_NS (12500 * US)
#define BYTES	 (UINT64_C(4) << 20)
#define MESSAGES 24
#define WARM	 8 /* of them, to find the rate */
#define EVERY_NS (10 * MS)

struct path {
	const char *controller;
	double loss;
	uint64_t stall_ns; /* either host in turn, about every 20 ms: others have work too */
	double least;	   /* of the link that has to be used */
};

/* Until the receive has ended, with a stall now and then. */
static void run_until(struct two *two, const struct path *path, const struct act *recv)
{
	uint64_t limit = two_now(two) + 20 * S;

	for (uint32_t host = 0; !recv->ended; host = !host) {
		assert_true(two_now(two) < limit);
		two_run(two, EVERY_NS);
		if (!path->stall_ns)
			continue;
		world_stall(&two->world, host, true);
		two_run(two, path->stall_ns);
		world_stall(&two->world, host, false);
	}
}

static double share_of_the_link(const struct path *path, uint64_t *queue_ns)
{
	struct two_attr attr = { .link = { .rate_bps = LINK_BPS,
					   .delay_ns = DELAY_NS,
					   .queue_bytes = LINK_BPS / 8 * 2 * DELAY_NS / S,
					   .loss = path->loss },
				 .host = { .queue = 1 << 14 } };
	static struct act sends[MESSAGES], recvs[MESSAGES];
	struct gw_channel_stats stats;
	struct two two;
	double share;

	attr.channel[0].congestion = path->controller;
	two_open(&two, &attr);
	for (int i = 0; i < MESSAGES; i++)
		act_recv(&two, 1, BYTES, &recvs[i]);
	for (int i = 0; i < MESSAGES; i++)
		act_send(&two, 0, BYTES, (uint64_t)i, &sends[i]);
	run_until(&two, path, &recvs[MESSAGES - 2]);
	assert_int_equal(gw_channel_stats(two.channel[0], &stats), 0);
	*queue_ns = stats.rtt_ns - 2 * DELAY_NS;
	run_until(&two, path, &recvs[MESSAGES - 1]);
	two_until(&two, 20 * S, sends[MESSAGES - 1].ended);
	share = (double)((MESSAGES - WARM) * BYTES * 8) /
		((double)(recvs[MESSAGES - 1].at - recvs[WARM - 1].at) / (double)S) /
		(double)LINK_BPS;
	for (int i = 0; i < MESSAGES; i++) {
		act_check(&sends[i], 0);
		act_check_bytes(&recvs[i], BYTES, (uint64_t)i);
	}
	two_close(&two);
	return share;
}

/* A packet has 1024 bytes of 1024 and its headers: 0.93 is what there is. */
static void the_path_is_filled(void **state)
{
	static const struct path paths[] = {
		{ "long-haul", 0, 0, 0.9 },	  { "long-haul", 1e-3, 0, 0.9 },
		{ "long-haul", 1e-2, 0, 0.87 },	  { "default", 1e-3, 0, 0.9 },
		{ "long-haul", 0, 3 * MS, 0.88 }, { "long-haul", 1e-3, 6 * MS, 0.84 },
		{ "long-haul", 0, 2 * MS, 0.88 }, { "long-haul", 0, 4 * MS, 0.88 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		uint64_t queue_ns;
		double share = share_of_the_link(&paths[i], &queue_ns);

		if (share < paths[i].least || queue_ns > 5 * MS + paths[i].stall_ns)
			fail_msg(
				"%s at a loss of %g, stalls of %.0f ms: %.3f of the link, %.1f ms of queue",
				paths[i].controller, paths[i].loss, (double)paths[i].stall_ns / 1e6,
				share, (double)queue_ns / 1e6);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_path_is_filled) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

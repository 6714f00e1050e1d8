/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a round-trip time that another protocol has measured does for the first message (gw_channel_attr.rtt_hint_us): if its first
 * packets are lost, they are repeated after some round trips rather than after the time that suits every path. And it is only a
 * hint: one that is far too short or too long does no harm beyond the first measurement.
 */
#include <string.h>

#include "two.h"

#define DELAY_NS (100 * US)
#define DOWN_NS	 (2 * MS)

/* Time from the first send until its receive has ended; the path carries nothing at first, for DOWN_NS. */
static uint64_t first_message(uint64_t bytes, uint64_t delay_ns, uint32_t hint_us)
{
	struct two_attr attr = { .link = { .rate_bps = 1000000000, .delay_ns = delay_ns } };
	struct act send = { 0 }, recv = { 0 };
	uint64_t begin, took;
	struct two two;

	attr.channel[0].rtt_hint_us = attr.channel[1].rtt_hint_us = hint_us;
	two_open(&two, &attr);
	begin = two_now(&two);
	for (uint32_t i = 0; i < 2; i++)
		sim_link(two.world.sim, i)->down = true;
	act_recv(&two, 1, bytes, &recv);
	act_send(&two, 0, bytes, 1, &send);
	two_run(&two, DOWN_NS);
	for (uint32_t i = 0; i < 2; i++)
		sim_link(two.world.sim, i)->down = false;
	two_until(&two, 10 * S, recv.ended && send.ended);
	took = recv.at - begin;
	act_check(&send, 0);
	act_check_bytes(&recv, bytes, 1);
	two_close(&two);
	return took;
}

static void lost_first_packets_are_soon_repeated(void **state)
{
	static const uint64_t sizes[] = { 8, 1000, 20000, 1000000 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t with_ns = first_message(sizes[i], DELAY_NS, 2 * DELAY_NS / US);
		uint64_t without_ns = first_message(sizes[i], DELAY_NS, 0);

		print_message("%llu bytes: %.1f ms, without a hint %.1f ms\n",
			      (unsigned long long)sizes[i], (double)with_ns / (double)MS,
			      (double)without_ns / (double)MS);
		assert_true(with_ns + 40 * MS < without_ns);
	}
}

static void a_wrong_hint_is_forgotten(void **state)
{
	static const uint32_t hints[] = { 1, 100, 10000, 1000000, UINT32_MAX };

	(void)state;
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		uint64_t took_ns = first_message(100000, 20 * MS, hints[i]);

		print_message("hint %u us: %.1f ms\n", hints[i], (double)took_ns / (double)MS);
		assert_true(took_ns < 1200 * MS);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_first_packets_are_soon_repeated),
		cmocka_unit_test(a_wrong_hint_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

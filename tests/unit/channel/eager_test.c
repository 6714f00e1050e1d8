/* SPDX-License-Identifier: BSD-3-Clause */
/* The first message of a channel leaves before anything was heard; whatever its receive does, both ends agree on its end. */
#include "two.h"

#include <errno.h>

#define RTT   (25 * MS)
#define EAGER (UINT64_C(64) << 10)

static struct two_attr far_apart(void)
{
	return (struct two_attr){ .link = { .rate_bps = UINT64_C(1000000000),
					    .delay_ns = RTT / 2 } };
}

/* After it one may send and receive as ever, and further than slots go: nothing of the first is left in the way. */
static void goes_on(struct two *two)
{
	for (uint64_t i = 0; i < 300; i++) {
		struct act send = { 0 }, recv = { 0 };
		uint64_t length = i % 3 ? 5000 + i : 100 + i;

		act_recv(two, 1, 6000, &recv);
		act_send(two, 0, length, i, &send);
		two_until(two, 10 * S, send.ended && recv.ended);
		act_check(&send, 0);
		act_check_bytes(&recv, length, i);
	}
}

/* Half a round trip for the data and half for the answer; nothing before, though nobody knows the path. */
static void a_cold_message_takes_one_round_trip(void **state)
{
	static const uint64_t lengths[] = { 1, 100, 4096, 4097, 20000, 30000 };

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct act send = { 0 }, recv = { 0 };
		struct two_attr attr = far_apart();
		struct two two;
		uint64_t start;

		two_open(&two, &attr);
		start = two_now(&two);
		act_recv(&two, 1, 1 << 20, &recv);
		act_send(&two, 0, lengths[i], i, &send);
		two_until(&two, S, send.ended && recv.ended);
		assert_true(recv.at < start + RTT / 2 + MS);
		assert_true(send.at < start + RTT + 2 * MS);
		act_check(&send, 0);
		act_check_bytes(&recv, lengths[i], i);
		goes_on(&two);
		two_close(&two);
	}
}

/* What arrives before the receiver is connected is lost. The sender repeats it as soon as it hears of the receiver, not when a time
 * has passed that it assumes without a measurement; and what was lost does not fill its window. */
static void a_peer_that_connects_late_is_sent_everything_at_once(void **state)
{
	static const uint64_t lengths[] = { 100, 4096, 20000, EAGER };
	const uint64_t rtt = MS;

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct act send = { 0 }, recv = { 0 };
		struct two_attr attr = { .link = { .rate_bps = UINT64_C(10000000000),
						   .delay_ns = rtt / 2 },
					 .late = true };
		struct two two;
		uint64_t start;

		two_open(&two, &attr);
		act_send(&two, 0, lengths[i], i, &send);
		two_run(&two, 5 * rtt);
		start = two_now(&two);
		two_connect(&two, 1);
		act_recv(&two, 1, 1 << 20, &recv);
		two_until(&two, S, send.ended && recv.ended);
		/* To be heard, to be asked, to answer: two round trips; for the longest the window opens, too. */
		assert_true(recv.at < start + (lengths[i] < EAGER ? 3 : 6) * rtt);
		act_check(&send, 0);
		act_check_bytes(&recv, lengths[i], i);
		goes_on(&two);
		two_close(&two);
	}
}

/* Around the buffer's end, in both directions at once, with losses and checked. */
static void longer_ones_follow_it(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 24; seed++) {
		const uint64_t lengths[] = { EAGER - 1, EAGER, EAGER + 1, 300000 };
		uint64_t length = lengths[seed % 4];
		struct act send[2] = { { 0 } }, recv[2] = { { 0 } };
		struct two_attr attr = far_apart();
		struct two two;

		attr.seed = seed;
		attr.link.loss = seed < 4 ? 0 : 0.1;
		attr.link.reorder = 0.1;
		attr.link.reorder_ns = MS;
		attr.channel[0].flags = attr.channel[1].flags = seed % 2 ? GW_CHANNEL_CRC : 0;
		two_open(&two, &attr);
		for (int end = 0; end < 2; end++) {
			act_send(&two, end, length, (uint64_t)end, &send[end]);
			act_recv(&two, end, length + seed % 3, &recv[end]);
		}
		for (int end = 0; end < 2; end++) {
			two_until(&two, 60 * S, send[end].ended && recv[end].ended);
			act_check(&send[end], 0);
			act_check_bytes(&recv[end], length, (uint64_t)!end);
		}
		two_close(&two);
	}
}

/* What came early lies there already when the receive is posted. */
static void it_waits_for_its_receive(void **state)
{
	struct act send = { 0 }, recv = { 0 };
	struct two_attr attr = far_apart();
	struct two two;
	uint64_t posted;

	(void)state;
	two_open(&two, &attr);
	act_send(&two, 0, 50000, 7, &send);
	two_run(&two, S);
	assert_false(send.ended);
	posted = two_now(&two);
	act_recv(&two, 1, 1 << 20, &recv);
	two_until(&two, S, send.ended && recv.ended);
	assert_true(recv.at < posted + MS);
	act_check(&send, 0);
	act_check_bytes(&recv, 50000, 7);
	goes_on(&two);
	two_close(&two);
}

/* With losses too: the answer to the data may arrive before the refusal. */
static void a_receive_that_is_too_small_is_told_to_both(void **state)
{
	const struct {
		uint64_t capacity, length;
	} cases[] = { { 0, 5000 },	    { 100, 5000 },     { 4999, 5000 },
		      { EAGER - 1, EAGER }, { EAGER, 300000 }, { EAGER - 1, 300000 },
		      { EAGER + 1, 300000 } };
	const size_t count = 2 * sizeof(cases) / sizeof(cases[0]);

	(void)state;
	for (size_t i = 0; i < 4 * count; i++) {
		uint64_t capacity = cases[i % count / 2].capacity;
		uint64_t length = cases[i % count / 2].length;
		struct act send = { 0 }, recv = { 0 };
		struct two_attr attr = far_apart();
		struct two two;

		attr.seed = i;
		attr.link.loss = i < count ? 0 : 0.2;
		two_open(&two, &attr);
		if (i % 2)
			act_recv(&two, 1, capacity, &recv);
		act_send(&two, 0, length, i, &send);
		if (i % 2 == 0) {
			two_run(&two, 10 * RTT);
			act_recv(&two, 1, capacity, &recv);
		}
		two_until(&two, 30 * S, send.ended && recv.ended);
		act_check(&send, -EMSGSIZE);
		act_check(&recv, -EMSGSIZE);
		if (i < count)
			goes_on(&two);
		two_close(&two);
	}
}

/* By either end, at any time from before it was posted at the other to after it arrived. */
static void cancelled(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 40; i++) {
		struct act send = { 0 }, recv = { 0 };
		struct two_attr attr = far_apart();
		struct act *by = i % 2 ? &send : &recv;
		uint64_t length = i % 4 < 2 ? 50000 : 300000;
		struct two two;
		int error;

		two_open(&two, &attr);
		act_recv(&two, 1, 1 << 20, &recv);
		if (i % 8 < 4 || by == &send)
			act_send(&two, 0, length, i, &send);
		two_run(&two, i / 4 * RTT / 6);
		error = gw_op_cancel(by->op);
		assert_true(!error || error == -EALREADY);
		if (!send.op)
			act_send(&two, 0, length, i, &send);
		two_until(&two, 10 * S, send.ended && recv.ended);
		/* Whole at the receiver and cancelled at the sender is the one thing that may differ. */
		assert_true(send.result.status == recv.result.status ||
			    (send.result.status == -ECANCELED && !recv.result.status));
		act_free(&send);
		act_free(&recv);
		goes_on(&two);
		two_close(&two);
	}
}

static void over_a_small_path(uint64_t length, double loss, bool late, uint64_t seed)
{
	struct act send = { 0 }, recv = { 0 };
	struct two_attr attr = far_apart();
	struct two two;

	attr.path_payload = 600;
	attr.link.loss = loss;
	attr.seed = seed;
	two_open(&two, &attr);
	if (!late)
		act_recv(&two, 1, 1 << 20, &recv);
	act_send(&two, 0, length, seed, &send);
	if (late) {
		two_run(&two, S);
		act_recv(&two, 1, 1 << 20, &recv);
	}
	two_until(&two, 60 * S, send.ended && recv.ended);
	act_check(&send, 0);
	act_check_bytes(&recv, length, seed);
	if (loss <= 0)
		goes_on(&two);
	two_close(&two);
}

/* Packets of the size that both ends agreed on vanish on the way: it starts anew with smaller ones. */
static void a_path_with_a_smaller_mtu(void **state)
{
	static const uint64_t lengths[] = { 10, 5000, 50000, 300000 };

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (int late = 0; late < 2; late++)
			over_a_small_path(lengths[i], 0, late, i);
	/* The last packet is short, and arrives: it counts as nothing, for in smaller packets it is another one. */
	for (uint64_t seed = 0; seed < 20; seed++)
		over_a_small_path(20 * TWO_PAYLOAD + 300, 0.2, false, seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cold_message_takes_one_round_trip),
		cmocka_unit_test(a_peer_that_connects_late_is_sent_everything_at_once),
		cmocka_unit_test(longer_ones_follow_it),
		cmocka_unit_test(it_waits_for_its_receive),
		cmocka_unit_test(a_receive_that_is_too_small_is_told_to_both),
		cmocka_unit_test(cancelled),
		cmocka_unit_test(a_path_with_a_smaller_mtu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

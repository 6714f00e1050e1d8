/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel moves whole buffers of any size, in order, whatever the network does to its packets. */
#include "two.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"

#define MANY 200

static const struct link_attr wire = { .rate_bps = 1000000000, .delay_ns = 500 * US };

static void one_of_each_size(void **state)
{
	static const uint64_t sizes[] = { 0,	1,     100,    4095,  4096,   4097,
					  5000, 16384, 100000, 65536, 1000003 };
	struct two_attr attr = { .link = wire };
	struct two two;

	(void)state;
	two_open(&two, &attr);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct act send = { 0 }, recv = { 0 };

		act_recv(&two, 1, sizes[i], &recv);
		act_send(&two, 0, sizes[i], i, &send);
		two_until(&two, S, send.ended && recv.ended);
		act_check(&send, 0);
		act_check_bytes(&recv, sizes[i], i);
	}
	two_close(&two);
}

/* A mix of sizes both ways, receives of all capacities, posted in bursts of either side first. */
static void mix(const struct two_attr *attr, uint64_t limit_ns)
{
	static struct act sends[2][MANY], recvs[2][MANY];
	static uint64_t length[2][MANY];
	uint32_t sent[2] = { 0 }, received[2] = { 0 };
	struct rng rng;
	struct two two;

	memset(sends, 0, sizeof(sends));
	memset(recvs, 0, sizeof(recvs));
	rng_seed(&rng, attr->seed);
	two_open(&two, attr);
	for (int end = 0; end < 2; end++)
		for (int i = 0; i < MANY; i++)
			length[end][i] =
				rng_below(&rng, 4) ? rng_below(&rng, 3000) : rng_below(&rng, 60000);
	while (sent[0] < MANY || sent[1] < MANY || received[0] < MANY || received[1] < MANY) {
		int end = (int)rng_below(&rng, 2);
		uint32_t burst = 1 + (uint32_t)rng_below(&rng, 20);

		for (; burst && sent[end] < MANY; burst--, sent[end]++)
			act_send(&two, end, length[end][sent[end]],
				 (uint64_t)end * MANY + sent[end], &sends[end][sent[end]]);
		end = (int)rng_below(&rng, 2);
		burst = 1 + (uint32_t)rng_below(&rng, 20);
		for (; burst && received[end] < MANY; burst--, received[end]++)
			act_recv(&two, end,
				 length[!end][received[end]] +
					 rng_below(&rng, 2) * rng_below(&rng, 10000),
				 &recvs[end][received[end]]);
		two_run(&two, rng_below(&rng, 3 * MS));
	}
	for (int end = 0; end < 2; end++)
		for (int i = 0; i < MANY; i++)
			two_until(&two, limit_ns, sends[end][i].ended && recvs[end][i].ended);
	for (int end = 0; end < 2; end++)
		for (int i = 0; i < MANY; i++) {
			act_check(&sends[end][i], 0);
			act_check_bytes(&recvs[end][i], length[!end][i],
					(uint64_t)!end * MANY + (uint64_t)i);
		}
	two_run(&two, 2 * S);
	two_close(&two);
}

static void mixed(void **state)
{
	struct two_attr attr = { .link = wire };

	(void)state;
	mix(&attr, 10 * S);
}

static void mixed_and_lossy(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 8; seed++) {
		struct two_attr attr = { .link = wire, .seed = seed };

		attr.link.loss = 0.05;
		attr.link.duplicate = 0.02;
		attr.link.jitter_ns = 200 * US;
		/* Little of everything, so that all of it runs out and wraps. */
		for (int end = 0; end < 2 && seed % 2; end++) {
			attr.channel[end].operations = 256;
			attr.channel[end].packs = 4;
			attr.channel[end].pack_bytes = 5000;
			attr.channel[end].slots = 4;
			attr.channel[end].part_bytes = 8192;
			attr.channel[end].flags = GW_CHANNEL_CRC;
		}
		mix(&attr, 60 * S);
	}
}

static void in_many_parts(void **state)
{
	struct two_attr attr = { .link = wire,
				 .channel = { { .part_bytes = 20000, .flags = GW_CHANNEL_CRC },
					      { .part_bytes = 30000 } } };
	struct act send[2] = { 0 }, recv[2] = { 0 };
	struct two two;

	(void)state;
	attr.link.loss = 0.01;
	two_open(&two, &attr);
	for (int end = 0; end < 2; end++) {
		act_recv(&two, end, 1500000, &recv[end]);
		act_send(&two, end, 1200000, (uint64_t)end, &send[end]);
	}
	for (int end = 0; end < 2; end++) {
		two_until(&two, 10 * S, send[end].ended && recv[end].ended);
		act_check(&send[end], 0);
		act_check_bytes(&recv[end], 1200000, (uint64_t)!end);
	}
	two_run(&two, S);
	two_close(&two);
}

/* Large receives for small messages: their buffers are granted in vain, and given back. */
static void large_receives_of_small_messages(void **state)
{
	static struct act sends[MANY], recvs[MANY];
	struct two_attr attr = { .link = wire, .channel = { { .slots = 8 }, { .slots = 8 } } };
	struct two two;

	(void)state;
	memset(sends, 0, sizeof(sends));
	memset(recvs, 0, sizeof(recvs));
	two_open(&two, &attr);
	for (int i = 0; i < MANY; i++)
		act_recv(&two, 1, 10000, &recvs[i]);
	for (int i = 0; i < MANY; i++)
		act_send(&two, 0, i % 10 == 9 ? 9000 : 10, (uint64_t)i, &sends[i]);
	for (int i = 0; i < MANY; i++) {
		two_until(&two, 5 * S, sends[i].ended && recvs[i].ended);
		act_check(&sends[i], 0);
		act_check_bytes(&recvs[i], i % 10 == 9 ? 9000 : 10, (uint64_t)i);
	}
	two_close(&two);
}

/* Many small sends leave in few packets, and a lone one waits for nothing. */
static void small_ones_are_packed(void **state)
{
	static struct act sends[MANY], recvs[MANY];
	struct two_attr attr = { .link = wire };
	struct gw_channel_stats stats;
	struct act send = { 0 }, recv = { 0 };
	struct two two;
	uint64_t start;

	(void)state;
	memset(sends, 0, sizeof(sends));
	memset(recvs, 0, sizeof(recvs));
	two_open(&two, &attr);
	act_recv(&two, 1, 8, &recv);
	act_send(&two, 0, 8, 1, &send);
	two_until(&two, S, recv.ended && send.ended);
	act_check(&send, 0);
	act_check_bytes(&recv, 8, 1);
	two_run(&two, 100 * MS);
	start = two_now(&two);
	act_recv(&two, 1, 8, &recv);
	act_send(&two, 0, 8, 1, &send);
	two_until(&two, S, recv.ended && send.ended);
	assert_in_range(recv.at - start, wire.delay_ns, wire.delay_ns + 50 * US);
	assert_in_range(send.at - start, 2 * wire.delay_ns, 2 * wire.delay_ns + 300 * US);
	act_check(&send, 0);
	act_check_bytes(&recv, 8, 1);
	for (int i = 0; i < MANY; i++)
		act_recv(&two, 1, 64, &recvs[i]);
	for (int i = 0; i < MANY; i++)
		act_send(&two, 0, 64, (uint64_t)i, &sends[i]);
	for (int i = 0; i < MANY; i++) {
		two_until(&two, S, sends[i].ended && recvs[i].ended);
		act_check(&sends[i], 0);
		act_check_bytes(&recvs[i], 64, (uint64_t)i);
	}
	assert_int_equal(gw_channel_stats(two.channel[0], &stats), 0);
	assert_int_equal(stats.sends, MANY + 2);
	assert_in_range(stats.packs, 4, 8);
	two_close(&two);
}

/* A receive posted before its send: data leaves at once, without asking. */
static void clear_to_send_costs_nothing(void **state)
{
	struct two_attr attr = { .link = wire };
	struct act send = { 0 }, recv = { 0 };
	struct two two;
	uint64_t start;

	(void)state;
	two_open(&two, &attr);
	act_recv(&two, 1, 5000, &recv);
	two_run(&two, 100 * MS);
	start = two_now(&two);
	act_send(&two, 0, 5000, 1, &send);
	two_until(&two, S, recv.ended && send.ended);
	assert_in_range(recv.at - start, wire.delay_ns, wire.delay_ns + 100 * US);
	act_check(&send, 0);
	act_check_bytes(&recv, 5000, 1);
	two_close(&two);
}

/* The default controller finds the rate soon, near and far, and no window is given up although all of it arrived. */
static void fills_the_path(void **state)
{
	enum { COUNT = 40, LENGTH = 1000000 };
	static const uint64_t delays[] = { 100 * US, 12500 * US };

	(void)state;
	for (int far = 0; far < 2; far++) {
		static struct act sends[COUNT], recvs[COUNT];
		struct two_attr attr = { .link = wire, .host = { .queue = 16384 } };
		struct two two;
		uint64_t start;

		attr.link.delay_ns = delays[far];
		attr.link.queue_bytes = 4u << 20;
		two_open(&two, &attr);
		memset(sends, 0, sizeof(sends));
		memset(recvs, 0, sizeof(recvs));
		for (int i = 0; i < COUNT; i++)
			act_recv(&two, 1, LENGTH, &recvs[i]);
		two_run(&two, 100 * MS);
		start = two_now(&two);
		for (int i = 0; i < COUNT; i++)
			act_send(&two, 0, LENGTH, (uint64_t)i, &sends[i]);
		for (int i = 0; i < COUNT; i++)
			two_until(&two, 2 * S, sends[i].ended && recvs[i].ended);
		/* 320 ms at the link's rate. */
		assert_in_range(two_now(&two) - start, 320 * MS, far ? 700 * MS : 420 * MS);
		assert_int_equal(two_counter(&two, 0, "window_stalls"), 0);
		for (int i = 0; i < COUNT; i++) {
			act_check(&sends[i], 0);
			act_check_bytes(&recvs[i], LENGTH, (uint64_t)i);
		}
		two_close(&two);
	}
}

/* Small sends over a long path do not wait for each other's answers: the last arrives half a round trip after it left. */
static void small_sends_do_not_wait_for_answers(void **state)
{
	struct two_attr attr = { .link = { .rate_bps = 1000000000, .delay_ns = 50 * MS } };
	struct act sends[8] = { 0 }, recvs[8] = { 0 };
	struct two two;
	uint64_t begun;

	(void)state;
	two_open(&two, &attr);
	for (int i = 0; i < 8; i++)
		act_recv(&two, 1, 200, &recvs[i]);
	/* The first one measures the round trip. */
	act_send(&two, 0, 200, 0, &sends[0]);
	two_until(&two, S, sends[0].ended);
	begun = two_now(&two);
	for (int i = 1; i < 8; i++) {
		act_send(&two, 0, 200, (uint64_t)i, &sends[i]);
		two_run(&two, MS);
	}
	two_until(&two, S, recvs[7].ended);
	assert_in_range(two_now(&two) - begun, 50 * MS, 70 * MS);
	for (int i = 0; i < 8; i++) {
		two_until(&two, S, sends[i].ended && recvs[i].ended);
		act_check(&sends[i], 0);
		act_check_bytes(&recvs[i], 200, (uint64_t)i);
	}
	two_close(&two);
}

/* A pack that is worth a message waits for no more, however large packs are, unless few are left. */
static void large_packs_do_not_gather(void **state)
{
	enum { COUNT = 6, BYTES = 9000 };
	static struct act sends[COUNT], recvs[COUNT];
	const struct gw_channel_attr large = { .small_bytes = 64 << 10,
					       .pack_bytes = 68 << 10,
					       .packs = 8 };
	const struct link_attr fast = { .rate_bps = 100000000000, .delay_ns = 5 * MS };
	struct two_attr attr = { .link = fast, .channel = { large, large } };
	uint64_t posted[COUNT];
	struct two two;

	(void)state;
	memset(sends, 0, sizeof(sends));
	memset(recvs, 0, sizeof(recvs));
	two_open(&two, &attr);
	/* The first ones learn the round trip. */
	for (int round = 0; round < 2; round++) {
		two_run(&two, 100 * MS);
		for (int i = 0; i < COUNT; i++)
			act_recv(&two, 1, BYTES, &recvs[i]);
		for (int i = 0; i < COUNT; i++) {
			posted[i] = two_now(&two);
			act_send(&two, 0, BYTES, (uint64_t)i, &sends[i]);
			two_run(&two, 5 * US);
		}
		for (int i = 0; i < COUNT; i++) {
			two_until(&two, S, sends[i].ended && recvs[i].ended);
			act_check(&sends[i], 0);
			act_check_bytes(&recvs[i], BYTES, (uint64_t)i);
		}
	}
	for (int i = 0; i < 4; i++)
		assert_in_range(recvs[i].at - posted[i], fast.delay_ns, fast.delay_ns + 200 * US);
	assert_true(recvs[4].at - posted[4] > fast.delay_ns + 200 * US);
	two_close(&two);
}

/* A buffered send ends when it was copied, and arrives all the same where packets are lost. Large ones end when they have arrived. */
static void buffered_sends_end_at_once(void **state)
{
	enum { COUNT = 40, LARGE = 20000 };
	static struct act sends[COUNT], recvs[COUNT];
	const struct gw_op_attr buffered = { .flags = GW_OP_BUFFERED }, odd = { .flags = 2 };
	struct two_attr attr = {
		.link = { .rate_bps = 1000000000, .delay_ns = 5 * MS, .loss = 0.2 }
	};
	struct act send = { 0 }, recv = { 0 };
	struct gw_channel_stats stats;
	char text[512], told[64];
	struct gw_op *op;
	struct two two;

	(void)state;
	memset(sends, 0, sizeof(sends));
	memset(recvs, 0, sizeof(recvs));
	two_open(&two, &attr);
	assert_int_equal(gw_channel_send(two.channel[0], &odd, &op), -EINVAL);
	two_run(&two, 100 * MS);
	for (int i = 0; i < COUNT; i++) {
		act_recv(&two, 1, 300, &recvs[i]);
		act_post(&two, 0, false, 300, (uint64_t)i, &buffered, &sends[i]);
		two_until(&two, MS, sends[i].ended);
		assert_int_equal(gw_channel_stats(two.channel[0], &stats), 0);
		assert_int_equal(stats.unanswered, i + 1);
		assert_true(gw_channel_explain(two.channel[0], text, sizeof(text)) > 0);
		snprintf(told, sizeof(told), "nothing is open; %d sends that ended", i + 1);
		assert_non_null(strstr(text, told));
		/* The memory may be used again, and the handle closed. */
		act_check(&sends[i], 0);
	}
	for (int i = 0; i < COUNT; i++) {
		two_until(&two, 5 * S, recvs[i].ended);
		act_check_bytes(&recvs[i], 300, (uint64_t)i);
	}
	act_recv(&two, 1, LARGE, &recv);
	act_post(&two, 0, false, LARGE, 7, &buffered, &send);
	two_run(&two, MS);
	assert_false(send.ended);
	two_until(&two, 5 * S, recv.ended && send.ended);
	act_check(&send, 0);
	act_check_bytes(&recv, LARGE, 7);
	two_until(&two, 5 * S, !gw_channel_stats(two.channel[0], &stats) && !stats.unanswered);
	assert_int_equal(stats.sends, COUNT + 1);
	two_close(&two);
}

/* A send's label reaches the receive whichever way the message goes: eager, in a pack, in one part or in many, and also if the receive
 * comes later or is too small. */
static void labels_arrive(void **state)
{
	static const uint64_t lengths[] = { 1000, 50000, 0, 900000, 1000, 9000000, 3000 };
	static const uint64_t rooms[] = { 1000, 50000, 10, 900000, 500, 9000000, 300 };
	enum { COUNT = sizeof(lengths) / sizeof(lengths[0]) };
	struct act sends[COUNT] = { 0 }, recvs[COUNT] = { 0 };
	struct two two;

	(void)state;
	for (unsigned first = 0; first < 4; first++) {
		two_open(&two, &(struct two_attr){ .link = { .delay_ns = 1 * MS,
							     .rate_bps = UINT64_C(1000000000) } });
		for (unsigned i = first; i < COUNT; i++) {
			struct gw_op_attr labelled = { .label = (uint16_t)(0xfff0 + i) };

			if (first % 2)
				act_recv(&two, 1, rooms[i], &recvs[i]);
			act_post(&two, 0, false, lengths[i], i, &labelled, &sends[i]);
		}
		for (unsigned i = first; i < COUNT && first % 2 == 0; i++) {
			two_run(&two, 2 * MS);
			act_recv(&two, 1, rooms[i], &recvs[i]);
		}
		for (unsigned i = first; i < COUNT; i++)
			two_until(&two, 10 * S, recvs[i].ended && sends[i].ended);
		for (unsigned i = first; i < COUNT; i++) {
			int status = rooms[i] < lengths[i] ? -EMSGSIZE : 0;

			assert_int_equal(recvs[i].result.label, 0xfff0 + i);
			assert_int_equal(sends[i].result.label, 0);
			act_check(&sends[i], status);
			if (status)
				act_check(&recvs[i], status);
			else
				act_check_bytes(&recvs[i], lengths[i], i);
		}
		two_close(&two);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_of_each_size),
		cmocka_unit_test(mixed),
		cmocka_unit_test(mixed_and_lossy),
		cmocka_unit_test(in_many_parts),
		cmocka_unit_test(large_receives_of_small_messages),
		cmocka_unit_test(small_ones_are_packed),
		cmocka_unit_test(clear_to_send_costs_nothing),
		cmocka_unit_test(fills_the_path),
		cmocka_unit_test(small_sends_do_not_wait_for_answers),
		cmocka_unit_test(large_packs_do_not_gather),
		cmocka_unit_test(buffered_sends_end_at_once),
		cmocka_unit_test(labels_arrive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

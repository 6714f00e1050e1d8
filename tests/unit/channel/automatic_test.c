/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that name no scheme: coded where packets are lost and the sender gains by it, Selective Repeat packet for
 * packet where none are; with receives far ahead, little room in the context, and ends that want different things.
 */
#include "two.h"

#include <stdlib.h>

#include "channel/state.h"

#define LENGTH	 (UINT64_C(256) << 10)
#define DELAY_NS (10 * MS)

struct use {
	double loss;
	uint64_t jitter_ns;
	uint64_t length;
	unsigned messages;
	/* Operations posted ahead, at each end. */
	unsigned open;
	/* Of each end; null: none named. */
	const struct gw_scheme *scheme[2];
	uint32_t flags[2];
	uint32_t max_recvs;
};

struct outcome {
	uint64_t overtaken_ns;
	uint64_t sent_packets, control, rebuilt, parts;
	/* Fewest members that were left at either end. */
	uint32_t coders_left;
};

static void note(const struct two *two, struct outcome *out)
{
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 2; j++)
			if (two->channel[i]->coders[j].all &&
			    two->channel[i]->coders[j].left < out->coders_left)
				out->coders_left = two->channel[i]->coders[j].left;
}

/* Moves all messages from end 0 to end 1 and checks every byte. */
static struct outcome move(const struct use *use)
{
	struct two_attr attr = { .link = { .rate_bps = UINT64_C(200000000),
					   .delay_ns = DELAY_NS,
					   .jitter_ns = use->jitter_ns,
					   .loss = use->loss },
				 .host = { .queue = 1 << 14 },
				 .channel = { { .flags = use->flags[0] },
					      { .flags = use->flags[1] } },
				 .max_recvs = use->max_recvs };
	struct act *sends = calloc(use->messages, sizeof(*sends));
	struct act *recvs = calloc(use->messages, sizeof(*recvs));
	struct outcome out = { .coders_left = UINT32_MAX };
	struct gw_channel_stats stats;
	struct gw_estimate estimate;
	struct two two;

	two_open(&two, &attr);
	for (unsigned i = 0; i < use->messages + use->open; i++) {
		struct gw_op_attr extra[2] = { { .scheme = use->scheme[0] },
					       { .scheme = use->scheme[1] } };

		if (i < use->messages) {
			act_post(&two, 1, true, use->length, 0, &extra[1], &recvs[i]);
			act_post(&two, 0, false, use->length, i, &extra[0], &sends[i]);
		}
		if (i < use->open)
			continue;
		two_until(&two, 100 * S, sends[i - use->open].ended && recvs[i - use->open].ended);
		note(&two, &out);
		act_check(&sends[i - use->open], 0);
		act_check_bytes(&recvs[i - use->open], use->length, i - use->open);
	}
	assert_int_equal(gw_channel_stats(two.channel[0], &stats), 0);
	assert_int_equal(gw_qp_estimate(two.channel[0]->qp[BULK], &estimate), 0);
	out.overtaken_ns = estimate.overtaken_ns;
	out.parts = stats.parts;
	out.sent_packets = two_counter(&two, 0, "sent_packets");
	out.control = two_counter(&two, 0, "control_sent") + two_counter(&two, 1, "control_sent");
	out.rebuilt = two_counter(&two, 1, "rebuilt_packets");
	two_run(&two, 2 * S);
	/* All are back. */
	for (int i = 0; i < 2; i++)
		if (two.channel[i]->coders[0].all) {
			assert_int_equal(two.channel[i]->coders[0].left, CODERS_SENDING);
			assert_int_equal(two.channel[i]->coders[1].left, CODERS_RECEIVING);
		}
	two_close(&two);
	free(sends);
	free(recvs);
	return out;
}

static void coded_where_packets_are_lost(void **state)
{
	const struct use use = { .loss = 0.03, .length = LENGTH, .messages = 60, .open = 1 };

	(void)state;
	assert_true(move(&use).rebuilt > 0);
}

/* Not a packet nor a datagram more than Selective Repeat, and no member is ever used. */
static void repeated_where_none_are(void **state)
{
	struct use use = { .length = LENGTH, .messages = 20, .open = 2 };
	struct outcome chosen = move(&use), repeat;

	(void)state;
	use.scheme[0] = use.scheme[1] = &gw_selective_repeat;
	repeat = move(&use);
	assert_int_equal(chosen.sent_packets, repeat.sent_packets);
	assert_int_equal(chosen.control, repeat.control);
	assert_int_equal(chosen.coders_left, CODERS_RECEIVING);
}

/* A long message that is coded is cut into parts that there is memory for; one that is not has one part. How many are coded is the
 * choice's business: repairs of one part overlap with the next, so that both cost about the same here. */
static void long_messages(void **state)
{
	const struct use use = {
		.loss = 0.15, .length = 5 * CODED_PART / 2, .messages = 32, .open = 1
	};
	struct outcome out = move(&use);

	(void)state;
	assert_true(out.rebuilt > 0);
	assert_true(out.parts > use.messages);
}

/* A queue delays packets and keeps their order; random delays do not. */
static void jitter_is_told_from_a_queue(void **state)
{
	struct use use = { .length = LENGTH, .messages = 20, .open = 4 };

	(void)state;
	assert_int_equal(move(&use).overtaken_ns, 0);
	use.jitter_ns = DELAY_NS / 2;
	/* More than the jitter where a queue drains between the two; less since it fades while the last packets arrive in order. */
	assert_in_range(move(&use).overtaken_ns, DELAY_NS / 16, DELAY_NS);
}

/* An end that names Selective Repeat, or keeps no memory, meets one that names nothing. */
static void ends_differ(void **state)
{
	struct use use = { .loss = 0.03, .length = LENGTH, .messages = 30, .open = 2 };

	(void)state;
	for (int end = 0; end < 2; end++) {
		use.scheme[end] = &gw_selective_repeat;
		assert_int_equal(move(&use).rebuilt, 0);
		use.scheme[end] = NULL;
		use.flags[end] = GW_CHANNEL_NO_PARITY;
		assert_int_equal(move(&use).rebuilt, 0);
		use.flags[end] = 0;
	}
}

/* Sends of both kinds, into receives that the others made coded. */
static void sends_differ(void **state)
{
	struct two_attr attr = {
		.link = { .rate_bps = UINT64_C(200000000), .delay_ns = DELAY_NS, .loss = 0.03 }
	};
	struct gw_op_attr repeat = { .scheme = &gw_selective_repeat };
	struct act send, recv;
	struct two two;

	(void)state;
	two_open(&two, &attr);
	for (unsigned i = 0; i < 60; i++) {
		send.then = recv.then = NULL;
		/* Now and then a small one, whose receive is given back. */
		uint64_t length = i % 7 == 6 ? 100 : LENGTH;

		act_post(&two, 1, true, LENGTH, 0, NULL, &recv);
		act_post(&two, 0, false, length, i, i % 3 == 2 ? &repeat : NULL, &send);
		two_until(&two, 100 * S, send.ended && recv.ended);
		act_check(&send, 0);
		act_check_bytes(&recv, length, i);
	}
	assert_true(two_counter(&two, 1, "rebuilt_packets") > 0);
	two_close(&two);
}

/* More receives ahead than members, of messages so short that all of them do not fill the path; and a context in which the second message often finds no room. */
static void members_run_out(void **state)
{
	struct use use = { .loss = 0.05, .length = 10000, .messages = 300, .open = 60 };
	struct outcome out = move(&use);

	(void)state;
	assert_int_equal(out.coders_left, 0);
	use.max_recvs = 2 * 32 + 40; /* bounces, and less than 60 receives */
	use.open = 24;
	move(&use);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jitter_is_told_from_a_queue),
		cmocka_unit_test(coded_where_packets_are_lost),
		cmocka_unit_test(repeated_where_none_are),
		cmocka_unit_test(long_messages),
		cmocka_unit_test(ends_differ),
		cmocka_unit_test(sends_differ),
		cmocka_unit_test(members_run_out),
	};

	return cmocka_run_group_tests_name("channel-automatic", tests, NULL, NULL);
}

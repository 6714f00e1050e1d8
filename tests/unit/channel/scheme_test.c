/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large operations under schemes that need memory: coded, and by the automatic choice. In parts, skipped, cancelled, and
 * with the channel closed under them.
 */
#include "two.h"

#include <errno.h>

#include <godwit/auto.h>

#define LARGE (UINT64_C(200) * TWO_PAYLOAD)
#define PART  (UINT64_C(64) * TWO_PAYLOAD)

static struct gw_erasure *memory[3]; /* the sender's, and two of the receiver's */

static unsigned receives;

static const struct gw_scheme *const schemes[] = { &gw_erasure, &gw_auto };

static void open_ends(struct two *two, double loss)
{
	struct two_attr attr = {
		.link = { .rate_bps = UINT64_C(1000000000), .delay_ns = MS, .loss = loss },
		.channel = { { .part_bytes = PART }, { .part_bytes = PART } }
	};
	struct gw_erasure_attr erasure = { .max_length = PART };

	two_open(two, &attr);
	for (int i = 0; i < 3; i++)
		assert_int_equal(
			gw_erasure_open(two->world.hosts[i ? 1 : 0].ctx, &erasure, &memory[i]), 0);
}

static void post(struct two *two, int end, const struct gw_scheme *scheme, uint64_t length,
		 struct act *act)
{
	struct gw_op_attr extra = { .scheme = scheme, .options = memory[end] };

	/* Two receives are granted at once, and the sender has memory for one. */
	if (end && ++receives % 2)
		extra.options = memory[2];
	act_post(two, end, end == 1, length, length, &extra, act);
}

static void close_ends(struct two *two)
{
	assert_int_equal(gw_erasure_close(memory[0]), 0);
	assert_int_equal(gw_erasure_close(memory[1]), 0);
	assert_int_equal(gw_erasure_close(memory[2]), 0);
	two_close(two);
}

/* Parts, one after the other, and plain operations between them; losses are mended in both ways. */
static void in_parts(void **state)
{
	(void)state;
	for (unsigned s = 0; s < 2; s++) {
		struct act send[12] = { { 0 } }, recv[12] = { { 0 } };
		struct two two;

		open_ends(&two, 0.02);
		for (unsigned i = 0; i < 12; i++) {
			uint64_t length = LARGE - 777 * i;

			if (i % 4 == 3) {
				act_recv(&two, 1, length, &recv[i]);
				act_send(&two, 0, length, length, &send[i]);
			} else {
				post(&two, 1, schemes[s], length + (i % 2) * 9999, &recv[i]);
				post(&two, 0, schemes[s], length, &send[i]);
			}
		}
		for (unsigned i = 0; i < 12; i++) {
			two_until(&two, 60 * S, send[i].ended && recv[i].ended);
			act_check(&send[i], 0);
			act_check_bytes(&recv[i], LARGE - 777 * i, LARGE - 777 * i);
		}
		assert_true(two_counter(&two, 1, "rebuilt_packets") > 0);
		close_ends(&two);
	}
}

/* A receive for a large message meets a small one: both of its buffers are given back, and the next finds its own. */
static void skipped(void **state)
{
	(void)state;
	for (unsigned s = 0; s < 2; s++) {
		struct act send[3] = { { 0 } }, recv[3] = { { 0 } };
		static const uint64_t lengths[] = { 10, LARGE, 20 };
		struct two two;

		open_ends(&two, 0);
		for (unsigned i = 0; i < 3; i++) {
			post(&two, 1, schemes[s], LARGE, &recv[i]);
			post(&two, 0, schemes[s], lengths[i], &send[i]);
		}
		for (unsigned i = 0; i < 3; i++) {
			two_until(&two, 60 * S, send[i].ended && recv[i].ended);
			act_check(&send[i], 0);
			act_check_bytes(&recv[i], lengths[i], lengths[i]);
		}
		close_ends(&two);
	}
}

/* Ended in the middle, by its user or with the channel: the memory is free again. */
static void cut_off(void **state)
{
	(void)state;
	for (unsigned s = 0; s < 4; s++) {
		struct act send = { 0 }, recv = { 0 };
		struct two two;

		open_ends(&two, 0.02);
		post(&two, 1, schemes[s % 2], LARGE, &recv);
		post(&two, 0, schemes[s % 2], LARGE, &send);
		two_run(&two, 3 * MS + MS / 2);
		assert_int_equal(gw_erasure_close(memory[0]), -EBUSY);
		assert_int_equal(gw_erasure_close(memory[receives % 2 ? 2 : 1]), -EBUSY);
		if (s < 2) {
			assert_int_equal(gw_op_cancel(send.op), 0);
			world_touch(&two.world, 0);
			two_until(&two, 60 * S, send.ended && recv.ended);
			act_check(&send, -ECANCELED);
			act_check(&recv, -ECANCELED);
			post(&two, 1, schemes[s], LARGE, &recv);
			post(&two, 0, schemes[s], LARGE, &send);
			two_until(&two, 60 * S, send.ended && recv.ended);
			act_check(&send, 0);
			act_check_bytes(&recv, LARGE, LARGE);
		} else {
			for (int i = 0; i < 2; i++) {
				assert_int_equal(gw_channel_close(two.channel[i]), 0);
				two.channel[i] = NULL;
			}
			if (s == 2)
				for (uint32_t i = 0; i < 2; i++)
					gw_progress(two.world.hosts[i].ctx);
			act_free(&send);
			act_free(&recv);
		}
		close_ends(&two);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_parts),
		cmocka_unit_test(skipped),
		cmocka_unit_test(cut_off),
	};

	return cmocka_run_group_tests_name("channel-scheme", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer that lies. Packs are written by hand and sent over the channel's own small queue pair; parts over its bulk one.
 * Nothing may be delivered twice, no byte outside a buffer touched, and what an honest peer cannot say ends the channel.
 */
#include "two.h"

#include <errno.h>
#include <string.h>

#include "channel/state.h"

static const struct link_attr wire = { .rate_bps = 100000000, .delay_ns = 100 * US };

struct liar {
	struct two two;
	uint8_t *bytes;
	size_t used;
	struct gw_mr *mr;
	struct gw_send *send;
	unsigned sent;
};

static void liar_open(struct liar *liar)
{
	static uint8_t bytes[16384];
	struct two_attr attr = { .link = wire };

	memset(liar, 0, sizeof(*liar));
	attr.channel[0].operations = attr.channel[1].operations = 16;
	two_open(&liar->two, &attr);
	liar->bytes = bytes;
	assert_int_equal(
		gw_mr_register(liar->two.world.hosts[0].ctx, bytes, sizeof(bytes), &liar->mr), 0);
}

static void told(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct liar *liar = arg;

	(void)result;
	(void)now;
	liar->sent++;
}

/* Sends what was written, as a pack or as a part. */
static void utter(struct liar *liar, int qp, size_t length, uint32_t flags, uint32_t imm)
{
	struct gw_transfer_attr attr = { .addr = liar->bytes,
					 .length = length,
					 .mr = liar->mr,
					 .flags = flags,
					 .imm = imm,
					 .done = told,
					 .arg = liar };

	assert_int_equal(gw_transfer_send(liar->two.channel[0]->qp[qp], &gw_selective_repeat, &attr,
					  &liar->send),
			 0);
	world_touch(&liar->two.world, 0);
	two_run(&liar->two, 50 * MS);
	liar->used = 0;
}

static void write_record(struct liar *liar, enum record_kind kind, uint32_t seq, uint32_t length)
{
	static const uint8_t data[64] = { 1, 2, 3 };
	struct record record = {
		.seq = seq, .kind = (uint8_t)kind, .status = EIO, .length = length, .data = data
	};

	liar->used += record_put(liar->bytes + liar->used, &record);
}

/* The channel is over at end 1 for breaking the protocol; whatever was open there ended with it, once. */
static void liar_caught(struct liar *liar, struct act *recv)
{
	two_run(&liar->two, 100 * MS);
	assert_int_equal(liar->two.gone[1], 1);
	assert_int_equal(liar->two.gone_status[1], -EPROTO);
	if (recv)
		act_check(recv, -EPROTO);
	if (liar->two.channel[0]) {
		gw_channel_close(liar->two.channel[0]);
		liar->two.channel[0] = NULL;
	}
	gw_send_close(liar->send);
	gw_mr_deregister(liar->mr);
	two_close(&liar->two);
}

static void liar_believed(struct liar *liar)
{
	assert_int_equal(liar->two.gone[1], 0);
	assert_int_equal(gw_channel_status(liar->two.channel[1]), 0);
	gw_channel_close(liar->two.channel[0]);
	liar->two.channel[0] = NULL;
	gw_send_close(liar->send);
	gw_mr_deregister(liar->mr);
	two_close(&liar->two);
}

static void nonsense(void **state)
{
	static const uint8_t heads[][RECORD_HEADER] = {
		{ 0, 0, 0, 0, 0 },		       /* no kind */
		{ 0, 0, 0, 0, 7 },		       /* none of these */
		{ 0, 0, 0, 0, RECORD_ENDED },	       /* and not why */
		{ 0, 0, 0, 0, RECORD_REFUSED },	       /* likewise */
		{ 0, 0, 0, 0, RECORD_ENDED, 0, 0x10 }, /* no such errno */
		{ 0, 0, 0, 0, RECORD_DATA, 0, 0, 0, 0xff, 0xff, 0xff, 0xff },
		{ 0, 0, 0, 0, RECORD_DATA, 0, 0, 0, 0, 0, 0, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		struct act recv = { 0 };
		struct liar liar;

		liar_open(&liar);
		act_recv(&liar.two, 1, 100, &recv);
		write_record(&liar, RECORD_TAKEN, 3, 0); /* what comes before is no excuse */
		memcpy(liar.bytes + liar.used, heads[i], RECORD_HEADER);
		utter(&liar, SMALL, liar.used + RECORD_HEADER, 0, 0);
		liar_caught(&liar, &recv);
	}
}

static void cut_short(void **state)
{
	(void)state;
	for (size_t cut = 1; cut < RECORD_HEADER; cut += 7) {
		struct liar liar;

		liar_open(&liar);
		write_record(&liar, RECORD_TAKEN, 3, 0);
		write_record(&liar, RECORD_TAKEN, 4, 0);
		utter(&liar, SMALL, liar.used - cut, 0, 0);
		liar_caught(&liar, NULL);
	}
}

/* The same number again: to a receive that has it, that waits, that had it long ago, or is not posted. */
static void twice(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct act recv = { 0 };
		struct liar liar;

		liar_open(&liar);
		if (i < 3)
			act_recv(&liar.two, 1, 64, &recv);
		write_record(&liar, RECORD_DATA, 0, 64);
		if (i == 1)
			write_record(&liar, RECORD_DATA, 0, 64);
		if (i == 3)
			write_record(&liar, RECORD_ENDED, 0, 64);
		utter(&liar, SMALL, liar.used, 0, 0);
		if (i < 3) {
			assert_int_equal(recv.ended, 1);
			assert_int_equal(recv.result.length, 64);
			memset(recv.addr, 7, 64);
		}
		if (i == 2)
			act_check(&recv, 0);
		if (i == 0 || i == 2) {
			write_record(&liar, RECORD_DATA, 0, 64);
			gw_send_close(liar.send);
			utter(&liar, SMALL, liar.used, 0, 0);
		}
		two_run(&liar.two, 100 * MS);
		if (i < 2) {
			for (int j = 0; j < 64; j++)
				assert_int_equal(recv.addr[j], 7);
			act_check(&recv, 0);
		}
		liar_caught(&liar, NULL);
	}
}

/* Numbers so far ahead that nobody has room for them. */
static void far_ahead(void **state)
{
	static const uint32_t far[] = { 16, 17, 1000, 0x7fffffff };

	(void)state;
	for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
		struct liar liar;

		liar_open(&liar);
		write_record(&liar, i % 2 ? RECORD_DATA : RECORD_ENDED, far[i], 4);
		utter(&liar, SMALL, liar.used, 0, 0);
		liar_caught(&liar, NULL);
	}
}

/* About operations that are not there, or cannot be meant: harmless. */
static void about_nothing(void **state)
{
	struct act send = { 0 };
	struct liar liar;

	(void)state;
	liar_open(&liar);
	act_send(&liar.two, 1, 20000, 1, &send);
	for (int kind = RECORD_CRC; kind <= RECORD_TAKEN; kind++)
		for (uint32_t seq = 5; seq < 500; seq += 100)
			if (kind != RECORD_ENDED)
				write_record(&liar, (enum record_kind)kind, seq, 0);
	write_record(&liar, RECORD_TAKEN, 0, 0); /* of a large send: it has not left */
	utter(&liar, SMALL, liar.used, 0, 0);
	assert_int_equal(liar.sent, 1);
	assert_int_equal(send.ended, 0);
	gw_op_cancel(send.op);
	world_touch(&liar.two.world, 1);
	two_until(&liar.two, S, send.ended);
	act_check(&send, -ECANCELED);
	liar_believed(&liar);
}

/* Parts that contradict each other. */
static void parts(void **state)
{
	static const struct {
		uint32_t flags, imm;
		size_t length;
	} lies[] = {
		{ 0, 0, 5000 },			  /* no immediate */
		{ GW_SEND_IMM, 9, 5000 },	  /* no such kind */
		{ GW_SEND_IMM, PART_SKIP, 5000 }, /* that is not empty */
		{ GW_SEND_IMM, PART_MORE, 5000 }, /* that does not fill its receive */
		{ GW_SEND_IMM, PART_LAST, 0 },	  /* nothing */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct act recv = { 0 };
		struct liar liar;

		liar_open(&liar);
		act_recv(&liar.two, 1, 10000, &recv);
		utter(&liar, BULK, lies[i].length, lies[i].flags, lies[i].imm);
		liar_caught(&liar, &recv);
	}
}

/* As a part and as a record: the second is one too many. */
static void both_ways(void **state)
{
	struct act recv = { 0 };
	struct liar liar;

	(void)state;
	liar_open(&liar);
	act_recv(&liar.two, 1, 10000, &recv);
	memset(liar.bytes, 9, 5000);
	utter(&liar, BULK, 5000, GW_SEND_IMM, PART_LAST | PART_CRC); /* and no sum comes */
	assert_int_equal(recv.ended, 0);
	gw_send_close(liar.send);
	write_record(&liar, RECORD_DATA, 0, 64);
	utter(&liar, SMALL, liar.used, 0, 0);
	liar_caught(&liar, &recv);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(nonsense),	 cmocka_unit_test(cut_short),
		cmocka_unit_test(twice),	 cmocka_unit_test(far_ahead),
		cmocka_unit_test(parts),	 cmocka_unit_test(both_ways),
		cmocka_unit_test(about_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

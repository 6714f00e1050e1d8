/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packet sizes: messages start in packets that every path carries, grow to what the path is found to carry, and survive a
 * path that shrinks under them. Contents are compared, not only counts.
 */
#include "../reliability/duo.h"

#include <errno.h>
#include <string.h>

#include <godwit/auto.h>
#include <godwit/bounded.h>

#include "message/state.h"

#define LENGTH	 300001u
#define FLOOR	 512u
#define LIMIT	 (20 * S)
#define ONE_SHOT 1500001u
/* More than is granted ahead while sizes are tried. */
#define GROWING 1300001u

static struct duo_attr path(uint32_t path_payload)
{
	return (struct duo_attr){ .link = { .rate_bps = 1000000000, .delay_ns = 5 * MS },
				  .rungs = { 1024, FLOOR },
				  .path_payload = path_payload };
}

/* Slow, and the receiver lets 16 packets be in flight: most are sent when the path has become what it will be. */
static struct duo_attr shrinking_path(void)
{
	struct duo_attr attr = path(0);

	attr.link.rate_bps = 20000000;
	attr.host.queue = 32;
	attr.memory_bytes = 2 << 20;
	return attr;
}

static void carry(struct duo *duo, uint64_t length)
{
	struct duo_transfer transfer;

	duo_start(duo, length, &transfer);
	duo_finish(&transfer, LIMIT);
}

/* The first message does not wait, and later ones are as large as the path allows, at any round trip. */
static void grows_to_what_the_path_carries(void **state)
{
	static const struct {
		uint32_t carries, found;
	} cases[] = { { 0, DUO_PAYLOAD }, { 4096, 4096 },  { 4095, 1024 },
		      { 1024, 1024 },	  { 1023, FLOOR }, { FLOOR, FLOOR } };
	static const uint64_t delays[] = { 10 * US, 5 * MS, 100 * MS, 400 * MS };

	(void)state;
	for (size_t i = 0; i < 4 * sizeof(cases) / sizeof(cases[0]); i++) {
		struct duo_attr attr = path(cases[i / 4].carries);
		uint64_t delay_ns = delays[i % 4];
		struct duo duo;

		attr.link.delay_ns = delay_ns;
		duo_open(&duo, &attr);
		carry(&duo, LENGTH);
		/* A grant, the data and its result, each half a round trip or more; no probe is waited for. */
		assert_true(duo_now(&duo) < S + 8 * delay_ns + 200 * MS);
		assert_int_equal(duo_estimate(&duo, 0).payload_send, FLOOR);
		duo_run(&duo, 20 * (2 * delay_ns + 100 * MS));
		carry(&duo, LENGTH - 5000);
		assert_int_equal(duo_estimate(&duo, 0).payload_send, cases[i / 4].found);
		assert_int_equal(duo_counter(&duo, 0, "payload_cuts"), 0);
		assert_int_equal(duo_counter(&duo, 0, "retransmitted_packets"), 0);
		duo_close(&duo);
	}
}

/* A receive's size is fixed when it is granted: those granted first stay as they are, those behind them grow. */
static void sizes_coexist(void **state)
{
	struct duo_attr attr = path(0);
	struct gw_recv *recvs[40];
	struct gw_send *sends[40];
	uint32_t small = 0, large = 0;
	struct duo duo;

	(void)state;
	attr.qp.slots = 64;
	attr.memory_bytes = 8 << 20;
	duo_open(&duo, &attr);
	for (unsigned i = 0; i < 40; i++) {
		struct gw_recv_attr recv = { .addr = duo.memory[1] + i * 200000,
					     .length = 200000,
					     .mr = duo.mr[1] };

		assert_int_equal(gw_recv_post(duo.qp[1], &recv, &recvs[i]), 0);
	}
	world_touch(&duo.world, 1);
	for (unsigned i = 0; i < 40; i++) {
		struct gw_send_attr send = { .addr = duo.memory[0] + i * 200000,
					     .length = 200000 - i,
					     .mr = duo.mr[0] };

		assert_int_equal(gw_send_post(duo.qp[0], &send, &sends[i]), 0);
	}
	world_touch(&duo.world, 0);
	for (unsigned i = 0; i < 40; i++) {
		struct gw_recv_status status = { 0 };

		duo_until(&duo, LIMIT,
			  !gw_recv_status(recvs[i], &status) && status.flags & GW_RECV_FULL);
		assert_int_equal(status.packets,
				 (200000 - i + status.payload - 1) / status.payload);
		small += status.payload == FLOOR;
		large += status.payload == DUO_PAYLOAD;
		assert_int_equal(gw_recv_complete(recvs[i]), 0);
		world_touch(&duo.world, 1);
		assert_memory_equal(duo.memory[0] + i * 200000, duo.memory[1] + i * 200000,
				    200000 - i);
	}
	/* While sizes are being tried few are granted ahead, and not all there are. */
	assert_true(small > 0 && large > 4);
	duo_run(&duo, 100 * MS);
	duo_close(&duo);
}

/* Loss alone, even much of it, is not a small MTU; and the largest size is found in the end. */
static void loss_is_no_black_hole(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct duo_attr attr = path(0);
		struct duo duo;

		attr.link.loss = seed % 2 ? 0.2 : 0.35;
		attr.seed = seed;
		duo_open(&duo, &attr);
		carry(&duo, LENGTH);
		duo_run(&duo, 120 * S);
		carry(&duo, LENGTH);
		duo_run(&duo, 120 * S);
		carry(&duo, LENGTH);
		assert_int_equal(duo_counter(&duo, 0, "payload_cuts"), 0);
		assert_int_equal(duo_estimate(&duo, 1).payload_recv, DUO_PAYLOAD);
		duo_close(&duo);
	}
}

struct scheme_case {
	const char *name;
	const struct gw_scheme *scheme;
	uint32_t k, m, code;
	bool exact;
};

static const struct scheme_case schemes[] = {
	{ "selective-repeat", &gw_selective_repeat, 0, 0, 0, true },
	{ "erasure", &gw_erasure, 8, 2, GW_CODE_REED_SOLOMON, true },
	{ "xor", &gw_erasure, 8, 2, GW_CODE_XOR, true },
	{ "auto", &gw_auto, 0, 0, 0, true },
	{ "bounded", &gw_bounded, 0, 0, 0, false },
};

/* One transfer under a scheme on a path that carries less from `at_ns` on. Every byte of an exact one arrives. */
static void caught(const struct scheme_case *c, uint64_t at_ns, double loss, uint64_t first_bytes,
		   uint64_t seed)
{
	struct duo_attr attr = shrinking_path();
	struct gw_erasure_attr memory = {
		.max_length = LENGTH, .k = c->k, .m = c->m, .code = c->code
	};
	struct gw_erasure *coders[2] = { NULL, NULL };
	struct gw_recv *promised = NULL;
	struct duo_transfer transfer;
	struct duo duo;

	attr.link.loss = loss;
	attr.qp.first_bytes = first_bytes;
	attr.seed = seed;
	duo_open(&duo, &attr);
	for (int end = 0; end < 2 && c->scheme != &gw_selective_repeat && c->exact; end++) {
		assert_int_equal(gw_erasure_open(duo.ctx[end], &memory, &coders[end]), 0);
		duo.options[end] = coders[end];
	}
	if (first_bytes) {
		/* The first message is caught. What both ends promise both must post. */
		assert_int_equal(
			gw_recv_post(duo.qp[0],
				     &(struct gw_recv_attr){ .addr = duo.memory[0] + LENGTH,
							     .length = LENGTH,
							     .mr = duo.mr[0] },
				     &promised),
			0);
	} else {
		const void *options[2] = { duo.options[0], duo.options[1] };

		duo.options[0] = duo.options[1] = NULL;
		carry(&duo, 1000);
		duo_run(&duo, S);
		memcpy(duo.options, options, sizeof(options));
	}
	duo.scheme = c->scheme;
	memset(duo.memory[1], 0, duo.memory_bytes);
	for (uint64_t i = 0; i < duo.memory_bytes; i++)
		duo.memory[0][i] = (uint8_t)(i * 7 + (i >> 9) + seed);
	duo_start(&duo, LENGTH, &transfer);
	duo_run(&duo, at_ns);
	sim_path_payload(duo.world.sim, 600);
	duo_until(&duo, 10 * LIMIT, transfer.sent && transfer.received);
	if (c->exact && (transfer.sent_status || transfer.received_status ||
			 memcmp(duo.memory[0], duo.memory[1], LENGTH)))
		fail_msg("%s, shrinks after %lu us, loss %g, seed %lu: %d, %d", c->name,
			 (unsigned long)(at_ns / US), loss, (unsigned long)seed,
			 transfer.sent_status, transfer.received_status);
	duo_run(&duo, S);
	/* And the next one, which begins at the floor. */
	if (c->exact) {
		duo_start(&duo, LENGTH / 3, &transfer);
		duo_until(&duo, 10 * LIMIT, transfer.sent && transfer.received);
		assert_int_equal(transfer.received_status, 0);
		assert_memory_equal(duo.memory[0], duo.memory[1], LENGTH / 3);
	}
	if (promised)
		gw_recv_complete(promised);
	world_touch(&duo.world, 0);
	duo_run(&duo, S);
	for (int end = 0; end < 2; end++)
		if (coders[end])
			assert_int_equal(gw_erasure_close(coders[end]), 0);
	duo_close(&duo);
}

/* Under every scheme, at every moment of a message, with a promised first receive and without, with loss and without. */
static void survives_a_path_that_shrinks(void **state)
{
	static const double losses[] = { 0, 0.01, 0.1 };
	uint64_t seed = 1;

	(void)state;
	for (size_t c = 0; c < sizeof(schemes) / sizeof(schemes[0]); c++)
		for (size_t l = 0; l < 3; l++)
			for (uint64_t at = 0; at < 160 * MS; at += 32 * MS)
				for (int eager = 0; eager < 2; eager++, seed++)
					caught(&schemes[c], at + seed * 37 % 32 * MS, losses[l],
					       eager ? LENGTH : 0, seed);
}

/* What was coded in the old size is not decoded in the new. With these seeds a group has more holes than parity when the
 * path shrinks, and fewer in the new numbering. */
static void coded_before_the_cut(void **state)
{
	static const struct {
		uint32_t scheme;
		uint64_t seed;
	} cases[] = { { 2, 70 }, { 1, 87 }, { 1, 219 }, { 2, 250 }, { 2, 259 }, { 1, 264 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		caught(&schemes[cases[i].scheme], 140 * MS, 0.3, 0, cases[i].seed);
}

/* The first message begins with small packets, and is longer than what is granted ahead while sizes are tried. Its parity has
 * to be of the data's size, and granted before the receiver decides whether it decodes: when the message is announced. */
static void parity_is_as_large_as_data(void **state)
{
	struct duo_attr attr = path(0);
	struct gw_erasure_attr memory = { .max_length = GROWING, .k = 8, .m = 2 };
	struct gw_erasure *coders[2];
	struct duo_transfer transfer;
	struct gw_recv_status status;
	struct duo duo;

	(void)state;
	attr.link.rate_bps = 20000000;
	attr.link.loss = 0.05;
	/* Few packets are in flight: size probes do not wait behind the whole message. */
	attr.host.queue = 32;
	attr.memory_bytes = GROWING;
	duo_open(&duo, &attr);
	for (int end = 0; end < 2; end++) {
		assert_int_equal(gw_erasure_open(duo.ctx[end], &memory, &coders[end]), 0);
		duo.options[end] = coders[end];
	}
	duo.scheme = &gw_erasure;
	duo_start(&duo, GROWING, &transfer);
	duo_run(&duo, 50 * MS);
	assert_int_equal(gw_recv_status(transfer.recv, &status), 0);
	assert_int_equal(status.payload, FLOOR);
	assert_int_equal(duo_estimate(&duo, 1).payload_recv, DUO_PAYLOAD);
	duo_finish(&transfer, LIMIT);
	assert_true(duo_counter(&duo, 1, "rebuilt_packets") > 20);
	for (int end = 0; end < 2; end++)
		assert_int_equal(gw_erasure_close(coders[end]), 0);
	duo_close(&duo);
}

/* What landed stays landed: of a message that is nearly over little is sent again. */
static void landed_stays_landed(void **state)
{
	struct duo_attr attr = shrinking_path();
	struct duo_transfer transfer;
	struct gw_recv_status status;
	uint64_t landed;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	carry(&duo, 1000);
	duo_run(&duo, S);
	duo_start(&duo, LENGTH, &transfer);
	duo_run(&duo, 90 * MS);
	assert_int_equal(gw_recv_status(transfer.recv, &status), 0);
	assert_int_equal(status.payload, DUO_PAYLOAD);
	landed = (uint64_t)status.landed * status.payload;
	assert_in_range(landed, LENGTH / 4, LENGTH - LENGTH / 8);
	sim_path_payload(duo.world.sim, 600);
	duo_until(&duo, LIMIT, !gw_recv_status(transfer.recv, &status) && status.payload == FLOOR);
	/* A new packet that straddles a hole counts as missing. */
	assert_true((uint64_t)status.landed * FLOOR + 2 * FLOOR >= landed);
	duo_finish(&transfer, LIMIT);
	assert_int_equal(duo_counter(&duo, 0, "payload_cuts"), 1);
	assert_true(duo_counter(&duo, 0, "retransmitted_packets") <
		    (LENGTH - landed) / FLOOR + (LENGTH - landed) / FLOOR / 4 + 8);
	duo_close(&duo);
}

/* Bare sends. A one-shot send goes on in smaller packets, with a hole where it was caught. */
static void one_shot_goes_on(void **state)
{
	struct duo_attr attr = shrinking_path();
	struct gw_recv_status status = { 0 };
	struct gw_send *send;
	struct gw_recv *recv;
	struct gw_run hole;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	carry(&duo, 1000);
	duo_run(&duo, S);
	recv = duo_recv(&duo, ONE_SHOT);
	assert_int_equal(gw_send_post(duo.qp[0],
				      &(struct gw_send_attr){ .addr = duo.memory[0],
							      .length = ONE_SHOT,
							      .mr = duo.mr[0] },
				      &send),
			 0);
	world_touch(&duo.world, 0);
	duo_run(&duo, 60 * MS);
	sim_path_payload(duo.world.sim, 600);
	duo_until(&duo, LIMIT, gw_send_test(send));
	assert_int_equal(gw_send_test(send), 1);
	duo_run(&duo, S);
	assert_int_equal(gw_recv_status(recv, &status), 0);
	assert_true(status.landed < status.packets);
	assert_int_equal(status.payload, FLOOR);
	/* The tail is there, in the new numbering, and all that landed is right. */
	assert_int_equal(status.highest, status.packets);
	for (uint32_t at = 0; at < status.packets;) {
		uint32_t below = status.packets;

		if (gw_recv_next_hole(recv, at, status.packets, &hole) == 1)
			below = hole.first;
		else
			hole = (struct gw_run){ status.packets, 0 };
		if (below > at) {
			uint64_t end = (uint64_t)below * FLOOR;

			assert_memory_equal(duo.memory[1] + (uint64_t)at * FLOOR,
					    duo.memory[0] + (uint64_t)at * FLOOR,
					    (end < ONE_SHOT ? end : ONE_SHOT) -
						    (uint64_t)at * FLOOR);
		}
		at = hole.first + hole.count;
	}
	gw_send_close(send);
	gw_recv_complete(recv);
	world_touch(&duo.world, 1);
	duo_run(&duo, S);
	duo_close(&duo);
}

/* A stream whose scheme does not know of cuts ends with the queue pair, and both ends are told. */
static void stream_without_recut_ends(void **state)
{
	struct duo_attr attr = shrinking_path();
	struct gw_send *stream;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	carry(&duo, 1000);
	duo_run(&duo, S);
	sim_path_payload(duo.world.sim, 600);
	duo_recv(&duo, LENGTH);
	stream = duo_stream(&duo, LENGTH);
	for (int i = 0; i < 40 && !duo.gone[0]; i++) {
		gw_stream_put(stream, 0, duo.memory[0], 20 * DUO_PAYLOAD, duo.mr[0]);
		world_touch(&duo.world, 0);
		duo_run(&duo, 100 * MS);
	}
	duo_until(&duo, LIMIT, duo.gone[0] && duo.gone[1]);
	assert_int_equal(duo.gone_status[0], -EMSGSIZE);
	assert_int_equal(duo.gone_status[1], -ECONNRESET);
	duo_close(&duo);
}

/* A path that carries control and nothing else. */
static void floor_does_not_arrive(void **state)
{
	struct duo_attr attr = path(300);
	struct duo_transfer transfer;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	duo_start(&duo, LENGTH, &transfer);
	duo_until(&duo, 10 * LIMIT, transfer.sent && transfer.received);
	assert_int_equal(transfer.sent_status, -EMSGSIZE);
	assert_int_equal(transfer.received_status, -ECONNRESET);
	duo_close(&duo);
}

/* Sizes divide what they are asked to divide. */
static void sizes_divide(void **state)
{
	struct duo_attr attr = path(2000);
	struct duo duo;

	(void)state;
	attr.rungs[0] = 1500;
	attr.rungs[1] = 700;
	attr.qp.payload_divides = 1 << 16;
	duo_open(&duo, &attr);
	carry(&duo, LENGTH);
	assert_int_equal(duo_estimate(&duo, 0).payload_send, 512);
	duo_run(&duo, 10 * S);
	carry(&duo, LENGTH);
	assert_int_equal(duo_estimate(&duo, 0).payload_send, 1024);
	duo_close(&duo);
}

/* Sizes are multiples of what they are asked to be. */
static void sizes_are_multiples(void **state)
{
	struct duo_attr attr = path(2000);
	struct duo duo;

	(void)state;
	attr.rungs[0] = 1436;
	attr.rungs[1] = 700;
	attr.qp.payload_shift = 7;
	duo_open(&duo, &attr);
	carry(&duo, LENGTH);
	assert_int_equal(duo_estimate(&duo, 0).payload_send, 640);
	duo_run(&duo, 10 * S);
	carry(&duo, LENGTH);
	assert_int_equal(duo_estimate(&duo, 0).payload_send, 1408);
	duo_close(&duo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows_to_what_the_path_carries),
		cmocka_unit_test(sizes_coexist),
		cmocka_unit_test(loss_is_no_black_hole),
		cmocka_unit_test(survives_a_path_that_shrinks),
		cmocka_unit_test(coded_before_the_cut),
		cmocka_unit_test(parity_is_as_large_as_data),
		cmocka_unit_test(landed_stays_landed),
		cmocka_unit_test(one_shot_goes_on),
		cmocka_unit_test(stream_without_recut_ends),
		cmocka_unit_test(floor_does_not_arrive),
		cmocka_unit_test(sizes_divide),
		cmocka_unit_test(sizes_are_multiples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What a message is: where it lands, in which order, how often a slot is used again, and in which geometries. */
#include "pair.h"

#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "message/state.h"

#define CANARY	     0xa5
#define CANARY_BYTES 256

/* Puts canaries around [offset, offset + length) and clears what is between. */
static void guard(struct pair *pair, int end, uint64_t offset, uint64_t length)
{
	memset(pair->memory[end] + offset - CANARY_BYTES, CANARY, length + 2 * CANARY_BYTES);
	memset(pair->memory[end] + offset, 0, length);
}

static void assert_guarded(const struct pair *pair, int end, uint64_t offset, uint64_t length)
{
	for (unsigned i = 0; i < CANARY_BYTES; i++) {
		assert_int_equal(pair->memory[end][offset - CANARY_BYTES + i], CANARY);
		assert_int_equal(pair->memory[end][offset + length + i], CANARY);
	}
}

/* One message of `length` bytes, whole, into a receive of `room`. */
static void carry(struct pair *pair, uint64_t length, uint64_t room)
{
	struct seen_send sent = { 0 };
	struct seen_recv received = { 0 };
	struct gw_recv *recv;
	struct gw_send *send;

	fill_pattern(pair->memory[0], length, length);
	guard(pair, 1, CANARY_BYTES, room);
	recv = pair_recv(pair, 1, CANARY_BYTES, room, &received);
	send = pair_send(pair, 0, 0, length, &sent);
	pair_until(pair, pair_status(recv).flags & GW_RECV_FULL);
	assert_int_equal(pair_status(recv).length, length);
	assert_int_equal(pair_status(recv).landed, pair_status(recv).packets);
	assert_memory_equal(pair->memory[1] + CANARY_BYTES, pair->memory[0], length);
	assert_guarded(pair, 1, CANARY_BYTES, room);
	assert_int_equal(gw_recv_test(recv), 0);
	assert_int_equal(gw_recv_complete(recv), 0);
	pair_until(pair, received.released && sent.done);
	assert_int_equal(sent.done, 1);
	assert_int_equal(sent.status, 0);
	assert_int_equal(received.announced, 1);
	assert_int_equal(received.released, 1);
	assert_int_equal(received.status, 0);
	assert_int_equal(gw_recv_test(recv), 1);
	assert_int_equal(gw_send_test(send), 1);
	assert_int_equal(gw_recv_close(recv), 0);
	assert_int_equal(gw_send_close(send), 0);
}

static void one_shot_sends(void **state)
{
	static const struct pair_attr attr = { .qp = { .payload = 1024, .slots = 4 } };
	static const uint64_t lengths[] = { 1,	  3,	4,    5,	 1023,	 1024,
					    1025, 2048, 2049, 16 * 1024, 102407, 262144 };
	struct pair pair;

	(void)state;
	pair_open(&pair, &attr);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		carry(&pair, lengths[i], lengths[i]);
		carry(&pair, lengths[i], lengths[i] + 5000);
	}
	pair_close(&pair);
}

static void zero_length(void **state)
{
	static const struct pair_attr attr = { .qp = { .slots = 2 } };
	struct pair pair;

	(void)state;
	pair_open(&pair, &attr);
	for (int i = 0; i < 5; i++) {
		carry(&pair, 0, 0);
		carry(&pair, 0, 100);
	}
	pair_close(&pair);
}

/* Small payloads, none of a power of two; every split; chunks of one and of sixty-four. */
static void geometries(void **state)
{
	static const struct gw_qp_attr shapes[] = {
		{ .payload = 4, .chunk_packets = 1 },
		{ .payload = 100, .chunk_packets = 64 },
		{ .payload = 1004, .chunk_packets = 2, .slots = 1 },
		{ .payload = 4096, .chunk_packets = 1, .slots = 1024 },
		{ .payload = 512, .slot_bits = 0, .packet_bits = 31, .user_bits = 1 },
		{ .payload = 512, .slot_bits = 1, .packet_bits = 31, .user_bits = 0 },
		{ .payload = 512, .slot_bits = 16, .packet_bits = 8, .user_bits = 8, .slots = 2 },
		{ .payload = 512, .slot_bits = 4, .packet_bits = 12, .user_bits = 16, .slots = 16 },
		{ 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct pair_attr attr = { .qp = shapes[i] };
		struct pair pair;
		uint32_t payload;

		pair_open(&pair, &attr);
		payload = pair_estimate(&pair, 0).payload_most;
		if (shapes[i].payload)
			assert_int_equal(payload, shapes[i].payload);
		carry(&pair, 1, 1);
		carry(&pair, payload * 3, payload * 3);
		carry(&pair, payload * 65 + 1, payload * 65 + 1);
		carry(&pair, payload * 200 - 1, payload * 220);
		pair_close(&pair);
	}
}

/* The smaller payload of the two ends holds. */
static void payload_is_agreed(void **state)
{
	static const struct pair_attr attr = { 0 };
	struct gw_qp_attr small = { .payload = 256 }, large = { .payload = 2048 };
	struct pair pair;

	(void)state;
	pair_open_contexts(&pair, &attr);
	assert_int_equal(gw_qp_create(pair.ctx[0], &small, &pair.qp[0]), 0);
	assert_int_equal(gw_qp_create(pair.ctx[1], &large, &pair.qp[1]), 0);
	pair_connect(&pair);
	for (int end = 0; end < 2; end++) {
		struct gw_estimate estimate = pair_estimate(&pair, end);

		assert_int_equal(estimate.payload_most, 256);
		assert_int_equal(estimate.payload_floor, 256);
	}
	carry(&pair, 10000, 10000);
	pair_close(&pair);
}

/* Any range, in any order, some of them again. */
static void streams_in_any_order(void **state)
{
	static const struct pair_attr attr = { .qp = { .payload = 1000, .chunk_packets = 4 } };
	const uint64_t length = 199 * 1000 + 77;
	const uint32_t packets = 200;
	struct seen_send sent = { 0 };
	struct gw_recv *recv;
	struct gw_send *send;
	uint32_t order[200];
	struct pair pair;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 7);
	pair_open(&pair, &attr);
	fill_pattern(pair.memory[0], length, 7);
	for (uint32_t i = 0; i < packets; i++) {
		uint32_t other = (uint32_t)rng_below(&rng, i + 1);

		order[i] = order[other];
		order[other] = i;
	}
	guard(&pair, 1, CANARY_BYTES, length);
	recv = pair_recv(&pair, 1, CANARY_BYTES, length, NULL);
	send = pair_stream(&pair, 0, length, &sent);
	pair_until(&pair, sent.granted);
	assert_int_equal(sent.capacity, length);
	for (uint32_t i = 0; i < packets; i++) {
		assert_false(pair_status(recv).flags & GW_RECV_FULL);
		pair_put(&pair, 0, send, 0, length, order[i], 1);
		if (rng_below(&rng, 3) == 0)
			pair_put(&pair, 0, send, 0, length, (uint32_t)rng_below(&rng, order[i] + 1),
				 1 + (uint32_t)rng_below(&rng, 3));
	}
	assert_int_equal(gw_stream_end(send), 0);
	pair_until(&pair, pair_status(recv).flags & GW_RECV_FULL && sent.done);
	assert_memory_equal(pair.memory[1] + CANARY_BYTES, pair.memory[0], length);
	assert_guarded(&pair, 1, CANARY_BYTES, length);
	assert_int_equal(sent.status, 0);
	assert_true(sent.drained > 0);
	assert_true(counter(pair.ctx[0], "retransmitted_packets") > 0);
	pair_close(&pair);
}

/* The i-th send lands in the i-th receive, also with more receives than slots and whoever is first. */
static void ith_into_ith(struct pair *pair, bool sends_first)
{
	enum { MESSAGES = 20, ROOM = 9000 };
	struct gw_recv *recvs[MESSAGES];
	struct gw_send *sends[MESSAGES];

	fill_pattern(pair->memory[0], MESSAGES * ROOM, 3);
	memset(pair->memory[1], 0, MESSAGES * ROOM);
	for (int round = 0; round < 2; round++) {
		if (round == (sends_first ? 0 : 1))
			for (unsigned i = 0; i < MESSAGES; i++)
				sends[i] = pair_send(pair, 0, i * ROOM, 4000 + 200 * i, NULL);
		else
			for (unsigned i = 0; i < MESSAGES; i++)
				recvs[i] = pair_recv(pair, 1, i * ROOM, ROOM, NULL);
		pair_idle(pair, 5);
	}
	for (unsigned i = 0; i < MESSAGES; i++) {
		pair_until(pair, pair_status(recvs[i]).flags & GW_RECV_FULL);
		assert_int_equal(pair_status(recvs[i]).length, 4000 + 200 * i);
		assert_memory_equal(pair->memory[1] + i * ROOM, pair->memory[0] + i * ROOM,
				    4000 + 200 * i);
		assert_int_equal(pair->memory[1][i * ROOM + 4000 + 200 * i], 0);
		assert_int_equal(gw_recv_complete(recvs[i]), 0);
	}
	for (unsigned i = 0; i < MESSAGES; i++) {
		pair_until(pair, gw_recv_test(recvs[i]) == 1 && gw_send_test(sends[i]) == 1);
		assert_int_equal(gw_recv_close(recvs[i]), 0);
		assert_int_equal(gw_send_close(sends[i]), 0);
	}
}

static void order_of_messages(void **state)
{
	static const struct pair_attr attr = { .qp = { .payload = 1024, .slots = 4 } };
	struct pair pair;

	(void)state;
	pair_open(&pair, &attr);
	ith_into_ith(&pair, false);
	ith_into_ith(&pair, true);
	pair_close(&pair);
}

/* Small messages both ways at once, each naming itself. Message numbers pass 2^32, slots are used again and again. */
static void slots_are_reused(void **state)
{
	enum { MESSAGES = 5000, AHEAD = 12, ROOM = 512 };
	static const struct pair_attr attr = { .qp = { .payload = 256, .slots = 8 },
					       .first_msn = 0xfffffff0u };
	struct gw_recv *recvs[2][AHEAD];
	struct gw_send *sends[2][AHEAD];
	struct pair pair;

	(void)state;
	pair_open(&pair, &attr);
	for (uint32_t i = 0; i < MESSAGES + AHEAD; i++) {
		for (int end = 0; end < 2; end++) {
			uint32_t place = i % AHEAD;
			uint8_t *in = pair.memory[end] + place * ROOM;
			uint8_t *out = in + AHEAD * ROOM;

			if (i >= AHEAD) {
				uint32_t said[2];

				pair_until(&pair,
					   pair_status(recvs[end][place]).flags & GW_RECV_FULL);
				memcpy(said, in, sizeof(said));
				assert_int_equal(said[0], i - AHEAD);
				memcpy(said, in + 300, sizeof(said));
				assert_int_equal(said[1], i - AHEAD);
				assert_int_equal(gw_recv_complete(recvs[end][place]), 0);
				pair_until(&pair, gw_recv_test(recvs[end][place]) == 1 &&
							  gw_send_test(sends[end][place]) == 1);
				assert_int_equal(gw_recv_close(recvs[end][place]), 0);
				assert_int_equal(gw_send_close(sends[end][place]), 0);
			}
			if (i < MESSAGES) {
				memset(in, 0, ROOM);
				memcpy(out, &(uint32_t[]){ i, i }, 8);
				memcpy(out + 300, &(uint32_t[]){ i, i }, 8);
				recvs[end][place] = pair_recv(&pair, end, place * ROOM, ROOM, NULL);
				sends[end][place] =
					pair_send(&pair, end, (AHEAD + place) * ROOM, 400, NULL);
			}
		}
	}
	for (int end = 0; end < 2; end++) {
		const struct gw_qp *qp = pair.qp[end];

		assert_int_equal(counter(pair.ctx[end], "landed_packets"), 2 * MESSAGES);
		/* Nothing is believed to be unknown for ever, and repeated. */
		pair_until(&pair, qp->rx.grants_acked == qp->rx.granted &&
					  qp->tx.announce_acked == qp->tx.matched &&
					  qp->rx.results_acked == qp->rx.completed);
	}
	pair_close(&pair);
}

static void both_directions(void **state)
{
	static const struct pair_attr attr = { .qp = { .payload = 1024 } };
	const uint64_t length = 300007, half = PAIR_MEMORY / 2;
	struct gw_recv *recv[2];
	struct pair pair;

	(void)state;
	pair_open(&pair, &attr);
	for (int end = 0; end < 2; end++) {
		fill_pattern(pair.memory[end], length, 100 + (uint64_t)end);
		recv[end] = pair_recv(&pair, end, half, length, NULL);
		pair_send(&pair, end, 0, length, NULL);
	}
	for (int end = 0; end < 2; end++) {
		pair_until(&pair, pair_status(recv[end]).flags & GW_RECV_FULL);
		assert_memory_equal(pair.memory[end] + half, pair.memory[!end], length);
	}
	pair_close(&pair);
}

/* What the announcement carries besides the length. */
static void announcement_arrives(void **state)
{
	static const struct pair_attr attr = { 0 };
	struct gw_send_attr send_attr = { .length = 5000,
					  .scheme = 200,
					  .geometry = { 7, 0xfffffff0u } };
	struct gw_send *send;
	struct gw_recv *recv;
	struct pair pair;

	(void)state;
	pair_open(&pair, &attr);
	recv = pair_recv(&pair, 1, 0, 8000, NULL);
	assert_int_equal(pair_status(recv).flags, 0);
	assert_int_equal(gw_stream_start(pair.qp[0], &send_attr, &send), 0);
	pair_until(&pair, pair_status(recv).flags & GW_RECV_ANNOUNCED);
	assert_int_equal(pair_status(recv).scheme, 200);
	assert_int_equal(pair_status(recv).geometry[0], 7);
	assert_int_equal(pair_status(recv).geometry[1], 0xfffffff0u);
	assert_int_equal(pair_status(recv).length, 5000);
	assert_int_equal(pair_status(recv).landed, 0);
	assert_int_equal(pair_status(recv).highest, 0);
	pair_close(&pair);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_shot_sends),	cmocka_unit_test(zero_length),
		cmocka_unit_test(geometries),		cmocka_unit_test(payload_is_agreed),
		cmocka_unit_test(streams_in_any_order), cmocka_unit_test(order_of_messages),
		cmocka_unit_test(slots_are_reused),	cmocka_unit_test(both_directions),
		cmocka_unit_test(announcement_arrives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

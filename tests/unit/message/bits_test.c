/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a receiver knows of a message that did not arrive whole: the chunk bitmap, the packets of a chunk, the holes and
 * the immediate, held against a plain list of the packets that were put. Packets are missing because the test did not
 * put them, announcements because it lost them.
 */
#include "pair.h"

#include <errno.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/rng.h"
#include "message/state.h"

#define PAYLOAD	    256u
#define PACKETS_MAX 400u

static bool not_announcements(void *arg, const struct control_message *message)
{
	return message->header.type != CONTROL_ANNOUNCE;
}

/* The first run of holes in [from, below), found the slow way. */
static bool slow_hole(const bool *landed, uint32_t from, uint32_t below, struct gw_run *out)
{
	while (from < below && landed[from])
		from++;
	out->first = from;
	out->count = 0;
	while (from < below && !landed[from]) {
		from++;
		out->count++;
	}
	return out->count;
}

static void assert_bits(const struct gw_recv *recv, const bool *landed, uint32_t capacity,
			uint32_t packets, uint32_t chunk_packets)
{
	uint32_t chunks, number = 0, highest = 0;
	const uint64_t *words;
	struct gw_run run, want;
	uint64_t bits;

	assert_int_equal(gw_recv_bitmap(recv, &words, &chunks), 0);
	assert_int_equal(chunks, (capacity + chunk_packets - 1) / chunk_packets);
	for (uint32_t chunk = 0; chunk < chunks; chunk++) {
		uint32_t first = chunk * chunk_packets, last = first + chunk_packets;
		uint64_t expected = 0;
		bool full = true;

		for (uint32_t i = first; i < last; i++) {
			bool is = i < capacity && landed[i];

			expected |= (uint64_t)is << (i - first);
			if (i < packets || packets == 0)
				full = full && is;
		}
		if (packets && first >= packets)
			full = false;
		assert_int_equal(gw_recv_expand(recv, chunk, &bits), 0);
		assert_int_equal(bits, expected);
		if ((words[chunk / 64] >> chunk % 64 & 1) != full)
			fail_msg("chunk %u is %s", chunk, full ? "full and not set" : "set");
	}
	assert_int_equal(gw_recv_expand(recv, chunks, &bits), -ERANGE);
	for (uint32_t from = 0; from <= capacity + 1; from += 1 + from / 7)
		for (uint32_t below = from; below <= capacity + 70; below += 1 + below / 5) {
			uint32_t cut = below < capacity ? below : capacity;
			bool is = from < cut && slow_hole(landed, from, cut, &want);

			assert_int_equal(gw_recv_next_hole(recv, from, below, &run), is);
			if (is) {
				assert_int_equal(run.first, want.first);
				assert_int_equal(run.count, want.count);
			}
		}
	for (uint32_t i = 0; i < capacity; i++) {
		number += landed[i];
		highest = landed[i] ? i + 1 : highest;
	}
	assert_int_equal(pair_status(recv).landed, number);
	assert_int_equal(pair_status(recv).highest, highest);
}

/* A message of `packets`, the last one short, into room for `capacity`; some packets never put. */
static void try_gaps(uint32_t chunk_packets, uint32_t packets, uint32_t capacity, double missing,
		     bool late_announcement, uint64_t seed)
{
	struct pair_attr attr = { .qp = { .payload = PAYLOAD, .chunk_packets = chunk_packets } };
	uint64_t length = (uint64_t)packets * PAYLOAD - 100;
	bool landed[PACKETS_MAX + 64] = { false };
	struct seen_send sent = { 0 };
	uint32_t put = 0;
	struct gw_recv *recv;
	struct gw_send *send;
	struct pair pair;
	struct rng rng;

	rng_seed(&rng, seed);
	pair_open(&pair, &attr);
	fill_pattern(pair.memory[0], length, seed);
	if (late_announcement)
		pair_filter_control(&pair, 0, not_announcements, NULL);
	recv = pair_recv(&pair, 1, 0, (uint64_t)capacity * PAYLOAD, NULL);
	send = pair_stream(&pair, 0, length, &sent);
	pair_until(&pair, sent.granted);
	for (uint32_t i = 0; i < packets; i++) {
		if (rng_chance(&rng, missing))
			continue;
		pair_put(&pair, 0, send, 0, length, i, 1);
		landed[i] = true;
		put++;
	}
	pair_until(&pair, pair_status(recv).landed == put);
	if (late_announcement) {
		assert_false(pair_status(recv).flags & GW_RECV_ANNOUNCED);
		assert_bits(recv, landed, capacity, 0, chunk_packets);
		pair_filter_control(&pair, 0, NULL, NULL);
	}
	pair_until(&pair, pair_status(recv).flags & GW_RECV_ANNOUNCED);
	assert_int_equal(pair_status(recv).packets, packets);
	assert_bits(recv, landed, capacity, packets, chunk_packets);
	assert_int_equal(!!(pair_status(recv).flags & GW_RECV_FULL), put == packets);
	for (uint32_t i = 0; i < packets; i++)
		if (landed[i])
			assert_memory_equal(pair.memory[1] + i * PAYLOAD,
					    pair.memory[0] + i * PAYLOAD,
					    i + 1 < packets ? PAYLOAD : PAYLOAD - 100);
		else
			assert_int_equal(pair.memory[1][i * PAYLOAD], 0);
	/* The bits stay readable until the handle is closed. */
	assert_int_equal(gw_recv_complete(recv), 0);
	pair_until(&pair, sent.results && gw_recv_test(recv) == 1);
	assert_int_equal(sent.missing, packets - put);
	assert_bits(recv, landed, capacity, packets, chunk_packets);
	pair_close(&pair);
}

static void gaps(void **state)
{
	static const uint32_t sizes[][2] = { { 1, 1 },	   { 63, 63 },	 { 64, 64 },
					     { 65, 65 },   { 100, 150 }, { 200, 201 },
					     { 127, 128 }, { 33, 400 },	 { 400, 400 } };

	(void)state;
	for (uint32_t chunk = 1; chunk <= 64; chunk *= 4)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			try_gaps(chunk, sizes[i][0], sizes[i][1], 0, false, i);
			try_gaps(chunk, sizes[i][0], sizes[i][1], 0.1, false, i);
			try_gaps(chunk, sizes[i][0], sizes[i][1], 0.9, false, i);
		}
}

static void announcement_after_the_data(void **state)
{
	static const uint32_t sizes[][2] = { { 1, 1 }, { 65, 65 }, { 100, 150 }, { 33, 400 } };

	(void)state;
	for (uint32_t chunk = 1; chunk <= 64; chunk *= 4)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			try_gaps(chunk, sizes[i][0], sizes[i][1], 0, true, i);
			try_gaps(chunk, sizes[i][0], sizes[i][1], 0.2, true, i);
		}
}

/* In pieces of 4 bits, so that eight packets hold it before the announcement does. */
static void try_immediate(uint32_t packets, uint32_t flags, uint32_t imm)
{
	static const struct pair_attr attr = { .qp = { .payload = PAYLOAD } };
	struct gw_send_attr send_attr = { .length = (uint64_t)packets * PAYLOAD,
					  .flags = flags,
					  .imm = imm };
	struct gw_recv *recv;
	struct gw_send *send;
	struct pair pair;
	uint32_t said = 5;

	pair_open(&pair, &attr);
	pair_filter_control(&pair, 0, not_announcements, NULL);
	recv = pair_recv(&pair, 1, 0, PACKETS_MAX * PAYLOAD, NULL);
	assert_int_equal(gw_recv_imm(recv, &said), -EAGAIN);
	send_attr.addr = pair.memory[0];
	send_attr.mr = pair.mr[0];
	assert_int_equal(gw_send_post(pair.qp[0], &send_attr, &send), 0);
	pair_until(&pair, pair_status(recv).landed == packets);
	if (packets >= 8 && flags && imm) {
		assert_int_equal(gw_recv_imm(recv, &said), 0);
		assert_int_equal(said, imm);
	} else {
		assert_int_equal(gw_recv_imm(recv, &said), -EAGAIN);
		assert_int_equal(said, 5);
	}
	pair_filter_control(&pair, 0, NULL, NULL);
	pair_until(&pair, pair_status(recv).flags & GW_RECV_ANNOUNCED);
	if (flags) {
		assert_int_equal(gw_recv_imm(recv, &said), 0);
		assert_int_equal(said, imm);
	} else {
		assert_int_equal(gw_recv_imm(recv, &said), -ENODATA);
	}
	pair_close(&pair);
}

static void immediates(void **state)
{
	static const uint32_t numbers[] = { 1, 7, 8, 100 };

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		try_immediate(numbers[i], GW_SEND_IMM, 0xdeadbeefu);
		try_immediate(numbers[i], GW_SEND_IMM, 0x00000001u);
		try_immediate(numbers[i], GW_SEND_IMM, 0);
		try_immediate(numbers[i], 0, 0xdeadbeefu);
	}
}

/* Completes, and goes on with what a poll may have found behind the announcement: all data. It lands as on a fabric that closes
 * windows later. */
static void complete_at_once(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct gw_qp *qp = recv->qp;
	uint32_t slot = recv->msn & qp->rx.mask;
	struct fabric_event event = { .type = FABRIC_DATA,
				      .slot = slot,
				      .generation = qp->rx.slots[slot].generation,
				      .data = { .length = PAYLOAD } };
	uint8_t fenced, released;

	assert_int_equal(gw_recv_complete(recv), 0);
	fenced = qp->rx.slots[slot].state;
	released = recv->stage;
	qp->rx.slots[slot].state = SLOT_COMPLETED;
	recv->stage = RECV_COMPLETED;
	for (event.data.packet = 0; event.data.packet < 10; event.data.packet++)
		recv_land(qp, &event);
	qp->rx.slots[slot].state = fenced;
	recv->stage = released;
}

/* Data that was polled together with what made the user complete: it counts no more. */
static void completed_bits_are_frozen(void **state)
{
	static const struct gw_recv_handler handler = { .announced = complete_at_once };
	static const struct pair_attr attr = { .qp = { .payload = PAYLOAD } };
	struct gw_recv_attr recv_attr = { .length = 10 * PAYLOAD, .handler = &handler };
	struct seen_send sent = { 0 };
	struct gw_recv *recv;
	struct gw_run run;
	struct pair pair;

	(void)state;
	pair_open(&pair, &attr);
	recv_attr.addr = pair.memory[1];
	recv_attr.mr = pair.mr[1];
	assert_int_equal(gw_recv_post(pair.qp[1], &recv_attr, &recv), 0);
	/* The grant is there already, so that announcement and data leave in one turn. */
	pair_until(&pair, pair.qp[0]->tx.grants_seen != pair.qp[0]->tx.matched);
	pair_send(&pair, 0, 0, 10 * PAYLOAD, &sent);
	for (uint64_t limit = pair_deadline(&pair); !sent.done;) {
		pair_late(&pair, limit, "everything sent", __FILE__, __LINE__);
		gw_progress(pair.ctx[0]);
	}
	pair_until(&pair, gw_recv_test(recv) == 1);
	assert_int_equal(pair_status(recv).landed, 0);
	assert_int_equal(pair_status(recv).highest, 0);
	assert_int_equal(gw_recv_next_hole(recv, 0, 10, &run), 1);
	assert_int_equal(run.count, 10);
	assert_int_equal(counter(pair.ctx[1], "late_packets"), 10);
	assert_int_equal(counter(pair.ctx[1], "landed_packets"), 0);
	pair_close(&pair);
}

/* An event of an older use of the slot, as a fabric that tells them late would make it. */
static void older_generations_set_no_bit(void **state)
{
	static const struct pair_attr attr = { .qp = { .payload = PAYLOAD } };
	struct fabric_event event = { .type = FABRIC_DATA, .data = { .length = PAYLOAD } };
	struct gw_recv *recv;
	struct tally before;
	struct slot *slot;
	struct pair pair;

	(void)state;
	pair_open(&pair, &attr);
	recv = pair_recv(&pair, 1, 0, 10 * PAYLOAD, NULL);
	event.slot = recv->msn & pair.qp[1]->rx.mask;
	slot = &pair.qp[1]->rx.slots[event.slot];
	pair_until(&pair, slot->state == SLOT_OPEN);
	before = tally(pair.ctx[1]);
	event.generation = slot->generation - 1u;
	recv_land(pair.qp[1], &event);
	tally_assert(pair.ctx[1], &before, "drop_generation", 1);
	assert_int_equal(pair_status(recv).landed, 0);
	event.generation = slot->generation;
	recv_land(pair.qp[1], &event);
	assert_int_equal(pair_status(recv).landed, 1);
	pair.ctx[1]->counters[COUNT_DROP_GENERATION] = 0;
	pair_close(&pair);
}

/* Lands packets of a message of so many bytes, announced or not, in runs of this length or singly, and returns what is known then. */
static void land_in_runs(uint32_t run, bool announced, uint64_t length, const uint32_t *order,
			 uint32_t count_, struct gw_recv *out, struct feedback *feedback,
			 bool landed[64])
{
	static const struct pair_attr attr = { .qp = { .payload = PAYLOAD, .chunk_packets = 4 } };
	struct control_announce_entry entry = { .length = length };
	struct fabric_event event = { .type = FABRIC_DATA, .data = { .user_bits = 5 } };
	struct gw_recv *recv;
	struct pair pair;

	pair_open(&pair, &attr);
	recv = pair_recv(&pair, 1, 0, 64 * PAYLOAD, NULL);
	event.slot = recv->msn & pair.qp[1]->rx.mask;
	pair_until(&pair, pair.qp[1]->rx.slots[event.slot].state == SLOT_OPEN);
	event.generation = pair.qp[1]->rx.slots[event.slot].generation;
	if (announced)
		recv_announce(recv, &entry);
	for (uint32_t i = 0; i < count_; i += event.data.more + 1) {
		event.data.packet = order[i];
		event.data.more = 0;
		event.data.length = PAYLOAD;
		while (event.data.more + 1 < run && i + event.data.more + 1 < count_ &&
		       order[i + event.data.more + 1] == order[i] + event.data.more + 1)
			event.data.more++;
		recv_land(pair.qp[1], &event);
	}
	for (uint32_t i = 0; i < 64; i++)
		landed[i] = bitmap_test(recv->bits, i);
	*out = *recv;
	*feedback = pair.qp[1]->feedback;
	for (int i = 0; i <= COUNT_DROP_CLAIM; i++)
		pair.ctx[1]->counters[i] = 0;
	pair_close(&pair);
}

/* A run does what its packets do one by one, whether it is next or not, new or not, and even if some of it is wrong. */
static void runs_are_their_packets(void **state)
{
	static const uint32_t order[] = { 0, 1,	 2,  3,	 4,  5,	 9,  10, 11, 12, 6,  7,	 8,
					  9, 13, 14, 15, 16, 17, 18, 30, 31, 32, 33, 34, 35 };
	static const uint64_t lengths[] = { 64 * PAYLOAD, 36 * PAYLOAD, 36 * PAYLOAD - 8,
					    20 * PAYLOAD, 16 * PAYLOAD + 1 };
	uint32_t count_ = sizeof(order) / sizeof(order[0]);

	(void)state;
	for (size_t i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct feedback f[2];
		struct gw_recv recv[2];
		bool landed[2][64];

		land_in_runs(1, i % 2, lengths[i / 2], order, count_, &recv[0], &f[0], landed[0]);
		land_in_runs(64, i % 2, lengths[i / 2], order, count_, &recv[1], &f[1], landed[1]);
		assert_memory_equal(landed[0], landed[1], sizeof(landed[0]));
		assert_int_equal(recv[0].landed, recv[1].landed);
		assert_int_equal(recv[0].highest, recv[1].highest);
		assert_int_equal(recv[0].fragments, recv[1].fragments);
		assert_int_equal(recv[0].fragment_value, recv[1].fragment_value);
		assert_int_equal(f[0].landed, f[1].landed);
		assert_int_equal(f[0].duplicate, f[1].duplicate);
		assert_int_equal(f[0].unreported, f[1].unreported);
		assert_int_equal(f[0].budget, f[1].budget);
		assert_int_equal(f[0].echo_packet, f[1].echo_packet);
		assert_int_equal(f[0].holes.runs, f[1].holes.runs);
		assert_int_equal(f[0].holes.packets, f[1].holes.packets);
	}
}

/* Packets of wrong lengths that landed on trust: the announcement takes their bits, and their chunks', back. */
static void announcement_contradicts_the_data(void **state)
{
	static const struct {
		uint32_t lengths[3]; /* of packets 0 to 2; 0: did not land */
		uint64_t announced;
		bool right[3];
	} cases[] = {
		{ { PAYLOAD }, PAYLOAD - 4, { false } },
		{ { 8 }, 8, { true } },
		{ { 8 }, 12, { false } },
		{ { 8 }, 3 * PAYLOAD, { false } },
		{ { PAYLOAD, PAYLOAD, PAYLOAD }, PAYLOAD, { true } },
		{ { PAYLOAD, PAYLOAD, PAYLOAD }, 2 * PAYLOAD + 10, { true, true, false } },
		{ { PAYLOAD, 8, PAYLOAD }, 2 * PAYLOAD + 10, { true, false, false } },
		{ { PAYLOAD, PAYLOAD, 10 }, 2 * PAYLOAD + 10, { true, true, true } },
		{ { PAYLOAD, PAYLOAD, PAYLOAD }, 0, { false } },
	};
	static const struct pair_attr attr = { .qp = { .payload = PAYLOAD, .chunk_packets = 1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct control_announce_entry entry = { .length = cases[i].announced };
		uint32_t packets = (uint32_t)((entry.length + PAYLOAD - 1) / PAYLOAD);
		bool landed[10] = { false };
		struct fabric_event event = { .type = FABRIC_DATA };
		struct gw_recv *recv;
		struct pair pair;

		pair_open(&pair, &attr);
		recv = pair_recv(&pair, 1, 0, 10 * PAYLOAD, NULL);
		event.slot = recv->msn & pair.qp[1]->rx.mask;
		pair_until(&pair, pair.qp[1]->rx.slots[event.slot].state == SLOT_OPEN);
		event.generation = pair.qp[1]->rx.slots[event.slot].generation;
		for (uint32_t packet = 0; packet < 3; packet++) {
			event.data.packet = packet;
			event.data.length = cases[i].lengths[packet];
			if (event.data.length)
				recv_land(pair.qp[1], &event);
			landed[packet] = cases[i].right[packet];
		}
		recv_announce(recv, &entry);
		if (packets)
			assert_bits(recv, landed, 10, packets, 1);
		assert_int_equal(!!(pair_status(recv).flags & GW_RECV_FULL),
				 !packets || pair_status(recv).landed == packets);
		pair.ctx[1]->counters[COUNT_DROP_SHAPE] = 0;
		pair_close(&pair);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(gaps),
		cmocka_unit_test(announcement_after_the_data),
		cmocka_unit_test(immediates),
		cmocka_unit_test(completed_bits_are_frozen),
		cmocka_unit_test(older_generations_set_no_bit),
		cmocka_unit_test(runs_are_their_packets),
		cmocka_unit_test(announcement_contradicts_the_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

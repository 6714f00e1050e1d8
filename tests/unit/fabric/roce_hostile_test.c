/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that are wrong in exactly one way. Each is thrown away and counted under its own reason; no byte of the
 * buffer it aims at, or around it, changes; the receive's state does not; and a good message still arrives afterwards.
 */
#include "forge.h"

#include <errno.h>
#include <string.h>

#define PAYLOAD	 1024u
#define SLOTS	 4u
#define CAPACITY (9 * PAYLOAD + 100)
#define CANARY	 512u

/* End 1 is the victim: an open receive, and the keys of one that used the same slot before. */
struct scene {
	const char *address;
	struct pair pair;
	struct forger forger;
	struct gw_recv *recv;
	uint32_t stale_rkey;
	uint8_t before[CAPACITY + 2 * CANARY];
	struct gw_recv_status status;
	struct tally tally;
};

static void carry(struct scene *scene, uint64_t seed)
{
	struct pair *pair = &scene->pair;
	struct gw_send *send;

	fill_pattern(pair->memory[0], CAPACITY, seed);
	send = pair_send(pair, 0, 0, CAPACITY, NULL);
	pair_until(pair, pair_status(scene->recv).flags & GW_RECV_FULL);
	assert_memory_equal(pair->memory[1] + CANARY, pair->memory[0], CAPACITY);
	for (unsigned i = 0; i < CANARY; i++) {
		assert_int_equal(pair->memory[1][i], 0xa5);
		assert_int_equal(pair->memory[1][CANARY + CAPACITY + i], 0xa5);
	}
	scene->stale_rkey = scene->recv->rkey;
	assert_int_equal(gw_recv_complete(scene->recv), 0);
	pair_until(pair, gw_recv_test(scene->recv) == 1 && gw_send_test(send) == 1);
	assert_int_equal(gw_recv_close(scene->recv), 0);
	assert_int_equal(gw_send_close(send), 0);
}

static void post(struct scene *scene)
{
	scene->recv = pair_recv(&scene->pair, 1, CANARY, CAPACITY, NULL);
	/* Quiet afterwards: the peer knows, and knows that the victim knows. */
	pair_until(&scene->pair,
		   scene->pair.qp[1]->rx.grants_acked == scene->pair.qp[1]->rx.granted &&
			   scene->pair.qp[1]->rx.granted == scene->pair.qp[1]->rx.posted);
	pair_until(&scene->pair,
		   scene->pair.qp[0]->tx.results_seen == scene->pair.qp[1]->rx.completed);
	pair_idle(&scene->pair, 1);
}

static void scene_open(struct scene *scene, const char *address)
{
	struct pair_attr attr = {
		.address = address,
		.qp = { .payload = PAYLOAD, .slots = SLOTS, .peer_timeout_ns = 60000000000 },
	};
	uint32_t rkey = 0;

	memset(scene, 0, sizeof(*scene));
	scene->address = address;
	pair_open(&scene->pair, &attr);
	memset(scene->pair.memory[1], 0xa5, CAPACITY + 2 * CANARY);
	for (unsigned i = 0; i < SLOTS; i++) {
		post(scene);
		carry(scene, i);
		if (i == 0)
			rkey = scene->stale_rkey;
	}
	post(scene);
	scene->stale_rkey = rkey; /* of the receive that had this slot before */
	forger_open(&scene->forger, address, scene->pair.qp[1]);
}

static void scene_close(struct scene *scene)
{
	struct pair *pair = &scene->pair;

	carry(scene, 99);
	forger_close(&scene->forger);
	for (int end = 0; end < 2; end++) {
		memset(pair->ctx[end]->counters, 0, sizeof(pair->ctx[end]->counters));
		memset(pair->ctx[end]->fabric->counters, 0,
		       sizeof(pair->ctx[end]->fabric->counters));
	}
	pair_close(pair);
}

static void look(struct scene *scene)
{
	memcpy(scene->before, scene->pair.memory[1], sizeof(scene->before));
	scene->status = pair_status(scene->recv);
	scene->tally = tally(scene->forger.victim);
}

static void assert_unmoved(struct scene *scene, const char *reason, uint64_t number)
{
	struct gw_recv_status status = pair_status(scene->recv);

	tally_assert(scene->forger.victim, &scene->tally, reason, number);
	assert_memory_equal(scene->pair.memory[1], scene->before, sizeof(scene->before));
	assert_memory_equal(&status, &scene->status, sizeof(status));
}

/* Only the victim moves. */
static void throw_bytes(struct scene *scene, const void *bytes, size_t length, const char *reason)
{
	look(scene);
	forge_send(&scene->forger, bytes, length);
	tally_await(scene->forger.victim, &scene->tally, reason);
	assert_unmoved(scene, reason, 1);
}

static void throw_packet(struct scene *scene, const struct roce_packet *packet, const char *reason)
{
	uint8_t bytes[FORGE_MAX];
	size_t length = forge(&scene->forger, packet, bytes);

	throw_bytes(scene, bytes, length, reason);
}

static const uint8_t evil[2 * CAPACITY]; /* zeros, where the buffer holds a pattern */

static struct roce_packet good_data(struct scene *scene, uint32_t number)
{
	struct roce_packet packet;

	forge_data(&scene->forger, scene->recv, number, evil, &packet);
	return packet;
}

static struct roce_packet resized(struct roce_packet packet, uint32_t length)
{
	packet.payload_length = length;
	packet.pad = -length & 3;
	packet.reth.length = length;
	return packet;
}

static uint32_t imm_of(struct scene *scene, uint32_t slot, uint32_t number)
{
	return fabric_imm(&scene->pair.qp[1]->split, slot, number, 0);
}

static void every_truncation(struct scene *scene)
{
	struct roce_packet packet = good_data(scene, 2);
	uint8_t bytes[FORGE_MAX] = { 0 };
	size_t length = forge(&scene->forger, &packet, bytes);

	for (size_t cut = 0; cut < length; cut++)
		throw_bytes(scene, bytes, cut, "drop_malformed");
	/* And one byte or word too many. */
	throw_bytes(scene, bytes, length + 1, "drop_malformed");
	throw_bytes(scene, bytes, length + 4, "drop_malformed");
	/* Longer than any packet there is. */
	throw_bytes(scene, bytes, FORGE_MAX, "drop_malformed");
}

/* One flipped bit anywhere, except in the byte that the network may change. */
static void every_bit(struct scene *scene)
{
	struct roce_packet packet = resized(good_data(scene, 2), 64), decoded;
	uint8_t bytes[FORGE_MAX];
	size_t length = forge(&scene->forger, &packet, bytes);

	for (size_t bit = 0; bit < 8 * length; bit++) {
		const char *reason = "drop_icrc";
		int error;

		if (bit / 8 == 4)
			continue;
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		error = roce_decode(bytes, length, &decoded);
		if (error)
			reason = error == -EPROTO ? "drop_version" : "drop_malformed";
		else if (decoded.dest_qpn != packet.dest_qpn)
			reason = "drop_qpn";
		throw_bytes(scene, bytes, length, reason);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

static void headers(struct scene *scene)
{
	static const uint8_t unknown[] = { ROCE_OP_RC_ACKNOWLEDGE,
					   ROCE_OP_UC_SEND_ONLY,
					   ROCE_OP_UC_SEND_ONLY_WITH_IMM,
					   ROCE_OP_UC_WRITE_ONLY,
					   ROCE_OP_UD_SEND_ONLY_WITH_IMM,
					   ROCE_OP_CNP,
					   0x00,
					   0x0a,
					   0x7f,
					   0xff };
	struct roce_packet packet;

	packet = good_data(scene, 2);
	for (uint8_t version = 1; version < 16; version++) {
		packet.version = version;
		throw_packet(scene, &packet, "drop_version");
	}
	for (size_t i = 0; i < sizeof(unknown); i++) {
		packet = good_data(scene, 2);
		packet.opcode = unknown[i];
		throw_packet(scene, &packet, "drop_opcode");
	}
	for (uint8_t opcode = ROCE_OP_UC_SEND_FIRST; opcode < ROCE_OP_UC_WRITE_ONLY; opcode++) {
		if (opcode == ROCE_OP_UC_SEND_ONLY || opcode == ROCE_OP_UC_SEND_ONLY_WITH_IMM)
			continue;
		packet = good_data(scene, 2);
		packet.opcode = opcode;
		throw_packet(scene, &packet, "drop_multipacket");
	}
	for (unsigned bit = 0; bit < 24; bit++) {
		packet = good_data(scene, 2);
		packet.dest_qpn ^= 1u << bit;
		throw_packet(scene, &packet, "drop_qpn");
	}
	packet = good_data(scene, 2);
	packet.reth.length = 1000;
	throw_packet(scene, &packet, "drop_malformed");
}

static void placement(struct scene *scene)
{
	uint32_t slot = scene->recv->msn & (SLOTS - 1);
	struct roce_packet packet;

	packet = good_data(scene, 2);
	packet.imm = imm_of(scene, SLOTS, 2);
	throw_packet(scene, &packet, "drop_slot");
	packet.imm = imm_of(scene, 1023, 2);
	throw_packet(scene, &packet, "drop_slot");
	packet.imm = imm_of(scene, slot ^ 1, 2); /* nothing is posted there */
	throw_packet(scene, &packet, "drop_slot");
	for (unsigned bit = 0; bit < 32; bit++) {
		packet = good_data(scene, 2);
		packet.reth.rkey ^= 1u << bit;
		throw_packet(scene, &packet, "drop_rkey");
	}
	packet = good_data(scene, 2);
	packet.reth.rkey = scene->stale_rkey;
	throw_packet(scene, &packet, "drop_rkey");

	packet = resized(good_data(scene, 2), PAYLOAD + 4);
	throw_packet(scene, &packet, "drop_length");
	packet = resized(good_data(scene, 2), 4096);
	throw_packet(scene, &packet, "drop_length");
	packet = resized(good_data(scene, 2), 0);
	throw_packet(scene, &packet, "drop_length");

	packet = good_data(scene, 2);
	packet.imm = imm_of(scene, slot, 3);
	throw_packet(scene, &packet, "drop_offset");
	packet = good_data(scene, 2);
	packet.reth.va += 4;
	throw_packet(scene, &packet, "drop_offset");
	packet.reth.va = UINT64_C(0) - PAYLOAD;
	throw_packet(scene, &packet, "drop_offset");
	/* Past the buffer: wholly, and by one byte. */
	packet = good_data(scene, 2);
	packet.imm = imm_of(scene, slot, 10);
	packet.reth.va = 10 * PAYLOAD;
	throw_packet(scene, &packet, "drop_offset");
	packet.imm = imm_of(scene, slot, 0x3ffff);
	packet.reth.va = UINT64_C(0x3ffff) * PAYLOAD;
	throw_packet(scene, &packet, "drop_offset");
	packet = resized(good_data(scene, 9), 101);
	throw_packet(scene, &packet, "drop_offset");
}

static void strangers(struct scene *scene)
{
	struct forger honest = scene->forger;
	struct roce_packet packet = good_data(scene, 2);

	if (strcmp(scene->address, "127.0.0.1"))
		return; /* there is one ::1 */
	forger_open(&scene->forger, "127.0.0.2", scene->pair.qp[1]);
	throw_packet(scene, &packet, "drop_stranger");
	forger_close(&scene->forger);
	scene->forger = honest;
}

/* The same packet with nothing wrong lands: what was thrown before was refused for its fault alone. */
static void good_packet_lands(struct scene *scene)
{
	struct roce_packet packet = good_data(scene, 9);
	uint8_t bytes[FORGE_MAX];
	size_t length = forge(&scene->forger, &packet, bytes);

	bytes[4] ^= 0xff; /* not covered: the network marks congestion there */
	look(scene);
	forge_send(&scene->forger, bytes, length);
	tally_await(scene->forger.victim, &scene->tally, "landed_packets");
	assert_int_equal(pair_status(scene->recv).landed, scene->status.landed + 1);
	assert_memory_equal(scene->pair.memory[1] + CANARY + 9 * PAYLOAD, evil + 9 * PAYLOAD, 100);
	assert_memory_equal(scene->pair.memory[1], scene->before, CANARY + 9 * PAYLOAD);
	assert_memory_equal(scene->pair.memory[1] + CANARY + CAPACITY,
			    scene->before + CANARY + CAPACITY, CANARY);
}

/* Of the same slot, but its receive was completed and released, and nothing was posted since. */
static void released_receive(struct scene *scene)
{
	struct roce_packet packet = good_data(scene, 2);
	uint8_t bytes[FORGE_MAX], before[CAPACITY + 2 * CANARY];
	size_t length = forge(&scene->forger, &packet, bytes);
	struct tally counted;

	carry(scene, 50);
	memcpy(before, scene->pair.memory[1], sizeof(before));
	counted = tally(scene->forger.victim);
	forge_send(&scene->forger, bytes, length);
	tally_await(scene->forger.victim, &counted, "drop_slot");
	tally_assert(scene->forger.victim, &counted, "drop_slot", 1);
	assert_memory_equal(scene->pair.memory[1], before, sizeof(before));
	post(scene);
}

/* Packets of an open receive that is cut: the key that they were sent with holds no longer. */
static void recut_receive(struct scene *scene)
{
	struct gw_qp *qp = scene->pair.qp[1], *peer = scene->pair.qp[0];
	uint32_t slot = scene->recv->msn & qp->rx.mask, old = scene->recv->rkey;
	struct roce_packet packet = good_data(scene, 2);
	struct grant *grant = container_of(list_first(&peer->tx.grants), struct grant, link);

	assert_int_equal(qp->ctx->fabric->ops->recut(qp->fabric_qp, slot,
						     qp->rx.slots[slot].generation, PAYLOAD,
						     &scene->recv->rkey),
			 0);
	assert_int_not_equal(scene->recv->rkey, old);
	throw_packet(scene, &packet, "drop_rkey");
	grant->target.rkey = scene->recv->rkey;
}

static void attack(const char *address)
{
	static struct scene scene;

	scene_open(&scene, address);
	every_truncation(&scene);
	every_bit(&scene);
	headers(&scene);
	placement(&scene);
	strangers(&scene);
	released_receive(&scene);
	recut_receive(&scene);
	good_packet_lands(&scene);
	scene_close(&scene);
}

static void over_ipv4(void **state)
{
	(void)state;
	attack("127.0.0.1");
}

static void over_ipv6(void **state)
{
	(void)state;
	attack("::1");
}

/* A queue pair that is not connected yet takes nothing. */
static void before_connect(void **state)
{
	static const struct pair_attr attr = { 0 };
	struct roce_packet packet;
	uint8_t bytes[FORGE_MAX];
	struct forger forger;
	struct tally counted;
	struct pair pair;
	size_t length;

	(void)state;
	pair_open_contexts(&pair, &attr);
	assert_int_equal(gw_qp_create(pair.ctx[1], NULL, &pair.qp[1]), 0);
	forger_open(&forger, "127.0.0.1", pair.qp[1]);
	forge_control(&forger, "hello", 5, &packet);
	length = forge(&forger, &packet, bytes);
	counted = tally(pair.ctx[1]);
	forge_send(&forger, bytes, length);
	tally_await(pair.ctx[1], &counted, "drop_qpn");
	tally_assert(pair.ctx[1], &counted, "drop_qpn", 1);
	forger_close(&forger);
	pair_close(&pair);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(over_ipv4),
		cmocka_unit_test(over_ipv6),
		cmocka_unit_test(before_connect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

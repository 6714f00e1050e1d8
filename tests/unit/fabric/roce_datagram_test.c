/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data by datagram: a user-space end whose peer is a NIC in UD mode. A plain socket plays the NIC. What the end sends
 * is taken apart byte by byte; what it is sent is right, or wrong in exactly one way, and then nothing moves but the
 * counter of that way.
 */
#include "../message/pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fabric/address.h"
#include "fabric/open.h"
#include "fabric/roce/endpoint.h"
#include "base/bytes.h"

#define PAYLOAD	   1020u
#define SLOT	   3u
#define GENERATION 9u
#define WINDOW	   (4 * PAYLOAD + 100)
#define KEY_SIZE   ADDRESS_UD_KEY_SIZE
#define PACKET_MAX 2048

struct scene {
	struct fabric *fabric;
	struct fabric_qp *qp;
	int nic;
	struct icrc_flow from_nic, to_nic;
	union socket_address end; /* ours, under test */
	uint32_t rkey;
	uint8_t memory[WINDOW + PAYLOAD];
};

static const struct roce_address nic = {
	.kind = ADDRESS_NIC,
	.family = 4,
	.port = ADDRESS_PORT,
	.ip = { 127, 0, 0, 9 },
	.control_qpn = 0x345678,
	.qkey = 0x12345678,
	.mode = ADDRESS_UD,
	.lanes = 2,
	.path_mtu = 1024,
	.qpn = { 0x111111, 0x222222 },
};

static struct fabric_event events[FABRIC_EVENTS];

/* Polls until there is an event, a few times: a poll may take one datagram, and those by which a process checks its share of the
 * port make none. Returns the number of events. */
static int poll_some(const struct scene *scene)
{
	int n = 0;

	for (int i = 0; i < 4 && !n; i++)
		n = scene->fabric->ops->poll(scene->fabric, events);
	return n;
}

/* False where the port is somebody else's: a NIC's, or the kernel's soft-RoCE. */
static bool scene_open(struct scene *scene)
{
	struct fabric_qp_attr attr = { .user = scene, .split = { 10, 18, 4 }, .slots = 16 };
	union socket_address at = { .v4 = { .sin_family = AF_INET,
					    .sin_port = htons(ADDRESS_PORT) } };
	uint8_t bytes[FABRIC_ADDRESS_MAX];
	int error = fabric_open("roce:127.0.0.76", NULL, &scene->fabric);

	if (error == -EADDRINUSE)
		return false;
	assert_int_equal(error, 0);
	scene->nic = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	memcpy(&at.v4.sin_addr, nic.ip, 4);
	assert_int_equal(bind(scene->nic, &at.any, sizeof(at.v4)), 0);
	scene->end = endpoint_of(scene->fabric)->local;
	assert_int_equal(icrc_flow_init(&at.any, &scene->end.any, &scene->from_nic), 0);
	assert_int_equal(icrc_flow_init(&scene->end.any, &at.any, &scene->to_nic), 0);
	assert_int_equal(scene->fabric->ops->qp_create(scene->fabric, &attr, &scene->qp), 0);
	assert_int_equal(scene->fabric->ops->qp_connect(scene->qp, bytes,
							address_encode(&nic, bytes), PAYLOAD),
			 0);
	assert_int_equal(scene->fabric->ops->expose(scene->qp, SLOT, GENERATION, NULL,
						    scene->memory, WINDOW, PAYLOAD),
			 0);
	assert_int_equal(poll_some(scene), 1);
	assert_int_equal(events[0].type, FABRIC_EXPOSED);
	scene->rkey = events[0].exposed.rkey;
	memset(scene->memory, 0xa5, sizeof(scene->memory));
	return true;
}

static void scene_close(struct scene *scene)
{
	close(scene->nic);
	scene->fabric->ops->qp_destroy(scene->qp);
	scene->fabric->ops->close(scene->fabric);
}

/* What the NIC would send as packet `number`: the key, then the data. */
struct datagram {
	uint8_t payload[PAYLOAD + KEY_SIZE + 64];
	struct roce_packet packet;
};

static void make(struct scene *scene, uint32_t number, uint32_t length, struct datagram *out)
{
	uint32_t imm = fabric_imm(&roce_qp(scene->qp)->split, SLOT, number, 5);

	put_be32(out->payload, scene->rkey);
	for (uint32_t i = 0; i < length; i++)
		out->payload[KEY_SIZE + i] = (uint8_t)(number + 7 * i);
	roce_ud_send_imm(&out->packet, roce_qp(scene->qp)->qpn, 1, roce_qp(scene->qp)->qkey,
			 nic.qpn[0], imm, out->payload, length + KEY_SIZE);
}

static void throw_at(struct scene *scene, const struct roce_packet *packet)
{
	uint8_t bytes[PACKET_MAX];
	size_t length = roce_encode(packet, bytes, sizeof(bytes));

	memcpy(bytes + length, packet->payload, packet->payload_length);
	length += packet->payload_length;
	memset(bytes + length, 0, packet->pad);
	length += packet->pad;
	icrc_final(icrc_begin(&scene->from_nic, length + ROCE_ICRC_SIZE, 77, true, bytes, length),
		   bytes + length);
	length += ROCE_ICRC_SIZE;
	assert_int_equal(
		sendto(scene->nic, bytes, length, 0, &scene->end.any, sizeof(scene->end.v4)),
		length);
}

static void takes(void **state)
{
	static struct scene scene;
	struct datagram datagram;

	(void)state;
	if (!scene_open(&scene))
		skip();
	for (uint32_t length = PAYLOAD - 3; length <= PAYLOAD; length++) {
		make(&scene, 2, length, &datagram);
		throw_at(&scene, &datagram.packet);
		assert_int_equal(poll_some(&scene), 1);
		assert_int_equal(events[0].type, FABRIC_DATA);
		assert_ptr_equal(events[0].user, &scene);
		assert_int_equal(events[0].slot, SLOT);
		assert_int_equal(events[0].generation, GENERATION);
		assert_int_equal(events[0].lane, 0);
		assert_int_equal(events[0].data.packet, 2);
		assert_int_equal(events[0].data.length, length);
		assert_int_equal(events[0].data.user_bits, 5);
		assert_memory_equal(scene.memory + (size_t)2 * PAYLOAD, datagram.payload + KEY_SIZE,
				    length);
		assert_int_equal(scene.memory[2 * PAYLOAD - 1], 0xa5);
		assert_int_equal(scene.memory[2 * PAYLOAD + length], 0xa5);
	}
	/* Its second lane is known by its number. */
	make(&scene, 0, PAYLOAD, &datagram);
	datagram.packet.deth.src_qpn = nic.qpn[1];
	throw_at(&scene, &datagram.packet);
	assert_int_equal(poll_some(&scene), 1);
	assert_int_equal(events[0].lane, 1);
	/* The last packet that the window holds, and no more of it. */
	make(&scene, 4, 100, &datagram);
	throw_at(&scene, &datagram.packet);
	assert_int_equal(poll_some(&scene), 1);
	scene_close(&scene);
}

static void assert_refused(struct scene *scene, const struct datagram *datagram,
			   enum fabric_counter reason)
{
	uint64_t before = scene->fabric->counters[reason];

	throw_at(scene, &datagram->packet);
	assert_int_equal(poll_some(scene), 0);
	if (scene->fabric->counters[reason] != before + 1)
		fail_msg("not counted as %s", fabric_counter_name(reason));
	for (size_t i = 0; i < sizeof(scene->memory); i++)
		assert_int_equal(scene->memory[i], 0xa5);
}

static uint32_t imm_of(const struct scene *scene, uint32_t slot, uint32_t number)
{
	return fabric_imm(&roce_qp(scene->qp)->split, slot, number, 0);
}

static void refuses(void **state)
{
	static struct scene scene;
	struct datagram datagram;

	(void)state;
	if (!scene_open(&scene))
		skip();
	make(&scene, 1, PAYLOAD, &datagram);
	datagram.packet.deth.qkey ^= 1;
	assert_refused(&scene, &datagram, FABRIC_DROP_QKEY);
	make(&scene, 1, PAYLOAD, &datagram);
	datagram.packet.deth.src_qpn = nic.control_qpn;
	assert_refused(&scene, &datagram, FABRIC_DROP_STRANGER);
	datagram.packet.deth.src_qpn = 0; /* as a lane that is not there would be */
	assert_refused(&scene, &datagram, FABRIC_DROP_STRANGER);
	make(&scene, 1, PAYLOAD, &datagram);
	datagram.payload[3] ^= 1;
	assert_refused(&scene, &datagram, FABRIC_DROP_RKEY);
	make(&scene, 1, 0, &datagram);
	assert_refused(&scene, &datagram, FABRIC_DROP_LENGTH);
	datagram.packet.payload_length = 0;
	assert_refused(&scene, &datagram, FABRIC_DROP_LENGTH);
	make(&scene, 1, PAYLOAD + 4, &datagram);
	assert_refused(&scene, &datagram, FABRIC_DROP_LENGTH);
	make(&scene, 4, 101, &datagram);
	assert_refused(&scene, &datagram, FABRIC_DROP_OFFSET);
	make(&scene, 5, 4, &datagram);
	assert_refused(&scene, &datagram, FABRIC_DROP_OFFSET);
	make(&scene, 1, PAYLOAD, &datagram);
	datagram.packet.imm = imm_of(&scene, SLOT + 1, 1);
	assert_refused(&scene, &datagram, FABRIC_DROP_SLOT);
	datagram.packet.imm = imm_of(&scene, 16, 1);
	assert_refused(&scene, &datagram, FABRIC_DROP_SLOT);
	/* After the fence the same packet is late, and stays out. */
	assert_int_equal(scene.fabric->ops->fence(scene.qp, SLOT), 1);
	make(&scene, 1, PAYLOAD, &datagram);
	assert_refused(&scene, &datagram, FABRIC_DROP_SLOT);
	/* A peer that writes by UC has no business with datagrams. */
	roce_qp(scene.qp)->peer_ud = false;
	assert_refused(&scene, &datagram, FABRIC_DROP_OPCODE);
	scene_close(&scene);
}

static void sends(void **state)
{
	static struct scene scene;
	const struct fabric_target target = { .slot = 11, .generation = 1, .rkey = 0xdecade01 };
	struct fabric_write writes[3] = { 0 };
	static uint8_t data[3 * PAYLOAD];

	(void)state;
	if (!scene_open(&scene))
		skip();
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 11);
	for (uint32_t i = 0; i < 3; i++)
		writes[i] = (struct fabric_write){ .data = data + (size_t)i * PAYLOAD,
						   .length = i < 2 ? PAYLOAD : 333,
						   .packet = 6 + i,
						   .user = 2 };
	assert_int_equal(scene.fabric->ops->write(scene.qp, 0, &target, writes, 3), 3);
	assert_int_equal(scene.fabric->counters[FABRIC_TX_DATA], 3);
	for (uint32_t i = 0; i < 3; i++) {
		uint8_t bytes[PACKET_MAX];
		ssize_t length = recv(scene.nic, bytes, sizeof(bytes), MSG_DONTWAIT);
		struct roce_packet packet;
		struct icrc_match match;

		assert_true(length > 0);
		assert_int_equal(roce_decode(bytes, (size_t)length, &packet), 0);
		/* One packet a datagram, identification 0: a NIC checks that. */
		assert_int_equal(
			icrc_verify(&scene.to_nic, bytes, (size_t)length, 0, 65535, &match),
			ICRC_EXACT);
		assert_int_equal(packet.kind, ROCE_UD_SEND_IMM);
		assert_int_equal(packet.dest_qpn, nic.qpn[0]);
		assert_int_equal(packet.deth.qkey, nic.qkey);
		assert_int_equal(packet.deth.src_qpn, roce_qp(scene.qp)->qpn);
		assert_int_equal(packet.imm, fabric_imm(&roce_qp(scene.qp)->split, 11, 6 + i, 2));
		assert_int_equal(packet.payload_length, writes[i].length + KEY_SIZE);
		assert_int_equal(get_be32(packet.payload), target.rkey);
		assert_memory_equal(packet.payload + KEY_SIZE, writes[i].data, writes[i].length);
	}
	scene_close(&scene);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes),
		cmocka_unit_test(refuses),
		cmocka_unit_test(sends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

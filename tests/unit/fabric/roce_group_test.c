/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast between user-space ends, over the loopback interface: every member hears every other, nobody hears itself,
 * wrong packets are counted and nothing more, and what leaves keeps to a rate.
 */
#include "../message/pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fabric/multicast.h"
#include "fabric/open.h"
#include "fabric/roce/endpoint.h"

#define MEMBERS 3
#define LENGTH	1000u
#define QKEY	0x1234567u
#define SOON_NS UINT64_C(2000000000)
#define WIRE	94u /* IPv4: what a packet has on the wire beyond its data */
#define BURST	65536u

struct scene {
	struct fabric *fabric[MEMBERS];
	struct fabric_group *group[MEMBERS];
	struct fabric_group_attr attr;
	unsigned members;
};

static struct fabric_event events[FABRIC_EVENTS];
static uint8_t data[64 * LENGTH];

/* A port that no other run of this test has. */
static uint16_t own_port(void)
{
	return (uint16_t)(20000 + getpid() % 10000);
}

static struct fabric_group_attr attr_of(const char *group)
{
	struct fabric_group_attr attr = { .family = strchr(group, ':') ? 6 : 4,
					  .port = own_port(),
					  .qkey = QKEY,
					  .split = { 10, 18, 4 } };

	assert_int_equal(inet_pton(attr.family == 4 ? AF_INET : AF_INET6, group, attr.ip), 1);
	return attr;
}

static void scene_open(struct scene *scene, const char *name, const char *group, unsigned members,
		       uint64_t rate_bps)
{
	struct fabric_options options = { .rate_bps = rate_bps };

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 256);
	scene->attr = attr_of(group);
	scene->members = members;
	for (unsigned i = 0; i < members; i++) {
		assert_int_equal(fabric_open(name, &options, &scene->fabric[i]), 0);
		scene->attr.user = &scene->group[i];
		if (scene->fabric[i]->ops->group->join(scene->fabric[i], &scene->attr,
						       &scene->group[i]))
			fail_msg("%s", scene->fabric[i]->error);
	}
}

static void scene_close(struct scene *scene)
{
	for (unsigned i = 0; i < scene->members; i++) {
		if (i % 2) /* else the endpoint's end is its end */
			scene->fabric[i]->ops->group->leave(scene->group[i]);
		scene->fabric[i]->ops->close(scene->fabric[i]);
	}
}

static uint64_t now_ns(const struct scene *scene)
{
	return scene->fabric[0]->ops->now_ns(scene->fabric[0]);
}

static int send_packets(struct scene *scene, unsigned from, uint32_t first, unsigned count)
{
	struct fabric_write writes[64];

	for (unsigned i = 0; i < count; i++)
		writes[i] = (struct fabric_write){ .data = data + (size_t)i * LENGTH,
						   .length = LENGTH - i % 4,
						   .packet = first + i,
						   .user = i % 16 };
	return scene->fabric[from]->ops->group->send(scene->group[from], 77, writes, count);
}

/* Until so many packets of the group have come, or it has waited long enough. */
static unsigned hear(struct scene *scene, unsigned at, unsigned wanted)
{
	uint64_t until = now_ns(scene) + SOON_NS;
	unsigned heard = 0;

	while (heard < wanted && now_ns(scene) < until) {
		int n;

		fabric_wait(scene->fabric[at], until);
		n = scene->fabric[at]->ops->poll(scene->fabric[at], events);
		for (int i = 0; i < n; i++, heard++) {
			assert_int_equal(events[i].type, FABRIC_GROUP);
			assert_ptr_equal(events[i].user, &scene->group[at]);
			assert_int_equal(events[i].slot, 77);
			assert_int_equal(events[i].group.packet, 300 + heard);
			assert_int_equal(events[i].group.user_bits, heard % 16);
			assert_int_equal(events[i].group.length, LENGTH - heard % 4);
			assert_memory_equal(events[i].group.bytes, data + (size_t)heard * LENGTH,
					    events[i].group.length);
		}
	}
	return heard;
}

static void assert_silent(struct scene *scene, unsigned at)
{
	for (int i = 0; i < 20; i++)
		assert_int_equal(scene->fabric[at]->ops->poll(scene->fabric[at], events), 0);
}

/* The loopback interface has no way to IPv6 groups. Any other that is up will do: what goes to ff11:: stays on the host. */
static bool find_ipv6(char *name, size_t size)
{
	struct ifaddrs *all, *item;
	char text[INET6_ADDRSTRLEN];
	bool found = false;

	assert_int_equal(getifaddrs(&all), 0);
	for (item = all; item && !found; item = item->ifa_next) {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)item->ifa_addr;

		found = v6 && v6->sin6_family == AF_INET6 &&
			!IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) && item->ifa_flags & IFF_RUNNING &&
			item->ifa_flags & IFF_MULTICAST;
		if (found)
			snprintf(name, size, "roce:%s@0",
				 inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text)));
	}
	freeifaddrs(all);
	return found;
}

static void everybody_hears(void **state)
{
	char ipv6[64];
	const char *where[2][2] = { { "roce:127.0.0.1@0", "239.77.1.2" }, { ipv6, "ff11::4757" } };
	int ways = find_ipv6(ipv6, sizeof(ipv6)) ? 2 : 1;
	struct scene scene;

	(void)state;
	for (int i = 0; i < ways; i++) {
		scene_open(&scene, where[i][0], where[i][1], MEMBERS, 0);
		for (unsigned from = 0; from < MEMBERS; from++) {
			assert_int_equal(send_packets(&scene, from, 300, 40), 40);
			for (unsigned at = 0; at < MEMBERS; at++)
				if (at != from)
					assert_int_equal(hear(&scene, at, 40), 40);
			assert_silent(&scene, from);
		}
		for (unsigned at = 0; at < MEMBERS; at++)
			assert_int_equal(scene.fabric[at]->counters[FABRIC_RX_DATA],
					 (MEMBERS - 1) * 40);
		/* Whoever left hears nothing; the others go on. */
		scene.fabric[1]->ops->group->leave(scene.group[1]);
		assert_int_equal(send_packets(&scene, 0, 300, 5), 5);
		assert_int_equal(hear(&scene, 2, 5), 5);
		assert_silent(&scene, 1);
		assert_int_equal(scene.fabric[1]->ops->group->join(scene.fabric[1], &scene.attr,
								   &scene.group[1]),
				 0);
		scene_close(&scene);
	}
}

static void joins_what_can_be(void **state)
{
	struct fabric_group_attr good = attr_of("239.77.1.3"), bad = good;
	struct fabric_group *groups[ROCE_GROUPS_MAX + 1];
	struct fabric *fabric;

	(void)state;
	assert_int_equal(fabric_open("roce:127.0.0.1@0", NULL, &fabric), 0);
	bad.ip[0] = 127;
	assert_int_equal(fabric->ops->group->join(fabric, &bad, groups), -EINVAL);
	bad = good;
	bad.qkey = 0x80000000;
	assert_int_equal(fabric->ops->group->join(fabric, &bad, groups), -EINVAL);
	bad = good;
	bad.split.user_bits = 5;
	assert_int_equal(fabric->ops->group->join(fabric, &bad, groups), -EINVAL);
	bad = attr_of("ff11::1");
	assert_int_equal(fabric->ops->group->join(fabric, &bad, groups), -EAFNOSUPPORT);
	for (unsigned i = 0; i < ROCE_GROUPS_MAX; i++) {
		good.ip[3] = (uint8_t)i;
		assert_int_equal(fabric->ops->group->join(fabric, &good, &groups[i]), 0);
	}
	good.ip[3] = ROCE_GROUPS_MAX;
	assert_int_equal(fabric->ops->group->join(fabric, &good, &groups[0]), -ENOBUFS);
	fabric->ops->close(fabric);
}

/* A sender with no Godwit behind it, to the group; `spoil` is a byte from the end to change after the ICRC was made. */
static void throw_packet(const struct scene *scene, const struct roce_packet *packet,
			 unsigned spoil)
{
	union socket_address from = { .v4 = { .sin_family = AF_INET } }, to = from;
	socklen_t size = sizeof(from.v4);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct icrc_flow flow;
	uint8_t bytes[2048];
	size_t length = roce_encode(packet, bytes, sizeof(bytes));

	inet_pton(AF_INET, "127.0.0.1", &from.v4.sin_addr);
	memcpy(&to.v4.sin_addr, scene->attr.ip, 4);
	to.v4.sin_port = htons(scene->attr.port);
	assert_int_equal(bind(fd, &from.any, size), 0);
	assert_int_equal(getsockname(fd, &from.any, &size), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &from.v4.sin_addr,
				    sizeof(from.v4.sin_addr)),
			 0);
	assert_int_equal(icrc_flow_init(&from.any, &to.any, &flow), 0);
	memcpy(bytes + length, packet->payload, packet->payload_length);
	length += packet->payload_length;
	/* Numbered as a NIC might. */
	icrc_final(icrc_begin(&flow, length + ROCE_ICRC_SIZE, 4711, true, bytes, length),
		   bytes + length);
	length += ROCE_ICRC_SIZE;
	if (spoil)
		bytes[length - spoil] ^= 1;
	assert_int_equal(sendto(fd, bytes, length, 0, &to.any, size), length);
	close(fd);
}

static void assert_refused(struct scene *scene, const struct roce_packet *packet, unsigned spoil,
			   enum fabric_counter reason)
{
	uint64_t before = scene->fabric[0]->counters[reason];

	throw_packet(scene, packet, spoil);
	fabric_wait(scene->fabric[0], now_ns(scene) + SOON_NS);
	assert_silent(scene, 0);
	if (scene->fabric[0]->counters[reason] != before + 1)
		fail_msg("not counted as %s", fabric_counter_name(reason));
}

static void refuses(void **state)
{
	struct roce_packet good, packet;
	struct scene scene;
	int n;

	(void)state;
	scene_open(&scene, "roce:127.0.0.1@0", "239.77.1.4", 1, 0);
	roce_ud_send_imm(&good, MULTICAST_QPN, 1, QKEY, 0x4321, 0x12345678, data, 100);
	throw_packet(&scene, &good, 0);
	fabric_wait(scene.fabric[0], now_ns(&scene) + SOON_NS);
	n = scene.fabric[0]->ops->poll(scene.fabric[0], events);
	assert_int_equal(n, 1);
	assert_int_equal(events[0].group.source, 0x4321);
	assert_int_equal(events[0].slot, 0x12345678u >> 22);
	assert_refused(&scene, &good, 1, FABRIC_DROP_ICRC);
	assert_refused(&scene, &good, 50, FABRIC_DROP_ICRC);
	packet = good;
	packet.deth.qkey++;
	assert_refused(&scene, &packet, 0, FABRIC_DROP_QKEY);
	packet = good;
	packet.dest_qpn = 0x5555;
	assert_refused(&scene, &packet, 0, FABRIC_DROP_QPN);
	roce_ud_send(&packet, MULTICAST_QPN, 1, QKEY, 0x4321, data, 100);
	assert_refused(&scene, &packet, 0, FABRIC_DROP_OPCODE);
	packet = good;
	packet.pad = 1;
	packet.payload_length = 99;
	assert_refused(&scene, &packet, 0, FABRIC_DROP_MALFORMED);
	scene_close(&scene);
}

/* 100 Mbit/s: 12.5 bytes a microsecond. */
static void keeps_to_its_rate(void **state)
{
	const uint64_t rate_bps = 100000000, packet = LENGTH + WIRE;
	uint64_t begun, again, sent = 0, most;
	struct scene scene;
	int n;

	(void)state;
	scene_open(&scene, "roce:127.0.0.1@0", "239.77.1.5", 1, rate_bps);
	begun = now_ns(&scene);
	while ((n = send_packets(&scene, 0, 0, 64)) > 0)
		sent += (unsigned)n;
	/* A batch and no more: without a poll no time passes. */
	assert_in_range(sent * packet, BURST - 2 * packet, BURST + 4 * packet);
	again = scene.fabric[0]->ops->deadline_ns(scene.fabric[0]);
	assert_true(again > begun);
	assert_true(again - begun < SOON_NS);
	while (now_ns(&scene) < again)
		fabric_wait(scene.fabric[0], again);
	scene.fabric[0]->ops->poll(scene.fabric[0], events);
	/* Nobody waits any more. */
	assert_true(scene.fabric[0]->ops->deadline_ns(scene.fabric[0]) == UINT64_MAX);
	assert_true(send_packets(&scene, 0, 0, 1) == 1);
	for (sent++; now_ns(&scene) - begun < 50000000;) {
		scene.fabric[0]->ops->poll(scene.fabric[0], events);
		n = send_packets(&scene, 0, 0, 64);
		sent += (unsigned)n;
	}
	most = bucket_bytes_in(rate_bps, now_ns(&scene) - begun) + BURST;
	assert_true(sent * (packet - 3) <= most);
	assert_true(sent * packet > BURST + (32u << 10));
	scene_close(&scene);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(everybody_hears),
		cmocka_unit_test(joins_what_can_be),
		cmocka_unit_test(refuses),
		cmocka_unit_test(keeps_to_its_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

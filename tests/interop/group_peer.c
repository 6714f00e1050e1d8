/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of multicast: a member of a group on any fabric that has groups, by its name.
 *
 *	group_peer FABRIC DIRECTORY OWN PEER GROUP [packets=N] [payload=N]
 *
 * Two of these find each other by files in DIRECTORY, then both send N packets of odd lengths to the group. Both compute
 * every byte. Each sends its packets over and over until the other has said, by a file, that it has them all: the network
 * may lose some. Nothing above the fabric is involved, for nothing there knows multicast yet.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fabric/open.h"
#include "meet.h"

#define PACKETS_MAX 4096
#define BATCH	    16
#define QKEY	    0x0600d317u
#define DEADLINE_S  30
#define ROUND_NS                                                                                   \
	UINT64_C(300000000) /* for stragglers, and word of them, before all is sent again */
#define QUIET_NS UINT64_C(200000000)

struct peer {
	const char *label, *directory, *own, *other;
	struct fabric *fabric;
	struct fabric_group *group;
	struct fabric_mr *mr;
	uint8_t *memory; /* what is sent */
	uint32_t packets, payload;
	uint64_t sent, told, rounds;
	uint32_t got, wrong, strange;
	uint64_t bytes;
	bool seen[PACKETS_MAX];
};

/* From one byte to all there is room for; the first is the largest. */
static uint32_t length_of(const struct peer *peer, uint32_t packet)
{
	return peer->payload - packet * 37 % peer->payload;
}

static uint32_t slot_of(const char *sender)
{
	return sender[0] == 'a' ? 5 : 1023;
}

static uint8_t byte_of(const char *sender, uint32_t packet, uint32_t i)
{
	uint32_t x = (i ^ packet * 0x9e3779b1u ^ (uint32_t)sender[0] << 24) * 0x85ebca6bu;

	return (uint8_t)(x >> 13 ^ x >> 24);
}

static void arrived(struct peer *peer, const struct fabric_event *event)
{
	uint32_t packet = event->group.packet;
	bool right = event->slot == slot_of(peer->other) && packet < peer->packets &&
		     event->group.user_bits == packet % 16 &&
		     event->group.length == length_of(peer, packet);

	peer->strange += event->slot == slot_of(peer->own);
	for (uint32_t i = 0; right && i < event->group.length; i++)
		right = event->group.bytes[i] == byte_of(peer->other, packet, i);
	if (!right) {
		peer->wrong++;
		return;
	}
	if (peer->seen[packet])
		return;
	peer->seen[packet] = true;
	peer->bytes += event->group.length;
	if (++peer->got == peer->packets)
		meet_leave(peer->directory, peer->own, "done", "y", 1);
}

static void progress(struct peer *peer, uint64_t until_ns)
{
	const struct fabric_ops *ops = peer->fabric->ops;
	struct fabric_event events[FABRIC_EVENTS];
	uint64_t deadline_ns = ops->deadline_ns(peer->fabric);
	int n;

	fabric_wait(peer->fabric, deadline_ns < until_ns ? deadline_ns : until_ns);
	n = ops->poll(peer->fabric, events);
	for (int i = 0; i < n; i++) {
		if (events[i].type == FABRIC_GROUP)
			arrived(peer, &events[i]);
		else if (events[i].type == FABRIC_SENT)
			peer->told += events[i].count;
	}
}

static void send_all(struct peer *peer)
{
	const struct fabric_ops *ops = peer->fabric->ops;
	struct fabric_write writes[BATCH];
	uint32_t next = 0;

	while (next < peer->packets) {
		unsigned count = peer->packets - next < BATCH ? peer->packets - next : BATCH;

		for (unsigned i = 0; i < count; i++)
			writes[i] =
				(struct fabric_write){ .data = peer->memory +
							       (size_t)(next + i) * peer->payload,
						       .mr = peer->mr,
						       .length = length_of(peer, next + i),
						       .packet = next + i,
						       .user = (next + i) % 16 };
		count = (unsigned)ops->group->send(peer->group, slot_of(peer->own), writes, count);
		next += count;
		peer->sent += count;
		progress(peer, ops->now_ns(peer->fabric) + (count ? 0 : ROUND_NS / 10));
	}
	peer->rounds++;
}

static void idle(struct peer *peer, uint64_t time_ns)
{
	const struct fabric_ops *ops = peer->fabric->ops;
	uint64_t until_ns = ops->now_ns(peer->fabric) + time_ns;

	while (ops->now_ns(peer->fabric) < until_ns)
		progress(peer, until_ns);
}

static void exchange(struct peer *peer)
{
	time_t until = time(NULL) + DEADLINE_S;
	bool heard = false;
	char byte;

	while ((!heard || peer->got < peer->packets) && time(NULL) < until) {
		if (!heard)
			send_all(peer);
		for (int i = 0; i < 10 && !heard; i++) {
			idle(peer, ROUND_NS / 10);
			heard = meet_find(peer->directory, peer->other, "done", &byte, 1);
		}
		if (heard)
			idle(peer, ROUND_NS / 10);
	}
	idle(peer, QUIET_NS);
}

static void open_peer(struct peer *peer, const char *fabric, const char *group)
{
	struct fabric_group_attr attr = { .family = strchr(group, ':') ? 6 : 4,
					  .qkey = QKEY,
					  .split = { 10, 18, 4 } };
	const struct timespec nap = { .tv_nsec = 10000000 };
	time_t until = time(NULL) + DEADLINE_S;
	size_t size;
	char byte;

	if (fabric_open(fabric, NULL, &peer->fabric))
		report_fatal("%s: cannot open %s", peer->label, fabric);
	if (!peer->payload)
		peer->payload = peer->fabric->caps.max_group;
	size = (size_t)peer->packets * peer->payload;
	peer->memory = malloc(size);
	if (!peer->memory ||
	    peer->fabric->ops->mr_register(peer->fabric, peer->memory, size, &peer->mr))
		report_fatal("%s: no memory", peer->label);
	for (uint32_t packet = 0; packet < peer->packets; packet++)
		for (uint32_t i = 0; i < length_of(peer, packet); i++)
			peer->memory[(size_t)packet * peer->payload + i] =
				byte_of(peer->own, packet, i);
	if (inet_pton(attr.family == 4 ? AF_INET : AF_INET6, group, attr.ip) != 1)
		report_fatal("%s: %s is no address", peer->label, group);
	if (peer->fabric->ops->group->join(peer->fabric, &attr, &peer->group))
		report_fatal("%s: %s", peer->label, peer->fabric->error);
	meet_leave(peer->directory, peer->own, "ready", "y", 1);
	while (!meet_find(peer->directory, peer->other, "ready", &byte, 1) && time(NULL) < until)
		nanosleep(&nap, NULL);
}

static void judge(const struct peer *peer)
{
	const uint64_t *counters = peer->fabric->counters;
	bool told = peer->fabric->caps.copies || peer->told == peer->sent;

	printf("numbers %s bytes=%llu sent_packets=%llu retransmitted_packets=%llu drop_icrc=%llu drop_qkey=%llu\n",
	       peer->label, (unsigned long long)peer->bytes, (unsigned long long)peer->sent,
	       (unsigned long long)(peer->sent - peer->packets),
	       (unsigned long long)counters[FABRIC_DROP_ICRC],
	       (unsigned long long)counters[FABRIC_DROP_QKEY]);
	report(peer->rounds && told, "%s: %u packets sent %llu times, memory of %s told free",
	       peer->label, peer->packets, (unsigned long long)peer->rounds,
	       told ? "all" : "NOT all");
	report(peer->got == peer->packets && !peer->wrong,
	       "%s: %u of %u packets of the group received, %u wrong", peer->label, peer->got,
	       peer->packets, peer->wrong);
	report(!peer->strange && !counters[FABRIC_DROP_ICRC],
	       "%s: %u packets of its own heard, %llu with a wrong ICRC", peer->label,
	       peer->strange, (unsigned long long)counters[FABRIC_DROP_ICRC]);
}

int main(int argc, char **argv)
{
	struct peer peer = { 0 };
	char label[128];

	if (argc < 6)
		report_fatal("usage: group_peer fabric directory own peer group [name=value...]");
	peer.directory = argv[2];
	peer.own = argv[3];
	peer.other = argv[4];
	snprintf(label, sizeof(label), "%s/%s", basename(argv[2]), argv[3]);
	peer.label = label;
	peer.payload = meet_option(argc, argv, 6, "payload", 0);
	peer.packets = meet_option(argc, argv, 6, "packets", 400);
	if (!peer.packets || peer.packets > PACKETS_MAX)
		report_fatal("%s: 1 to %d packets", label, PACKETS_MAX);
	open_peer(&peer, argv[1], argv[5]);
	exchange(&peer);
	judge(&peer);
	peer.fabric->ops->group->leave(peer.group);
	peer.fabric->ops->mr_deregister(peer.fabric, peer.mr);
	peer.fabric->ops->close(peer.fabric);
	free(peer.memory);
	return report_status();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of the group, out and in. Each begins with
 *
 *	u32 token, low bits | u32 operation | u16 rank of the sender | u8 kind | u8 round, low bits | u32 index
 *
 * in the byte order of the network, so that a packet of another communicator or of an operation that is over is known for what it
 * is, however late it comes. The index is (group << 8 | symbol) of data, and the number of groups sent so far of a marker. The
 * immediate has the low bits of operation and index, for those who look at captures.
 *
 * Packets are copied to a stage before they leave. The caller's memory is then never read behind its back, and parity has to
 * be written somewhere anyway.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "collective/multicast.h"

/* Packets filled in before they are handed over. */
#define BATCH 16
/* Bytes of a packet on the wire besides ours, about. */
#define WIRE_BYTES 80
/* Time whose packets may leave at once. */
#define BURST_NS      UINT64_C(100000)
#define BURST_PACKETS 8
#define SLOT_MASK     0x3ffu
#define INDEX_MASK    0x3ffffu
#define NS	      UINT64_C(1000000000)

enum packet_kind {
	PACKET_DATA = 1,
	PACKET_MARKER,
	PACKET_PROBE,
};

struct header {
	uint32_t token;
	uint32_t number;
	uint16_t rank;
	uint8_t kind;
	uint8_t round;
	uint32_t index;
};

_Static_assert(sizeof(struct header) == PACKET_HEADER, "no padding");

static uint32_t stage_room(const struct multicast_group *group)
{
	return STAGE_PACKETS - group->staged - gw_group_unsent(group->group);
}

/* Adds a packet to the stage; returns where its data goes. */
static uint8_t *stage(struct multicast_group *group, uint32_t number, enum packet_kind kind,
		      uint32_t round, uint32_t index, uint32_t length)
{
	uint8_t *at = group->stage + group->stage_count++ % STAGE_PACKETS * group->packet;
	struct header header = { .token = htobe32((uint32_t)group->token),
				 .number = htobe32(number),
				 .rank = htobe16((uint16_t)group->comm->rank),
				 .kind = (uint8_t)kind,
				 .round = (uint8_t)round,
				 .index = htobe32(index) };

	memcpy(at, &header, sizeof(header));
	group->writes[group->staged++] = (struct gw_group_write){ .data = at,
								  .mr = group->stage_mr,
								  .length = PACKET_HEADER + length,
								  .packet = index & INDEX_MASK,
								  .user = kind };
	group->staged_slot = number & SLOT_MASK;
	return at + PACKET_HEADER;
}

static void stage_symbol(struct multicast *run, uint32_t group, uint32_t symbol)
{
	struct multicast_group *all = run->coll->comm->multicast;
	struct block *block = run_own(run);
	uint32_t length = block_symbol_bytes(block, group, symbol);
	uint8_t *at =
		stage(all, run->coll->number, PACKET_DATA, run->round, group << 8 | symbol, length);

	block_symbol(block, &all->coder, group, symbol, at);
	run->pass.bytes += length + PACKET_HEADER + WIRE_BYTES;
	if (symbol < BLOCK_GROUP)
		all->sent_data++;
	else
		all->sent_parity++;
}

/* Stages the next packet of a pass: repairs, new data, markers. False: there is none. */
static bool stage_next(struct multicast *run)
{
	struct multicast_group *group = run->coll->comm->multicast;
	struct block *block = run_own(run);

	while (run->repair_group < block->groups && !run->repair[run->repair_group])
		run->repair_group++;
	if (run->repair_group < block->groups) {
		uint32_t g = run->repair_group;

		run->repair[g]--;
		stage_symbol(run, g, block_repair(block, g));
		return true;
	}
	if (run->next_packet < run->end_packet) {
		uint32_t packet = run->next_packet++;

		stage_symbol(run, packet / BLOCK_GROUP, packet % BLOCK_GROUP);
		return true;
	}
	if (run->markers) {
		run->markers--;
		stage(group, run->coll->number, PACKET_MARKER, run->round, run->limit, 0);
		group->sent_other++;
		return true;
	}
	return false;
}

/* Hands over what is staged. False: not all was taken, and `room` follows. */
static bool flush(struct multicast_group *group, uint64_t now)
{
	int taken = gw_group_send(group->group, group->staged_slot, group->writes, group->staged);
	uint64_t bytes = 0;

	if (taken < 0) {
		comm_fail(group->comm, true, taken, "rank %u cannot multicast: %s",
			  group->comm->rank, strerror(-taken));
		return false;
	}
	for (int i = 0; i < taken; i++)
		bytes += group->writes[i].length + WIRE_BYTES;
	bucket_take(&group->bucket, bytes, now);
	group->staged -= (uint32_t)taken;
	memmove(group->writes, group->writes + taken, group->staged * sizeof(group->writes[0]));
	return !group->staged;
}

static struct multicast *first_sender(const struct multicast_group *group)
{
	struct list *node;

	list_for_each (node, &group->runs) {
		struct multicast *run = container_of(node, struct multicast, node);

		if (run->sending)
			return run;
	}
	return NULL;
}

void tx_begin(struct multicast *run, uint64_t rate_bps)
{
	struct multicast_group *group = run->coll->comm->multicast;
	uint64_t now = gw_now_ns(group->comm->office->ctx);
	uint64_t depth = bucket_bytes_in(rate_bps, BURST_NS);
	uint64_t least = (uint64_t)BURST_PACKETS * (group->packet + WIRE_BYTES);

	bucket_set(&group->bucket, rate_bps, depth > least ? depth : least, now);
	run->sending = true;
	run->repair_group = 0;
	run->pass_began_ns = now;
	tx_arm(group, now);
}

void tx_pump(struct multicast_group *group, uint64_t now)
{
	struct multicast *run;

	if (group->staged && !flush(group, now))
		return;
	while (!group->comm->status && (run = first_sender(group))) {
		uint64_t allowed = bucket_allow(&group->bucket, now);
		uint32_t packets = stage_room(group);
		bool more = true;

		if (allowed / (group->packet + WIRE_BYTES) < packets)
			packets = (uint32_t)(allowed / (group->packet + WIRE_BYTES));
		if (!packets)
			return;
		for (uint32_t i = 0; more && i < packets && i < BATCH; i++)
			more = stage_next(run);
		if (group->staged && !flush(group, now))
			return;
		if (!more) {
			run->sending = false;
			run_pass_sent(run, now);
		}
	}
}

void tx_probe(struct multicast_group *group)
{
	if (!stage_room(group))
		return;
	memset(stage(group, group->asking->coll->number, PACKET_PROBE, 0, 0, group->payload), 0,
	       group->payload);
	group->sent_other++;
	flush(group, gw_now_ns(group->comm->office->ctx));
}

static struct multicast *run_with(const struct multicast_group *group, uint32_t number)
{
	struct list *node;

	list_for_each (node, &group->runs) {
		struct multicast *run = container_of(node, struct multicast, node);

		if (run->coll->number == number)
			return run;
	}
	return NULL;
}

static void arrived(struct gw_group *member, void *arg, const struct gw_group_packet *packet,
		    uint64_t now)
{
	struct multicast_group *group = arg;
	const uint8_t *data = packet->data;
	struct multicast *run;
	struct header header;
	uint32_t rank;

	(void)member;
	if (group->comm->status)
		return;
	if (packet->length < sizeof(header)) {
		group->dropped++;
		return;
	}
	memcpy(&header, data, sizeof(header));
	rank = be16toh(header.rank);
	if (header.token != htobe32((uint32_t)group->token) || rank >= group->comm->size) {
		group->dropped++;
		return;
	}
	if (header.kind == PACKET_PROBE) {
		join_probe_heard(group, now);
		return;
	}
	run = run_with(group, be32toh(header.number));
	if (!run) {
		group->dropped++;
		return;
	}
	if (header.kind == PACKET_DATA)
		run_symbol(run, rank, header.round, be32toh(header.index), data + sizeof(header),
			   packet->length - (uint32_t)sizeof(header), now);
	else if (header.kind == PACKET_MARKER)
		run_marker(run, rank, header.round, be32toh(header.index), now);
	else
		group->dropped++;
	tx_arm(group, now);
	run_settle(run);
}

static void settle_all(struct multicast_group *group)
{
	struct list *node, *after;

	list_for_each_safe (node, after, &group->runs)
		run_settle(container_of(node, struct multicast, node));
}

static void due(struct gw_group *member, void *arg, uint64_t now)
{
	struct multicast_group *group = arg;
	struct list *node, *after;

	(void)member;
	if (group->comm->status)
		return;
	join_timer(group, now);
	list_for_each_safe (node, after, &group->runs)
		run_timer(container_of(node, struct multicast, node), now);
	tx_pump(group, now);
	tx_arm(group, now);
	settle_all(group);
}

const struct gw_group_handler multicast_handler = { .packet = arrived, .timer = due, .room = due };

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void tx_arm(struct multicast_group *group, uint64_t now)
{
	uint64_t at = UINT64_MAX;
	struct list *node;

	if (!group->group)
		return;
	if (!group->staged && first_sender(group) && stage_room(group))
		at = bucket_next_ns(&group->bucket, (uint64_t)group->packet + WIRE_BYTES, now);
	list_for_each (node, &group->runs)
		at = earlier(at, container_of(node, struct multicast, node)->report_ns);
	if (group->asking && group->probes)
		at = earlier(at, group->probe_next_ns);
	if (group->asking && group->probing && !group->heard)
		at = earlier(at, group->probe_until_ns);
	gw_group_timer(group->group, at);
}

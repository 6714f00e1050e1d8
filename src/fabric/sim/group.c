/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast in a simulated network. All members of all groups are in one list; each group address has a number. A switch
 * sends one copy onto each link that leads to a member. It considers those members whose route from the sender passes the
 * switch, and finds them by following these routes. So a packet crosses every link at most once, and when a link loses it,
 * all members behind this link miss it.
 *
 * Memory is read when the packet is posted. A NIC host, too, does so, and reports the packet as sent at its next poll.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/multicast.h"
#include "fabric/sim/network.h"

/* Headers of a multicast packet in bytes, with IPv4, UDP and ICRC. */
#define WIRE_GROUP 56

struct member {
	/* Place in sim->members, and in its host's list. */
	struct list link;
	struct list own;
	struct sim_endpoint *endpoint;
	struct fabric_group_attr attr;
	/* Number of the group. */
	uint32_t group;
	/* Number of the member, which its packets carry as their source. Never used twice. */
	uint32_t number;
	/* NIC: packets that were sent and not reported yet. */
	struct sends_done sent;
};

static struct member *member_of(const struct fabric_group *group)
{
	return (struct member *)(uintptr_t)group;
}

static struct member *to_member(struct list *item)
{
	return container_of(item, struct member, link);
}

static struct member *own_member(struct list *item)
{
	return container_of(item, struct member, own);
}

static bool same_group(const struct fabric_group_attr *a, const struct fabric_group_attr *b)
{
	return a->family == b->family && a->port == b->port &&
	       !memcmp(a->ip, b->ip, a->family == 4 ? 4 : 16);
}

static int sim_group_join(struct fabric *fabric, const struct fabric_group_attr *attr,
			  struct fabric_group **out)
{
	struct sim_endpoint *endpoint = endpoint_of(fabric);
	struct sim *sim = endpoint->sim;
	int error = multicast_check(attr, attr->family);
	struct member *member;
	uint32_t group = 0;
	struct list *item;

	if (error)
		return error;
	list_for_each (item, &sim->members) {
		const struct member *other = to_member(item);

		if (!same_group(&other->attr, attr))
			continue;
		if (other->endpoint == endpoint)
			return -EBUSY;
		group = other->group;
	}
	member = calloc(1, sizeof(*member));
	if (!member)
		return -ENOMEM;
	member->endpoint = endpoint;
	member->attr = *attr;
	sends_done_init(&member->sent, attr->user);
	member->group = group ? group : ++sim->groups;
	member->number = ++sim->member_numbers;
	list_add_tail(&sim->members, &member->link);
	list_add_tail(&endpoint->members, &member->own);
	*out = (struct fabric_group *)member;
	return 0;
}

static void sim_group_leave(struct fabric_group *group)
{
	struct member *member = member_of(group);

	list_del(&member->link);
	list_del(&member->own);
	list_del(&member->sent.link);
	free(member);
}

void members_forget(struct sim_endpoint *endpoint)
{
	struct list *item, *after;

	list_for_each_safe (item, after, &endpoint->members)
		sim_group_leave((struct fabric_group *)own_member(item));
}

static int sim_group_send(struct fabric_group *group, uint32_t slot,
			  const struct fabric_write *writes, unsigned count)
{
	struct member *member = member_of(group);
	struct sim_endpoint *endpoint = member->endpoint;
	struct sim *sim = endpoint->sim;
	unsigned done;

	endpoint->busy = false;
	for (done = 0; done < count && !endpoint->dead; done++) {
		const struct fabric_write *write = &writes[done];
		struct packet *packet = packet_new(sim, !sim->attr.no_payload);

		if (!packet) {
			endpoint->busy = true;
			endpoint->fabric.counters[FABRIC_TX_BUSY]++;
			break;
		}
		packet->kind = PACKET_GROUP;
		packet->from = endpoint->host;
		packet->to = member->group;
		packet->qpn = member->number;
		packet->rkey = member->attr.qkey;
		packet->imm = fabric_imm(&member->attr.split, slot, write->packet, write->user);
		packet->again = write->again;
		packet->length = write->length;
		packet->bytes = write->length + WIRE_GROUP;
		if (packet->payload)
			memcpy(packet->payload, write->data, write->length);
		endpoint->fabric.counters[FABRIC_TX_DATA]++;
		endpoint->fabric.counters[FABRIC_TX_BYTES] += packet->bytes;
		multicast_launch(sim, packet, endpoint->node);
	}
	if (!endpoint->fabric.caps.copies)
		sends_done_add(&endpoint->sent, &member->sent, done);
	return (int)done;
}

/* Whether the route from the packet's sender to the host passes the node. */
static bool passes(struct sim *sim, const struct packet *packet, uint32_t node, uint32_t to)
{
	uint32_t at = packet->from;

	while (at != node && at != to)
		at = route(sim, at, to, packet_entropy(packet))->to_node;
	return at == node;
}

void multicast_launch(struct sim *sim, struct packet *packet, uint32_t node)
{
	struct list *item;

	sim->stamp++;
	list_for_each (item, &sim->members) {
		const struct member *member = to_member(item);
		uint32_t to = member->endpoint->host;
		struct packet *copy;
		struct wire *wire;

		if (member->group != packet->to || to == packet->from ||
		    !passes(sim, packet, node, to))
			continue;
		wire = route(sim, node, to, packet_entropy(packet));
		if (wire->stamp == sim->stamp)
			continue;
		wire->stamp = sim->stamp;
		copy = packet_copy(sim, packet);
		if (copy)
			packet_enter(sim, copy, wire);
	}
	packet_free(sim, packet);
}

bool multicast_arrive(struct sim_endpoint *endpoint, const struct packet *packet,
		      struct arrival *out)
{
	struct list *item;

	list_for_each (item, &endpoint->members) {
		const struct member *member = own_member(item);

		if (member->group != packet->to)
			continue;
		if (member->attr.qkey != packet->rkey) {
			endpoint->fabric.counters[FABRIC_DROP_QKEY]++;
			return false;
		}
		out->member = member->number;
		out->event.type = FABRIC_GROUP;
		out->event.user = member->attr.user;
		out->event.ce = packet->ce;
		out->event.slot = fabric_imm_slot(&member->attr.split, packet->imm);
		out->event.group.bytes = packet->payload;
		out->event.group.length = packet->length;
		out->event.group.packet = fabric_imm_packet(&member->attr.split, packet->imm);
		out->event.group.user_bits = fabric_imm_user(&member->attr.split, packet->imm);
		out->event.group.source = packet->qpn;
		return true;
	}
	endpoint->fabric.counters[FABRIC_DROP_QPN]++;
	return false;
}

bool member_stays(const struct sim_endpoint *endpoint, uint32_t number)
{
	struct list *item;

	list_for_each (item, &endpoint->members)
		if (own_member(item)->number == number)
			return true;
	return false;
}

const struct fabric_group_ops sim_group_ops = {
	.join = sim_group_join,
	.leave = sim_group_leave,
	.send = sim_group_send,
};

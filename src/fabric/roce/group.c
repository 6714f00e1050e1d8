/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups of a user-space endpoint.
 *
 * Packets leave by the endpoint's first socket, whose address is the source that the ICRC covers. They arrive at a
 * socket of the group's own, bound to the group's address: a socket that is bound to a host's address gets none. Several
 * processes may be members, and each gets every packet. The senders are not known beforehand, so that the addresses which
 * the ICRC covers are taken from each packet, and any IPv4 identification is accepted.
 *
 * A poll reads at most one batch of datagrams for all groups together, because its events point into the buffers.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/multicast.h"
#include "fabric/roce/interface.h"
#include "fabric/roce/tx.h"

#define BATCH	       32
#define RECEIVE_BUFFER (4 << 20)
/* Largest IPv4 identification to expect: a NIC may send any. */
#define ANY_ID 65535
/* Rate limit where the interface does not say how fast it is. */
#define DEFAULT_RATE_BPS UINT64_C(10000000000)
/* Bytes of a packet on the wire beyond its data: frame and gap 38, IP 20 or 40, UDP 8, transport 28. */
#define WIRE_IPV4 94
#define WIRE_IPV6 114
/* From linux/udp.h, which cannot be included beside netinet/udp.h. */
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif

struct roce_group {
	struct roce_endpoint *endpoint;
	void *user;
	struct fabric_split split;
	uint32_t qkey;
	/* Queue pair number that packets are sent under. */
	uint32_t number;
	uint32_t psn;
	int fd;
	/* Address of the group. */
	union socket_address at;
	struct icrc_flow to_group;
};

/* The groups of an endpoint, and the buffers that the last poll's events point into. */
struct roce_groups {
	struct rate_limit rate_limit;
	uint32_t count;
	/* Group that the next poll reads first; counts on without end. */
	uint32_t first;
	struct roce_group *members[ROCE_GROUPS_MAX];
	struct mmsghdr messages[BATCH];
	struct iovec parts[BATCH];
	union socket_address from[BATCH];
	uint8_t bytes[BATCH][RX_PACKET];
};

static struct roce_group *group_of(const struct fabric_group *group)
{
	return (struct roce_group *)(uintptr_t)group;
}

/* The rate limit that was asked for, or the interface's rate. */
static uint64_t rate_of(const struct roce_endpoint *endpoint, unsigned interface)
{
	char name[IF_NAMESIZE];
	uint64_t rate_bps = endpoint->rate_bps;

	if (!rate_bps && interface && if_indextoname(interface, name))
		rate_bps = interface_rate_bps(SYSFS, name);
	return rate_bps ? rate_bps : DEFAULT_RATE_BPS;
}

static int open_groups(struct roce_endpoint *endpoint, unsigned interface)
{
	bool v4 = endpoint->local.any.sa_family == AF_INET;
	struct roce_groups *groups = calloc(1, sizeof(*groups));

	if (!groups)
		return -ENOMEM;
	for (int i = 0; i < BATCH; i++) {
		groups->parts[i] = (struct iovec){ groups->bytes[i], RX_PACKET };
		groups->messages[i].msg_hdr = (struct msghdr){ .msg_name = &groups->from[i],
							       .msg_iov = &groups->parts[i],
							       .msg_iovlen = 1 };
	}
	endpoint->now_ns = endpoint->fabric.ops->now_ns(&endpoint->fabric);
	rate_limit_init(&groups->rate_limit, rate_of(endpoint, interface),
			v4 ? WIRE_IPV4 : WIRE_IPV6, endpoint->now_ns);
	endpoint->groups = groups;
	return 0;
}

/* Makes packets leave by the interface that has our address, whatever the routes say. */
static int aim_socket(const struct roce_endpoint *endpoint, unsigned interface)
{
	bool v4 = endpoint->local.any.sa_family == AF_INET;
	struct ip_mreqn from = { .imr_address = endpoint->local.v4.sin_addr,
				 .imr_ifindex = (int)interface };
	int index = (int)interface, hops = MULTICAST_HOPS, error;

	if (v4)
		error = setsockopt(endpoint->fd, IPPROTO_IP, IP_MULTICAST_IF, &from, sizeof(from));
	else
		error = setsockopt(endpoint->fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &index,
				   sizeof(index));
	if (!error)
		error = setsockopt(endpoint->fd, v4 ? IPPROTO_IP : IPPROTO_IPV6,
				   v4 ? IP_MULTICAST_TTL : IPV6_MULTICAST_HOPS, &hops,
				   sizeof(hops));
	return error ? -errno : 0;
}

static union socket_address address_of(const struct fabric_group_attr *attr, unsigned interface)
{
	uint16_t port = htons(attr->port ? attr->port : ROCE_PORT);
	union socket_address at;

	memset(&at, 0, sizeof(at));
	if (attr->family == 4) {
		at.v4.sin_family = AF_INET;
		at.v4.sin_port = port;
		memcpy(&at.v4.sin_addr, attr->ip, 4);
	} else {
		at.v6.sin6_family = AF_INET6;
		at.v6.sin6_port = port;
		at.v6.sin6_scope_id = interface;
		memcpy(&at.v6.sin6_addr, attr->ip, 16);
	}
	return at;
}

static int open_socket(struct roce_group *group, unsigned interface)
{
	bool v4 = group->at.any.sa_family == AF_INET;
	struct group_req request = { .gr_interface = interface };
	int on = 1, buffer = RECEIVE_BUFFER;

	group->fd = socket(group->at.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (group->fd < 0)
		return -errno;
	if (setsockopt(group->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    (!v4 && setsockopt(group->fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, &on, sizeof(on))) ||
	    bind(group->fd, &group->at.any, address_length(&group->at)))
		return -errno;
	if (setsockopt(group->fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer)))
		setsockopt(group->fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
	/* The kernel announces the membership to switches and routers (IGMP, MLD) while the socket is open. */
	memcpy(&request.gr_group, &group->at, address_length(&group->at));
	return setsockopt(group->fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, MCAST_JOIN_GROUP, &request,
			  sizeof(request))
		       ? -errno
		       : 0;
}

static int roce_group_join(struct fabric *fabric, const struct fabric_group_attr *attr,
			   struct fabric_group **out)
{
	struct roce_endpoint *endpoint = endpoint_of(fabric);
	unsigned interface = address_interface(&endpoint->local);
	int error = multicast_check(attr, endpoint->local.any.sa_family == AF_INET ? 4 : 6);
	struct roce_group *group;
	char text[INET6_ADDRSTRLEN];

	/* Whoever seals does not want clear packets beside. */
	if (!error && endpoint->sealed)
		error = -EPERM;
	if (!error && !endpoint->groups)
		error = open_groups(endpoint, interface);
	if (!error && endpoint->groups->count == ROCE_GROUPS_MAX)
		error = -ENOBUFS;
	if (error)
		return error;
	group = calloc(1, sizeof(*group));
	if (!group)
		return -ENOMEM;
	group->endpoint = endpoint;
	group->user = attr->user;
	group->split = attr->split;
	group->qkey = attr->qkey;
	group->number = qp_choose_number(endpoint);
	group->psn = entropy_u32(&endpoint->entropy);
	group->at = address_of(attr, interface);
	error = open_socket(group, interface);
	if (!error)
		error = aim_socket(endpoint, interface);
	if (!error)
		error = icrc_flow_init(&endpoint->local.any, &group->at.any, &group->to_group);
	if (error) {
		snprintf(fabric->error, sizeof(fabric->error), "cannot join the group %s: %s",
			 inet_ntop(group->at.any.sa_family, attr->ip, text, sizeof(text)),
			 strerror(-error));
		if (group->fd >= 0)
			close(group->fd);
		free(group);
		return error;
	}
	endpoint->groups->members[endpoint->groups->count++] = group;
	*out = (struct fabric_group *)group;
	return 0;
}

static void release(struct roce_group *group)
{
	close(group->fd);
	free(group);
}

static void roce_group_leave(struct fabric_group *fabric_group)
{
	struct roce_group *group = group_of(fabric_group);
	struct roce_groups *groups = group->endpoint->groups;

	for (uint32_t i = 0; i < groups->count; i++)
		if (groups->members[i] == group)
			groups->members[i] = groups->members[--groups->count];
	release(group);
}

void groups_close(struct roce_endpoint *endpoint)
{
	struct roce_groups *groups = endpoint->groups;

	for (uint32_t i = 0; groups && i < groups->count; i++)
		release(groups->members[i]);
	free(groups);
}

static void build(struct frame *frame, struct roce_group *group, uint32_t slot,
		  const struct fabric_write *write, uint32_t psn)
{
	uint32_t imm = fabric_imm(&group->split, slot, write->packet, write->user);
	struct roce_packet packet;
	size_t headers;

	roce_ud_send_imm(&packet, MULTICAST_QPN, psn, group->qkey, group->number, imm, write->data,
			 write->length);
	headers = roce_encode(&packet, frame->headers, sizeof(frame->headers));
	frame_finish(frame, headers, &group->to_group, packet.payload, packet.payload_length, 0);
}

static int roce_group_send(struct fabric_group *fabric_group, uint32_t slot,
			   const struct fabric_write *writes, unsigned count)
{
	struct roce_group *group = group_of(fabric_group);
	struct roce_endpoint *endpoint = group->endpoint;
	struct rate_limit *limit = &endpoint->groups->rate_limit;
	struct mmsghdr messages[TX_BATCH];
	struct frame frames[TX_BATCH];
	unsigned done;

	endpoint->blocked_fd = -1;
	count = rate_limit_allow(limit, writes, count < TX_BATCH ? count : TX_BATCH,
				 endpoint->now_ns);
	for (unsigned i = 0; i < count; i++) {
		build(&frames[i], group, slot, &writes[i], group->psn + i);
		frame_address(&frames[i], &group->at, &messages[i].msg_hdr);
	}
	done = frames_push(endpoint, endpoint->fd, messages, count);
	if (done < count)
		endpoint->blocked_fd = endpoint->fd;
	rate_limit_sent(limit, writes, done, endpoint->now_ns);
	endpoint->fabric.counters[FABRIC_TX_DATA] += done;
	group->psn += done;
	return (int)done;
}

/* True when the packet made an event. */
static bool take(struct roce_group *group, const union socket_address *from, const uint8_t *bytes,
		 size_t length, struct fabric_event *event)
{
	struct roce_endpoint *endpoint = group->endpoint;
	struct roce_packet packet;
	struct icrc_match match;
	struct icrc_flow flow;
	int error = roce_decode(bytes, length, &packet);

	endpoint->fabric.counters[FABRIC_RX_BYTES] += length;
	if (error) {
		drop(endpoint, error == -EPROTO ? FABRIC_DROP_VERSION : FABRIC_DROP_MALFORMED);
		return false;
	}
	if (packet.kind != ROCE_UD_SEND_IMM || packet.dest_qpn != MULTICAST_QPN) {
		drop(endpoint,
		     packet.dest_qpn == MULTICAST_QPN ? FABRIC_DROP_OPCODE : FABRIC_DROP_QPN);
		return false;
	}
	if (packet.deth.src_qpn == group->number && same_host(from, &endpoint->local))
		return false; /* sent by this endpoint */
	if (icrc_flow_init(&from->any, &group->at.any, &flow) ||
	    icrc_verify(&flow, bytes, length, 0, ANY_ID, &match) == ICRC_BAD) {
		drop(endpoint, FABRIC_DROP_ICRC);
		return false;
	}
	if (packet.deth.qkey != group->qkey) {
		drop(endpoint, FABRIC_DROP_QKEY);
		return false;
	}
	endpoint->fabric.counters[FABRIC_RX_DATA]++;
	memset(event, 0, sizeof(*event));
	event->type = FABRIC_GROUP;
	event->user = group->user;
	event->slot = fabric_imm_slot(&group->split, packet.imm);
	event->group.bytes = packet.payload;
	event->group.length = (uint32_t)packet.payload_length;
	event->group.packet = fabric_imm_packet(&group->split, packet.imm);
	event->group.user_bits = fabric_imm_user(&group->split, packet.imm);
	event->group.source = packet.deth.src_qpn;
	return true;
}

int groups_poll(struct roce_endpoint *endpoint, struct fabric_event *events, int most)
{
	struct roce_groups *groups = endpoint->groups;
	int n = 0, used = 0;

	rate_limit_poll(&groups->rate_limit, endpoint->now_ns);
	most = most < BATCH ? most : BATCH;
	for (uint32_t i = 0; i < groups->count && used < most; i++) {
		struct roce_group *group = groups->members[(groups->first + i) % groups->count];
		int got;

		for (int j = used; j < most; j++)
			groups->messages[j].msg_hdr.msg_namelen = sizeof(groups->from[j]);
		got = recvmmsg(group->fd, groups->messages + used, (unsigned)(most - used),
			       MSG_DONTWAIT, NULL);
		for (int j = used; j < used + got; j++)
			n += take(group, &groups->from[j], groups->bytes[j],
				  groups->messages[j].msg_len, &events[n]);
		used += got > 0 ? got : 0;
	}
	groups->first++;
	return n;
}

uint64_t groups_deadline_ns(const struct roce_endpoint *endpoint)
{
	return endpoint->groups ? endpoint->groups->rate_limit.again_ns : UINT64_MAX;
}

unsigned groups_watch(const struct roce_endpoint *endpoint, struct pollfd *fds)
{
	uint32_t count = endpoint->groups ? endpoint->groups->count : 0;

	for (uint32_t i = 0; i < count; i++)
		fds[i] =
			(struct pollfd){ .fd = endpoint->groups->members[i]->fd, .events = POLLIN };
	return count;
}

const struct fabric_group_ops roce_group_ops = {
	.join = roce_group_join,
	.leave = roce_group_leave,
	.send = roce_group_send,
};

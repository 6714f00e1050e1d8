/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups: each has a UD queue pair that is attached to the group's GID. Events point into the cells of received
 * packets until the next poll. Packets to be sent are read where they are; the last of a batch asks for a completion, and
 * its wr_id has the number of packets that it stands for.
 *
 * Attaching a queue pair makes a NIC listen at most; it does not announce the membership to the switches, and with
 * soft-RoCE nothing would arrive. So the host joins the group as well, by a socket that is only held open.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/multicast.h"
#include "fabric/verbs/endpoint.h"
#include "fabric/verbs/gid.h"

/* Offsets of the source address in the 40 bytes before a datagram. */
#define IPV4_SOURCE_OFFSET 32
#define IPV6_SOURCE_OFFSET 8

struct verbs_group {
	struct list link;
	struct verbs_endpoint *endpoint;
	void *user;
	struct fabric_split split;
	uint32_t qkey;
	struct cq *cq;
	/* Entries reserved in the completion queue. */
	uint32_t reserved;
	struct queue *queue;
	struct ibv_ah *ah;
	union ibv_gid gid;
	bool attached;
	/* Socket by which the host is a member. */
	int fd;
	/* Sends under way. */
	uint32_t outstanding;
	struct sends_done sent;
};

static struct verbs_group *group_of(const struct fabric_group *group)
{
	return (struct verbs_group *)(uintptr_t)group;
}

static int refuse(struct verbs_endpoint *endpoint, const struct fabric_group_attr *attr, int error,
		  const char *why)
{
	char text[INET6_ADDRSTRLEN];

	snprintf(endpoint->fabric.error, sizeof(endpoint->fabric.error),
		 "%s cannot join the group %s: %s", endpoint->name.device,
		 inet_ntop(attr->family == 4 ? AF_INET : AF_INET6, attr->ip, text, sizeof(text)),
		 why);
	return error;
}

static int join_host(struct verbs_group *group, const struct fabric_group_attr *attr)
{
	struct group_req request = { .gr_interface = group->endpoint->interface };
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

	memcpy(&v4.sin_addr, attr->ip, 4);
	memcpy(&v6.sin6_addr, attr->ip, 16);
	if (attr->family == 4)
		memcpy(&request.gr_group, &v4, sizeof(v4));
	else
		memcpy(&request.gr_group, &v6, sizeof(v6));
	group->fd = socket(attr->family == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (group->fd < 0)
		return -errno;
	return setsockopt(group->fd, attr->family == 4 ? IPPROTO_IP : IPPROTO_IPV6,
			  MCAST_JOIN_GROUP, &request, sizeof(request))
		       ? -errno
		       : 0;
}

static int open_queue(struct verbs_group *group, const struct fabric_group_attr *attr)
{
	struct verbs_endpoint *endpoint = group->endpoint;
	struct roce_address to = { .family = attr->family };
	struct ibv_ah_attr route;
	uint32_t entries = endpoint->sizes.sends + endpoint->sizes.ud_receives;
	int error = cq_reserve(endpoint, entries, &group->cq);

	if (error)
		return error;
	group->reserved = entries;
	error = queue_create(endpoint, QUEUE_GROUP, 0, group->qkey, group->cq, &group->queue);
	if (error)
		return error;
	group->queue->group = group;
	memcpy(to.ip, attr->ip, sizeof(to.ip));
	route = route_to(endpoint, &to);
	group->gid = route.grh.dgid;
	errno = EHOSTUNREACH; /* not every provider sets it */
	group->ah = ibv_create_ah(endpoint->pd, &route);
	if (!group->ah)
		return -errno;
	error = ibv_attach_mcast(group->queue->qp, &group->gid, 0);
	group->attached = !error;
	return error > 0 ? -error : error;
}

static void leave(struct verbs_group *group)
{
	list_del(&group->link);
	if (group->attached)
		ibv_detach_mcast(group->queue->qp, &group->gid, 0);
	if (group->queue)
		queue_destroy(group->queue);
	if (group->ah)
		ibv_destroy_ah(group->ah);
	if (group->reserved)
		cq_release(group->cq, group->reserved);
	if (group->fd >= 0)
		close(group->fd);
	list_del(&group->sent.link);
	free(group);
}

static int verbs_group_join(struct fabric *fabric, const struct fabric_group_attr *attr,
			    struct fabric_group **out)
{
	struct verbs_endpoint *endpoint = endpoint_of(fabric);
	int error = multicast_check(attr, gid_is_ipv4(endpoint->gid.raw) ? 4 : 6);
	struct verbs_group *group;

	if (error)
		return error;
	if (attr->port && attr->port != ADDRESS_PORT)
		return refuse(endpoint, attr, -EINVAL, "a NIC knows UDP port 4791 only");
	group = calloc(1, sizeof(*group));
	if (!group)
		return -ENOMEM;
	list_init(&group->link);
	sends_done_init(&group->sent, attr->user);
	group->fd = -1;
	group->endpoint = endpoint;
	group->user = attr->user;
	group->split = attr->split;
	group->qkey = attr->qkey;
	error = join_host(group, attr);
	if (!error)
		error = open_queue(group, attr);
	if (error) {
		leave(group);
		return refuse(endpoint, attr, error, strerror(-error));
	}
	endpoint->now_ns = verbs_now_ns(fabric);
	list_add_tail(&endpoint->groups, &group->link);
	*out = (struct fabric_group *)group;
	return 0;
}

static void verbs_group_leave(struct fabric_group *group)
{
	leave(group_of(group));
}

void groups_leave(struct verbs_endpoint *endpoint)
{
	struct list *item, *after;

	list_for_each_safe (item, after, &endpoint->groups)
		leave(container_of(item, struct verbs_group, link));
}

static void fill(struct verbs_group *group, uint32_t slot, const struct fabric_write *writes,
		 unsigned count, struct ibv_send_wr *requests, struct ibv_sge *pieces)
{
	const struct queue *queue = group->queue;

	for (unsigned i = 0; i < count; i++) {
		const struct fabric_write *write = &writes[i];
		bool last = i + 1 == count;

		pieces[i] = (struct ibv_sge){ (uintptr_t)write->data, write->length,
					      ((struct ibv_mr *)write->mr)->lkey };
		requests[i] = (struct ibv_send_wr){
			/* In error each send completes by itself: only the last one's number counts. */
			.wr_id = wr_id(queue->endpoint, queue->seat, REQUEST_GROUP,
				       last ? count : 0),
			.next = last ? NULL : &requests[i + 1],
			.sg_list = &pieces[i],
			.num_sge = 1,
			.opcode = IBV_WR_SEND_WITH_IMM,
			.send_flags = last ? IBV_SEND_SIGNALED : 0,
			.imm_data =
				htonl(fabric_imm(&group->split, slot, write->packet, write->user)),
			.wr.ud = { .ah = group->ah,
				   .remote_qpn = MULTICAST_QPN,
				   .remote_qkey = group->qkey },
		};
	}
}

static int busy(struct verbs_endpoint *endpoint)
{
	endpoint->fabric.counters[FABRIC_TX_BUSY]++;
	return 0;
}

static int verbs_group_send(struct fabric_group *fabric_group, uint32_t slot,
			    const struct fabric_write *writes, unsigned count)
{
	struct verbs_group *group = group_of(fabric_group);
	struct verbs_endpoint *endpoint = group->endpoint;
	struct ibv_send_wr requests[POST_BATCH], *bad = NULL;
	struct ibv_sge pieces[POST_BATCH];
	struct queue *queue = group->queue;

	if (count > POST_BATCH)
		count = POST_BATCH;
	if (count > queue->send_room)
		count = queue->send_room;
	if (!list_empty(&queue->broken))
		count = 0;
	count = rate_limit_allow(&endpoint->rate_limit, writes, count, endpoint->now_ns);
	if (!count)
		return busy(endpoint);
	fill(group, slot, writes, count, requests, pieces);
	group->outstanding += count;
	queue->send_room -= count;
	if (ibv_post_send(queue->qp, requests, &bad))
		/* The packets count as sent, are lost, and are reported done when the queue pair is reset. */
		queue_break(queue, "it takes no datagrams");
	rate_limit_sent(&endpoint->rate_limit, writes, count, endpoint->now_ns);
	endpoint->fabric.counters[FABRIC_TX_DATA] += count;
	for (unsigned i = 0; i < count; i++)
		endpoint->fabric.counters[FABRIC_TX_BYTES] += writes[i].length;
	return (int)count;
}

void group_done(struct verbs_group *group, uint32_t count)
{
	if (count > group->outstanding)
		count = group->outstanding;
	group->outstanding -= count;
	group->queue->send_room += count;
	sends_done_add(&group->endpoint->sent, &group->sent, count);
}

void group_abandon(struct verbs_group *group)
{
	sends_done_add(&group->endpoint->sent, &group->sent, group->outstanding);
	group->outstanding = 0;
}

static bool is_own(const struct verbs_group *group, const struct ibv_wc *wc, const uint8_t *grh)
{
	const uint8_t *own = group->endpoint->gid.raw;

	if (wc->src_qp != group->queue->qp->qp_num)
		return false;
	if (gid_is_ipv4(own))
		return !memcmp(grh + IPV4_SOURCE_OFFSET, own + 12, 4);
	return !memcmp(grh + IPV6_SOURCE_OFFSET, own, 16);
}

bool group_take(struct queue *queue, const struct ibv_wc *wc, struct fabric_event *event)
{
	struct verbs_endpoint *endpoint = queue->endpoint;
	uint32_t cell = wr_argument(wc->wr_id), imm = ntohl(wc->imm_data);
	const uint8_t *bytes = supply_cell(queue->supply, cell);
	struct verbs_group *group = queue->group;
	bool whole = wc->wc_flags & IBV_WC_WITH_IMM && wc->byte_len >= GRH_SIZE;

	if (!whole || is_own(group, wc, bytes)) {
		if (!whole)
			drop(endpoint, FABRIC_DROP_OPCODE);
		supply_spend(queue->supply, cell);
		return false;
	}
	lend(queue->supply, cell);
	memset(event, 0, sizeof(*event));
	event->type = FABRIC_GROUP;
	event->user = group->user;
	event->slot = fabric_imm_slot(&group->split, imm);
	event->group.bytes = bytes + GRH_SIZE;
	event->group.length = wc->byte_len - GRH_SIZE;
	event->group.packet = fabric_imm_packet(&group->split, imm);
	event->group.user_bits = fabric_imm_user(&group->split, imm);
	event->group.source = wc->src_qp;
	endpoint->fabric.counters[FABRIC_RX_DATA]++;
	endpoint->fabric.counters[FABRIC_RX_BYTES] += event->group.length;
	return true;
}

const struct fabric_group_ops verbs_group_ops = {
	.join = verbs_group_join,
	.leave = verbs_group_leave,
	.send = verbs_group_send,
};

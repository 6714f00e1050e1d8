/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues: one ibv_qp each, taken from the reset state until it can send, and set up again after an error.
 *
 * A queue in error is left alone until its completion queue was seen empty, so that no completion from before is taken for
 * a later one. Then it is reset and connected again. Packets that were under way are lost, as packets may be.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fabric/verbs/endpoint.h"

#define PAGE		4096
#define HOP_LIMIT	64
#define NEIGHBOUR_TRIES 10
#define HEAL_FIRST_NS	UINT64_C(1000000)
/* Attempts after which the time between two no longer doubles: 256 ms. */
#define HEAL_SLOWEST_EXP 8u
/* Receive requests of the binder, which only the probe uses. */
#define BINDER_RECEIVES 8u
#define SEATS_AT_A_TIME 64u

static bool is_datagram(const struct queue *queue)
{
	return queue->kind == QUEUE_UD || queue->kind == QUEUE_CONTROL ||
	       queue->kind == QUEUE_GROUP;
}

int seat_take(struct verbs_endpoint *endpoint, uint32_t *out)
{
	uint32_t seat = 0;
	struct seat *seats;

	while (seat < endpoint->seat_count &&
	       (endpoint->seats[seat].queue || endpoint->seats[seat].supply))
		seat++;
	if (seat == endpoint->seat_count) {
		if (seat + SEATS_AT_A_TIME > WR_FIELD)
			return -ENOBUFS;
		seats = realloc(endpoint->seats, (seat + SEATS_AT_A_TIME) * sizeof(*seats));
		if (!seats)
			return -ENOMEM;
		memset(seats + seat, 0, SEATS_AT_A_TIME * sizeof(*seats));
		endpoint->seats = seats;
		endpoint->seat_count += SEATS_AT_A_TIME;
	}
	*out = seat;
	return 0;
}

void seat_leave(struct verbs_endpoint *endpoint, uint32_t seat)
{
	endpoint->seats[seat].queue = NULL;
	endpoint->seats[seat].supply = NULL;
	endpoint->seats[seat].epoch++;
}

/* Chooses how many requests the queue holds, and makes its memory and its receive requests. */
static int equip(struct queue *queue)
{
	struct verbs_endpoint *endpoint = queue->endpoint;
	const struct sizes *sizes = &endpoint->sizes;
	uint32_t receives = 0, cell_size = 0;

	switch (queue->kind) {
	case QUEUE_UC:
		queue->sends = sizes->sends;
		receives = sizes->uc_receives;
		queue->supply = endpoint->shared_data;
		break;
	case QUEUE_UD:
		queue->sends = sizes->sends;
		queue->send_cell_size = KEY_SIZE;
		receives = sizes->ud_receives;
		cell_size = GRH_SIZE + endpoint->path_mtu;
		queue->supply = endpoint->shared_data;
		break;
	case QUEUE_CONTROL:
		queue->sends = sizes->control_sends;
		queue->send_cell_size = CONTROL_CELL;
		receives = sizes->control_receives;
		cell_size = GRH_SIZE + CONTROL_CELL;
		queue->supply = endpoint->shared_control;
		break;
	case QUEUE_GROUP:
		/* Never shared: in UC mode the shared requests have no memory. */
		queue->sends = sizes->sends;
		receives = sizes->ud_receives;
		cell_size = GRH_SIZE + endpoint->path_mtu;
		break;
	case QUEUE_BINDER:
		queue->sends = sizes->binds;
		receives = BINDER_RECEIVES;
		break;
	}
	if (queue->send_cell_size) {
		size_t size = (size_t)queue->sends * queue->send_cell_size;

		if (posix_memalign((void **)&queue->send_cells, PAGE, size))
			return -ENOMEM;
		errno = ENOMEM;
		queue->mr = ibv_reg_mr(endpoint->pd, queue->send_cells, size, 0);
		if (!queue->mr)
			return -errno;
	}
	return queue->supply ? 0
			     : supply_create(endpoint, queue, receives, cell_size, &queue->supply);
}

static int make_qp(struct queue *queue)
{
	struct ibv_qp_init_attr init = {
		.qp_context = queue,
		.send_cq = queue->cq->ibv,
		.recv_cq = queue->cq->ibv,
		.srq = queue->supply->srq,
		.cap = { .max_send_wr = queue->sends,
			 .max_recv_wr = queue->supply->srq ? 0 : queue->supply->depth,
			 .max_send_sge = 2,
			 .max_recv_sge = 1 },
		.qp_type = is_datagram(queue) ? IBV_QPT_UD : IBV_QPT_UC,
	};

	errno = EIO; /* not every provider sets it */
	queue->qp = ibv_create_qp(queue->endpoint->pd, &init);
	return queue->qp ? 0 : -errno;
}

int queue_create(struct verbs_endpoint *endpoint, enum queue_kind kind, unsigned lane,
		 uint32_t qkey, struct cq *cq, struct queue **out)
{
	struct queue *queue = calloc(1, sizeof(*queue));
	int error;

	if (!queue)
		return -ENOMEM;
	queue->endpoint = endpoint;
	queue->kind = kind;
	queue->lane = (uint8_t)lane;
	queue->qkey = qkey;
	queue->cq = cq;
	list_init(&queue->broken);
	error = seat_take(endpoint, &queue->seat);
	if (error) {
		free(queue);
		return error;
	}
	endpoint->seats[queue->seat].queue = queue;
	if ((error = equip(queue)) || (error = make_qp(queue)) ||
	    (error = queues_number(endpoint)) || (error = queue_prepare(queue))) {
		queue_destroy(queue);
		return error;
	}
	*out = queue;
	return 0;
}

void queue_destroy(struct queue *queue)
{
	struct verbs_endpoint *endpoint = queue->endpoint;

	list_del(&queue->broken);
	if (queue->qp)
		ibv_destroy_qp(queue->qp);
	seat_leave(endpoint, queue->seat);
	/* If there is no memory for a new table, the old one must not lead to this queue. */
	if (queue->qp && queues_number(endpoint))
		abort();
	if (queue->supply && queue->supply->queue)
		supply_destroy(queue->supply);
	if (queue->mr)
		ibv_dereg_mr(queue->mr);
	free(queue->send_cells);
	free(queue);
}

static int modify(struct queue *queue, struct ibv_qp_attr *attr, int mask)
{
	int error = ibv_modify_qp(queue->qp, attr, mask);

	return error > 0 ? -error : error ? -errno : 0;
}

static int datagrams_ready(struct queue *queue)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int error = modify(queue, &attr, IBV_QP_STATE);

	if (error)
		return error;
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = entropy_u32(&queue->endpoint->entropy) & WR_FIELD;
	return modify(queue, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

int queue_prepare(struct queue *queue)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = queue->endpoint->port,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.qkey = queue->qkey,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	int error;

	mask |= is_datagram(queue) ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	error = modify(queue, &attr, mask);
	if (error)
		return error;
	queue->send_room = queue->sends;
	queue->unsignalled = 0;
	if (queue->supply->queue)
		error = supply_fill(queue->supply);
	if (!error && is_datagram(queue))
		error = datagrams_ready(queue);
	return error;
}

struct ibv_ah_attr route_to(const struct verbs_endpoint *endpoint, const struct roce_address *peer)
{
	struct ibv_ah_attr route = {
		.is_global = 1,
		.port_num = endpoint->port,
		.sl = (uint8_t)endpoint->name.service_level,
		.grh = { .sgid_index = endpoint->gid_index,
			 .hop_limit = HOP_LIMIT,
			 .traffic_class = (uint8_t)endpoint->name.traffic_class },
	};

	if (peer->family == 4) {
		route.grh.dgid.raw[10] = route.grh.dgid.raw[11] = 0xff;
		memcpy(route.grh.dgid.raw + 12, peer->ip, 4);
	} else {
		memcpy(route.grh.dgid.raw, peer->ip, 16);
	}
	return route;
}

static enum ibv_mtu mtu_code(uint32_t bytes)
{
	enum ibv_mtu code = IBV_MTU_256;

	while (bytes > 256) {
		bytes /= 2;
		code++;
	}
	return code;
}

static int to_ready(struct queue *queue)
{
	struct ibv_qp_attr attr = queue->to_peer;
	int error = -ETIMEDOUT;

	attr.qp_state = IBV_QPS_RTR;
	/* The kernel resolves the neighbour's address here, and on a busy host gives up too soon. */
	for (int i = 0; i < NEIGHBOUR_TRIES && error == -ETIMEDOUT; i++)
		error = modify(queue, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN);
	if (error)
		return error;
	attr.qp_state = IBV_QPS_RTS;
	return modify(queue, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

int queue_connect(struct queue *queue, uint32_t qpn, const struct ibv_ah_attr *route,
		  uint32_t path_mtu)
{
	int error;

	queue->to_peer = (struct ibv_qp_attr){
		.path_mtu = mtu_code(path_mtu),
		.dest_qp_num = qpn,
		.sq_psn = entropy_u32(&queue->endpoint->entropy) & WR_FIELD,
		.ah_attr = *route,
	};
	/* Networks that hash flow labels send the lanes along different paths. */
	queue->to_peer.ah_attr.grh.flow_label = entropy_u32(&queue->endpoint->entropy) & 0xfffff;
	error = to_ready(queue);
	queue->connected = !error;
	return error;
}

void queue_break(struct queue *queue, const char *what)
{
	struct verbs_endpoint *endpoint = queue->endpoint;

	if (!list_empty(&queue->broken))
		return;
	log_once(&endpoint->complained, LOG_LEVEL_WARN,
		 "verbs: a queue pair of %s fell into error (%s) and is set up anew",
		 endpoint->name.device, what);
	queue->broken_mark = queue->cq->empties;
	queue->heal_attempts = 0;
	queue->heal_at = 0;
	list_add_tail(&endpoint->broken, &queue->broken);
	/* Makes every request complete, also where only one of them failed. */
	modify(queue, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE);
}

static int heal(struct queue *queue)
{
	struct verbs_endpoint *endpoint = queue->endpoint;
	int error = modify(queue, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, IBV_QP_STATE);

	if (error)
		return error;
	endpoint->seats[queue->seat].epoch++;
	error = queue_prepare(queue);
	if (!error && queue->connected && !is_datagram(queue))
		error = to_ready(queue);
	if (error)
		return error;
	list_del(&queue->broken);
	endpoint->fabric.counters[FABRIC_QP_HEALED]++;
	if (queue->kind == QUEUE_BINDER)
		windows_repost(endpoint);
	else if (queue->group)
		group_abandon(queue->group);
	else if (queue->owner && queue->kind != QUEUE_CONTROL)
		write_abandon(queue->owner, queue->lane);
	return 0;
}

void queues_heal(struct verbs_endpoint *endpoint)
{
	struct list *item, *after;
	uint64_t now;

	if (list_empty(&endpoint->broken) || endpoint->dead)
		return;
	now = verbs_now_ns(&endpoint->fabric);
	list_for_each_safe (item, after, &endpoint->broken) {
		struct queue *queue = container_of(item, struct queue, broken);

		if (queue->cq->empties == queue->broken_mark || now < queue->heal_at)
			continue;
		if (!heal(queue))
			continue;
		/* The port may be down, or the peer's address not resolved just now. */
		queue->heal_at = now + (HEAL_FIRST_NS << queue->heal_attempts);
		if (queue->heal_attempts < HEAL_SLOWEST_EXP)
			queue->heal_attempts++;
	}
}

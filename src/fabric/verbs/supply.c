/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive requests: of one queue, or shared by all queues of a kind (a shared receive queue), for thousands of queue pairs.
 * Requests of a UC queue have no memory: the write names its own place, and the request only makes the completion. Those of
 * datagram queues have a cell each. Used ones are posted again when an eighth of them are used.
 *
 * The wr_id of a shared request names the supply. The queue that the packet was for is found by the queue pair number in
 * the completion, in a table that is made again when queues come and go.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "fabric/verbs/endpoint.h"

#define CELL_ALIGNMENT 64u
#define PAGE	       4096

static int get_memory(struct supply *supply)
{
	size_t size = (size_t)supply->depth * supply->cell_size;

	supply->spent_cells = calloc(supply->depth, sizeof(*supply->spent_cells));
	if (!supply->spent_cells || posix_memalign((void **)&supply->memory, PAGE, size))
		return -ENOMEM;
	errno = ENOMEM;
	supply->mr = ibv_reg_mr(supply->endpoint->pd, supply->memory, size, IBV_ACCESS_LOCAL_WRITE);
	return supply->mr ? 0 : -errno;
}

static int share(struct supply *supply)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = supply->depth, .max_sge = 1 } };
	int error = seat_take(supply->endpoint, &supply->seat);

	if (error)
		return error;
	supply->endpoint->seats[supply->seat].supply = supply;
	errno = ENOTSUP;
	supply->srq = ibv_create_srq(supply->endpoint->pd, &attr);
	return supply->srq ? 0 : -errno;
}

int supply_create(struct verbs_endpoint *endpoint, struct queue *queue, uint32_t depth,
		  uint32_t cell_size, struct supply **out)
{
	struct supply *supply = calloc(1, sizeof(*supply));
	int error = 0;

	if (!supply)
		return -ENOMEM;
	supply->endpoint = endpoint;
	supply->queue = queue;
	supply->depth = depth;
	supply->cell_size = (cell_size + CELL_ALIGNMENT - 1) / CELL_ALIGNMENT * CELL_ALIGNMENT;
	if (cell_size)
		error = get_memory(supply);
	if (queue)
		supply->seat = queue->seat;
	else if (!error && !(error = share(supply)))
		error = supply_fill(supply);
	if (error) {
		supply_destroy(supply);
		return error;
	}
	*out = supply;
	return 0;
}

void supply_destroy(struct supply *supply)
{
	if (!supply)
		return;
	if (supply->srq)
		ibv_destroy_srq(supply->srq);
	if (!supply->queue && supply->endpoint->seats[supply->seat].supply == supply)
		seat_leave(supply->endpoint, supply->seat);
	if (supply->mr)
		ibv_dereg_mr(supply->mr);
	free(supply->memory);
	free(supply->spent_cells);
	free(supply);
}

static int post(struct supply *supply)
{
	while (supply->spent) {
		struct ibv_recv_wr requests[POST_BATCH], *bad = NULL;
		struct ibv_sge cells[POST_BATCH];
		uint32_t n = supply->spent < POST_BATCH ? supply->spent : POST_BATCH;
		int error;

		for (uint32_t i = 0; i < n; i++) {
			uint32_t cell = 0;

			requests[i] = (struct ibv_recv_wr){ 0 };
			if (supply->spent_cells) {
				cell = supply->spent_cells[supply->spent - 1 - i];
				cells[i].addr = (uintptr_t)supply_cell(supply, cell);
				cells[i].length = supply->cell_size;
				cells[i].lkey = supply->mr->lkey;
				requests[i].sg_list = &cells[i];
				requests[i].num_sge = 1;
			}
			requests[i].wr_id =
				wr_id(supply->endpoint, supply->seat, REQUEST_RECEIVE, cell);
			requests[i].next = i + 1 < n ? &requests[i + 1] : NULL;
		}
		error = supply->srq ? ibv_post_srq_recv(supply->srq, requests, &bad)
				    : ibv_post_recv(supply->queue->qp, requests, &bad);
		if (error) {
			supply->spent -= bad ? (uint32_t)(bad - requests) : 0;
			return -error;
		}
		supply->spent -= n;
	}
	return 0;
}

int supply_fill(struct supply *supply)
{
	supply->spent = supply->depth;
	for (uint32_t i = 0; supply->spent_cells && i < supply->depth; i++)
		supply->spent_cells[i] = i;
	return post(supply);
}

void supply_spend(struct supply *supply, uint32_t cell)
{
	if (supply->spent == supply->depth)
		return; /* cannot happen: more completions than requests */
	if (supply->spent_cells)
		supply->spent_cells[supply->spent] = cell;
	supply->spent++;
	if (supply->spent < supply->depth / 8 ||
	    (supply->queue && !list_empty(&supply->queue->broken)) || !post(supply))
		return;
	if (supply->queue)
		queue_break(supply->queue, "it takes no receive requests");
	else
		log_once(&supply->endpoint->complained, LOG_LEVEL_ERROR,
			 "verbs: the shared receive queue of %s takes no requests",
			 supply->endpoint->name.device);
}

int supplies_share(struct verbs_endpoint *endpoint)
{
	const struct sizes *sizes = &endpoint->sizes;
	int error;

	if (!endpoint->name.srq)
		return 0;
	error = supply_create(endpoint, NULL, sizes->shared_data,
			      endpoint->ud ? GRH_SIZE + endpoint->path_mtu : 0,
			      &endpoint->shared_data);
	if (!error)
		error = supply_create(endpoint, NULL, sizes->shared_control,
				      GRH_SIZE + CONTROL_CELL, &endpoint->shared_control);
	return error;
}

/* ---- queues by their number -------------------------------------------------------------------------------------- */

static uint32_t home(const struct verbs_endpoint *endpoint, uint32_t number)
{
	return number * 0x9e3779b1u & endpoint->numbers_mask;
}

struct queue *queue_by_number(const struct verbs_endpoint *endpoint, uint32_t number)
{
	if (!endpoint->numbers)
		return NULL;
	for (uint32_t i = home(endpoint, number); endpoint->numbers[i];
	     i = (i + 1) & endpoint->numbers_mask)
		if (endpoint->numbers[i]->qp->qp_num == number)
			return endpoint->numbers[i];
	return NULL;
}

int queues_number(struct verbs_endpoint *endpoint)
{
	uint32_t size = 64;
	struct queue **table;

	if (!endpoint->name.srq)
		return 0;
	while (size < 2 * endpoint->seat_count)
		size *= 2;
	table = calloc(size, sizeof(struct queue *));
	if (!table)
		return -ENOMEM;
	free(endpoint->numbers);
	endpoint->numbers = table;
	endpoint->numbers_mask = size - 1;
	for (uint32_t seat = 0; seat < endpoint->seat_count; seat++) {
		struct queue *queue = endpoint->seats[seat].queue;
		uint32_t i;

		if (!queue || !queue->qp)
			continue;
		for (i = home(endpoint, queue->qp->qp_num); table[i];)
			i = (i + 1) & endpoint->numbers_mask;
		table[i] = queue;
	}
	return 0;
}

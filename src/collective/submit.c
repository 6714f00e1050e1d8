/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations are posted: from the caller's attributes to a list of steps and buffers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/zero.h"
#include "collective/bounded.h"
#include "collective/comm.h"
#include "collective/multicast.h"
#include "collective/reduce.h"
#include "collective/strands.h"

/* Sends of at most so much need no registration, as in struct gw_channel_attr. */
#define SMALL_BYTES 4096

static int register_place(struct gw_coll *coll, enum place place, void *addr, uint64_t bytes)
{
	int error;

	if (coll->mr[place] || !addr || bytes <= SMALL_BYTES)
		return 0;
	error = gw_mr_register(coll->comm->office->ctx, addr, bytes, &coll->mr[place]);
	if (!error)
		coll->registered |= 1u << place;
	return error;
}

/* Bytes from one block of the caller's buffers to the next. */
static uint64_t stride_of(const struct gw_coll *coll)
{
	return coll->stride ? coll->stride
			    : coll->task.elements * coll->task.unit / coll->task.size;
}

/* Bytes from the first to the last of all blocks. */
static uint64_t span_of(const struct gw_coll *coll)
{
	uint64_t all = coll->task.elements * coll->task.unit;

	if (!coll->stride || !all)
		return all;
	return (coll->task.size - 1) * coll->stride + all / coll->task.size;
}

/* Registers the caller's buffers and finds out where cell 0 would be: a buffer that is one rank's block begins at that rank's
 * chunk. An operation in place has one buffer, the larger of the two, and its steps name PLACE_RECV only. */
static int caller_memory(struct gw_coll *coll, const struct gw_coll_attr *attr)
{
	const struct task *task = &coll->task;
	uint64_t block = task->elements * task->unit / task->size, stride = stride_of(coll);
	uint64_t all = span_of(coll);
	bool gathers = task->operation == OPERATION_ALLGATHER;
	bool scatters = task->operation == OPERATION_REDUCE_SCATTER;
	uint8_t *send = (uint8_t *)(uintptr_t)attr->send, *recv = attr->recv;
	bool send_is_whole = scatters || !recv;
	int error;

	coll->mr[PLACE_SEND] = attr->send_mr;
	coll->mr[PLACE_RECV] = attr->recv_mr;
	if (task->in_place) {
		coll->mr[PLACE_RECV] = send_is_whole ? attr->send_mr : attr->recv_mr;
		coll->base[PLACE_RECV] = send_is_whole ? send : recv;
		return register_place(coll, PLACE_RECV, coll->base[PLACE_RECV], all);
	}
	error = register_place(coll, PLACE_SEND, send, gathers ? block : all);
	if (!error)
		error = register_place(coll, PLACE_RECV, recv, scatters ? block : all);
	coll->base[PLACE_SEND] = coll_at(send, gathers ? -(task->rank * stride) : 0);
	coll->base[PLACE_RECV] = coll_at(recv, scatters ? -(task->rank * stride) : 0);
	return error;
}

static bool overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
	uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return a && b && x < y + b_bytes && y < x + a_bytes;
}

/* Whether the buffers are there, and either in place or apart. */
static int check_buffers(struct gw_coll *coll, const struct gw_coll_attr *attr)
{
	struct task *task = &coll->task;
	uint64_t block = task->elements * task->unit / task->size, stride = stride_of(coll);
	uint64_t all = span_of(coll);
	bool root = task->operation == OPERATION_BROADCAST && task->rank == task->root;
	const uint8_t *send = attr->send, *recv = attr->recv;
	uint64_t send_bytes = task->operation == OPERATION_ALLGATHER ? block : all;
	uint64_t recv_bytes = task->operation == OPERATION_REDUCE_SCATTER ? block : all;

	if (!all)
		return 0;
	if (task->operation == OPERATION_BROADCAST && !root) {
		task->in_place = false;
		return recv ? 0 : -EINVAL;
	}
	if (!send || (!recv && !root))
		return -EINVAL;
	if (!recv || send == recv) {
		task->in_place = task->operation != OPERATION_ALLGATHER &&
				 task->operation != OPERATION_REDUCE_SCATTER;
	}
	if (task->operation == OPERATION_ALLGATHER)
		task->in_place = send == recv + task->rank * stride;
	if (task->operation == OPERATION_REDUCE_SCATTER)
		task->in_place = recv == send + task->rank * stride;
	return !task->in_place && overlap(send, send_bytes, recv, recv_bytes) ? -EINVAL : 0;
}

int coll_check_buffers(const struct gw_comm *comm, enum operation operation,
		       const struct gw_coll_attr *attr)
{
	bool blocks = operation_has_blocks(operation);
	struct gw_coll whole = { .task = { .operation = operation,
					   .rank = comm->rank,
					   .size = comm->size,
					   .root = attr->root,
					   .unit = (uint32_t)reduce_size(attr->type),
					   .elements = attr->count * (blocks ? comm->size : 1) } };

	return check_buffers(&whole, attr);
}

static int make(struct gw_comm *comm, enum operation operation, const struct gw_coll_attr *attr,
		const struct gw_bounded_attr *bounded, struct gw_coll *coll)
{
	bool blocks = operation_has_blocks(operation);
	bool reduces = operation == OPERATION_ALLREDUCE || operation == OPERATION_REDUCE_SCATTER;
	uint32_t unit = (uint32_t)reduce_size(attr->type);
	struct task *task = &coll->task;
	bool multicast;
	int error;

	agree_settle(comm);
	if (!unit || attr->reduction > GW_MAX || attr->root >= comm->size ||
	    !array_is_zero(attr->reserved) || (bounded && attr->algorithm) ||
	    attr->count > UINT64_MAX / 2 / unit / (blocks ? comm->size : 1))
		return -EINVAL;
	*task = (struct task){ .operation = operation,
			       .algorithm = attr->algorithm,
			       .rank = comm->rank,
			       .size = comm->size,
			       .root = attr->root,
			       .near = algorithm_is_near(comm->network.rtt_ns),
			       .unit = unit,
			       .elements = blocks ? attr->count * comm->size : attr->count,
			       .segment_bytes = comm->segment_bytes,
			       .mean = reduces && attr->reduction == GW_MEAN };
	multicast = !bounded && multicast_wanted(comm, task);
	coll->automatic = !multicast && (!task->algorithm || multicast_asked(task));
	if (multicast)
		task->algorithm = GW_ALGORITHM_MULTICAST;
	else if (coll->automatic)
		coll_choose(coll);
	if ((!multicast && !algorithm_fits(operation, task->algorithm)) ||
	    (reduces && !bounded && comm->flags & GW_COMM_FIXED_ORDER &&
	     task->algorithm != GW_ALGORITHM_DIRECT))
		return -EINVAL;
	error = check_buffers(coll, attr);
	if (error)
		return error;
	coll->type = attr->type;
	coll->reduction = attr->reduction;
	if (bounded)
		error = bounded_make(coll, bounded);
	else if (multicast)
		error = multicast_make(coll);
	/* A barrier's steps depend on no rate. */
	coll->undecided =
		!bounded && operation != OPERATION_BARRIER && agree_pending(comm, comm->posted);
	if (!error && !bounded && !coll->undecided)
		error = coll_decide(coll);
	if (error)
		return error;
	return operation == OPERATION_BARRIER ? 0 : caller_memory(coll, attr);
}

/* As coll_submit(), also for bounded operations. */
static int submit_with(struct gw_comm *comm, enum operation operation,
		       const struct gw_coll_attr *attr, const struct gw_bounded_attr *bounded,
		       uint64_t stride, struct parts *parts, struct gw_coll **out)
{
	static const struct gw_coll_attr nothing;
	struct gw_coll *coll;
	uint32_t track;
	int error;

	if (!comm || (!attr && operation != OPERATION_BARRIER))
		return -EINVAL;
	if (comm->status) {
		free(parts);
		return comm->status;
	}
	coll = calloc(1, sizeof(*coll));
	if (!coll) {
		free(parts);
		return -ENOMEM;
	}
	coll->comm = comm;
	coll->parts = parts;
	coll->stride = stride;
	list_init(&coll->node);
	list_init(&coll->handle);
	if (attr) {
		coll->done = attr->done;
		coll->arg = attr->arg;
	}
	error = make(comm, operation, operation == OPERATION_BARRIER ? &nothing : attr, bounded,
		     coll);
	if (error) {
		coll_free(coll);
		return error;
	}
	coll->number = comm->posted++;
	track = coll_track(coll);
	list_add_tail(&comm->tracks[track].colls, &coll->node);
	list_add_tail(&comm->handles, &coll->handle);
	if (out)
		*out = coll;
	else
		coll->closed = true;
	/* Not after bounded ones, which wait for no rank: an agreement waits for all. Before the operation starts: an empty one ends
	 * there, and its caller may post the next one, which would have the agreement's number here and another one elsewhere. */
	if (!bounded)
		agree_posted(comm);
	coll_start(comm, track);
	return 0;
}

int coll_submit(struct gw_comm *comm, enum operation operation, const struct gw_coll_attr *attr,
		uint64_t stride, struct parts *parts, struct gw_coll **out)
{
	return submit_with(comm, operation, attr, NULL, stride, parts, out);
}

static int submit(struct gw_comm *comm, enum operation operation, const struct gw_coll_attr *attr,
		  struct gw_coll **out)
{
	if (comm && strands_share(comm, operation, attr))
		return strands_submit(comm, operation, attr, out);
	return coll_submit(comm, operation, attr, 0, NULL, out);
}

static int submit_bounded(struct gw_comm *comm, enum operation operation,
			  const struct gw_coll_attr *attr, const struct gw_bounded_attr *bounded,
			  struct gw_coll **out)
{
	static const struct gw_bounded_attr defaults;

	return submit_with(comm, operation, attr, bounded ? bounded : &defaults, 0, NULL, out);
}

int gw_bounded_allreduce(struct gw_comm *comm, const struct gw_coll_attr *attr,
			 const struct gw_bounded_attr *bounded, struct gw_coll **out)
{
	return submit_bounded(comm, OPERATION_ALLREDUCE, attr, bounded, out);
}

int gw_bounded_reduce_scatter(struct gw_comm *comm, const struct gw_coll_attr *attr,
			      const struct gw_bounded_attr *bounded, struct gw_coll **out)
{
	return submit_bounded(comm, OPERATION_REDUCE_SCATTER, attr, bounded, out);
}

int gw_bounded_allgather(struct gw_comm *comm, const struct gw_coll_attr *attr,
			 const struct gw_bounded_attr *bounded, struct gw_coll **out)
{
	return submit_bounded(comm, OPERATION_ALLGATHER, attr, bounded, out);
}

int gw_bounded_broadcast(struct gw_comm *comm, const struct gw_coll_attr *attr,
			 const struct gw_bounded_attr *bounded, struct gw_coll **out)
{
	return submit_bounded(comm, OPERATION_BROADCAST, attr, bounded, out);
}

int gw_barrier(struct gw_comm *comm, const struct gw_coll_attr *attr, struct gw_coll **out)
{
	return submit(comm, OPERATION_BARRIER, attr, out);
}

int gw_broadcast(struct gw_comm *comm, const struct gw_coll_attr *attr, struct gw_coll **out)
{
	return submit(comm, OPERATION_BROADCAST, attr, out);
}

int gw_allgather(struct gw_comm *comm, const struct gw_coll_attr *attr, struct gw_coll **out)
{
	return submit(comm, OPERATION_ALLGATHER, attr, out);
}

int gw_reduce_scatter(struct gw_comm *comm, const struct gw_coll_attr *attr, struct gw_coll **out)
{
	return submit(comm, OPERATION_REDUCE_SCATTER, attr, out);
}

int gw_allreduce(struct gw_comm *comm, const struct gw_coll_attr *attr, struct gw_coll **out)
{
	return submit(comm, OPERATION_ALLREDUCE, attr, out);
}

int gw_alltoall(struct gw_comm *comm, const struct gw_coll_attr *attr, struct gw_coll **out)
{
	return submit(comm, OPERATION_ALLTOALL, attr, out);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations under way: steps become messages on channels and arithmetic, until the last one ends. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collective/bounded.h"
#include "collective/comm.h"
#include "collective/multicast.h"
#include "collective/reduce.h"
#include "collective/strands.h"

static uint64_t aligned(uint64_t bytes)
{
	return (bytes + MEMORY_ALIGN - 1) / MEMORY_ALIGN * MEMORY_ALIGN;
}

static uint8_t *address(const struct gw_coll *coll, struct spot where)
{
	const struct layout *layout = &coll->program.layout;
	uint64_t offset = where.place == PLACE_SLOT ? where.first * coll->slot_stride
						    : layout_offset(layout, where.first);

	if (coll->stride && (where.place == PLACE_SEND || where.place == PLACE_RECV)) {
		uint32_t chunk = where.first / layout->segments;

		offset += chunk * coll->stride - layout_offset(layout, chunk * layout->segments);
	}
	return coll_at(coll->base[where.place], offset);
}

static const struct step *step_at(const struct gw_coll *coll, uint32_t index)
{
	return &program_steps(&coll->program)[index];
}

static void advance(struct gw_coll *coll, int result)
{
	if (result == 1)
		coll_end(coll, 0);
	else if (result < 0)
		comm_fail(coll->comm, true, result, "rank %u could not go on with %s number %u: %s",
			  coll->comm->rank, operation_name(coll->task.operation), coll->number,
			  strerror(-result));
}

static void moved(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct move *move = arg;
	struct gw_coll *coll = move->coll;
	struct gw_comm *comm = coll->comm;
	uint32_t index = (uint32_t)(move - coll->moves);
	const struct step *step = step_at(coll, index);

	gw_op_close(op);
	if (!coll_fits(coll, step->kind == STEP_RECV, step->bytes, result))
		coll_disagree(coll, step->peer, step->kind == STEP_RECV, step->bytes, result);
	/* Of other failures the channel's `gone` tells. */
	if (result->status || comm->status)
		return;
	move->ended = true;
	advance(coll, engine_ended(&coll->engine, index));
	if (comm->starved)
		coll_feed(comm);
}

/* After the closing barrier nobody makes progress any more. */
static bool coll_buffers(const struct gw_comm *comm)
{
	return comm->flags & GW_COMM_SERVED && !comm->parting;
}

static int post(void *arg, uint32_t index)
{
	struct gw_coll *coll = arg;
	const struct step *step = step_at(coll, index);
	struct spot where = step->kind == STEP_SEND ? step->from : step->to;
	struct gw_op_attr attr = { .addr = address(coll, where),
				   .length = step->bytes,
				   .mr = coll->mr[where.place],
				   .done = moved,
				   .arg = &coll->moves[index],
				   .flags = coll_buffers(coll->comm) ? GW_OP_BUFFERED : 0,
				   .label = coll->label };
	struct gw_channel *channel;
	struct gw_op *op;
	int error = link_channel(coll->comm, coll_track(coll), step->peer, &channel);

	if (error)
		return error;
	if (step->kind == STEP_SEND)
		error = gw_channel_send(channel, &attr, &op);
	else
		error = gw_channel_recv(channel, &attr, &op);
	if (error == -ENOBUFS)
		coll->comm->starved = true;
	return error == -ENOBUFS ? -EAGAIN : error;
}

static void compute(void *arg, uint32_t index)
{
	struct gw_coll *coll = arg;
	const struct step *step = step_at(coll, index);
	size_t count = step->bytes / coll->task.unit;

	switch (step->kind) {
	case STEP_REDUCE:
		reduce_apply(coll->type, coll->reduction, address(coll, step->to),
			     address(coll, step->from), address(coll, step->with), count);
		break;
	case STEP_SCALE:
		reduce_scale(coll->type, address(coll, step->to), count, coll->task.size);
		break;
	default:
		memmove(address(coll, step->to), address(coll, step->from), step->bytes);
		break;
	}
}

static const struct engine_ops engine_ops = { .post = post, .compute = compute };

int coll_build(struct gw_coll *coll)
{
	const struct layout *layout = &coll->program.layout;
	int error;

	/* Doubling sends several blocks in one message. */
	if (coll->stride && coll->task.algorithm == GW_ALGORITHM_DOUBLING)
		coll->task.algorithm = GW_ALGORITHM_RING;
	coll->task.light =
		choose_is_light(coll->task.operation, coll->task.elements * coll->task.unit,
				coll->task.size, coll->task.algorithm, &coll->network);
	if (coll->task.operation == OPERATION_BROADCAST)
		coll->task.chain_bytes = choose_chain_bytes(coll->task.elements * coll->task.unit,
							    coll->task.size, &coll->network);
	error = algorithm_build(&coll->task, &coll->program);
	if (error)
		return error;
	error = engine_init(&coll->engine, &coll->program, coll->comm->size, &engine_ops, coll);
	if (error)
		return error;
	coll->moves = calloc(coll->program.steps.count + 1, sizeof(*coll->moves));
	if (!coll->moves)
		return -ENOMEM;
	for (uint32_t i = 0; i < coll->program.steps.count; i++)
		coll->moves[i].coll = coll;
	if (coll->program.work)
		coll->work_bytes = aligned(layout_offset(layout, layout_cells(layout)));
	coll->slot_stride = aligned(coll->program.slot_bytes);
	return 0;
}

int track_reserve(struct gw_comm *comm, struct track *track, uint64_t bytes)
{
	int error;

	if (bytes <= track->bytes)
		return 0;
	track_free_memory(track);
	track->memory = aligned_alloc(MEMORY_ALIGN, bytes);
	if (!track->memory)
		return -ENOMEM;
	error = gw_mr_register(comm->office->ctx, track->memory, bytes, &track->mr);
	if (error) {
		track_free_memory(track);
		return error;
	}
	track->bytes = bytes;
	return 0;
}

/* Gives the operation the track's memory. */
static int take_memory(struct gw_coll *coll)
{
	struct track *track = &coll->comm->tracks[coll_track(coll)];
	int error = track_reserve(coll->comm, track,
				  coll->work_bytes + coll->program.slots * coll->slot_stride);

	if (error)
		return error;
	/* A barrier sends what is here, and nobody looks at it. */
	if (coll->task.operation == OPERATION_BARRIER && coll->work_bytes)
		memset(track->memory, 0, coll->work_bytes);
	coll->base[PLACE_WORK] = track->memory;
	coll->base[PLACE_SLOT] = coll_at(track->memory, coll->work_bytes);
	coll->mr[PLACE_WORK] = coll->mr[PLACE_SLOT] = track->mr;
	return 0;
}

void track_free_memory(struct track *track)
{
	if (track->mr)
		gw_mr_deregister(track->mr);
	free(track->memory);
	track->memory = NULL;
	track->mr = NULL;
	track->bytes = 0;
}

/* Limits the channels to their share of the link. The root of a broadcast gets no data, which would tell its rate. */
static void limit(struct gw_coll *coll)
{
	const struct task *task = &coll->task;
	const struct layout *layout = &coll->program.layout;
	uint64_t bytes = task->elements * task->unit, chunk = bytes / layout->chunks;
	struct flow flow = { .peers = 1,
			     .bytes = bytes / task->size * (task->size - 1),
			     .total = bytes };

	if (task->size == 1 || (task->operation == OPERATION_BROADCAST && task->rank == task->root))
		return;
	if (task->operation == OPERATION_ALLREDUCE)
		flow.total = 2 * bytes;
	switch (task->algorithm) {
	case GW_ALGORITHM_DIRECT:
		flow.meanwhile = flow.bytes;
		flow.peers = task->size - 1;
		flow.bytes /= flow.peers;
		break;
	case GW_ALGORITHM_RING:
		/* Of a chunk it sends the other segments while one travels. */
		flow.meanwhile = chunk - chunk / layout->segments;
		break;
	default:
		break;
	}
	limits_begin(coll, &flow);
}

static void run_steps(struct gw_coll *coll)
{
	int error = take_memory(coll);

	coll->start_ns = gw_now_ns(coll->comm->office->ctx);
	limit(coll);
	advance(coll, error ? error : engine_start(&coll->engine));
}

void coll_start(struct gw_comm *comm, uint32_t track)
{
	struct gw_coll *coll;

	if (list_empty(&comm->tracks[track].colls) || comm->status)
		return;
	coll = container_of(comm->tracks[track].colls.next, struct gw_coll, node);
	/* Messages of kept operations may not have been posted, and would come after those of this one. A bounded one sees to that. */
	if (coll->started || coll->undecided ||
	    (!coll->bounded && !list_empty(&comm->tracks[track].kept)))
		return;
	coll->started = true;
	coll->label = coll_label(coll);
	if (coll->multicast)
		multicast_start(coll);
	else if (coll->bounded)
		bounded_start(coll);
	else
		run_steps(coll);
}

void coll_choose(struct gw_coll *coll)
{
	struct task *task = &coll->task;

	task->algorithm = choose_algorithm(task->operation, task->elements * task->unit, task->size,
					   &coll->network, coll->comm->flags & GW_COMM_FIXED_ORDER);
}

int coll_decide(struct gw_coll *coll)
{
	coll->undecided = false;
	coll->network = coll->comm->network;
	if (coll->multicast)
		return 0;
	if (coll->automatic)
		coll_choose(coll);
	return coll_build(coll);
}

void coll_fall_back(struct gw_coll *coll)
{
	int error;

	multicast_free(coll);
	coll_choose(coll);
	error = coll_build(coll);
	coll->label = coll_label(coll);
	if (error)
		advance(coll, error);
	else
		run_steps(coll);
}

void coll_kick(struct gw_comm *comm, uint32_t track, uint32_t peer)
{
	struct gw_coll *coll;

	if (comm->status)
		return;
	bounded_kick(comm, track, peer);
	if (list_empty(&comm->tracks[track].colls))
		return;
	coll = container_of(comm->tracks[track].colls.next, struct gw_coll, node);
	if (coll->bounded)
		return;
	if (coll->started && coll->multicast)
		multicast_kick(coll, peer);
	else if (coll->started)
		advance(coll, engine_kick(&coll->engine, peer));
}

void coll_feed(struct gw_comm *comm)
{
	comm->starved = false;
	for (uint32_t t = 0; t < comm->track_count; t++)
		for (uint32_t r = 0; r < comm->size; r++)
			if (comm->tracks[t].links[r] && comm->tracks[t].links[r]->connected)
				coll_kick(comm, t, r);
}

bool coll_closing_over(const struct gw_comm *comm)
{
	const struct gw_coll *coll = comm->closing;

	for (uint32_t i = 0; !coll->ended && i < coll->program.steps.count; i++)
		if (!coll->moves[i].ended && !comm->left[step_at(coll, i)->peer])
			return false;
	return true;
}

static void give_buffers_back(struct gw_coll *coll)
{
	for (int place = 0; place < PLACE_COUNT; place++)
		if (coll->registered & 1u << place)
			gw_mr_deregister(coll->mr[place]);
	coll->registered = 0;
}

static void give_memory_back(struct gw_coll *coll)
{
	give_buffers_back(coll);
	free(coll->moves);
	coll->moves = NULL;
	engine_free(&coll->engine);
	program_free(&coll->program);
	multicast_free(coll);
}

void coll_free(struct gw_coll *coll)
{
	give_memory_back(coll);
	bounded_free(coll);
	list_del(&coll->node);
	list_del(&coll->handle);
	free(coll->parts);
	free(coll);
}

void coll_tell(struct gw_coll *coll, int status)
{
	coll->ended = true;
	coll->result.status = status;
	limits_end(coll);
	if (!status)
		agree_measure(coll);
	give_buffers_back(coll);
	if (coll->done) {
		coll->telling = true;
		coll->done(coll, coll->arg, &coll->result);
		coll->telling = false;
	}
}

void coll_over(struct gw_coll *coll, int status)
{
	if (!coll->ended)
		coll_tell(coll, status);
	coll->over = true;
	if (coll->closed)
		coll_free(coll);
}

void coll_end(struct gw_coll *coll, int status)
{
	struct gw_comm *comm = coll->comm;
	uint32_t track = coll_track(coll);

	list_del(&coll->node);
	limits_end(coll);
	give_memory_back(coll);
	if (parts_open(coll)) {
		coll->result.status = status;
		list_add_tail(&comm->partly, &coll->node);
	} else {
		if (!status && coll->parts)
			status = atomic_load(&coll->parts->status);
		coll_over(coll, status);
	}
	coll_start(comm, track);
}

int gw_coll_test(const struct gw_coll *coll, struct gw_coll_result *out)
{
	if (!coll)
		return -EINVAL;
	if (coll->ended && out)
		*out = coll->result;
	return coll->ended;
}

int gw_coll_close(struct gw_coll *coll)
{
	if (!coll)
		return -EINVAL;
	if (!coll->ended)
		return -EBUSY;
	coll->closed = true;
	if (!coll->telling && coll->over)
		coll_free(coll);
	return 0;
}

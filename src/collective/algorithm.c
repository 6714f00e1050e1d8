/* SPDX-License-Identifier: BSD-3-Clause */
/* Which algorithm, with which layout and slots. */
#include <stddef.h>

#include "collective/algorithm.h"

/* Bytes of a segment unless told. Short ones overlap rounds, and reducing with sending, better, and wait for no grant, but a channel has
 * few of them under way (choose_is_light()). A ring halves its chunks where they are not shorter than SEGMENT_BYTES then. A direct
 * reduction has memory for two segments of each rank, and fills the link between two grants with longer ones. */
#define SEGMENT_BYTES	     (UINT32_C(64) << 10)
#define LONG_SEGMENT_BYTES   (UINT32_C(256) << 10)
#define SHARED_SEGMENT_BYTES (UINT32_C(1) << 20)
#define SEGMENTS_MAX	     64
/* The last rank of a chain waits for a segment on each link before its own. */
#define CHAIN_SEGMENTS_MAX 128
/* Round-trip time from which on ranks are far apart. */
#define FAR_NS UINT64_C(1000000)
/* An allreduce up to this moves all of the data in every round. Between two ranks there is one round, which moves no more than the two
 * rounds of other algorithms; above PAIR_BYTES, which are one message without a grant, those overlap their messages. */
#define WHOLE_BYTES (UINT32_C(8) << 10)
#define PAIR_BYTES  (UINT32_C(64) << 10)

static const char *const operation_names[OPERATION_COUNT] = {
	"barrier", "broadcast", "allgather", "reduce_scatter", "allreduce", "alltoall",
};

static const char *const algorithm_names[] = {
	"auto", "ring", "doubling", "tree", "direct", "multicast",
};

#define BIT(algorithm) (1u << (algorithm))

/* For each operation a bit for each algorithm that it has. */
static const unsigned fits[OPERATION_COUNT] = {
	[OPERATION_BARRIER] = BIT(GW_ALGORITHM_DOUBLING),
	[OPERATION_BROADCAST] =
		BIT(GW_ALGORITHM_RING) | BIT(GW_ALGORITHM_TREE) | BIT(GW_ALGORITHM_DIRECT),
	[OPERATION_ALLGATHER] =
		BIT(GW_ALGORITHM_RING) | BIT(GW_ALGORITHM_DOUBLING) | BIT(GW_ALGORITHM_DIRECT),
	[OPERATION_REDUCE_SCATTER] =
		BIT(GW_ALGORITHM_RING) | BIT(GW_ALGORITHM_DOUBLING) | BIT(GW_ALGORITHM_DIRECT),
	[OPERATION_ALLREDUCE] =
		BIT(GW_ALGORITHM_RING) | BIT(GW_ALGORITHM_DOUBLING) | BIT(GW_ALGORITHM_DIRECT),
	[OPERATION_ALLTOALL] = BIT(GW_ALGORITHM_DIRECT),
};

bool algorithm_fits(enum operation operation, enum gw_algorithm algorithm)
{
	return (unsigned)algorithm <= GW_ALGORITHM_MULTICAST && fits[operation] & BIT(algorithm);
}

const char *algorithm_name(enum gw_algorithm algorithm)
{
	return algorithm_names[algorithm];
}

const char *operation_name(enum operation operation)
{
	return operation_names[operation];
}

bool operation_has_blocks(enum operation operation)
{
	return operation == OPERATION_ALLGATHER || operation == OPERATION_REDUCE_SCATTER ||
	       operation == OPERATION_ALLTOALL;
}

bool algorithm_is_near(uint64_t rtt_ns)
{
	return rtt_ns && rtt_ns < FAR_NS;
}

bool algorithm_moves_all(uint64_t bytes, uint32_t size)
{
	return bytes <= (size == 2 ? PAIR_BYTES : WHOLE_BYTES);
}

/* Bytes that a segment should have where nobody told. */
static uint32_t segment_target(const struct task *task)
{
	bool reduces = task->operation == OPERATION_ALLREDUCE ||
		       task->operation == OPERATION_REDUCE_SCATTER;

	if (task->algorithm == GW_ALGORITHM_RING && task->chain_bytes)
		return task->chain_bytes;
	if (task->light)
		return SEGMENT_BYTES;
	switch (task->algorithm) {
	case GW_ALGORITHM_RING:
		return LONG_SEGMENT_BYTES;
	case GW_ALGORITHM_DIRECT:
		return reduces ? SHARED_SEGMENT_BYTES : LONG_SEGMENT_BYTES;
	default:
		return SEGMENT_BYTES;
	}
}

static uint32_t segments_for(const struct task *task, uint32_t chunks)
{
	uint64_t bytes = task->elements / chunks * task->unit, target = task->segment_bytes,
		 segments;
	bool ring = task->algorithm == GW_ALGORITHM_RING;
	bool chain = ring && task->operation == OPERATION_BROADCAST;
	uint32_t most = chain ? CHAIN_SEGMENTS_MAX : SEGMENTS_MAX;

	if (!target)
		target = segment_target(task);
	if (!task->segment_bytes && !task->chain_bytes && ring && bytes < 2 * target)
		target = bytes / 2 > SEGMENT_BYTES ? bytes / 2 : SEGMENT_BYTES;
	segments = (bytes + target - 1) / target;

	return segments < 1 ? 1 : segments > most ? most : (uint32_t)segments;
}

uint64_t algorithm_chain_segment(uint64_t bytes, uint32_t chain_bytes)
{
	struct task task = { .operation = OPERATION_BROADCAST,
			     .algorithm = GW_ALGORITHM_RING,
			     .unit = 1,
			     .elements = bytes,
			     .chain_bytes = chain_bytes };

	return bytes / segments_for(&task, 1);
}

static struct layout layout_for(const struct task *task)
{
	struct layout layout = { task->elements, task->unit, task->size, 1 };

	switch (task->algorithm) {
	case GW_ALGORITHM_DOUBLING:
		if (task->operation == OPERATION_BARRIER)
			layout = (struct layout){ doublings(task->size) + 1, 1,
						  doublings(task->size) + 1, 1 };
		else if (task->operation == OPERATION_ALLREDUCE &&
			 algorithm_moves_all(task->elements * task->unit, task->size))
			layout.chunks = 1;
		break;
	case GW_ALGORITHM_RING:
		if (task->operation == OPERATION_BROADCAST)
			layout.chunks = 1;
		layout.segments = segments_for(task, layout.chunks);
		break;
	case GW_ALGORITHM_TREE:
		layout.chunks = 1;
		layout.segments = segments_for(task, 1);
		break;
	default:
		/* The root of a broadcast has no chunk of its own. */
		if (task->operation == OPERATION_BROADCAST && task->size > 1)
			layout.chunks = task->size - 1;
		layout.segments = segments_for(task, layout.chunks);
		break;
	}
	return layout;
}

static uint32_t slots_for(const struct task *task, const struct layout *layout)
{
	if (task->operation != OPERATION_ALLREDUCE && task->operation != OPERATION_REDUCE_SCATTER)
		return 0;
	if (task->algorithm == GW_ALGORITHM_DOUBLING)
		return layout->chunks == 1 ? doublings(task->size) + 1 : task->size;
	if (task->algorithm == GW_ALGORITHM_DIRECT)
		return 2 * task->size;
	return RING_ROUNDS * layout->segments;
}

static void write_steps(struct program *program, const struct task *task)
{
	static void (*const reduce_scatter[])(struct program *, const struct task *) = {
		[GW_ALGORITHM_RING] = ring_reduce_scatter,
		[GW_ALGORITHM_DOUBLING] = doubling_reduce_scatter,
		[GW_ALGORITHM_DIRECT] = direct_reduce_scatter,
	};
	static void (*const allgather[])(struct program *, const struct task *, enum place) = {
		[GW_ALGORITHM_RING] = ring_allgather,
		[GW_ALGORITHM_DOUBLING] = doubling_allgather,
		[GW_ALGORITHM_DIRECT] = direct_allgather,
	};
	static void (*const broadcast[])(struct program *, const struct task *) = {
		[GW_ALGORITHM_RING] = ring_broadcast,
		[GW_ALGORITHM_TREE] = tree_broadcast,
		[GW_ALGORITHM_DIRECT] = direct_broadcast,
	};
	struct spot all = spot(PLACE_RECV, 0, layout_cells(&program->layout)), given = all;

	switch (task->operation) {
	case OPERATION_BARRIER:
		doubling_barrier(program, task);
		break;
	case OPERATION_BROADCAST:
		broadcast[task->algorithm](program, task);
		given.place = PLACE_SEND;
		if (task->rank == task->root)
			program_copy(program, all, given);
		break;
	case OPERATION_ALLGATHER:
		allgather[task->algorithm](program, task, PLACE_SEND);
		break;
	case OPERATION_REDUCE_SCATTER:
		reduce_scatter[task->algorithm](program, task);
		break;
	case OPERATION_ALLREDUCE:
		if (task->algorithm == GW_ALGORITHM_DOUBLING &&
		    algorithm_moves_all(task->elements * task->unit, task->size)) {
			doubling_allreduce(program, task);
			break;
		}
		reduce_scatter[task->algorithm](program, task);
		allgather[task->algorithm](program, task, PLACE_RECV);
		break;
	default:
		direct_alltoall(program, task);
		break;
	}
}

int algorithm_build(const struct task *task, struct program *out)
{
	struct layout layout = layout_for(task);
	int error = program_init(out, &layout, slots_for(task, &layout), task->in_place);

	if (error)
		return error;
	write_steps(out, task);
	error = program_seal(out);
	if (error)
		program_free(out);
	return error;
}

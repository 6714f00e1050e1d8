/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algorithm.h: from an operation to the list of steps of one rank. Pure functions.
 *
 * Every rank builds its own list from the same task, apart from `rank`; the lists fit together because each algorithm names the
 * messages between two ranks in the same order on both sides. tests/unit/collective runs all lists of an operation against each
 * other, with messages that end in any order.
 */
#ifndef COLLECTIVE_ALGORITHM_H
#define COLLECTIVE_ALGORITHM_H

#include <stdbool.h>
#include <stdint.h>

#include <godwit/collective.h>

#include "collective/program.h"

enum operation {
	OPERATION_BARRIER,
	OPERATION_BROADCAST,
	OPERATION_ALLGATHER,
	OPERATION_REDUCE_SCATTER,
	OPERATION_ALLREDUCE,
	OPERATION_ALLTOALL,
	OPERATION_COUNT,
};

/* Rounds of a ring's reduce-scatter that have slots of their own. */
#define RING_ROUNDS 4

/* One operation, as one rank sees it. */
struct task {
	enum operation operation;
	/* one that the operation has: algorithm_fits() */
	enum gw_algorithm algorithm;
	uint32_t rank;
	uint32_t size;
	uint32_t root;
	/* bytes of an element */
	uint32_t unit;
	/* elements of the whole data: of a broadcast or an allreduce its count, otherwise size times its count */
	uint64_t elements;
	/* bytes that a segment should have; 0: by size and ranks */
	uint32_t segment_bytes;
	/* all ranks are in one place: algorithm_is_near() */
	bool near;
	/* short segments are best: choose_is_light() */
	bool light;
	/* bytes that a segment of a chain should have: choose_chain_bytes(); 0: as those of a ring */
	uint32_t chain_bytes;
	/* the result is divided by the number of ranks */
	bool mean;
	/* `send` and `recv` share memory */
	bool in_place;
};

/* Whether an operation can be done by an algorithm that is a list of steps. */
bool algorithm_fits(enum operation operation, enum gw_algorithm algorithm);

/* Whether ranks with this round-trip time (0: not known) are in one place. */
bool algorithm_is_near(uint64_t rtt_ns);

/* Whether an allreduce by doubling moves all of the data in every round, rather than be a reduce-scatter and an allgather. */
bool algorithm_moves_all(uint64_t bytes, uint32_t size);

/* Bytes of a segment of a broadcast by a chain whose task has `chain_bytes`. */
uint64_t algorithm_chain_segment(uint64_t bytes, uint32_t chain_bytes);

/* "ring", "doubling" and so on. */
const char *algorithm_name(enum gw_algorithm algorithm);
const char *operation_name(enum operation operation);
/* Whether its larger buffer has a block for each rank. */
bool operation_has_blocks(enum operation operation);

/* Builds the list. -ENOMEM */
int algorithm_build(const struct task *task, struct program *out);

/* The parts, each in a file of its own. */
void ring_reduce_scatter(struct program *program, const struct task *task);
void ring_allgather(struct program *program, const struct task *task, enum place own);
void ring_broadcast(struct program *program, const struct task *task);

void doubling_reduce_scatter(struct program *program, const struct task *task);
void doubling_allgather(struct program *program, const struct task *task, enum place own);
void doubling_allreduce(struct program *program, const struct task *task);
void doubling_barrier(struct program *program, const struct task *task);

void tree_broadcast(struct program *program, const struct task *task);

void direct_reduce_scatter(struct program *program, const struct task *task);
void direct_allgather(struct program *program, const struct task *task, enum place own);
void direct_broadcast(struct program *program, const struct task *task);
void direct_alltoall(struct program *program, const struct task *task);

/* Distances 1, 2, 4 below the number of ranks. */
static inline uint32_t doublings(uint32_t size)
{
	uint32_t count = 0;

	while ((UINT32_C(1) << count) < size)
		count++;
	return count;
}

/* The cell of a chunk's segment, in a place; whole: all segments of a chunk. */
static inline struct spot at(const struct program *program, enum place place, uint32_t chunk,
			     uint32_t segment)
{
	return spot(place, chunk * program->layout.segments + segment, 1);
}

static inline struct spot whole(const struct program *program, enum place place, uint32_t chunk,
				uint32_t chunks)
{
	return spot(place, chunk * program->layout.segments, chunks * program->layout.segments);
}

#endif

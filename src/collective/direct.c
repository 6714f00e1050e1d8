/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every rank to every other, without a rank between: one round for each half of an operation, and as few bytes as a ring. Each
 * rank starts with the one that follows it, so that they do not all send to the same. A reduction has all shares of its chunk at
 * hand and adds them in the order of ranks: the result depends on nothing else.
 */
#include "collective/algorithm.h"

static uint32_t ahead(const struct task *task, uint32_t by)
{
	return (task->rank + by) % task->size;
}

/* The share of a rank: its slot, or the caller's memory. Slots of two segments take turns. */
static struct spot share_of(const struct program *program, const struct task *task, uint32_t rank,
			    uint32_t segment)
{
	uint32_t ahead_by = (rank + task->size - task->rank) % task->size;

	if (!ahead_by)
		return at(program, PLACE_SEND, task->rank, segment);
	return spot(PLACE_SLOT, segment % 2 * (task->size - 1) + ahead_by - 1, 1);
}

void direct_reduce_scatter(struct program *program, const struct task *task)
{
	uint32_t size = task->size;

	for (uint32_t k = 0; k < program->layout.segments; k++) {
		struct spot mine = at(program, PLACE_RECV, task->rank, k);
		struct spot sum = share_of(program, task, 0, k);

		for (uint32_t i = 1; i < size; i++) {
			uint32_t from = ahead(task, size - i);

			program_send(program, ahead(task, i),
				     at(program, PLACE_SEND, ahead(task, i), k));
			program_recv_as(program, from, share_of(program, task, from, k), mine);
		}
		/* Partial sums stay in a slot: in place, `mine` still has this rank's own share. */
		for (uint32_t rank = 1; rank < size; rank++) {
			struct spot with = share_of(program, task, rank, k), to = sum;

			if (rank + 1 == size)
				to = mine;
			else if (sum.place != PLACE_SLOT)
				to = with;
			program_reduce_as(program, to, sum, with, mine);
			sum = to;
		}
		if (size == 1)
			program_copy(program, mine, sum);
		if (task->mean)
			program_scale(program, mine);
	}
}

void direct_allgather(struct program *program, const struct task *task, enum place own)
{
	for (uint32_t k = 0; k < program->layout.segments; k++) {
		for (uint32_t i = 1; i < task->size; i++) {
			uint32_t from = ahead(task, task->size - i);

			program_send(program, ahead(task, i), at(program, own, task->rank, k));
			program_recv(program, from, at(program, PLACE_RECV, from, k));
		}
	}
	program_copy(program, whole(program, PLACE_RECV, task->rank, 1),
		     whole(program, own, task->rank, 1));
}

/*
 * The root gives each other rank a chunk, which hands it to all but the root. There is none for the root itself: it sends the data
 * once. The rank that follows the root has chunk 0.
 */
void direct_broadcast(struct program *program, const struct task *task)
{
	uint32_t size = task->size, root = task->root;
	uint32_t own = (task->rank + size - root - 1) % size;

	for (uint32_t k = 0; k < program->layout.segments; k++) {
		for (uint32_t i = 1; task->rank == root && i < size; i++)
			program_send(program, ahead(task, i), at(program, PLACE_SEND, i - 1, k));
		if (task->rank == root)
			continue;
		program_recv(program, root, at(program, PLACE_RECV, own, k));
		for (uint32_t i = 1; i < size; i++) {
			uint32_t to = ahead(task, i), from = ahead(task, size - i);
			uint32_t theirs = (from + size - root - 1) % size;

			if (to != root)
				program_send(program, to, at(program, PLACE_RECV, own, k));
			if (from != root)
				program_recv(program, from, at(program, PLACE_RECV, theirs, k));
		}
	}
}

void direct_alltoall(struct program *program, const struct task *task)
{
	/* In place, what is to be sent is put aside before anything comes in. */
	enum place source = task->in_place ? PLACE_WORK : PLACE_SEND;

	for (uint32_t i = 0; task->in_place && i < task->size; i++)
		program_copy(program, whole(program, PLACE_WORK, ahead(task, i), 1),
			     whole(program, PLACE_SEND, ahead(task, i), 1));
	for (uint32_t k = 0; k < program->layout.segments; k++) {
		for (uint32_t i = 1; i < task->size; i++) {
			uint32_t to = ahead(task, i), from = ahead(task, task->size - i);

			program_send(program, to, at(program, source, to, k));
			program_recv(program, from, at(program, PLACE_RECV, from, k));
		}
	}
	program_copy(program, whole(program, PLACE_RECV, task->rank, 1),
		     whole(program, source, task->rank, 1));
}

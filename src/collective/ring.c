/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbours in a ring. Every rank sends to its right neighbour and receives from its left one; in each of size - 1 rounds a
 * chunk moves on by one rank. The least data for each rank: a reduce-scatter or an allgather sends (size - 1) / size of it.
 */
#include "collective/algorithm.h"

static uint32_t back(const struct task *task, uint32_t by)
{
	return (task->rank + task->size - by % task->size) % task->size;
}

/*
 * In round s a rank sends chunk rank - 1 - s, which holds the sum of s + 1 ranks by then, and adds its own share to the one that
 * comes in: rank - 2 - s. The last one to come is its own. Partial sums stay in the slot that they came in until they were
 * sent and the news of its arrival has come: that and the grant of the next receive take a round trip, which is why there are slots for
 * RING_ROUNDS rounds.
 */
void ring_reduce_scatter(struct program *program, const struct task *task)
{
	uint32_t size = task->size, segments = program->layout.segments;
	uint32_t right = (task->rank + 1) % size, left = back(task, 1);

	for (uint32_t s = 0; s + 1 < size; s++) {
		bool last = s + 2 == size;

		for (uint32_t k = 0; k < segments; k++) {
			uint32_t out = back(task, 1 + s), in = back(task, 2 + s);
			/* that of the round before holds the sum to be sent */
			struct spot sum = spot(PLACE_SLOT, s % RING_ROUNDS * segments + k, 1);
			struct spot sent = spot(
				PLACE_SLOT, (s + RING_ROUNDS - 1) % RING_ROUNDS * segments + k, 1);
			struct spot share = at(program, PLACE_SEND, in, k);
			struct spot next = at(program, PLACE_SEND, out, k);

			program_send_as(program, right, s ? sent : next, next);
			program_recv_as(program, left, sum, share);
			program_reduce_as(program, last ? at(program, PLACE_RECV, in, k) : sum, sum,
					  share, share);
		}
	}
	if (size == 1)
		program_copy(program, whole(program, PLACE_RECV, 0, 1),
			     whole(program, PLACE_SEND, 0, 1));
	if (task->mean)
		for (uint32_t k = 0; k < segments; k++)
			program_scale(program, at(program, PLACE_RECV, task->rank, k));
}

void ring_allgather(struct program *program, const struct task *task, enum place own)
{
	uint32_t size = task->size, segments = program->layout.segments;
	uint32_t right = (task->rank + 1) % size, left = back(task, 1);

	for (uint32_t s = 0; s + 1 < size; s++) {
		for (uint32_t k = 0; k < segments; k++) {
			program_send(program, right,
				     at(program, s ? PLACE_RECV : own, back(task, s), k));
			program_recv(program, left, at(program, PLACE_RECV, back(task, s + 1), k));
		}
	}
	program_copy(program, whole(program, PLACE_RECV, task->rank, 1),
		     whole(program, own, task->rank, 1));
}

/* A chain from the root on: each rank hands on what it got, segment by segment. */
void ring_broadcast(struct program *program, const struct task *task)
{
	uint32_t right = (task->rank + 1) % task->size, left = back(task, 1);
	bool first = task->rank == task->root, last = right == task->root;

	for (uint32_t k = 0; k < layout_cells(&program->layout); k++) {
		if (!first)
			program_recv(program, left, spot(PLACE_RECV, k, 1));
		if (!last)
			program_send(program, right, spot(first ? PLACE_SEND : PLACE_RECV, k, 1));
	}
}

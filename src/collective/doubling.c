/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs of ranks at distances 1, 2, 4: as few rounds as there can be, for sizes where a round trip costs more than the bytes. Any
 * number of ranks: the last round is a part of one.
 */
#include "collective/algorithm.h"

static uint32_t ahead(const struct task *task, uint32_t by)
{
	return (task->rank + by) % task->size;
}

static uint32_t back(const struct task *task, uint32_t by)
{
	return (task->rank + task->size - by) % task->size;
}

/* Chunks that change hands at a distance. */
static uint32_t moved(const struct task *task, uint32_t distance)
{
	return distance < task->size - distance ? distance : task->size - distance;
}

/* Before the round at a distance d a rank has the chunks rank to rank + d - 1 and gets those that follow from rank + d. Chunks
 * that follow each other in memory go in one message. */
void doubling_allgather(struct program *program, const struct task *task, enum place own)
{
	uint32_t size = task->size;

	program_copy(program, whole(program, PLACE_RECV, task->rank, 1),
		     whole(program, own, task->rank, 1));
	for (uint32_t d = 1; d < size; d *= 2) {
		uint32_t count = moved(task, d);

		for (int incoming = 0; incoming < 2; incoming++) {
			uint32_t first = incoming ? ahead(task, d) : task->rank;
			uint32_t until_end = count < size - first ? count : size - first;

			for (int wrapped = 0; wrapped < 2; wrapped++) {
				uint32_t chunks = wrapped ? count - until_end : until_end;
				struct spot part =
					whole(program, PLACE_RECV, wrapped ? 0 : first, chunks);

				if (incoming)
					program_recv(program, ahead(task, d), part);
				else
					program_send(program, back(task, d), part);
			}
		}
	}
}

/* Slot of the partial sum of chunk rank + offset that came at a distance: those of greater distances were filled before. */
static uint32_t slot_of(const struct task *task, uint32_t distance, uint32_t offset)
{
	uint32_t before = 0;

	for (uint32_t d = 2 * distance; d < task->size; d *= 2)
		before += moved(task, d);
	return before + offset;
}

/* Sends or reduces the newest partial sum of chunk rank + offset before the round at a distance: the slot in which it is, or this
 * rank's own share if none has come. */
static struct spot newest(const struct program *program, const struct task *task, uint32_t distance,
			  uint32_t offset)
{
	for (uint32_t d = 2 * distance; d < task->size; d *= 2)
		if (offset < moved(task, d))
			return spot(PLACE_SLOT, slot_of(task, d, offset), 1);
	return whole(program, PLACE_SEND, ahead(task, offset), 1);
}

/* The same backwards: a rank hands rank + d the partial sums of the chunks that are to be there and beyond, and adds what
 * rank - d has for its own. A message a chunk: they share packets. */
void doubling_reduce_scatter(struct program *program, const struct task *task)
{
	struct spot mine = whole(program, PLACE_RECV, task->rank, 1);

	for (uint32_t d = UINT32_C(1) << doublings(task->size); d /= 2;) {
		uint32_t count = moved(task, d);

		for (uint32_t i = 0; i < count; i++)
			program_send_as(program, ahead(task, d), newest(program, task, d, d + i),
					whole(program, PLACE_SEND, ahead(task, d + i), 1));
		for (uint32_t i = 0; i < count; i++) {
			struct spot like = whole(program, PLACE_SEND, ahead(task, i), 1);
			struct spot sum = spot(PLACE_SLOT, slot_of(task, d, i), 1);

			program_recv_as(program, back(task, d), sum, like);
			program_reduce_as(program, d == 1 ? mine : sum, sum,
					  newest(program, task, d, i), like);
		}
	}
	if (task->size == 1)
		program_copy(program, mine, whole(program, PLACE_SEND, 0, 1));
	if (task->mean)
		program_scale(program, mine);
}

/*
 * All of the data in every round: half the rounds of the two above, for small sizes. With a number of ranks that is no power of
 * two, the first ones pair up before, and one of each pair sits out until the end. Both partners of a round add in the same
 * order, that of ranks, so that all ranks have the same bits.
 */
void doubling_allreduce(struct program *program, const struct task *task)
{
	uint32_t folded = task->size, even = 1, slot = 0, place;
	struct spot all = spot(PLACE_SEND, 0, layout_cells(&program->layout)), sum = all,
		    result = all;

	result.place = PLACE_RECV;
	while (2 * even <= task->size)
		even *= 2;
	folded -= even;
	if (task->rank < 2 * folded && task->rank % 2 == 0) {
		program_send(program, task->rank + 1, all);
		program_recv(program, task->rank + 1, result);
		return;
	}
	if (task->rank < 2 * folded) {
		struct spot in = spot(PLACE_SLOT, slot++, 1);

		program_recv_as(program, task->rank - 1, in, all);
		sum = even == 1 ? result : in;
		program_reduce_as(program, sum, in, all, all);
	}
	place = task->rank < 2 * folded ? task->rank / 2 : task->rank - folded;
	for (uint32_t d = 1; d < even; d *= 2) {
		uint32_t other = place ^ d;
		uint32_t peer = other < folded ? 2 * other + 1 : other + folded;
		struct spot in = spot(PLACE_SLOT, slot++, 1), to = 2 * d < even ? in : result;

		program_send_as(program, peer, sum, all);
		program_recv_as(program, peer, in, all);
		if (peer < task->rank)
			program_reduce_as(program, to, in, sum, all);
		else
			program_reduce_as(program, to, sum, in, all);
		sum = to;
	}
	if (task->size == 1)
		program_copy(program, result, all);
	if (task->mean)
		program_scale(program, result);
	if (task->rank < 2 * folded)
		program_send(program, task->rank - 1, result);
}

/* In the round at a distance a rank tells the one ahead that it, and all that it heard of, have come. */
void doubling_barrier(struct program *program, const struct task *task)
{
	uint32_t heard[32], count = 0;

	for (uint32_t d = 1; d < task->size; d *= 2) {
		uint32_t told = program_send(program, ahead(task, d), spot(PLACE_WORK, 0, 1));

		for (uint32_t i = 0; i < count; i++)
			program_after(program, told, heard[i]);
		heard[count] = program_recv(program, back(task, d), spot(PLACE_WORK, 1 + count, 1));
		count++;
	}
}

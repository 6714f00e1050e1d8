/* SPDX-License-Identifier: BSD-3-Clause */
/* A binomial tree: in each round twice as many ranks have the data. */
#include "collective/algorithm.h"

void tree_broadcast(struct program *program, const struct task *task)
{
	uint32_t size = task->size, place = (task->rank + size - task->root) % size;
	uint32_t low = UINT32_C(1) << doublings(size);

	/* The lowest bit of its place is what a rank is away from its parent. */
	if (place)
		low = place & -place;
	for (uint32_t k = 0; k < layout_cells(&program->layout); k++) {
		if (place)
			program_recv(program, (place - low + task->root) % size,
				     spot(PLACE_RECV, k, 1));
		for (uint32_t d = low; d /= 2;)
			if (place + d < size)
				program_send(program, (place + d + task->root) % size,
					     spot(place ? PLACE_RECV : PLACE_SEND, k, 1));
	}
}

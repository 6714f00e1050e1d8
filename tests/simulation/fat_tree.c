/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes on the links of a fat tree; see fat_tree.h. */
#include "simulation/fat_tree.h"

#include "collective/algorithm.h"

#define LEAF_HOSTS 16u
#define POD_HOSTS  256u

/* Links between two hosts. */
static uint32_t links_between(uint32_t a, uint32_t b)
{
	return a / LEAF_HOSTS == b / LEAF_HOSTS ? 2 : a / POD_HOSTS == b / POD_HOSTS ? 4 : 6;
}

uint64_t fat_tree_crossings(uint32_t ranks, enum gw_algorithm algorithm)
{
	uint64_t crossings = 0;

	for (uint32_t r = 0; r < ranks; r++) {
		/* a block has one byte */
		struct task task = { .operation = OPERATION_ALLGATHER,
				     .algorithm = algorithm,
				     .rank = r,
				     .size = ranks,
				     .unit = 1,
				     .elements = ranks };
		struct program program;

		if (algorithm_build(&task, &program))
			return 0;
		for (uint32_t i = 0; i < program.steps.count; i++) {
			const struct step *step = &program_steps(&program)[i];

			if (step->kind == STEP_SEND)
				crossings += step->bytes * links_between(r, step->peer);
		}
		program_free(&program);
	}
	return crossings;
}

/* One packet goes up as far as it has to and down to every host: over each link to a host once, and, where there are several, once over
 * each link to a leaf switch and to a pod. The sender's own are crossed upwards. */
uint64_t fat_tree_multicast_crossings(uint32_t ranks)
{
	uint64_t leaves = (ranks + LEAF_HOSTS - 1) / LEAF_HOSTS;
	uint64_t pods = (ranks + POD_HOSTS - 1) / POD_HOSTS;

	return ranks * (ranks + (leaves > 1 ? leaves : 0) + (pods > 1 ? pods : 0));
}

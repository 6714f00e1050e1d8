/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h: the shape of what is coded together: a run of data symbols (packets), all of one length but perhaps the last.
 *
 * A message rarely fills its last group, nor its last packet. What is not there counts as zeros on both ends: it is
 * neither sent nor read nor written, and the memory need not exist.
 */
#ifndef CODING_GROUP_H
#define CODING_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coding_group {
	unsigned count; /* data symbols there are; those up to k count as zeros */
	size_t length;	/* of a parity symbol, and of each data symbol but the last */
	size_t last;	/* of data symbol count - 1; from 1 to length */
};

/* Whether this can be a group of a code with k data symbols. */
bool coding_group_valid(const struct coding_group *group, unsigned k);

/*
 * Whether these are `erasures` different symbols of the group, in ascending order. Ascending, because a receiver reads
 * them off a bitmap that way, and then a symbol named twice is easy to see.
 */
bool coding_erased_valid(const struct coding_group *group, const uint8_t *erased,
			 unsigned erasures);

#endif

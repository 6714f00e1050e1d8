/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h: the data symbols (packets) that are coded together. All have the same length, except that the last may be
 * shorter.
 *
 * A message rarely fills its last group or its last packet. Both ends count the missing symbols and bytes as zeros: they
 * are neither sent nor read nor written, and their memory need not exist.
 */
#ifndef CODING_GROUP_H
#define CODING_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coding_group {
	/* data symbols in the group; further ones up to k count as zeros */
	unsigned count;
	/* bytes in a parity symbol, and in each data symbol but the last */
	size_t length;
	/* bytes in the last data symbol, from 1 to length */
	size_t last;
};

/* True if this can be a group of a code with k data symbols. */
bool coding_group_valid(const struct coding_group *group, unsigned k);

/*
 * True if erased[] holds `erasures` distinct symbols of the group in ascending order, the order in which a receiver reads
 * them from a bitmap.
 */
bool coding_erased_valid(const struct coding_group *group, const uint8_t *erased,
			 unsigned erasures);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * xor.h: the cheap code. Data symbol j belongs to row j mod m, and parity symbol i is the exclusive or of row i.
 *
 * One loss in each row can be mended, so a burst of up to m packets can, while two losses that meet in a row cannot.
 * Needs no tables and nothing prepared. The calls answer -EINVAL, and touch nothing, for arguments that make no sense.
 */
#ifndef CODING_XOR_H
#define CODING_XOR_H

#include "coding/group.h"

#define XOR_SYMBOLS_MAX 256 /* data symbols of a group */

/* vectors[count] = vectors[0] + ... + vectors[count - 1], for `length` bytes. The pointers move on behind what was summed. */
void xor_sum(void *vectors[], unsigned count, size_t length);

/* parity[] has m entries of group->length bytes. A row without data has a parity of zeros. */
int xor_encode(const struct coding_group *group, unsigned m, const void *const data[],
	       void *const parity[]);

/*
 * Rebuilds the data symbols named in erased[] (ascending). parity[] has m entries, NULL for a symbol that did not
 * arrive. -ENODATA if a row lost two of its symbols, parity included: then nothing was written.
 */
int xor_decode(const struct coding_group *group, unsigned m, void *const data[],
	       const uint8_t *erased, unsigned erasures, const void *const parity[]);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * xor.h: the XOR code, which is cheap to compute. Data symbol j belongs to row j mod m, and parity symbol i is the exclusive
 * or of row i.
 *
 * One loss in each row can be repaired, so a burst of up to m packets can; two losses in one row cannot. The code needs no
 * tables and no coder. Calls return -EINVAL for invalid arguments, and then write nothing.
 */
#ifndef CODING_XOR_H
#define CODING_XOR_H

#include "coding/group.h"

/* Most data symbols in a group. */
#define XOR_SYMBOLS_MAX 256

/* Sets vectors[count] to the exclusive or of vectors[0] to vectors[count - 1], for `length` bytes, and advances all pointers
 * by `length`. */
void xor_sum(void *vectors[], unsigned count, size_t length);

/* Computes m parity symbols of group->length bytes. The parity of a row without data is zeros. */
int xor_encode(const struct coding_group *group, unsigned m, const void *const data[],
	       void *const parity[]);

/*
 * Computes the data symbols listed in erased[] (ascending). parity[] is read at their rows: symbol i has row i mod m. NULL
 * stands for a parity symbol that did not arrive.
 * Returns 0, or -ENODATA if a row lost two of its symbols, parity included; then nothing is written.
 */
int xor_decode(const struct coding_group *group, unsigned m, void *const data[],
	       const uint8_t *erased, unsigned erasures, const void *const parity[]);

#endif

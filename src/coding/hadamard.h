/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hadamard.h: the randomised Hadamard transform, block by block and in place. It spreads each number of a block over all of the
 * block's coefficients, so that a lost packet costs every number a little instead of some numbers everything.
 *
 * A block of n numbers x becomes the coefficients H D x / sqrt(n). H is the Walsh-Hadamard matrix, whose entries are +1 and -1;
 * D flips signs that are drawn from a seed. The transform keeps lengths and angles (it is orthonormal), so that an error has the
 * same energy before and after it; and it is linear, so that coefficients of several ranks can be summed and transformed back
 * once, if all ranks used the same seed, type, count and block.
 *
 * If k of a block's n coefficients arrived, which of them does not depend on the signs, and those that did not are replaced by
 * 0 and the others multiplied by n / k, then the inverse is the original on average over the seeds. An operation that is
 * repeated therefore needs a fresh seed each time.
 *
 * A count that is not a multiple of the block: the last n numbers are transformed once more, as a block of their own, with n
 * the block, or the largest power of two up to the count if that is less. This overlaps the block before. Smaller and smaller
 * blocks for what is left would end in blocks of a few numbers, which spread nothing and are lost whole; padding would
 * need memory behind the tensor, and packets for it. hadamard_part_end() says which coefficients count as a block.
 *
 * The result has the same bits on every processor. float32 sums of a whole block must not overflow: magnitudes up to 1e34 are
 * safe. A NaN or an infinity makes NaNs of its block.
 */
#ifndef CODING_HADAMARD_H
#define CODING_HADAMARD_H

#include <stddef.h>
#include <stdint.h>

/* Largest block. Blocks are powers of two. */
#define HADAMARD_BLOCK_MAX 16384

enum hadamard_type {
	HADAMARD_FLOAT32,
	/* computed in float32 and rounded to nearest even */
	HADAMARD_BFLOAT16,
};

/* Replaces `count` numbers, at any address, by their coefficients. */
void hadamard_encode(enum hadamard_type type, void *values, size_t count, size_t block,
		     uint64_t seed);

/* Replaces coefficients by the numbers they came from, up to rounding. */
void hadamard_decode(enum hadamard_type type, void *values, size_t count, size_t block,
		     uint64_t seed);

/* Returns how many numbers a block has: `block`, or the largest power of two up to the count; 0 if there are none. */
size_t hadamard_block(size_t count, size_t block);

/*
 * The parts of the coefficients that are scaled by themselves: part i ends before coefficient hadamard_part_end(count, block, i), and
 * begins where part i - 1 ends. There are hadamard_parts() of them. Each is a block of its own, except, if the last two overlap,
 * that the first of the two is a part up to where the other begins.
 */
size_t hadamard_parts(size_t count, size_t block);
size_t hadamard_part_end(size_t count, size_t block, size_t part);

#endif

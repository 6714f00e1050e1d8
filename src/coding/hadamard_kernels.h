/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hadamard_kernels.h: the loops behind hadamard.h, once for each set of instructions. All sets give the same bits, because they
 * add the same pairs of numbers in the same order of stages. hadamard.c chooses one; tests call each.
 */
#ifndef CODING_HADAMARD_KERNELS_H
#define CODING_HADAMARD_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "coding/hadamard.h"

/* Least block that the loops take; smaller ones are transformed one number at a time. */
#define HADAMARD_KERNEL_MIN 128

/*
 * Signs of a block, in words of 32 bits of which 16 make a line: the line's words, all shifted alike, have the signs of a line of
 * numbers where the numbers have theirs.
 * float32:  number i has bit 31 - i / 16 % 32 of word i / 512 * 16 + i % 16.
 * bfloat16: number i has bit 15 - i / 32 % 16 of word i / 512 * 16 + i / 2 % 16, or the bit 16 higher if i is odd.
 */
#define HADAMARD_SIGN_WORDS (HADAMARD_BLOCK_MAX / 32)

static inline bool hadamard_sign(enum hadamard_type type, const uint32_t *signs, size_t i)
{
	const uint32_t *line = signs + i / 512 * 16;

	if (type == HADAMARD_FLOAT32)
		return line[i % 16] >> (31 - i / 16 % 32) & 1;
	return line[i / 2 % 16] >> (15 - i / 32 % 16 + i % 2 * 16) & 1;
}

/* Forwards, values = H (signs * values) * scale; inverse, values = signs * (H values) * scale. The block is a power of two. */
typedef void hadamard_fn(void *values, size_t block, const uint32_t *signs, float scale);

struct hadamard_kernels {
	/* by type; forwards and inverse */
	hadamard_fn *transform[2][2];
};

extern const struct hadamard_kernels hadamard_plain;
#ifdef __x86_64__
extern const struct hadamard_kernels hadamard_avx2;
extern const struct hadamard_kernels hadamard_avx512;
#endif

/* Returns the loops for a level; the processor has to have it. */
const struct hadamard_kernels *hadamard_kernels(enum cpu_level level);

/* As hadamard_encode() and hadamard_decode(), with the loops of a level. */
void hadamard_transform(const struct hadamard_kernels *kernels, enum hadamard_type type,
			bool inverse, void *values, size_t count, size_t block, uint64_t seed);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_kernels.h: the loops behind reduce.h, once for each set of instructions. All sets give the same bits. reduce.c chooses
 * one; tests call each.
 */
#ifndef COLLECTIVE_REDUCE_KERNELS_H
#define COLLECTIVE_REDUCE_KERNELS_H

#include <stddef.h>

#include <godwit/collective.h>

#include "base/cpu.h"

#define REDUCE_TYPES 10
#define REDUCE_OPS   4

typedef void reduce_apply_fn(void *out, const void *a, const void *b, size_t count);
typedef void reduce_divide_fn(void *values, size_t count, double divisor);

struct reduce_kernels {
	/* by type and reduction; the mean is the sum */
	reduce_apply_fn *apply[REDUCE_TYPES][REDUCE_OPS];
	/* by type; null for integers, for which there are no vector instructions */
	reduce_divide_fn *divide[REDUCE_TYPES];
};

extern const struct reduce_kernels reduce_plain;
#ifdef __x86_64__
extern const struct reduce_kernels reduce_avx2;
extern const struct reduce_kernels reduce_avx512;
#endif

/* Returns the loops for a level; the processor has to have it. */
const struct reduce_kernels *reduce_kernels(enum cpu_level level);

#endif

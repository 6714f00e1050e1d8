/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce.h: arithmetic on vectors of numbers: pure functions, the widest instructions that the processor has.
 */
#ifndef COLLECTIVE_REDUCE_H
#define COLLECTIVE_REDUCE_H

#include <stddef.h>

#include <godwit/collective.h>

/* Bytes of an element; 0: no such type. */
size_t reduce_size(enum gw_type type);

/* out[i] = a[i] op b[i] for `count` elements. `out` may be `a` or `b`, and overlap neither otherwise. A mean is summed here, and
 * divided by reduce_scale() at the end. The result for an element does not depend on its position, the alignment or the
 * instructions used: float16 and bfloat16 are widened to float32 and rounded to nearest even. Integers wrap. The smaller or
 * larger of a number and a NaN is the NaN. */
void reduce_apply(enum gw_type type, enum gw_reduction op, void *out, const void *a, const void *b,
		  size_t count);

/* values[i] /= ranks. Integers are rounded towards zero. */
void reduce_scale(enum gw_type type, void *values, size_t count, unsigned ranks);

/* values[i] /= divisor, of a floating-point type. */
void reduce_divide(enum gw_type type, void *values, size_t count, double divisor);

#endif

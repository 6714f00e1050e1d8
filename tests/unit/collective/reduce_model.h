/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_model.h: what a reduction of two elements is, one element at a time, written another way than src/collective does it:
 * float16 and bfloat16 as numbers in double, rounded by comparing with their neighbours.
 */
#ifndef TESTS_REDUCE_MODEL_H
#define TESTS_REDUCE_MODEL_H

#include <godwit/collective.h>

/* Types in the order of enum gw_type. */
#define MODEL_TYPES 10

/* The elements at a and b, reduced, as the bits of the result. */
uint64_t model_reduce(enum gw_type type, enum gw_reduction op, uint64_t a, uint64_t b);

/* The element divided. */
uint64_t model_divide(enum gw_type type, uint64_t a, unsigned divisor);

#endif

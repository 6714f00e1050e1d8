/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_types.h: vectors of BYTES bytes, by the type of their elements, and functions compiled for TARGET. Included once by
 * each file that makes a set of loops. The vectors are the compilers' own, so that one source serves every processor.
 */
#ifndef COLLECTIVE_REDUCE_TYPES_H
#define COLLECTIVE_REDUCE_TYPES_H

#include <stdint.h>
#include <string.h>

#define INLINE TARGET static inline __attribute__((always_inline))
#define VECTOR __attribute__((vector_size(BYTES)))

typedef float v_f32 VECTOR;
typedef double v_f64 VECTOR;
typedef int8_t v_i8 VECTOR;
typedef uint8_t v_u8 VECTOR;
typedef int32_t v_i32 VECTOR;
typedef uint32_t v_u32 VECTOR;
typedef int64_t v_i64 VECTOR;
typedef uint64_t v_u64 VECTOR;
/* As it lies in memory: at any address, as any type. */
typedef uint32_t v_memory __attribute__((vector_size(BYTES), aligned(1), may_alias));

/* Every element the same. */
INLINE v_u32 all_u32(uint32_t value)
{
	return (v_u32){} + value;
}

#endif

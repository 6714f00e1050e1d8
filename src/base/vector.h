/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vector.h: vectors of BYTES bytes, by the type of their elements, and functions compiled for TARGET (cpu.h). Included by each
 * file that compiles a set of loops, after it has defined both. The vectors are the compilers' own, so that one source serves
 * every processor.
 */
#ifndef GODWIT_BASE_VECTOR_H
#define GODWIT_BASE_VECTOR_H

#include <stdint.h>

#ifdef __has_feature
#define HAS_SANITIZER (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#else
#define HAS_SANITIZER 0
#endif

/* Not forced with a sanitizer: with the checks of all accesses in one function, such a file takes a minute to compile. */
#if HAS_SANITIZER
#define INLINE TARGET static inline
#else
#define INLINE TARGET static inline __attribute__((always_inline))
#endif
#define VECTOR __attribute__((vector_size(BYTES)))

/* Before a loop of at most 16 turns, whose variables are then registers. */
#if HAS_SANITIZER
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

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

/* NaNs of results: positive and quiet. Which of two NaNs an addition keeps depends on the order of its operands, which a
 * compiler may change, and the NaN of inf - inf has another sign on another processor. */
#define F32_NAN UINT32_C(0x7fc00000)
#define F64_NAN UINT64_C(0x7ff8000000000000)

/* Returns a vector whose elements are all `value`. */
INLINE v_u32 all_u32(uint32_t value)
{
	return (v_u32){} + value;
}

/* Rounds to nearest even in the upper half of each element, which then is a bfloat16; the lower half is not defined. A NaN has
 * to be F32_NAN, which is not carried into infinity. */
INLINE v_u32 bf16_round(v_f32 value)
{
	return (v_u32)value + 0x7fffu + ((v_u32)value >> 16 & 1u);
}

#endif

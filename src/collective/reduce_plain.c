/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_plain.c: the loops of reduce_loops.h on vectors of 16 bytes, which every 64-bit processor has. float16 is converted with
 * integers: compilers that have the type are not yet everywhere, and on x86 without F16C they call a function for each element.
 */
#include "collective/reduce_kernels.h"

#define TARGET CPU_TARGET_PLAIN
#define BYTES  16
#define TABLE  reduce_plain
#include "base/vector.h"

#define F16_NORMAL_MIN	 0x0400u /* least that is not subnormal */
#define F16_INFINITY	 0x7c00u
#define F16_NAN		 0x7e00u
#define F32_INFINITY	 0x7f800000u
#define F32_F16_NORMAL	 0x38800000u  /* 2^-14, the least float16 that is not subnormal */
#define F32_F16_INFINITY 0x47800000u  /* 2^16, beyond the largest float16 */
#define BIAS_DIFFERENCE	 (112u << 23) /* between the exponents of float32 and float16 */

INLINE v_u32 choose(v_i32 mask, v_u32 yes, v_u32 no)
{
	return ((v_u32)mask & yes) | (~(v_u32)mask & no);
}

/* Widens the float16 in the lower half of each element. */
INLINE v_f32 widen(v_u32 x)
{
	v_u32 magnitude = x & 0x7fffu, moved = magnitude << 13;
	v_u32 normal = moved + BIAS_DIFFERENCE, infinite = moved | F32_INFINITY;
	v_f32 subnormal = __builtin_convertvector((v_i32)magnitude, v_f32) * 0x1p-24f;
	v_u32 finite = choose((v_i32)magnitude < (int)F16_NORMAL_MIN, (v_u32)subnormal, normal);

	return (v_f32)(choose((v_i32)magnitude < (int)F16_INFINITY, finite, infinite) |
		       (x & 0x8000u) << 16);
}

/* Rounds each element to the nearest float16, ties to even, into its lower half. */
INLINE v_u32 narrow(v_f32 values)
{
	v_u32 x = (v_u32)values, magnitude = x & 0x7fffffffu;
	v_u32 largest = all_u32(F32_F16_INFINITY);
	v_u32 bounded = choose((v_i32)magnitude < (v_i32)largest, magnitude, largest);
	v_u32 normal = (bounded - BIAS_DIFFERENCE + 0xfffu + (bounded >> 13 & 1u)) >> 13;
	/* In the binade of 0.5 the last place is that of a subnormal float16: the addition rounds. */
	v_f32 half = (v_f32)all_u32(0x3f000000u);
	v_u32 subnormal = (v_u32)((v_f32)magnitude + half) - (v_u32)half;
	v_u32 number = choose((v_i32)magnitude < (int)F32_F16_NORMAL, subnormal, normal);

	return choose((v_i32)magnitude > (int)F32_INFINITY, all_u32(F16_NAN), number) |
	       (x >> 16 & 0x8000u);
}

/* The float16 in the lower and in the upper half of each element, as float32; and back. */
INLINE v_f32 f16_first(v_u32 x)
{
	return widen(x & 0xffffu);
}

INLINE v_f32 f16_second(v_u32 x)
{
	return widen(x >> 16);
}

INLINE v_u32 f16_join(v_f32 first, v_f32 second)
{
	return narrow(first) | narrow(second) << 16;
}

#include "collective/reduce_loops.h"

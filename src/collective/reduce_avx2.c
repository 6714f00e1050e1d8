/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce_avx2.c: the loops of reduce_loops.h on vectors of 32 bytes, with the processor's conversion of float16. */
#ifdef __x86_64__

#include <immintrin.h>

#include "collective/reduce_kernels.h"

#define TARGET CPU_TARGET_AVX2
#define BYTES  32
#define TABLE  reduce_avx2
#include "base/vector.h"

/* The empty statement keeps clang from comparing float16 directly, which it does one element at a time. */
INLINE v_f32 widen(__m128i halves)
{
	__m256 values = _mm256_cvtph_ps(halves);

	__asm__("" : "+x"(values));
	return (v_f32)values;
}

INLINE __m128i narrow(v_f32 values)
{
	return _mm256_cvtps_ph((__m256)values, _MM_FROUND_TO_NEAREST_INT);
}

/* The first and the second half of a vector of float16, each as one of float32; and back. */
INLINE v_f32 f16_first(v_u32 x)
{
	return widen(_mm256_castsi256_si128((__m256i)x));
}

INLINE v_f32 f16_second(v_u32 x)
{
	return widen(_mm256_extracti128_si256((__m256i)x, 1));
}

INLINE v_u32 f16_join(v_f32 first, v_f32 second)
{
	return (v_u32)_mm256_set_m128i(narrow(second), narrow(first));
}

#include "collective/reduce_loops.h"

#endif

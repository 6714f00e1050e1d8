/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce_avx512.c: the loops of reduce_loops.h on vectors of 64 bytes, with the processor's conversion of float16. */
#ifdef __x86_64__

#include <immintrin.h>

#include "collective/reduce_kernels.h"

#define TARGET CPU_TARGET_AVX512
#define BYTES  64
#define TABLE  reduce_avx512
#include "base/vector.h"

/* The empty statement keeps clang from comparing float16 directly, which it does one element at a time. */
INLINE v_f32 widen(__m256i halves)
{
	__m512 values = _mm512_cvtph_ps(halves);

	__asm__("" : "+v"(values));
	return (v_f32)values;
}

INLINE __m256i narrow(v_f32 values)
{
	return _mm512_cvtps_ph((__m512)values, _MM_FROUND_TO_NEAREST_INT);
}

/* The first and the second half of a vector of float16, each as one of float32; and back. */
INLINE v_f32 f16_first(v_u32 x)
{
	return widen(_mm512_castsi512_si256((__m512i)x));
}

INLINE v_f32 f16_second(v_u32 x)
{
	return widen(_mm512_extracti64x4_epi64((__m512i)x, 1));
}

INLINE v_u32 f16_join(v_f32 first, v_f32 second)
{
	__m512i x = _mm512_castsi256_si512(narrow(first));

	return (v_u32)_mm512_inserti64x4(x, narrow(second), 1);
}

#include "collective/reduce_loops.h"

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* hadamard_avx512.c: the loops of hadamard_loops.h on vectors of 64 bytes. */
#ifdef __x86_64__

#include "coding/hadamard_kernels.h"

#define TARGET CPU_TARGET_AVX512
#define BYTES  64
#define TABLE  hadamard_avx512
#include "base/vector.h"

#define INDICES(h)                                                                                 \
	0 ^ (h), 1 ^ (h), 2 ^ (h), 3 ^ (h), 4 ^ (h), 5 ^ (h), 6 ^ (h), 7 ^ (h), 8 ^ (h), 9 ^ (h),  \
		10 ^ (h), 11 ^ (h), 12 ^ (h), 13 ^ (h), 14 ^ (h), 15 ^ (h)
#include "coding/hadamard_loops.h"

#endif

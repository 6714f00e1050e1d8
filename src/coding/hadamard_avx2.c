/* SPDX-License-Identifier: BSD-3-Clause */
/* hadamard_avx2.c: the loops of hadamard_loops.h on vectors of 32 bytes. */
#ifdef __x86_64__

#include "coding/hadamard_kernels.h"

#define TARGET CPU_TARGET_AVX2
#define BYTES  32
#define TABLE  hadamard_avx2
#include "base/vector.h"

#define INDICES(h) 0 ^ (h), 1 ^ (h), 2 ^ (h), 3 ^ (h), 4 ^ (h), 5 ^ (h), 6 ^ (h), 7 ^ (h)
#include "coding/hadamard_loops.h"

#endif

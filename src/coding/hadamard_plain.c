/* SPDX-License-Identifier: BSD-3-Clause */
/* hadamard_plain.c: the loops of hadamard_loops.h on vectors of 16 bytes. */
#include "coding/hadamard_kernels.h"

#define TARGET CPU_TARGET_PLAIN
#define BYTES  16
#define TABLE  hadamard_plain
#include "base/vector.h"

#define INDICES(h) 0 ^ (h), 1 ^ (h), 2 ^ (h), 3 ^ (h)
#include "coding/hadamard_loops.h"

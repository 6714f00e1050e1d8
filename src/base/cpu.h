/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cpu.h: which of the instruction sets that the loops of this library are written for the processor and the system support.
 * A function for one of them is compiled with the attribute CPU_TARGET_..., so that a build runs on any processor of its
 * architecture.
 */
#ifndef GODWIT_BASE_CPU_H
#define GODWIT_BASE_CPU_H

/* In ascending order: a processor that has one has those before it. */
enum cpu_level {
	/* what every processor of the architecture has */
	CPU_PLAIN,
	/* AVX2, FMA and F16C: vectors of 32 bytes, conversion of float16 */
	CPU_AVX2,
	/* AVX-512 F and BW: vectors of 64 bytes */
	CPU_AVX512,
	CPU_LEVELS,
};

#define CPU_TARGET_PLAIN
#define CPU_TARGET_AVX2	  __attribute__((target("avx2,fma,f16c")))
#define CPU_TARGET_AVX512 __attribute__((target("avx2,fma,f16c,avx512f,avx512bw")))

/* Returns the highest level that can be used here; always the same one. Any thread may call it. */
enum cpu_level cpu_level(void);

/* Returns the level's name for people: "AVX2". */
const char *cpu_level_name(enum cpu_level level);

#endif

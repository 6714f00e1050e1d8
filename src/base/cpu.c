/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cpu.c: the compiler's run time has read the processor's features, and whether the system saves the wide registers, before
 * main(). clang 14 does not know F16C by name, so that it is read here, once: a hypervisor may make that instruction slow.
 */
#include "base/cpu.h"

#include <stdatomic.h>
#include <stdbool.h>

#ifdef __x86_64__
#include <cpuid.h>

static bool has_f16c(void)
{
	unsigned eax, ebx, ecx, edx;

	return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

static enum cpu_level detect(void)
{
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
		return CPU_PLAIN;
	if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw"))
		return CPU_AVX2;
	return CPU_AVX512;
}

#else

static enum cpu_level detect(void)
{
	return CPU_PLAIN;
}

#endif

enum cpu_level cpu_level(void)
{
	/* The level and one; 0 until it is known. Two threads that find 0 store the same. */
	static atomic_uint known;
	unsigned level = atomic_load_explicit(&known, memory_order_relaxed);

	if (!level) {
		level = detect() + 1u;
		atomic_store_explicit(&known, level, memory_order_relaxed);
	}
	return (enum cpu_level)(level - 1);
}

const char *cpu_level_name(enum cpu_level level)
{
	static const char *const names[CPU_LEVELS] = { "plain", "AVX2", "AVX-512" };

	return names[level];
}

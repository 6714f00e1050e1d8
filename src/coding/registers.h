/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * registers.h: what to do after a call of ISA-L.
 *
 * It works in the wide vector registers and leaves their upper halves in use. From then on every narrow vector instruction
 * of the thread, ours and anybody's, waits to keep those halves: sums of unaligned packets took half as long again.
 */
#ifndef CODING_REGISTERS_H
#define CODING_REGISTERS_H

#ifdef __x86_64__

__attribute__((target("avx"))) static inline void registers_zero_upper(void)
{
	__builtin_ia32_vzeroupper();
}

static inline void registers_clean(void)
{
	if (__builtin_cpu_supports("avx"))
		registers_zero_upper();
}

#else

static inline void registers_clean(void)
{
}

#endif
#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * registers.h: registers_clean() must follow every call of ISA-L.
 *
 * ISA-L uses wide vector registers and leaves their upper halves in use. After that each 128-bit vector instruction of the
 * thread has to preserve those halves, which made the exclusive or of unaligned packets 50 % slower.
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce.c: chooses the loops for the processor. The loops are in reduce_loops.h, compiled once for each set of instructions.
 */
#include "collective/reduce.h"

#include <assert.h>

#include "collective/reduce_kernels.h"

size_t reduce_size(enum gw_type type)
{
	switch (type) {
	case GW_INT8:
	case GW_UINT8:
		return 1;
	case GW_FLOAT16:
	case GW_BFLOAT16:
		return 2;
	case GW_FLOAT32:
	case GW_INT32:
	case GW_UINT32:
		return 4;
	case GW_FLOAT64:
	case GW_INT64:
	case GW_UINT64:
		return 8;
	}
	return 0;
}

size_t gw_type_size(enum gw_type type)
{
	return reduce_size(type);
}

const struct reduce_kernels *reduce_kernels(enum cpu_level level)
{
#ifdef __x86_64__
	if (level == CPU_AVX512)
		return &reduce_avx512;
	if (level == CPU_AVX2)
		return &reduce_avx2;
#endif
	return &reduce_plain;
}

void reduce_apply(enum gw_type type, enum gw_reduction op, void *out, const void *a, const void *b,
		  size_t count)
{
	assert((unsigned)type < REDUCE_TYPES && (unsigned)op < REDUCE_OPS);
	reduce_kernels(cpu_level())->apply[type][op](out, a, b, count);
}

/* At any address. `wide` holds every element and every divisor. */
#define DEFINE_DIVIDE(type, element, wide)                                                         \
	static void divide_##type(void *values, size_t count, double divisor)                      \
	{                                                                                          \
		typedef element any_address __attribute__((aligned(1), may_alias));                \
		any_address *value = values;                                                       \
                                                                                                   \
		for (size_t i = 0; i < count; i++)                                                 \
			value[i] = (element)(value[i] / (wide)divisor);                            \
	}

DEFINE_DIVIDE(i8, int8_t, int64_t)
DEFINE_DIVIDE(u8, uint8_t, uint32_t)
DEFINE_DIVIDE(i32, int32_t, int64_t)
DEFINE_DIVIDE(u32, uint32_t, uint32_t)
DEFINE_DIVIDE(i64, int64_t, int64_t)
DEFINE_DIVIDE(u64, uint64_t, uint64_t)

void reduce_scale(enum gw_type type, void *values, size_t count, unsigned ranks)
{
	static reduce_divide_fn *const integers[REDUCE_TYPES] = {
		[GW_INT8] = divide_i8,	  [GW_UINT8] = divide_u8,  [GW_INT32] = divide_i32,
		[GW_UINT32] = divide_u32, [GW_INT64] = divide_i64, [GW_UINT64] = divide_u64,
	};
	reduce_divide_fn *divide;

	assert((unsigned)type < REDUCE_TYPES && ranks > 0);
	divide = integers[type] ? integers[type] : reduce_kernels(cpu_level())->divide[type];
	divide(values, count, ranks);
}

void reduce_divide(enum gw_type type, void *values, size_t count, double divisor)
{
	assert((unsigned)type < REDUCE_TYPES && reduce_plain.divide[type]);
	reduce_kernels(cpu_level())->divide[type](values, count, divisor);
}

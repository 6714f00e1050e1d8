/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_loops.h: one loop for each type and reduction, on vectors of BYTES bytes. Included once by each file that makes a set of
 * loops, after vector.h and the three functions that convert float16: f16_first(), f16_second(), f16_join().
 *
 * Equal bits everywhere:
 * - A NaN in the result is always F32_NAN or F64_NAN (vector.h says why).
 * - -0 is smaller than +0. Instructions for the smaller of two numbers return one or the other.
 * - Elements at the end that do not fill a vector go through the same functions, in a vector padded with zeros.
 */
#include <string.h>

/* ---- floating point: op_TYPE(a, b) ---------------------------------------------------------------------------------- */

#define DEFINE_FLOAT(type, number, bits, sbits, nan)                                               \
	/* `value`, or NaN where `ordered` is 0 */                                                 \
	INLINE number settle_##type(sbits ordered, bits value)                                     \
	{                                                                                          \
		return (number)(((bits)ordered & value) | (~(bits)ordered & (nan)));               \
	}                                                                                          \
	INLINE number sum_##type(number a, number b)                                               \
	{                                                                                          \
		number sum = a + b;                                                                \
		return settle_##type(sum == sum, (bits)sum);                                       \
	}                                                                                          \
	INLINE number min_##type(number a, number b)                                               \
	{                                                                                          \
		bits less = (bits)(a < b), equal = (bits)(a == b);                                 \
		bits min = (less & (bits)a) | (~less & (bits)b) | (equal & (bits)a);               \
		return settle_##type((a == a) & (b == b), min);                                    \
	}                                                                                          \
	INLINE number max_##type(number a, number b)                                               \
	{                                                                                          \
		bits more = (bits)(a > b), equal = (bits)(a == b);                                 \
		bits max = ((more & (bits)a) | (~more & (bits)b)) & ((bits)a | ~equal);            \
		return settle_##type((a == a) & (b == b), max);                                    \
	}                                                                                          \
	INLINE number div_##type(number a, number b)                                               \
	{                                                                                          \
		number quotient = a / b;                                                           \
		return settle_##type(quotient == quotient, (bits)quotient);                        \
	}

DEFINE_FLOAT(f32, v_f32, v_u32, v_i32, F32_NAN)
DEFINE_FLOAT(f64, v_f64, v_u64, v_i64, F64_NAN)

/* ---- bfloat16: the upper half of a float32 -------------------------------------------------------------------------- */

/* The bfloat16 in the lower and in the upper half of each element; and back, rounded to nearest even. */
INLINE v_f32 bf16_first(v_u32 x)
{
	return (v_f32)(x << 16);
}

INLINE v_f32 bf16_second(v_u32 x)
{
	return (v_f32)(x & 0xffff0000u);
}

INLINE v_u32 bf16_join(v_f32 first, v_f32 second)
{
	return bf16_round(first) >> 16 | (bf16_round(second) & 0xffff0000u);
}

/* ---- steps: a vector of any type in, one out -------------------------------------------------------------------------- */

#define DEFINE_STEP(op, type, number)                                                              \
	INLINE v_u32 step_##op##_##type(v_u32 x, v_u32 y)                                          \
	{                                                                                          \
		return (v_u32)op##_##type((number)x, (number)y);                                   \
	}

/* In float32, first and second half of the elements apart. */
#define DEFINE_WIDE_STEP(op, type)                                                                 \
	INLINE v_u32 step_##op##_##type(v_u32 x, v_u32 y)                                          \
	{                                                                                          \
		v_f32 first = op##_f32(type##_first(x), type##_first(y));                          \
		v_f32 second = op##_f32(type##_second(x), type##_second(y));                       \
		return type##_join(first, second);                                                 \
	}

/* Signed integers are added as unsigned ones, which wrap. */
#define DEFINE_INTEGER_STEPS(type, number, bits)                                                   \
	INLINE v_u32 step_sum_##type(v_u32 x, v_u32 y)                                             \
	{                                                                                          \
		return (v_u32)((bits)x + (bits)y);                                                 \
	}                                                                                          \
	INLINE v_u32 step_min_##type(v_u32 x, v_u32 y)                                             \
	{                                                                                          \
		v_u32 less = (v_u32)((number)x < (number)y);                                       \
		return (less & x) | (~less & y);                                                   \
	}                                                                                          \
	INLINE v_u32 step_max_##type(v_u32 x, v_u32 y)                                             \
	{                                                                                          \
		v_u32 more = (v_u32)((number)x > (number)y);                                       \
		return (more & x) | (~more & y);                                                   \
	}

/* ---- loops ---------------------------------------------------------------------------------------------------------- */

#define DEFINE_LOOP(op, type, element)                                                             \
	TARGET static void op##_loop_##type(void *out, const void *a, const void *b, size_t count) \
	{                                                                                          \
		size_t bytes = count * sizeof(element), at = 0;                                    \
		const char *left = a, *right = b;                                                  \
		char *to = out;                                                                    \
                                                                                                   \
		for (; bytes - at >= BYTES; at += BYTES) {                                         \
			v_u32 x = *(const v_memory *)(left + at);                                  \
			v_u32 y = *(const v_memory *)(right + at);                                 \
                                                                                                   \
			*(v_memory *)(to + at) = step_##op##_##type(x, y);                         \
		}                                                                                  \
		if (at < bytes) {                                                                  \
			v_u32 x = {}, y = {};                                                      \
                                                                                                   \
			memcpy(&x, left + at, bytes - at);                                         \
			memcpy(&y, right + at, bytes - at);                                        \
			x = step_##op##_##type(x, y);                                              \
			memcpy(to + at, &x, bytes - at);                                           \
		}                                                                                  \
	}

/* Divides by a vector `by` whose elements, of type `scalar`, are the divisor; a whole number is exact up to 2^24. */
#define DEFINE_DIVIDE(type, element, wide, scalar)                                                 \
	TARGET static void div_loop_##type(void *values, size_t count, double divisor)             \
	{                                                                                          \
		size_t bytes = count * sizeof(element), at = 0;                                    \
		wide by = (wide){} + (scalar)divisor;                                              \
		char *to = values;                                                                 \
                                                                                                   \
		for (; bytes - at >= BYTES; at += BYTES)                                           \
			*(v_memory *)(to + at) = step_div_##type(*(v_memory *)(to + at), by);      \
		if (at < bytes) {                                                                  \
			v_u32 x = {};                                                              \
                                                                                                   \
			memcpy(&x, to + at, bytes - at);                                           \
			x = step_div_##type(x, by);                                                \
			memcpy(to + at, &x, bytes - at);                                           \
		}                                                                                  \
	}

#define DEFINE_LOOPS(type, element)                                                                \
	DEFINE_LOOP(sum, type, element)                                                            \
	DEFINE_LOOP(min, type, element)                                                            \
	DEFINE_LOOP(max, type, element)

#define DEFINE_FLOAT_TYPE(type, element, number)                                                   \
	DEFINE_STEP(sum, type, number)                                                             \
	DEFINE_STEP(min, type, number)                                                             \
	DEFINE_STEP(max, type, number)                                                             \
	INLINE v_u32 step_div_##type(v_u32 x, number by)                                           \
	{                                                                                          \
		return (v_u32)div_##type((number)x, by);                                           \
	}                                                                                          \
	DEFINE_LOOPS(type, element)                                                                \
	DEFINE_DIVIDE(type, element, number, element)

#define DEFINE_WIDE_TYPE(type)                                                                     \
	DEFINE_WIDE_STEP(sum, type)                                                                \
	DEFINE_WIDE_STEP(min, type)                                                                \
	DEFINE_WIDE_STEP(max, type)                                                                \
	INLINE v_u32 step_div_##type(v_u32 x, v_f32 by)                                            \
	{                                                                                          \
		return type##_join(div_f32(type##_first(x), by), div_f32(type##_second(x), by));   \
	}                                                                                          \
	DEFINE_LOOPS(type, uint16_t)                                                               \
	DEFINE_DIVIDE(type, uint16_t, v_f32, float)

#define DEFINE_INTEGER_TYPE(type, element, bits)                                                   \
	DEFINE_INTEGER_STEPS(type, v_##type, bits)                                                 \
	DEFINE_LOOPS(type, element)

DEFINE_FLOAT_TYPE(f32, float, v_f32)
DEFINE_FLOAT_TYPE(f64, double, v_f64)
DEFINE_WIDE_TYPE(f16)
DEFINE_WIDE_TYPE(bf16)
DEFINE_INTEGER_TYPE(i8, int8_t, v_u8)
DEFINE_INTEGER_TYPE(u8, uint8_t, v_u8)
DEFINE_INTEGER_TYPE(i32, int32_t, v_u32)
DEFINE_INTEGER_TYPE(u32, uint32_t, v_u32)
DEFINE_INTEGER_TYPE(i64, int64_t, v_u64)
DEFINE_INTEGER_TYPE(u64, uint64_t, v_u64)

#define LOOPS(type)                                                                                \
	{                                                                                          \
		sum_loop_##type, sum_loop_##type, min_loop_##type, max_loop_##type                 \
	}

const struct reduce_kernels TABLE = {
	.apply = {
		[GW_FLOAT32] = LOOPS(f32),
		[GW_FLOAT16] = LOOPS(f16),
		[GW_BFLOAT16] = LOOPS(bf16),
		[GW_FLOAT64] = LOOPS(f64),
		[GW_INT8] = LOOPS(i8),
		[GW_UINT8] = LOOPS(u8),
		[GW_INT32] = LOOPS(i32),
		[GW_UINT32] = LOOPS(u32),
		[GW_INT64] = LOOPS(i64),
		[GW_UINT64] = LOOPS(u64),
	},
	.divide = {
		[GW_FLOAT32] = div_loop_f32,
		[GW_FLOAT16] = div_loop_f16,
		[GW_BFLOAT16] = div_loop_bf16,
		[GW_FLOAT64] = div_loop_f64,
	},
};

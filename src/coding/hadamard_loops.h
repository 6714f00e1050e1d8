/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hadamard_loops.h: the transform of one block on vectors of BYTES bytes. Included once by each file that makes a set of loops,
 * after vector.h and INDICES(h), the numbers i ^ h for every element i of a vector.
 *
 * A transform of n numbers has log2 n stages. The stage of distance h replaces each pair of numbers a, b that are h apart by
 * a + b and a - b. Stages run from distance 1 upwards, several in one pass over the block, which lies in the first-level
 * cache: the first pass does those inside a vector and between eight, each later one three, two or one.
 *
 * Between the first and the last pass, bfloat16 are float32 in memory of their own. A vector of bfloat16 is then two: one with
 * the numbers in the lower halves of its 32-bit elements and, behind it, one with those in the upper halves. So the stage of
 * distance 1 is one between these two, and no element has to change its place before the last pass joins them.
 */
#include <string.h>

#define LANES	       (BYTES / 4)
#define SIGN_BIT       0x80000000u
#define BOTH_SIGN_BITS 0x80008000u

#if defined(__clang__) || __GNUC__ >= 12
#define SWAP(x, h) __builtin_shufflevector(x, x, INDICES(h))
#else
#define SWAP(x, h) __builtin_shuffle(x, (v_i32){ INDICES(h) })
#endif

/* Vector number i of the memory. */
INLINE v_u32 load(const void *memory, size_t i)
{
	return ((const v_memory *)memory)[i];
}

INLINE void store(void *memory, size_t i, v_u32 x)
{
	((v_memory *)memory)[i] = x;
}

/* ---- stages -------------------------------------------------------------------------------------------------------- */

/* One stage between elements of a vector that are h apart. b times -1 is exact, so that it does not matter whether the compiler
 * makes one instruction of both operations. */
#define STAGE(x, h)                                                                                \
	(SWAP(x, h) + (x) * (1 - 2 * __builtin_convertvector((lanes & (h)) / (h), v_f32)))

/* All stages inside a vector. */
INLINE v_f32 stages_inside(v_f32 x)
{
	const v_i32 lanes = { INDICES(0) };

	x = STAGE(x, 1);
	x = STAGE(x, 2);
#if LANES > 4
	x = STAGE(x, 4);
#endif
#if LANES > 8
	x = STAGE(x, 8);
#endif
	return x;
}

INLINE void butterfly(v_f32 *a, v_f32 *b)
{
	v_f32 sum = *a + *b;

	*b = *a - *b;
	*a = sum;
}

/* One stage between `count` vectors that are h apart. */
INLINE void stage_between(v_f32 x[8], unsigned count, unsigned h)
{
	UNROLL
	for (unsigned i = 0; i < 8; i++) {
		if (i < count && !(i & h))
			butterfly(&x[i], &x[i + h]);
	}
}

/* log2 of `count` stages between vectors. */
INLINE void stages_between(v_f32 x[8], unsigned count)
{
	if (count >= 2)
		stage_between(x, count, 1);
	if (count >= 4)
		stage_between(x, count, 2);
	if (count >= 8)
		stage_between(x, count, 4);
}

/* ---- signs ------------------------------------------------------------------- */

/* Vectors that a line of signs is for: see hadamard_kernels.h. A line is used with 32 or 16 shifts before the next one. */
#define LINE	    (16 / LANES)
#define SHIFTS(bit) ((bit) == SIGN_BIT ? 32 : 16)
/* From so many numbers on, a last pass of three stages takes numbers that use the same shift. */
#define SAME_SHIFT 4096

/* Flips the signs in vector number i + k of a block, where i is a multiple of 4 and k below 4, or of 8 and below 8, or k is 0.
 * `bit` is the sign of each number in an element. */
INLINE v_u32 flip(v_u32 x, const uint32_t *signs, size_t i, unsigned k, uint32_t bit)
{
	const uint32_t *words = signs + i / LINE / SHIFTS(bit) * 16;
	int shift = (int)(i / LINE % SHIFTS(bit) + k / LINE);

	return x ^ (load(words, (i + k) % LINE) << shift & bit);
}

/* The same for vector number i + k h, where h is a multiple of all shifts of a line. */
INLINE v_u32 flip_far(v_u32 x, const uint32_t *signs, size_t i, unsigned k, size_t h, uint32_t bit)
{
	return flip(x, signs + k * (h / LINE / SHIFTS(bit) * 16), i, 0, bit);
}

/* ---- passes -------------------------------------------------------------------------------------------------------- */

/* What all passes over a block know. */
struct block {
	enum hadamard_type type;
	bool inverse;
	/* numbers of the type, and the same memory or other as float32 */
	void *values;
	void *wide;
	/* vectors in `wide` */
	size_t vectors;
	const uint32_t *signs;
	float scale;
};

/* Stages up to those between eight vectors of float32. The memory's time for the block behind this one passes while this one is
 * computed. */
INLINE void first_pass(struct block block)
{
	size_t bytes = block.type == HADAMARD_FLOAT32 ? 8 * BYTES : 4 * BYTES;

	for (size_t i = 0; i < block.vectors; i += 8) {
		const char *next = (const char *)block.values + (block.vectors + i) / 8 * bytes;
		v_f32 x[8];

		for (size_t at = 0; at < bytes; at += 64)
			__builtin_prefetch(next + at, 0, 2);
		UNROLL
		for (unsigned k = 0; k < 8; k++) {
			v_u32 bits;

			if (block.type == HADAMARD_FLOAT32) {
				bits = load(block.values, i + k);
				if (!block.inverse)
					bits = flip(bits, block.signs, i, k, SIGN_BIT);
				x[k] = stages_inside((v_f32)bits);
			} else if (k % 2 == 0) {
				bits = load(block.values, (i + k) / 2);
				if (!block.inverse)
					bits = flip(bits, block.signs, i / 2, k / 2,
						    BOTH_SIGN_BITS);
				x[k] = (v_f32)(bits << 16);
				x[k + 1] = (v_f32)(bits & 0xffff0000u);
				butterfly(&x[k], &x[k + 1]);
				x[k] = stages_inside(x[k]);
				x[k + 1] = stages_inside(x[k + 1]);
			}
		}
		if (block.type == HADAMARD_FLOAT32)
			stage_between(x, 8, 1);
		stage_between(x, 8, 2);
		stage_between(x, 8, 4);
		UNROLL
		for (unsigned k = 0; k < 8; k++)
			store(block.wide, i + k, (v_u32)x[k]);
	}
}

/* log2 of `radix` stages from distance h on, in vectors. */
INLINE void middle_pass(struct block block, size_t h, unsigned radix)
{
	for (size_t from = 0; from < block.vectors; from += radix * h) {
		for (size_t i = from; i < from + h; i++) {
			v_f32 x[8];

			UNROLL
			for (unsigned k = 0; k < radix; k++)
				x[k] = (v_f32)load(block.wide, i + k * h);
			stages_between(x, radix);
			UNROLL
			for (unsigned k = 0; k < radix; k++)
				store(block.wide, i + k * h, (v_u32)x[k]);
		}
	}
}

/* The last log2 of `radix` stages of vectors i, i + h and so on, into x. */
INLINE void last_stages(struct block block, size_t i, size_t h, unsigned radix, v_f32 x[8])
{
	UNROLL
	for (unsigned k = 0; k < radix; k++)
		x[k] = (v_f32)load(block.wide, i + k * h);
	stages_between(x, radix);
	UNROLL
	for (unsigned k = 0; k < radix; k++)
		x[k] *= block.scale;
}

INLINE void last_pass_f32(struct block block, unsigned radix, bool same_shift)
{
	size_t h = block.vectors / radix;

	for (size_t i = 0; i < h; i++) {
		v_f32 x[8];

		last_stages(block, i, h, radix, x);
		UNROLL
		for (unsigned k = 0; k < radix; k++) {
			size_t at = i + k * h;
			v_u32 bits = (v_u32)x[k];

			if (block.inverse && same_shift)
				bits = flip_far(bits, block.signs, i, k, h, SIGN_BIT);
			else if (block.inverse)
				bits = flip(bits, block.signs, at, 0, SIGN_BIT);
			store(block.values, at, bits);
		}
	}
}

INLINE void last_pass_bf16(struct block block, unsigned radix, bool same_shift)
{
	size_t h = block.vectors / radix;

	for (size_t i = 0; i < h; i += 2) {
		v_f32 x[8];
		v_u32 lower[8];

		last_stages(block, i, h, radix, x);
		UNROLL
		for (unsigned k = 0; k < radix; k++)
			lower[k] = bf16_round(x[k]) >> 16;
		last_stages(block, i + 1, h, radix, x);
		UNROLL
		for (unsigned k = 0; k < radix; k++) {
			size_t at = (i + k * h) / 2;
			v_u32 bits = lower[k] | (bf16_round(x[k]) & 0xffff0000u);

			if (block.inverse && same_shift)
				bits = flip_far(bits, block.signs, i / 2, k, h / 2, BOTH_SIGN_BITS);
			else if (block.inverse)
				bits = flip(bits, block.signs, at, 0, BOTH_SIGN_BITS);
			store(block.values, at, bits);
		}
	}
}

/* True if all numbers are finite: before the last pass, these together contain each of them. */
INLINE bool all_finite(struct block block, unsigned radix)
{
	const char *wide = block.wide;
	float sum = 0, part;

	for (unsigned k = 0; k < radix; k++) {
		memcpy(&part, wide + k * (block.vectors / radix) * BYTES, sizeof(part));
		sum += part;
	}
	return sum - sum == 0;
}

INLINE void last_pass(struct block block, unsigned radix, bool same_shift)
{
	bool narrow = block.type == HADAMARD_BFLOAT16;
	v_u32 nans = all_u32(narrow ? F32_NAN | F32_NAN >> 16 : F32_NAN);

	if (!all_finite(block, radix)) {
		for (size_t i = 0; i < block.vectors / (narrow ? 2 : 1); i++)
			store(block.values, i, nans);
	} else if (narrow) {
		last_pass_bf16(block, radix, same_shift);
	} else {
		last_pass_f32(block, radix, same_shift);
	}
}

/* After the first pass, what is not a multiple of three stages; then three at a time. */
INLINE void transform(struct block block)
{
	size_t h = 8;

	first_pass(block);
	while (block.vectors / h > 8) {
		unsigned stages = (unsigned)__builtin_ctzl(block.vectors / h) % 3;

		if (stages == 1)
			middle_pass(block, h, 2);
		else if (stages == 2)
			middle_pass(block, h, 4);
		else
			middle_pass(block, h, 8);
		h <<= stages ? stages : 3;
	}
	switch (block.vectors / h) {
	case 1:
		last_pass(block, 1, false);
		break;
	case 2:
		last_pass(block, 2, false);
		break;
	case 4:
		last_pass(block, 4, false);
		break;
	default:
		if (block.vectors * LANES >= SAME_SHIFT)
			last_pass(block, 8, true);
		else
			last_pass(block, 8, false);
	}
}

#define DEFINE_F32(name, inverse)                                                                  \
	TARGET static void name(void *values, size_t block, const uint32_t *signs, float scale)    \
	{                                                                                          \
		transform((struct block){ HADAMARD_FLOAT32, inverse, values, values,               \
					  block / LANES, signs, scale });                          \
	}

#define DEFINE_BF16(name, inverse)                                                                 \
	TARGET static void name(void *values, size_t block, const uint32_t *signs, float scale)    \
	{                                                                                          \
		float wide[HADAMARD_BLOCK_MAX] __attribute__((aligned(64)));                       \
                                                                                                   \
		transform((struct block){ HADAMARD_BFLOAT16, inverse, values, wide, block / LANES, \
					  signs, scale });                                         \
	}

DEFINE_F32(encode_f32, false)
DEFINE_F32(decode_f32, true)
DEFINE_BF16(encode_bf16, false)
DEFINE_BF16(decode_bf16, true)

const struct hadamard_kernels TABLE = { {
	[HADAMARD_FLOAT32] = { encode_f32, decode_f32 },
	[HADAMARD_BFLOAT16] = { encode_bf16, decode_bf16 },
} };

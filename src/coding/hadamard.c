/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hadamard.c: cuts a tensor into blocks, draws the signs of each and has the loops for this processor transform it
 * (hadamard_loops.h).
 *
 * Signs come from a counter: word j of an operation is a hash of the seed and j, so that any block can be computed alone, on any
 * rank, in any order. The hash is splitmix64's finaliser, as in base/rng.c.
 */
#include "coding/hadamard.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/cpu.h"
#include "coding/hadamard_kernels.h"

/* A call of hadamard_encode() or hadamard_decode(). */
struct hadamard_call {
	const struct hadamard_kernels *kernels;
	enum hadamard_type type;
	bool inverse;
	unsigned char *values;
	/* numbers in a block, at most those of `values` */
	size_t block;
	/* seed, mixed */
	uint64_t key;
};

const struct hadamard_kernels *hadamard_kernels(enum cpu_level level)
{
#ifdef __x86_64__
	if (level == CPU_AVX512)
		return &hadamard_avx512;
	if (level == CPU_AVX2)
		return &hadamard_avx2;
#endif
	return &hadamard_plain;
}

static uint64_t mix(uint64_t word)
{
	word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
	return word ^ word >> 31;
}

/* Draws the signs of block number `index`: 16 words at least. `key` is the mixed seed. */
static void draw_signs(uint32_t *signs, uint64_t key, size_t index, size_t block)
{
	size_t words = block < 512 ? 16 : block / 32;
	uint64_t counter = key + index * words / 2 * UINT64_C(0x9e3779b97f4a7c15);

	for (size_t i = 0; i < words; i += 2) {
		uint64_t word = mix(counter += UINT64_C(0x9e3779b97f4a7c15));

		signs[i] = (uint32_t)word;
		signs[i + 1] = (uint32_t)(word >> 32);
	}
}

/* 1 / sqrt(block), rounded to float32; the math library is not asked, since every rank has to get the same. */
static float scale_of(size_t block)
{
	float scale = 1;

	for (; block >= 4; block /= 4)
		scale /= 2;
	return block == 2 ? scale * 0.70710678118654752440f : scale;
}

/* ---- blocks that are smaller than the loops take, one number at a time ----------------------------------------------- */

static void flip_signs(enum hadamard_type type, float *values, size_t block, const uint32_t *signs)
{
	for (size_t i = 0; i < block; i++) {
		if (values[i] == values[i] && hadamard_sign(type, signs, i))
			values[i] = -values[i];
	}
}

/* The same additions as in the loops, in the same order of stages. */
static void transform_small(float *values, size_t block, float scale)
{
	for (size_t h = 1; h < block; h *= 2) {
		for (size_t i = 0; i < block; i++) {
			float a = values[i], b;

			if (i & h)
				continue;
			b = values[i + h];
			values[i] = a + b;
			values[i + h] = a - b;
		}
	}
	/* The first is the sum of all: if that is not finite, the block is NaNs. */
	if (values[0] - values[0] != 0)
		scale = __builtin_nanf("");
	for (size_t i = 0; i < block; i++)
		values[i] = scale == scale ? values[i] * scale : scale;
}

static void load_small(enum hadamard_type type, const unsigned char *from, float *values,
		       size_t block)
{
	for (size_t i = 0; i < block; i++) {
		uint32_t bits;
		uint16_t half;

		if (type == HADAMARD_FLOAT32) {
			memcpy(&bits, from + i * 4, 4);
		} else {
			memcpy(&half, from + i * 2, 2);
			bits = (uint32_t)half << 16;
		}
		memcpy(&values[i], &bits, 4);
	}
}

static void store_small(enum hadamard_type type, const float *values, unsigned char *to,
			size_t block)
{
	for (size_t i = 0; i < block; i++) {
		uint32_t bits;
		uint16_t half;

		memcpy(&bits, &values[i], sizeof(bits));
		half = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
		if (type == HADAMARD_FLOAT32)
			memcpy(to + i * 4, &bits, 4);
		else
			memcpy(to + i * 2, &half, 2);
	}
}

static void small_block(const struct hadamard_call *call, unsigned char *at, const uint32_t *signs)
{
	float values[HADAMARD_KERNEL_MIN];
	size_t block = call->block;

	load_small(call->type, at, values, block);
	if (!call->inverse)
		flip_signs(call->type, values, block, signs);
	transform_small(values, block, scale_of(block));
	if (call->inverse)
		flip_signs(call->type, values, block, signs);
	store_small(call->type, values, at, block);
}

/* ---- a tensor ------------------------------------------------------------------------------------------------------ */

/* Transforms the block that begins at number `first`; it has the signs of block number `index`. */
static void one_block(const struct hadamard_call *call, size_t first, size_t index)
{
	unsigned char *at = call->values + first * (call->type == HADAMARD_FLOAT32 ? 4 : 2);
	uint32_t signs[HADAMARD_SIGN_WORDS] __attribute__((aligned(64)));
	hadamard_fn *transform = call->kernels->transform[call->type][call->inverse];

	draw_signs(signs, call->key, index, call->block);
	if (call->block < HADAMARD_KERNEL_MIN)
		small_block(call, at, signs);
	else
		transform(at, call->block, signs, scale_of(call->block));
}

size_t hadamard_block(size_t count, size_t block)
{
	assert(block >= 1 && block <= HADAMARD_BLOCK_MAX && (block & (block - 1)) == 0);
	while (block > count)
		block /= 2;
	return block;
}

void hadamard_transform(const struct hadamard_kernels *kernels, enum hadamard_type type,
			bool inverse, void *values, size_t count, size_t block, uint64_t seed)
{
	struct hadamard_call call = { kernels,	type, inverse, values, hadamard_block(count, block),
				      mix(seed) };
	size_t blocks = call.block ? count / call.block : 0;
	bool overlap = call.block && count % call.block;

	/* The block that overlaps another comes last, and is undone first. */
	if (overlap && inverse)
		one_block(&call, count - call.block, blocks);
	for (size_t i = 0; i < blocks; i++)
		one_block(&call, i * call.block, i);
	if (overlap && !inverse)
		one_block(&call, count - call.block, blocks);
}

void hadamard_encode(enum hadamard_type type, void *values, size_t count, size_t block,
		     uint64_t seed)
{
	hadamard_transform(hadamard_kernels(cpu_level()), type, false, values, count, block, seed);
}

void hadamard_decode(enum hadamard_type type, void *values, size_t count, size_t block,
		     uint64_t seed)
{
	hadamard_transform(hadamard_kernels(cpu_level()), type, true, values, count, block, seed);
}

size_t hadamard_parts(size_t count, size_t block)
{
	size_t n = hadamard_block(count, block);

	return n ? (count + n - 1) / n : 0;
}

size_t hadamard_part_end(size_t count, size_t block, size_t part)
{
	size_t n = hadamard_block(count, block), parts = hadamard_parts(count, block);

	assert(part < parts);
	return part + 1 < parts && (part + 2 < parts || count % n == 0) ? (part + 1) * n
	       : part + 1 < parts					? count - n
									: count;
}

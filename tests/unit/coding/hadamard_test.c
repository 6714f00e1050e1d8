/* SPDX-License-Identifier: BSD-3-Clause */
/* The transform against its definition, in every set of instructions that this processor has, for any count and address. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "coding/hadamard.h"
#include "coding/hadamard_kernels.h"

/* Hashes of what test_known_bits() encodes. */
#define KNOWN_FLOAT32  UINT64_C(0x3b8eec56d5a5a955)
#define KNOWN_BFLOAT16 UINT64_C(0x92ff5e413f07f48b)

#define MOST (3 * HADAMARD_BLOCK_MAX + 100)

static struct rng rng;
static float numbers[MOST], result[MOST];

static void draw(float *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		values[i] = (float)(rng_unit(&rng) * 2 - 1);
}

/* Every coefficient as the sum that defines it. Signs are taken from a block of zeros with a single one. */
static void check_definition(size_t block)
{
	static float sign[512];
	double scale = 1 / sqrt((double)block);

	for (size_t j = 0; j < block; j++) {
		memset(result, 0, block * sizeof(float));
		result[j] = 1;
		hadamard_encode(HADAMARD_FLOAT32, result, block, block, 7);
		sign[j] = result[0] > 0 ? 1 : -1;
		for (size_t i = 0; i < block; i++) {
			int parity = __builtin_parityl(i & j) ? -1 : 1;

			assert_true(fabs(result[i] - sign[j] * (float)parity * scale) < 1e-7);
		}
	}
	draw(numbers, block);
	memcpy(result, numbers, block * sizeof(float));
	hadamard_encode(HADAMARD_FLOAT32, result, block, block, 7);
	for (size_t i = 0; i < block; i++) {
		double sum = 0;

		for (size_t j = 0; j < block; j++)
			sum += sign[j] * numbers[j] * (__builtin_parityl(i & j) ? -1 : 1);
		assert_true(fabs(result[i] - sum * scale) < 1e-5);
	}
}

static void test_definition(void **state)
{
	(void)state;
	for (size_t block = 1; block <= 512; block *= 2)
		check_definition(block);
}

static double energy(const float *values, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += (double)values[i] * values[i];
	return sum;
}

/* Counts that are less than a block, a little less and more than one or several, and odd. */
static size_t some_count(size_t block, unsigned i)
{
	const size_t counts[] = { 0,
				  1,
				  2,
				  3,
				  block - 1,
				  block,
				  block + 1,
				  2 * block - 1,
				  2 * block,
				  2 * block + 7,
				  3 * block + 5,
				  block / 2 + 3 };

	return counts[i % 12];
}

static void test_round_trip_keeps_energy(void **state)
{
	(void)state;
	for (size_t block = 1; block <= HADAMARD_BLOCK_MAX; block *= 2) {
		for (unsigned i = 0; i < 12; i++) {
			size_t count = some_count(block, i);
			double before, after;

			draw(numbers, count);
			memcpy(result, numbers, count * sizeof(float));
			hadamard_encode(HADAMARD_FLOAT32, result, count, block, i);
			before = energy(numbers, count);
			after = energy(result, count);
			assert_true(fabs(after - before) <= 1e-5 * before);
			hadamard_decode(HADAMARD_FLOAT32, result, count, block, i);
			for (size_t j = 0; j < count; j++)
				assert_true(fabs(result[j] - numbers[j]) < 5e-6);
		}
	}
}

static void narrow(const float *from, uint16_t *to, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t bits;

		memcpy(&bits, &from[i], 4);
		to[i] = (uint16_t)(bits >> 16);
	}
}

static float widen(uint16_t half)
{
	uint32_t bits = (uint32_t)half << 16;
	float value;

	memcpy(&value, &bits, 4);
	return value;
}

static void test_bfloat16_round_trip(void **state)
{
	static uint16_t before[MOST], after[MOST];

	(void)state;
	for (size_t block = 1; block <= HADAMARD_BLOCK_MAX; block *= 2) {
		for (unsigned i = 0; i < 12; i++) {
			size_t count = some_count(block, i);
			double error = 0, total = 0;

			draw(numbers, count);
			narrow(numbers, before, count);
			memcpy(after, before, count * 2);
			hadamard_encode(HADAMARD_BFLOAT16, after, count, block, i);
			hadamard_decode(HADAMARD_BFLOAT16, after, count, block, i);
			for (size_t j = 0; j < count; j++) {
				double off = widen(after[j]) - widen(before[j]);

				assert_true(fabs(off) < 0.04);
				error += off * off;
				total += widen(before[j]) * widen(before[j]);
			}
			/* Four roundings at most, of 2^-9 each, and at worst all in one direction. */
			assert_true(error <= 16.0 / (1 << 18) * total);
		}
	}
}

/* All sets of instructions against the plain one, byte by byte, with what surrounds the tensor. */
static void check_levels(enum hadamard_type type, bool inverse, const void *input, size_t count,
			 size_t block, size_t shift)
{
	static unsigned char plain[MOST * 4 + 200], other[MOST * 4 + 200];
	size_t bytes = count * (type == HADAMARD_FLOAT32 ? 4 : 2);

	memset(plain, 0x11, bytes + 200);
	memcpy(plain + 64 + shift, input, bytes);
	hadamard_transform(hadamard_kernels(CPU_PLAIN), type, inverse, plain + 64 + shift, count,
			   block, count);
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(plain[i] + plain[64 + shift + bytes + i], 0x22);
	for (unsigned level = 1; level <= (unsigned)cpu_level(); level++) {
		memset(other, 0x11, bytes + 200);
		memcpy(other + 64 + shift, input, bytes);
		hadamard_transform(hadamard_kernels((enum cpu_level)level), type, inverse,
				   other + 64 + shift, count, block, count);
		assert_memory_equal(other, plain, bytes + 200);
	}
}

static void test_levels_give_the_same_bits(void **state)
{
	static uint16_t halves[MOST];

	(void)state;
	for (size_t block = 1; block <= HADAMARD_BLOCK_MAX; block *= 2) {
		for (unsigned i = 0; i < 12; i++) {
			size_t count = some_count(block, i);

			draw(numbers, count);
			narrow(numbers, halves, count);
			if (i % 3 == 1 && count)
				numbers[rng_below(&rng, count)] = 1e-42f; /* subnormal */
			for (unsigned inverse = 0; inverse < 2; inverse++) {
				check_levels(HADAMARD_FLOAT32, inverse, numbers, count, block, i);
				check_levels(HADAMARD_BFLOAT16, inverse, halves, count, block, i);
			}
		}
	}
}

/* A number that is not finite makes the same NaN of all of its block, and of no other. */
static void test_what_is_not_finite(void **state)
{
	const float wrong[] = { NAN, -NAN, INFINITY, -INFINITY };
	static uint16_t halves[1024];

	(void)state;
	for (size_t block = 4; block <= 512; block *= 2) {
		for (unsigned i = 0; i < 8; i++) {
			size_t count = 2 * block, at = block + rng_below(&rng, block);

			draw(numbers, count);
			numbers[at] = wrong[i % 4];
			if (i >= 4)
				numbers[at ^ 1] = wrong[(i + 1) % 4];
			narrow(numbers, halves, count);
			halves[at] = i % 4 ? halves[at] : 0xffff;
			for (unsigned inverse = 0; inverse < 2; inverse++) {
				check_levels(HADAMARD_FLOAT32, inverse, numbers, count, block, 0);
				check_levels(HADAMARD_BFLOAT16, inverse, halves, count, block, 0);
			}
			hadamard_encode(HADAMARD_FLOAT32, numbers, count, block, i);
			hadamard_decode(HADAMARD_BFLOAT16, halves, count, block, i);
			for (size_t j = 0; j < count; j++) {
				uint32_t bits;

				memcpy(&bits, &numbers[j], 4);
				if (j < block)
					assert_true(isfinite(numbers[j]) &&
						    isfinite(widen(halves[j])));
				else
					assert_true(bits == 0x7fc00000 && halves[j] == 0x7fc0);
			}
		}
	}
}

/* Tensors of several ranks may be summed before they are transformed back. */
static void test_linear(void **state)
{
	static float other[5000];

	(void)state;
	draw(numbers, 5000);
	draw(other, 5000);
	for (size_t i = 0; i < 5000; i++)
		result[i] = numbers[i] + other[i];
	hadamard_encode(HADAMARD_FLOAT32, numbers, 5000, 1024, 3);
	hadamard_encode(HADAMARD_FLOAT32, other, 5000, 1024, 3);
	for (size_t i = 0; i < 5000; i++)
		numbers[i] += other[i];
	hadamard_decode(HADAMARD_FLOAT32, numbers, 5000, 1024, 3);
	for (size_t i = 0; i < 5000; i++)
		assert_true(fabs(numbers[i] - result[i]) < 1e-5);
}

/* The signs of 1024 numbers from `first` on, in blocks of 1024. */
static void signs_of(uint64_t seed, enum hadamard_type type, size_t first, int sign[1024])
{
	static unsigned char values[8192 * 4];
	const uint32_t one = 0x3f800000;
	const uint16_t half = 0x3f80;
	size_t size = type == HADAMARD_FLOAT32 ? 4 : 2;

	memset(values, 0, sizeof(values));
	/* The inverse of a block's first coefficient is a row of equal numbers, but for their signs. */
	for (size_t i = 0; i < 8192; i += 1024)
		memcpy(values + i * size, size == 4 ? (const void *)&one : &half, size);
	hadamard_decode(type, values, 8192, 1024, seed);
	for (size_t i = 0; i < 1024; i++)
		sign[i] = values[(first + i + 1) * size - 1] & 0x80 ? -1 : 1;
}

static void test_signs_are_random(void **state)
{
	int a[1024], b[1024];

	(void)state;
	for (unsigned type = 0; type < 2; type++) {
		for (uint64_t seed = 0; seed < 64; seed++) {
			int sum = 0, seeds = 0, blocks = 0, neighbours = 0;

			signs_of(seed, (enum hadamard_type)type, 0, a);
			for (size_t i = 0; i < 1024; i++)
				sum += a[i];
			for (size_t i = 0; i < 1023; i++)
				neighbours += a[i] * a[i + 1];
			signs_of(seed + 1, (enum hadamard_type)type, 0, b);
			for (size_t i = 0; i < 1024; i++)
				seeds += a[i] * b[i];
			signs_of(seed, (enum hadamard_type)type, 1024 * (1 + seed % 7), b);
			for (size_t i = 0; i < 1024; i++)
				blocks += a[i] * b[i];
			/* A deviation is 32. */
			assert_in_range(abs(sum), 0, 160);
			assert_in_range(abs(neighbours), 0, 160);
			assert_in_range(abs(seeds), 0, 160);
			assert_in_range(abs(blocks), 0, 160);
		}
	}
}

/* Ranks of different releases and processors have to agree on every bit. */
static void test_known_bits(void **state)
{
	uint64_t hash[2] = { UINT64_C(0xcbf29ce484222325), UINT64_C(0xcbf29ce484222325) };
	static unsigned char values[2][3000 * 4];

	(void)state;
	for (size_t i = 0; i < 3000; i++) {
		float value = (float)((int)(i * 37 % 101) - 50);
		uint16_t half;

		narrow(&value, &half, 1);
		memcpy(values[0] + 4 * i, &value, 4);
		memcpy(values[1] + 2 * i, &half, 2);
	}
	for (unsigned type = 0; type < 2; type++) {
		hadamard_encode((enum hadamard_type)type, values[type], 3000, 512, 12345);
		for (size_t i = 0; i < 3000 * (type ? 2 : 4); i++)
			hash[type] = (hash[type] ^ values[type][i]) * UINT64_C(0x100000001b3);
	}
	assert_true(hash[0] == KNOWN_FLOAT32);
	assert_true(hash[1] == KNOWN_BFLOAT16);
}

static void test_parts(void **state)
{
	(void)state;
	assert_int_equal(hadamard_parts(0, 4096), 0);
	assert_int_equal(hadamard_parts(1, 4096), 1);
	assert_int_equal(hadamard_parts(4096, 4096), 1);
	assert_int_equal(hadamard_parts(4097, 4096), 2);
	assert_int_equal(hadamard_part_end(4097, 4096, 0), 1);
	assert_int_equal(hadamard_part_end(4097, 4096, 1), 4097);
	assert_int_equal(hadamard_parts(100, 4096), 2);
	assert_int_equal(hadamard_part_end(100, 4096, 0), 36);
	assert_int_equal(hadamard_part_end(100, 4096, 1), 100);
	assert_int_equal(hadamard_parts(12288, 4096), 3);
	assert_int_equal(hadamard_part_end(12288, 4096, 1), 8192);
	assert_int_equal(hadamard_parts(12289, 4096), 4);
	assert_int_equal(hadamard_part_end(12289, 4096, 1), 8192);
	assert_int_equal(hadamard_part_end(12289, 4096, 2), 8193);
	assert_int_equal(hadamard_part_end(12289, 4096, 3), 12289);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_definition),
		cmocka_unit_test(test_round_trip_keeps_energy),
		cmocka_unit_test(test_bfloat16_round_trip),
		cmocka_unit_test(test_levels_give_the_same_bits),
		cmocka_unit_test(test_what_is_not_finite),
		cmocka_unit_test(test_linear),
		cmocka_unit_test(test_signs_are_random),
		cmocka_unit_test(test_known_bits),
		cmocka_unit_test(test_parts),
	};

	rng_seed(&rng, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every type and reduction, with every set of instructions that this processor has, against a model that handles one element
 * at a time: all pairs of special values, all float16 and bfloat16, every short length, every alignment, in place or not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/rng.h"
#include "collective/reduce.h"
#include "collective/reduce_kernels.h"
#include "reduce_model.h"

#define OPS    4
#define SHORT  200 /* lengths tried one by one */
#define GUARD  64  /* bytes on either side that must not change */
#define MEMORY (1 << 19)

static unsigned char left[MEMORY], right[MEMORY], out[MEMORY], before[MEMORY];
static struct rng rng;

static uint64_t get(const void *memory, size_t size, size_t at)
{
	uint64_t value = 0;

	memcpy(&value, (const char *)memory + at * size, size);
	return value;
}

static void put(void *memory, size_t size, size_t at, uint64_t value)
{
	memcpy((char *)memory + at * size, &value, size);
}

static void apply(unsigned level, unsigned type, unsigned op, void *to, const void *a,
		  const void *b, size_t count)
{
	reduce_kernels((enum cpu_level)level)->apply[type][op](to, a, b, count);
}

static void check_apply(unsigned level, unsigned type, unsigned op, const void *to, const void *a,
			const void *b, size_t count)
{
	size_t size = reduce_size((enum gw_type)type);

	for (size_t i = 0; i < count; i++) {
		uint64_t x = get(a, size, i), y = get(b, size, i), got = get(to, size, i);
		uint64_t want = model_reduce((enum gw_type)type, (enum gw_reduction)op, x, y);

		if (got != want)
			fail_msg(
				"%s, type %u, reduction %u, element %zu of %zu: %#llx and %#llx give %#llx, not %#llx",
				cpu_level_name((enum cpu_level)level), type, op, i, count,
				(unsigned long long)x, (unsigned long long)y,
				(unsigned long long)got, (unsigned long long)want);
	}
}

static void check_divide(unsigned level, unsigned type, const void *to, const void *a, size_t count,
			 unsigned divisor)
{
	size_t size = reduce_size((enum gw_type)type);

	for (size_t i = 0; i < count; i++) {
		uint64_t x = get(a, size, i), got = get(to, size, i);
		uint64_t want = model_divide((enum gw_type)type, x, divisor);

		if (got != want)
			fail_msg("%s, type %u: %#llx / %u gives %#llx, not %#llx",
				 cpu_level_name((enum cpu_level)level), type, (unsigned long long)x,
				 divisor, (unsigned long long)got, (unsigned long long)want);
	}
}

/* With a set of instructions, or for integers, which have no vector instructions, in plain C. */
static void divide(unsigned level, unsigned type, void *values, size_t count, unsigned divisor)
{
	reduce_divide_fn *with = reduce_kernels((enum cpu_level)level)->divide[type];

	if (with)
		with(values, count, divisor);
	else
		reduce_scale((enum gw_type)type, values, count, divisor);
}

/* Bits that matter in some type: signs, exponents at their ends, ties, NaNs quiet and signalling, and one beside each. */
static size_t special_values(unsigned type, uint64_t *values)
{
	static const int exponents[MODEL_TYPES][2] = {
		[GW_FLOAT32] = { 8, 23 },
		[GW_FLOAT16] = { 5, 10 },
		[GW_BFLOAT16] = { 8, 7 },
		[GW_FLOAT64] = { 11, 52 },
	};
	unsigned bits = 8 * (unsigned)reduce_size((enum gw_type)type);
	uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
	int fraction = exponents[type][1], top = (1 << exponents[type][0]) - 1;
	size_t count = 0;

	for (unsigned bit = 0; bit < bits; bit += bits / 8) {
		for (uint64_t near = 0; near < 3; near++)
			values[count++] = ((UINT64_C(1) << bit) + near - 1) & mask;
	}
	for (uint64_t near = 0; near < 4; near++)
		values[count++] = ((UINT64_C(1) << (bits - 1)) + near - 2) & mask;
	for (int sign = 0; fraction && sign < 2; sign++) {
		const int near[] = { 0, 1, 2, top / 2 - 1, top / 2, top / 2 + 1, top - 1, top };

		for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
			uint64_t head = ((uint64_t)sign << (bits - 1)) | (uint64_t)near[i]
										 << fraction;

			values[count++] = head;
			values[count++] = head + 1;
			values[count++] = head + (UINT64_C(1) << (fraction - 1));
			values[count++] = head + (UINT64_C(1) << fraction) - 1;
		}
	}
	return count;
}

static void test_special_values(void **state)
{
	static const unsigned divisors[] = { 1, 2, 3, 7, 255, 256, 300, 4095, 4096, 1u << 24 };
	uint64_t values[200];

	(void)state;
	for (unsigned type = 0; type < MODEL_TYPES; type++) {
		size_t size = reduce_size((enum gw_type)type);
		size_t count = special_values(type, values), pairs = count * count;

		assert_true(pairs * size <= MEMORY && count <= sizeof(values) / sizeof(values[0]));
		for (size_t i = 0; i < pairs; i++) {
			put(left, size, i, values[i / count]);
			put(right, size, i, values[i % count]);
		}
		for (unsigned level = 0; level <= (unsigned)cpu_level(); level++) {
			for (unsigned op = 0; op < OPS; op++) {
				apply(level, type, op, out, left, right, pairs);
				check_apply(level, type, op, out, left, right, pairs);
			}
			for (size_t i = 0; i < sizeof(divisors) / sizeof(divisors[0]); i++) {
				memcpy(out, right, count * size);
				divide(level, type, out, count, divisors[i]);
				check_divide(level, type, out, right, count, divisors[i]);
			}
		}
	}
}

/* All 65536 values, with themselves and others. A value and an eighth of its last place, added, tells how it is rounded. */
static void test_all_small_floats(void **state)
{
	static const unsigned types[] = { GW_FLOAT16, GW_BFLOAT16 };
	const size_t count = 1 << 16;

	(void)state;
	for (size_t i = 0; i < count; i++)
		put(left, 2, i, i);
	for (unsigned shift = 0; shift < 5; shift++) {
		for (size_t i = 0; i < count; i++)
			put(right, 2, i, shift == 4 ? rng_below(&rng, count) : i - (shift << 9));
		for (unsigned level = 0; level <= (unsigned)cpu_level(); level++) {
			for (unsigned i = 0; i < 2; i++) {
				for (unsigned op = 0; op < OPS; op++) {
					apply(level, types[i], op, out, left, right, count);
					check_apply(level, types[i], op, out, left, right, count);
				}
				memcpy(out, left, 2 * count);
				divide(level, types[i], out, count, 3 + shift);
				check_divide(level, types[i], out, left, count, 3 + shift);
			}
		}
	}
}

/* Reduces `count` elements that start `a`, `b` and `to` bytes into the buffers, and looks that nothing else was written. */
static void check_place(unsigned level, unsigned type, unsigned op, size_t count, size_t a,
			size_t b, size_t to)
{
	size_t bytes = count * reduce_size((enum gw_type)type), end = GUARD + to + bytes;

	memcpy(out, before, end + GUARD);
	apply(level, type, op, out + GUARD + to, left + a, right + b, count);
	check_apply(level, type, op, out + GUARD + to, left + a, right + b, count);
	assert_memory_equal(out, before, GUARD + to);
	assert_memory_equal(out + end, before + end, GUARD);
}

static void test_lengths_and_alignments(void **state)
{
	(void)state;
	rng_fill(&rng, left, MEMORY);
	rng_fill(&rng, right, MEMORY);
	for (unsigned level = 0; level <= (unsigned)cpu_level(); level++) {
		for (unsigned type = 0; type < MODEL_TYPES; type++) {
			for (size_t count = 0; count <= SHORT; count++)
				check_place(level, type, (unsigned)count % OPS, count, 0, 0, 0);
			for (size_t at = 0; at < 64; at++) {
				size_t count = 30 + at % 40;

				check_place(level, type, (unsigned)at % OPS, count, at, 0, 0);
				check_place(level, type, (unsigned)at % OPS, count, 0, at, 0);
				check_place(level, type, (unsigned)at % OPS, count, 0, 0, at);
				check_place(level, type, (unsigned)at % OPS, count, at, 63 - at,
					    at / 2);
			}
			check_place(level, type, GW_SUM, MEMORY / 8 - 100, 0, 0, 0);
		}
	}
}

static void test_in_place(void **state)
{
	(void)state;
	rng_fill(&rng, left, MEMORY);
	rng_fill(&rng, right, MEMORY);
	for (unsigned level = 0; level <= (unsigned)cpu_level(); level++) {
		for (unsigned type = 0; type < MODEL_TYPES; type++) {
			for (size_t count = 0; count <= SHORT; count++) {
				unsigned op = (unsigned)count % OPS;
				size_t bytes = count * reduce_size((enum gw_type)type);

				memcpy(out, left, bytes + GUARD);
				apply(level, type, op, out, out, right, count);
				check_apply(level, type, op, out, left, right, count);
				assert_memory_equal(out + bytes, left + bytes, GUARD);
				memcpy(out, right, bytes + GUARD);
				apply(level, type, op, out, left, out, count);
				check_apply(level, type, op, out, left, right, count);
				assert_memory_equal(out + bytes, right + bytes, GUARD);
				memcpy(out, left, bytes + GUARD);
				apply(level, type, op, out, out, out, count);
				check_apply(level, type, op, out, left, left, count);
				/* At an odd address, too. */
				memcpy(out + 1, left, bytes + GUARD);
				divide(level, type, out + 1, count, 9);
				check_divide(level, type, out + 1, left, count, 9);
				assert_memory_equal(out + 1 + bytes, left + bytes, GUARD);
			}
		}
	}
}

/* The order of operands does not matter, so that ranks that reduce in different orders agree on a pair. */
static void test_operands_commute(void **state)
{
	(void)state;
	rng_fill(&rng, left, MEMORY);
	rng_fill(&rng, right, MEMORY);
	for (unsigned type = 0; type < MODEL_TYPES; type++) {
		size_t count = MEMORY / reduce_size((enum gw_type)type);

		for (unsigned op = 0; op < OPS; op++) {
			reduce_apply((enum gw_type)type, (enum gw_reduction)op, out, left, right,
				     count);
			reduce_apply((enum gw_type)type, (enum gw_reduction)op, before, right, left,
				     count);
			assert_memory_equal(out, before, MEMORY);
		}
	}
}

static void test_the_calls_use_the_best_set(void **state)
{
	static const size_t sizes[MODEL_TYPES] = { 4, 2, 2, 8, 1, 1, 4, 4, 8, 8 };

	(void)state;
	rng_fill(&rng, left, MEMORY);
	rng_fill(&rng, right, MEMORY);
	for (unsigned type = 0; type < MODEL_TYPES; type++) {
		assert_int_equal(gw_type_size((enum gw_type)type), sizes[type]);
		for (unsigned op = 0; op < OPS; op++) {
			reduce_apply((enum gw_type)type, (enum gw_reduction)op, out, left, right,
				     1001);
			check_apply((unsigned)cpu_level(), type, op, out, left, right, 1001);
		}
		memcpy(out, left, MEMORY);
		reduce_scale((enum gw_type)type, out, 1001, 5);
		check_divide((unsigned)cpu_level(), type, out, left, 1001, 5);
	}
	assert_int_equal(gw_type_size((enum gw_type)MODEL_TYPES), 0);
	assert_int_equal(gw_type_size((enum gw_type) - 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_special_values),
		cmocka_unit_test(test_all_small_floats),
		cmocka_unit_test(test_lengths_and_alignments),
		cmocka_unit_test(test_in_place),
		cmocka_unit_test(test_operands_commute),
		cmocka_unit_test(test_the_calls_use_the_best_set),
	};

	rng_seed(&rng, 1);
	rng_fill(&rng, before, MEMORY);
	printf("instructions: up to %s\n", cpu_level_name(cpu_level()));
	return cmocka_run_group_tests(tests, NULL, NULL);
}

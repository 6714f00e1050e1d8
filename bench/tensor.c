/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tensor: how fast this processor's core does arithmetic on tensors that lie outside its caches, beside memcpy().
 *
 * Pairs of measurements are taken in turns, so that a busy neighbour disturbs both alike; the ratio is the median over the pairs.
 * It compares bytes read and written a second: memcpy() reads and writes every byte once, a reduction in place reads two tensors
 * and writes one. 1 is memory bandwidth. The Hadamard transform has blocks of 4096 and works in place; "spread" and "gather" copy
 * float32 to and from packet order, 64 blocks in turns, packets of 4 KiB.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cpu.h"
#include "base/rng.h"
#include "coding/hadamard.h"
#include "coding/stride.h"
#include "collective/reduce.h"

#define PAIRS	     15
#define TENSOR_BYTES ((size_t)64 << 20)
#define BLOCK	     4096

struct tensor {
	/* three tensors: results, and what is read */
	unsigned char *out;
	unsigned char *a;
	unsigned char *b;
};

struct work {
	const char *name;
	/* tensors read and written, for the bytes a second */
	double passes;
	void (*run)(const struct tensor *tensor);
};

static void copy(const struct tensor *tensor)
{
	memcpy(tensor->out, tensor->a, TENSOR_BYTES);
}

static void reduce(const struct tensor *tensor, enum gw_type type, enum gw_reduction op)
{
	reduce_apply(type, op, tensor->a, tensor->a, tensor->b, TENSOR_BYTES / reduce_size(type));
}

static void sum_float32(const struct tensor *tensor)
{
	reduce(tensor, GW_FLOAT32, GW_SUM);
}

static void sum_apart(const struct tensor *tensor)
{
	reduce_apply(GW_FLOAT32, GW_SUM, tensor->out, tensor->a, tensor->b, TENSOR_BYTES / 4);
}

static void max_float32(const struct tensor *tensor)
{
	reduce(tensor, GW_FLOAT32, GW_MAX);
}

static void sum_float16(const struct tensor *tensor)
{
	reduce(tensor, GW_FLOAT16, GW_SUM);
}

static void max_float16(const struct tensor *tensor)
{
	reduce(tensor, GW_FLOAT16, GW_MAX);
}

static void sum_bfloat16(const struct tensor *tensor)
{
	reduce(tensor, GW_BFLOAT16, GW_SUM);
}

static void sum_int8(const struct tensor *tensor)
{
	reduce(tensor, GW_INT8, GW_SUM);
}

static void divide_float32(const struct tensor *tensor)
{
	reduce_scale(GW_FLOAT32, tensor->a, TENSOR_BYTES / 4, 3);
}

static void divide_bfloat16(const struct tensor *tensor)
{
	reduce_scale(GW_BFLOAT16, tensor->a, TENSOR_BYTES / 2, 3);
}

static void encode_float32(const struct tensor *tensor)
{
	hadamard_encode(HADAMARD_FLOAT32, tensor->a, TENSOR_BYTES / 4, BLOCK, 1);
}

static void decode_float32(const struct tensor *tensor)
{
	hadamard_decode(HADAMARD_FLOAT32, tensor->a, TENSOR_BYTES / 4, BLOCK, 1);
}

static void encode_bfloat16(const struct tensor *tensor)
{
	hadamard_encode(HADAMARD_BFLOAT16, tensor->a, TENSOR_BYTES / 2, BLOCK, 1);
}

static void decode_bfloat16(const struct tensor *tensor)
{
	hadamard_decode(HADAMARD_BFLOAT16, tensor->a, TENSOR_BYTES / 2, BLOCK, 1);
}

static void spread(const struct tensor *tensor)
{
	struct stride stride;

	stride_init(&stride, TENSOR_BYTES / 4, 4, BLOCK, 64, 4096);
	stride_spread(&stride, tensor->a, tensor->out);
}

static void gather(const struct tensor *tensor)
{
	struct stride stride;

	stride_init(&stride, TENSOR_BYTES / 4, 4, BLOCK, 64, 4096);
	stride_gather(&stride, tensor->a, tensor->out);
}

static const struct work works[] = {
	{ "hadamard_encode_float32", 2, encode_float32 },
	{ "hadamard_decode_float32", 2, decode_float32 },
	{ "hadamard_encode_bfloat16", 2, encode_bfloat16 },
	{ "hadamard_decode_bfloat16", 2, decode_bfloat16 },
	{ "stride_spread", 2, spread },
	{ "stride_gather", 2, gather },
	{ "sum_float32", 3, sum_float32 },
	{ "sum_float32_apart", 3, sum_apart },
	{ "max_float32", 3, max_float32 },
	{ "sum_float16", 3, sum_float16 },
	{ "max_float16", 3, max_float16 },
	{ "sum_bfloat16", 3, sum_bfloat16 },
	{ "sum_int8", 3, sum_int8 },
	{ "divide_float32", 2, divide_float32 },
	{ "divide_bfloat16", 2, divide_bfloat16 },
};

static double time_ns(void (*run)(const struct tensor *tensor), const struct tensor *tensor)
{
	struct timespec from, to;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	run(tensor);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(const struct work *work, const struct tensor *tensor, bool json, bool first)
{
	double rates[PAIRS], ratios[PAIRS];

	/* What another type's arithmetic left there may be subnormal, which some processors take long for. */
	memcpy(tensor->a, tensor->b, TENSOR_BYTES);
	time_ns(work->run, tensor);
	for (unsigned i = 0; i < PAIRS; i++) {
		double ours = i % 2 ? time_ns(work->run, tensor) : 0;
		double peer = time_ns(copy, tensor);

		/* Who goes first changes from pair to pair. */
		if (i % 2 == 0)
			ours = time_ns(work->run, tensor);
		rates[i] = work->passes * (double)TENSOR_BYTES / ours;
		ratios[i] = work->passes / ours / (2 / peer);
	}
	qsort(rates, PAIRS, sizeof(rates[0]), by_size);
	qsort(ratios, PAIRS, sizeof(ratios[0]), by_size);
	if (json)
		printf("%s{\"work\": \"%s\", \"bytes_a_second\": %.4g, \"memcpy_ratio\": %.4f}",
		       first ? "" : ", ", work->name, rates[PAIRS / 2] * 1e9, ratios[PAIRS / 2]);
	else
		printf("  %-24s %6.1f GB/s read and written, %.2f of memcpy()\n", work->name,
		       rates[PAIRS / 2], ratios[PAIRS / 2]);
}

int main(int argc, char **argv)
{
	bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
	struct tensor tensor = { aligned_alloc(64, TENSOR_BYTES), aligned_alloc(64, TENSOR_BYTES),
				 aligned_alloc(64, TENSOR_BYTES) };
	struct rng rng;

	if (argc > 2 || (argc == 2 && !json)) {
		fputs("usage: tensor [--json]\n", stderr);
		return 2;
	}
	if (!tensor.out || !tensor.a || !tensor.b) {
		fputs("tensor: no memory\n", stderr);
		return 1;
	}
	/* Numbers near 1 in every type of two or four bytes. */
	rng_seed(&rng, 1);
	rng_fill(&rng, tensor.a, TENSOR_BYTES);
	for (size_t i = 0; i < TENSOR_BYTES; i++)
		tensor.a[i] = (unsigned char)(i % 2 ? 0x38 : tensor.a[i]);
	memcpy(tensor.b, tensor.a, TENSOR_BYTES);
	memcpy(tensor.out, tensor.a, TENSOR_BYTES);
	if (json)
		printf("{\"instructions\": \"%s\", \"tensor_bytes\": %zu, \"pairs\": %d, \"works\": [",
		       cpu_level_name(cpu_level()), TENSOR_BYTES, PAIRS);
	else
		printf("tensors of %zu MiB, %s\n", TENSOR_BYTES >> 20, cpu_level_name(cpu_level()));
	for (unsigned i = 0; i < sizeof(works) / sizeof(works[0]); i++)
		measure(&works[i], &tensor, json, i == 0);
	if (json)
		puts("]}");
	free(tensor.out);
	free(tensor.a);
	free(tensor.b);
	return 0;
}

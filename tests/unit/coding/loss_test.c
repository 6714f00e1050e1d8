/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a lost packet does to a tensor that travels as coefficients in packet order: it costs every number a little, and on
 * average over the seeds nothing.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "coding/hadamard.h"
#include "coding/stride.h"

#define MOST	   (80 * 1024)
#define PARTS_MOST 1024

static float numbers[MOST], tensor[MOST], packets[MOST];

/* Elements `from` to `to` - 1 in packet order that do not arrive. */
struct loss {
	size_t from;
	size_t to;
};

/* Replaces what is lost by zeros and scales each block by what arrived of it. */
static void lose(const struct stride *stride, const struct loss *losses, size_t count, bool scale)
{
	static uint32_t lost[PARTS_MOST];

	memset(lost, 0, sizeof(lost));
	for (size_t i = 0; i < count; i++) {
		memset(packets + losses[i].from, 0,
		       (losses[i].to - losses[i].from) * sizeof(float));
		stride_count(stride, losses[i].from, losses[i].to, lost);
	}
	stride_gather(stride, packets, tensor);
	for (size_t part = 0, i = 0; scale && part < stride->blocks; part++) {
		size_t end = hadamard_part_end(stride->count, stride->block, part),
		       length = end - i;
		float factor = (float)length / (float)(length - lost[part]);

		assert_true(lost[part] < length);
		for (; i < end; i++)
			tensor[i] *= factor;
	}
}

/* The tensor with some of its coefficients lost, into `tensor`. */
static void travel(const struct stride *stride, const struct loss *losses, size_t count,
		   uint64_t seed, bool scale)
{
	memcpy(tensor, numbers, stride->count * sizeof(float));
	hadamard_encode(HADAMARD_FLOAT32, tensor, stride->count, stride->block, seed);
	stride_spread(stride, tensor, packets);
	lose(stride, losses, count, scale);
	hadamard_decode(HADAMARD_FLOAT32, tensor, stride->count, stride->block, seed);
}

/* Large numbers lie side by side, as in tensors of models: the worst case for a packet that takes them all. */
static void test_a_lost_packet_is_spread_thin(void **state)
{
	const size_t packet = 1024, count = 16 * 4096;
	struct stride stride;
	double total = 0;

	(void)state;
	stride_init(&stride, count, 4, 4096, 16, packet * 4);
	memset(numbers, 0, sizeof(numbers));
	for (size_t i = 0; i < packet; i++)
		numbers[5 * packet + i] = 1 + (float)(i % 10);
	for (size_t i = 0; i < count; i++)
		total += numbers[i] * numbers[i];
	for (size_t lost = 0; lost < count / packet; lost++) {
		struct loss loss = { lost * packet, (lost + 1) * packet };
		double error = 0, most = 0;

		travel(&stride, &loss, 1, lost, false);
		for (size_t i = 0; i < count; i++) {
			double off = fabs(tensor[i] - numbers[i]);

			error += off * off;
			most = off > most ? off : most;
		}
		/* 1 / 64 of the coefficients. In the tensor's order it would be everything, once. */
		assert_true(error < 2 * total / 64);
		assert_true(most < 3);
	}
}

/* Over the seeds the mean of what arrives is what was sent, wherever the losses are, if they do not depend on the signs. */
static void check_unbiased(size_t count, size_t block, const struct loss *losses, size_t n)
{
	const unsigned seeds = 10000;
	static double sum[MOST], squares[MOST];
	struct stride stride;
	unsigned beyond = 0;

	stride_init(&stride, count, 4, block, 8, 64 * 4);
	memset(sum, 0, sizeof(sum));
	memset(squares, 0, sizeof(squares));
	for (size_t i = 0; i < count; i++)
		numbers[i] = (float)i / 100 - 3 * (float)(i % 7) + (i == 33 ? 100 : 0);
	for (unsigned seed = 0; seed < seeds; seed++) {
		travel(&stride, losses, n, seed, true);
		for (size_t i = 0; i < count; i++) {
			double off = tensor[i] - numbers[i];

			sum[i] += off;
			squares[i] += off * off;
		}
	}
	for (size_t i = 0; i < count; i++) {
		double mean = sum[i] / seeds, deviation = sqrt(squares[i] / seeds / seeds);

		/* Five deviations never; three seldom. */
		assert_true(fabs(mean) < 5 * deviation + 1e-4);
		beyond += fabs(mean) > 3 * deviation + 1e-4;
	}
	assert_true(beyond <= 2 + count / 100);
}

static void test_unbiased(void **state)
{
	/* One packet, and a burst of a third of the tensor. */
	static const struct loss few[] = { { 128, 192 } }, many[] = { { 0, 64 }, { 256, 576 } };

	(void)state;
	check_unbiased(1024, 128, few, 1);
	check_unbiased(1024, 128, many, 2);
	/* The last blocks overlap. */
	check_unbiased(1000, 128, many, 2);
	/* Less than a block. */
	check_unbiased(700, 1024, few, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_lost_packet_is_spread_thin),
		cmocka_unit_test(test_unbiased),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

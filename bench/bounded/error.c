/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * error: what a mean over ranks is worth when packets are lost and nothing is repaired, by who sends what to whom, and by what stands
 * for what is missing. Arithmetic only, no network: the order of methods under the same loss.
 *
 *	error [RANKS [TRIALS]]
 *
 * Each rank's tensor is a common one, with a few large numbers, and noise. The error is that of the mean which a rank ends with against
 * the exact one, over all ranks and elements, squared, divided by the variance of what a rank gives; `largest` is the 99.99th
 * percentile of its magnitude, in standard deviations. Prints one JSON object.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "coding/hadamard.h"
#include "coding/stride.h"

/* Numbers of a rank, of a packet, and of a Hadamard block. */
#define COUNT	 (1u << 17)
#define PACKET	 256
#define BLOCK	 4096
#define STRIDE	 64
#define MOST	 64
#define QUANTILE 0.9999

struct trial {
	uint32_t ranks;
	double loss, burst;
	struct rng rng;
	float *given[MOST];
	/* mean over ranks */
	double *exact;
	double variance;
	/* what a rank ends with */
	float *result[MOST];
	bool in_burst;
};

struct outcome {
	double squares;
	double *errors;
	size_t count;
};

static double gauss(struct rng *rng)
{
	double u = rng_unit(rng), v = rng_unit(rng);

	return sqrt(-2 * log(u > 1e-300 ? u : 1e-300)) * cos(6.283185307179586 * v);
}

/* Whether the next packet is lost: by itself, or in bursts of that many on the mean. */
static bool lost(struct trial *trial)
{
	if (trial->burst <= 1)
		return rng_chance(&trial->rng, trial->loss);
	if (trial->in_burst)
		trial->in_burst = !rng_chance(&trial->rng, 1 / trial->burst);
	else
		trial->in_burst =
			rng_chance(&trial->rng, trial->loss / (1 - trial->loss) / trial->burst);
	return trial->in_burst;
}

/* Sends numbers; those in lost packets become zeros. Counts in `came` those that arrived, if not null. */
static void transmit(struct trial *trial, const float *from, float *to, size_t count,
		     uint16_t *came)
{
	for (size_t at = 0; at < count; at += PACKET) {
		size_t length = count - at < PACKET ? count - at : PACKET;
		bool gone = lost(trial);

		if (gone)
			memset(to + at, 0, length * sizeof(*to));
		else
			memcpy(to + at, from + at, length * sizeof(*to));
		for (size_t i = 0; came && !gone && i < length; i++)
			came[at + i]++;
	}
}

static void add(float *to, const float *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		to[i] += from[i];
}

/* Partial sums go round, then results: what is lost once is missing at all that follow. */
static void ring(struct trial *trial)
{
	uint32_t n = trial->ranks;
	size_t chunk = COUNT / n;
	float *moved = calloc(chunk, sizeof(float));

	for (uint32_t c = 0; c < n; c++) {
		float *sum = trial->result[c] + c * chunk;

		memcpy(sum, trial->given[(c + 1) % n] + c * chunk, chunk * sizeof(float));
		for (uint32_t hop = 2; hop <= n; hop++) {
			transmit(trial, sum, moved, chunk, NULL);
			add(moved, trial->given[(c + hop) % n] + c * chunk, chunk);
			memcpy(sum, moved, chunk * sizeof(float));
		}
		for (size_t i = 0; i < chunk; i++)
			sum[i] /= (float)n;
		for (uint32_t hop = 1; hop < n; hop++)
			transmit(trial, trial->result[(c + hop - 1) % n] + c * chunk,
				 trial->result[(c + hop) % n] + c * chunk, chunk, NULL);
	}
	free(moved);
}

enum fill { FILL_ZERO, FILL_COUNT };

/* One owner gets all shares of `count` numbers from `from` on, and sends the mean back. */
static void owned(struct trial *trial, uint32_t owner, size_t from, size_t count, enum fill fill,
		  bool exact_back)
{
	uint32_t n = trial->ranks;
	float *sum = trial->result[owner] + from, *moved = calloc(count, sizeof(float));
	uint16_t *came = calloc(count, sizeof(*came));

	memcpy(sum, trial->given[owner] + from, count * sizeof(float));
	for (uint32_t r = 0; r < n; r++) {
		if (r == owner)
			continue;
		transmit(trial, trial->given[r] + from, moved, count, came);
		add(sum, moved, count);
	}
	for (size_t i = 0; i < count; i++)
		sum[i] /= fill == FILL_COUNT ? (float)(came[i] + 1) : (float)n;
	for (uint32_t r = 0; r < n; r++) {
		if (r == owner)
			continue;
		if (exact_back)
			memcpy(trial->result[r] + from, sum, count * sizeof(float));
		else
			transmit(trial, sum, trial->result[r] + from, count, NULL);
	}
	free(moved);
	free(came);
}

static void server(struct trial *trial)
{
	owned(trial, 0, 0, COUNT, FILL_ZERO, false);
}

static void transpose(struct trial *trial)
{
	size_t chunk = COUNT / trial->ranks;

	for (uint32_t r = 0; r < trial->ranks; r++)
		owned(trial, r, r * chunk, chunk, FILL_ZERO, false);
}

static void transpose_zero(struct trial *trial)
{
	size_t chunk = COUNT / trial->ranks;

	for (uint32_t r = 0; r < trial->ranks; r++)
		owned(trial, r, r * chunk, chunk, FILL_ZERO, true);
}

static void transpose_count(struct trial *trial)
{
	size_t chunk = COUNT / trial->ranks;

	for (uint32_t r = 0; r < trial->ranks; r++)
		owned(trial, r, r * chunk, chunk, FILL_COUNT, true);
}

/* A share as coefficients: lost ones are zeros, and each block is weighed by what arrived of it. */
static void spread_share(struct trial *trial, const float *share, size_t chunk, uint64_t seed,
			 size_t interleave, float *out)
{
	float *values = calloc(chunk, sizeof(float)), *packets = calloc(chunk, sizeof(float));
	uint32_t *arrived;
	struct stride stride;
	size_t from = 0;

	stride_init(&stride, chunk, sizeof(float), BLOCK, interleave, PACKET * sizeof(float));
	arrived = calloc(stride.blocks, sizeof(*arrived));
	memcpy(values, share, chunk * sizeof(float));
	hadamard_encode(HADAMARD_FLOAT32, values, chunk, BLOCK, seed);
	stride_spread(&stride, values, packets);
	for (size_t at = 0; at < chunk; at += PACKET) {
		if (lost(trial))
			memset(packets + at, 0, PACKET * sizeof(float));
		else
			stride_count(&stride, at, at + PACKET, arrived);
	}
	stride_gather(&stride, packets, out);
	for (size_t b = 0; b < stride.blocks; b++) {
		size_t to = hadamard_part_end(chunk, BLOCK, b);

		for (; from < to; from++)
			out[from] *= arrived[b] ? (float)BLOCK / (float)arrived[b] : 0;
	}
	free(values);
	free(packets);
	free(arrived);
}

static void hadamard_with(struct trial *trial, size_t interleave)
{
	uint32_t n = trial->ranks;
	size_t chunk = COUNT / n;
	float *moved = calloc(chunk, sizeof(float)), *sum = calloc(chunk, sizeof(float));

	for (uint32_t owner = 0; owner < n; owner++) {
		uint64_t seed = rng_u64(&trial->rng);

		memcpy(sum, trial->given[owner] + owner * chunk, chunk * sizeof(float));
		hadamard_encode(HADAMARD_FLOAT32, sum, chunk, BLOCK, seed);
		for (uint32_t r = 0; r < n; r++) {
			if (r == owner)
				continue;
			spread_share(trial, trial->given[r] + owner * chunk, chunk, seed,
				     interleave, moved);
			add(sum, moved, chunk);
		}
		hadamard_decode(HADAMARD_FLOAT32, sum, chunk, BLOCK, seed);
		for (size_t i = 0; i < chunk; i++)
			sum[i] /= (float)n;
		for (uint32_t r = 0; r < n; r++)
			memcpy(trial->result[r] + owner * chunk, sum, chunk * sizeof(float));
	}
	free(moved);
	free(sum);
}

static void hadamard(struct trial *trial)
{
	hadamard_with(trial, 1);
}

static void hadamard_stride(struct trial *trial)
{
	hadamard_with(trial, STRIDE);
}

static const struct {
	const char *name;
	void (*run)(struct trial *trial);
} methods[] = {
	{ "ring", ring },
	{ "server", server },
	{ "transpose", transpose },
	{ "transpose-zero", transpose_zero },
	{ "transpose-count", transpose_count },
	{ "hadamard", hadamard },
	{ "hadamard-stride", hadamard_stride },
};

static void draw(struct trial *trial)
{
	double squares = 0;

	memset(trial->exact, 0, COUNT * sizeof(double));
	for (size_t i = 0; i < COUNT; i++) {
		double common = gauss(&trial->rng) * (rng_chance(&trial->rng, 0.001) ? 30 : 1);

		for (uint32_t r = 0; r < trial->ranks; r++) {
			trial->given[r][i] = (float)(common + gauss(&trial->rng));
			trial->exact[i] += (double)trial->given[r][i] / trial->ranks;
			squares += (double)trial->given[r][i] * (double)trial->given[r][i];
		}
	}
	trial->variance = squares / COUNT / trial->ranks;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Ranks that get the same result from an exact second stage are judged once. */
static void judge(struct trial *trial, struct outcome *outcome)
{
	for (uint32_t r = 0; r < trial->ranks; r++) {
		for (size_t i = 0; i < COUNT; i++) {
			double error = (double)trial->result[r][i] - trial->exact[i];

			outcome->squares += error * error / trial->variance / COUNT / trial->ranks;
			if (!r)
				outcome->errors[outcome->count++] =
					fabs(error) / sqrt(trial->variance);
		}
	}
}

static void measure(struct trial *trial, unsigned trials, const char *separator)
{
	printf("%s\n  {\"loss\": %g, \"burst\": %g", separator, trial->loss, trial->burst);
	for (size_t m = 0; m < sizeof(methods) / sizeof(methods[0]); m++) {
		struct outcome outcome = { 0 };

		outcome.errors = calloc((size_t)trials * COUNT, sizeof(double));
		rng_seed(&trial->rng, 1);
		for (unsigned t = 0; t < trials; t++) {
			draw(trial);
			methods[m].run(trial);
			judge(trial, &outcome);
		}
		qsort(outcome.errors, outcome.count, sizeof(double), by_value);
		printf(", \"%s\": {\"mse\": %.6g, \"largest\": %.4g}", methods[m].name,
		       outcome.squares / trials,
		       outcome.errors[(size_t)((double)outcome.count * QUANTILE)]);
		free(outcome.errors);
	}
	printf("}");
}

int main(int argc, char **argv)
{
	static const double losses[] = { 0.001, 0.01, 0.02, 0.05, 0.1 };
	struct trial trial = { .ranks = argc > 1 ? (uint32_t)atoi(argv[1]) : 8 };
	unsigned trials = argc > 2 ? (unsigned)atoi(argv[2]) : 4;
	const char *separator = "";

	if (trial.ranks < 2 || trial.ranks > MOST || trial.ranks & (trial.ranks - 1) || !trials) {
		fputs("usage: error [RANKS [TRIALS]]; ranks are a power of two up to 64\n", stderr);
		return 2;
	}
	trial.exact = calloc(COUNT, sizeof(double));
	for (uint32_t r = 0; r < trial.ranks; r++) {
		trial.given[r] = calloc(COUNT, sizeof(float));
		trial.result[r] = calloc(COUNT, sizeof(float));
	}
	printf("{\"ranks\": %u, \"numbers\": %u, \"trials\": %u, \"rows\": [", trial.ranks, COUNT,
	       trials);
	for (int burst = 1; burst <= 8; burst *= 8) {
		for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
			trial.loss = losses[i];
			trial.burst = burst;
			measure(&trial, trials, separator);
			separator = ",";
		}
	}
	printf("]}\n");
	for (uint32_t r = 0; r < trial.ranks; r++) {
		free(trial.given[r]);
		free(trial.result[r]);
	}
	free(trial.exact);
	return 0;
}

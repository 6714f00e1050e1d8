/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * opsim: how long the operations of NCCL take on short paths, in virtual time, beside the least that they could take.
 *
 *	opsim [-v] RTT_MS GBIT QUEUE CHANNELS KIB [GAP_MS [LOSS [BURST [WAKE_US [SEED]]]]]
 *	opsim --grid
 *	opsim --draws COUNT [SEED]
 *
 * The queue is in bandwidth-delay products, and has 64 KiB at least. LOSS is a share of the packets, BURST how many are lost in a row.
 * --grid takes the paths that docs/congestion.md tells of; --draws takes random ones. Both print the median, the mean and the worst of
 * the ratios. In a column of --draws every path has the loss that stands above it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "operations.h"

#define OPERATIONS 30
#define QUEUE_MIN  65536.0
#define RATIOS	   4096

struct path {
	double rtt_ms, gbit, queue;
	unsigned channels;
	double kib, gap_ms, loss, burst, wake_us;
	unsigned long seed;
};

/* The kinds of loss of a table: a share, and packets in a row. */
struct kind {
	double loss, burst;
};

static const struct kind kinds[] = {
	{ 0, 1 }, { 1e-3, 1 }, { 1e-2, 1 }, { 1e-3, 12 }, { 1e-2, 12 }
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static double try_path(const struct path *path, bool verbose)
{
	double product = path->rtt_ms * path->gbit * 125000 * path->queue;
	struct operations_attr attr = {
		.link = { .rate_bps = (uint64_t)(path->gbit * 1e9),
			  .delay_ns = (uint64_t)(path->rtt_ms * 5e5),
			  .queue_bytes = (uint64_t)fmax(product, QUEUE_MIN) },
		.channels = path->channels,
		.operations = OPERATIONS,
		.bytes = (uint64_t)(path->kib * 1024),
		.gap_ns = (uint64_t)(path->gap_ms * 1e6),
		.wake_ns = (uint64_t)(path->wake_us * 1e3),
		.payload = 1408,
		.seed = path->seed,
		.verbose = verbose,
		.congestion = getenv("OPSIM_CONTROLLER"),
	};
	struct operations_result result;
	double ratio;

	if (path->burst > 1) {
		attr.link.burst_leave = 1 / path->burst;
		attr.link.burst_enter = path->loss / (1 - path->loss) / path->burst;
		attr.link.burst_loss = 1;
	} else {
		attr.link.loss = path->loss;
	}
	operations_run(&attr, &result);
	ratio = (double)result.mean_ns / (double)result.floor_ns;
	printf("%.3g ms %.3g Gbit/s queue %.3g channels %u %.0f KiB gap %.3g ms loss %g x %g wake %g us seed %lu: "
	       "%.3f of %.3f ms, most %.2f, overflow %.2f %%\n",
	       path->rtt_ms, path->gbit, path->queue, path->channels, path->kib, path->gap_ms,
	       path->loss, path->burst, path->wake_us, path->seed, ratio,
	       (double)result.floor_ns / 1e6, (double)result.most_ns / (double)result.floor_ns,
	       result.overflow * 100);
	fflush(stdout);
	return ratio;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void summarize(const struct kind *kind, double *ratios, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += ratios[i];
	qsort(ratios, count, sizeof(*ratios), compare);
	printf("loss %g x %g: median %.3f, mean %.3f, 0.9 %.3f, worst %.3f\n", kind->loss,
	       kind->burst, ratios[count / 2], sum / (double)count, ratios[count * 9 / 10],
	       ratios[count - 1]);
}

static void grid(const struct kind *kind)
{
	static const double queues[] = { 0.25, 0.5, 1, 4 }, sizes[] = { 64, 1024, 16384 },
			    gaps[] = { 0, 2 }, rates[] = { 1, 4, 25 };
	static double ratios[RATIOS];
	size_t count = 0;

	for (size_t i = 0; i < 3 * 4 * 3 * 2 * 2; i++) {
		struct path path = { .rtt_ms = 0.2,
				     .gbit = rates[i % 3],
				     .queue = queues[i / 3 % 4],
				     .kib = sizes[i / 12 % 3],
				     .gap_ms = gaps[i / 36 % 2],
				     .channels = i / 72 ? 4 : 2,
				     .loss = kind->loss,
				     .burst = kind->burst };

		ratios[count++] = try_path(&path, false);
	}
	summarize(kind, ratios, count);
}

/* Draws evenly on a scale of logarithms. */
static double draw(struct rng *rng, double least, double most)
{
	return least * exp(rng_unit(rng) * log(most / least));
}

static void draws(const struct kind *kind, unsigned long count, unsigned long seed)
{
	static const double wakes[] = { 0, 0, 50, 200 };
	static double ratios[RATIOS];
	struct rng rng;

	rng_seed(&rng, seed);
	for (size_t i = 0; i < count; i++) {
		struct path path = { .rtt_ms = draw(&rng, 0.05, 3),
				     .gbit = draw(&rng, 0.1, 25),
				     .queue = draw(&rng, 0.25, 8),
				     .channels = 1 + (unsigned)rng_below(&rng, 8),
				     .kib = draw(&rng, 64, 16384),
				     .gap_ms = rng_chance(&rng, 0.5) ? draw(&rng, 0.01, 10) : 0,
				     .loss = kind->loss,
				     .burst = kind->burst,
				     .wake_us = wakes[rng_below(&rng, 4)],
				     .seed = i };

		ratios[i] = try_path(&path, false);
	}
	summarize(kind, ratios, count);
}

static double number(char **argv, int argc, int i, double otherwise)
{
	return i < argc ? strtod(argv[i], NULL) : otherwise;
}

int main(int argc, char **argv)
{
	bool verbose = argc > 1 && !strcmp(argv[1], "-v");
	unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	struct path path;

	if (argc == 2 && !strcmp(argv[1], "--grid")) {
		for (size_t i = 0; i < KINDS; i++)
			grid(&kinds[i]);
		return 0;
	}
	if (argc > 2 && !strcmp(argv[1], "--draws") && count && count <= RATIOS) {
		for (size_t i = 0; i < KINDS; i++)
			draws(&kinds[i], count, argc > 3 ? strtoul(argv[3], NULL, 10) : 1);
		return 0;
	}
	argc -= verbose;
	argv += verbose;
	if (argc < 6 || argc > 11)
		return 2;
	path = (struct path){ .rtt_ms = number(argv, argc, 1, 0),
			      .gbit = number(argv, argc, 2, 0),
			      .queue = number(argv, argc, 3, 0),
			      .channels = (unsigned)number(argv, argc, 4, 0),
			      .kib = number(argv, argc, 5, 0),
			      .gap_ms = number(argv, argc, 6, 0),
			      .loss = number(argv, argc, 7, 0),
			      .burst = number(argv, argc, 8, 1),
			      .wake_us = number(argv, argc, 9, 0),
			      .seed = (unsigned long)number(argv, argc, 10, 0) };
	if (!path.channels || path.channels > OPERATIONS_CHANNELS)
		return 2;
	try_path(&path, verbose);
	return 0;
}

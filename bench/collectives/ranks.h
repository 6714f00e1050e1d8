/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranks.h: what mpi_ranks.c and godwit_ranks.c have in common: operations are timed one after another, the time of a cell is
 * the mean of them on the slowest rank, and the result of the last one is checked. gloo_ranks.py does the same.
 *
 *	PROGRAM OPERATION:BYTES:WARMUP:ITERATIONS...
 *
 * Operations are allreduce, allgather and broadcast. Rank 0 prints a JSON object a cell. The program defines the functions
 * that are declared here.
 */
#ifndef BENCH_COLLECTIVES_RANKS_H
#define BENCH_COLLECTIVES_RANKS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum cell_operation { CELL_ALLREDUCE, CELL_ALLGATHER, CELL_BROADCAST };

struct cell {
	enum cell_operation operation;
	/* floats in the larger one of the two buffers */
	int count;
	int warmup;
	int iterations;
};

static int rank, ranks;

/* Does one operation; ends the program if it fails. An allgather sends count / ranks floats, a broadcast has `send` only. */
static void operate(const struct cell *cell, float *send, float *recv);

/* Returns the largest of a number over all ranks, after all of them have called it. */
static double largest(double value);

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Every rank gives its number and one. */
static int is_right(const struct cell *cell, const float *send, const float *recv)
{
	int last = cell->count / ranks * ranks - 1;

	switch (cell->operation) {
	case CELL_ALLREDUCE:
		return recv[0] == (float)(ranks * (ranks + 1) / 2) &&
		       recv[cell->count - 1] == recv[0];
	case CELL_ALLGATHER:
		return recv[0] == 1 && recv[last] == (float)ranks;
	default:
		return send[0] == 1 && send[cell->count - 1] == 1;
	}
}

static void measure(const char *name, const struct cell *cell)
{
	size_t bytes = (size_t)cell->count * sizeof(float);
	float *send = malloc(bytes), *recv = malloc(bytes);
	double begin, mean, wrong;

	if (!send || !recv) {
		fprintf(stderr, "no memory for %zu bytes twice\n", bytes);
		exit(1);
	}
	memset(recv, 0, bytes);
	for (int i = 0; i < cell->count; i++)
		send[i] = (float)(rank + 1);
	for (int i = 0; i < cell->warmup; i++)
		operate(cell, send, recv);
	largest(0);
	begin = now_us();
	for (int i = 0; i < cell->iterations; i++)
		operate(cell, send, recv);
	mean = largest((now_us() - begin) / cell->iterations);
	wrong = largest(!is_right(cell, send, recv));
	if (!rank) {
		printf("{\"operation\": \"%s\", \"bytes\": %zu, \"mean_us\": %.1f, \"right\": %s}\n",
		       name, bytes, mean, wrong > 0 ? "false" : "true");
		fflush(stdout);
	}
	free(send);
	free(recv);
}

/* Measures all cells of a command line; returns 0, or 2 for one that is none. */
static int measure_all(int argc, char **argv)
{
	static const char *const names[] = { "allreduce", "allgather", "broadcast" };

	for (int i = 1; i < argc; i++) {
		char name[32];
		size_t bytes;
		struct cell cell;
		unsigned which = 0;

		if (sscanf(argv[i], "%31[^:]:%zu:%d:%d", name, &bytes, &cell.warmup,
			   &cell.iterations) != 4)
			return 2;
		while (which < 3 && strcmp(name, names[which]) != 0)
			which++;
		if (which == 3 || bytes < sizeof(float) * (size_t)ranks || cell.iterations < 1)
			return 2;
		cell.operation = (enum cell_operation)which;
		cell.count = (int)(bytes / sizeof(float));
		measure(name, &cell);
	}
	return 0;
}

#endif

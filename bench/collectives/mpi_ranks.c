/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_ranks: times MPI's collectives as `godwit coll` times ours: operations one after another, the mean of them, and the
 * slowest rank's mean. Built with mpicc by compare.py.
 *
 *	mpi_ranks WARMUP OPERATION:BYTES:ITERATIONS...
 *
 * Rank 0 prints a JSON object a line.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void operate(const char *name, float *send, float *recv, int count, int ranks)
{
	if (!strcmp(name, "allreduce"))
		MPI_Allreduce(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	else if (!strcmp(name, "allgather"))
		MPI_Allgather(send, count / ranks, MPI_FLOAT, recv, count / ranks, MPI_FLOAT,
			      MPI_COMM_WORLD);
	else
		MPI_Bcast(send, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

/* True if the last result is what it should be: every rank gives its number and one. */
static int is_right(const char *name, const float *send, const float *recv, int count, int ranks)
{
	int last = count / ranks * ranks - 1;

	if (!strcmp(name, "allreduce"))
		return recv[0] == (float)(ranks * (ranks + 1) / 2) && recv[count - 1] == recv[0];
	if (!strcmp(name, "allgather"))
		return recv[0] == 1 && recv[last] == (float)ranks;
	return send[0] == 1 && send[count - 1] == 1;
}

static void measure(const char *name, size_t bytes, int iterations, int warmup)
{
	int rank, ranks, count = (int)(bytes / sizeof(float)), right, all_right;
	float *send = malloc(bytes), *recv = malloc(bytes);
	double *times = malloc(sizeof(double) * (size_t)iterations), begin, last, mean, slowest;

	if (!send || !recv || !times)
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int i = 0; i < count; i++)
		send[i] = (float)(rank + 1);
	for (int i = 0; i < warmup; i++)
		operate(name, send, recv, count, ranks);
	MPI_Barrier(MPI_COMM_WORLD);
	begin = last = MPI_Wtime();
	for (int i = 0; i < iterations; i++) {
		operate(name, send, recv, count, ranks);
		times[i] = MPI_Wtime() - last;
		last += times[i];
	}
	mean = (last - begin) / iterations;
	right = is_right(name, send, recv, count, ranks);
	MPI_Reduce(&right, &all_right, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mean, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	qsort(times, (size_t)iterations, sizeof(double), by_value);
	if (!rank) {
		printf("{\"operation\": \"%s\", \"bytes\": %zu, \"mean_us\": %.1f, \"p50_us\": %.1f, \"worst_us\": %.1f, \"right\": %s}\n",
		       name, bytes, slowest * 1e6, times[iterations / 2] * 1e6,
		       times[iterations - 1] * 1e6, all_right ? "true" : "false");
		fflush(stdout);
	}
	free(send);
	free(recv);
	free(times);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	for (int i = 2; i < argc; i++) {
		char name[32];
		size_t bytes;
		int iterations;

		if (sscanf(argv[i], "%31[^:]:%zu:%d", name, &bytes, &iterations) != 3)
			MPI_Abort(MPI_COMM_WORLD, 2);
		measure(name, bytes, iterations, atoi(argv[1]));
	}
	MPI_Finalize();
	return 0;
}

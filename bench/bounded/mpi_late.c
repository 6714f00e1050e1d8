/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_late: allreduces of Open MPI among ranks of which the last is late at times, as late_ranks.py does with Gloo and Godwit. Built
 * with mpicc by lab.py.
 *
 *	mpi_late BYTES COMPUTE_MS DELAYS
 *
 * DELAYS is a file with a line for each operation: the milliseconds that the last rank computes longer before it. Rank 0 prints
 * one JSON object with the times of all operations on all ranks, in milliseconds.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define OPERATIONS_MAX 100000

static void compute(double ms)
{
	struct timespec time = { (time_t)(ms / 1e3), (long)((ms - (long)(ms / 1e3) * 1e3) * 1e6) };

	nanosleep(&time, NULL);
}

static int read_delays(const char *path, double *delays)
{
	FILE *file = fopen(path, "r");
	int count = 0;

	if (!file)
		return 0;
	while (count < OPERATIONS_MAX && fscanf(file, "%lf", &delays[count]) == 1)
		count++;
	fclose(file);
	return count;
}

static void show(const double *times, int count, int right)
{
	printf("{\"times_ms\": [");
	for (int i = 0; i < count; i++)
		printf("%s%.3f", i ? ", " : "", times[i]);
	printf("], \"right\": %s}\n", right ? "true" : "false");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static double delays[OPERATIONS_MAX];
	int rank, ranks, count, numbers, right = 1, all_right;
	double *times, *every = NULL;
	float *send, *recv;

	if (argc != 4)
		return 2;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	numbers = atoi(argv[1]) / (int)sizeof(float);
	count = read_delays(argv[3], delays);
	send = malloc((size_t)numbers * sizeof(float));
	recv = malloc((size_t)numbers * sizeof(float));
	times = malloc(((size_t)count + 1) * sizeof(double));
	every = malloc(((size_t)count * (size_t)ranks + 1) * sizeof(double));
	if (!count || !send || !recv || !times || !every)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (int i = 0; i < numbers; i++)
		send[i] = (float)(rank + 1);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < count; i++) {
		double begin;

		compute(atof(argv[2]) + (rank == ranks - 1 ? delays[i] : 0));
		begin = MPI_Wtime();
		MPI_Allreduce(send, recv, numbers, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		times[i] = (MPI_Wtime() - begin) * 1e3;
		right = right && recv[numbers - 1] == (float)(ranks * (ranks + 1) / 2);
	}
	MPI_Reduce(&right, &all_right, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
	MPI_Gather(times, count, MPI_DOUBLE, every, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	if (!rank)
		show(every, count * ranks, all_right);
	free(send);
	free(recv);
	free(times);
	free(every);
	MPI_Finalize();
	return 0;
}

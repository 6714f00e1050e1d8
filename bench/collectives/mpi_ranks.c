/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_ranks: times MPI's collectives; see ranks.h. Built with mpicc by compare.py. */
#include <mpi.h>

#include "ranks.h"

static void operate(const struct cell *cell, float *send, float *recv)
{
	int share = cell->count / ranks;

	switch (cell->operation) {
	case CELL_ALLREDUCE:
		MPI_Allreduce(send, recv, cell->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		break;
	case CELL_ALLGATHER:
		MPI_Allgather(send, share, MPI_FLOAT, recv, share, MPI_FLOAT, MPI_COMM_WORLD);
		break;
	default:
		MPI_Bcast(send, cell->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
		break;
	}
}

static double largest(double value)
{
	double found;

	MPI_Allreduce(&value, &found, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return found;
}

int main(int argc, char **argv)
{
	int status;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	status = measure_all(argc, argv);
	MPI_Finalize();
	return status;
}

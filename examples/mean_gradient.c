/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mean_gradient: every rank has a vector; all get the mean. What data-parallel training does after each step.
 *
 *	cc mean_gradient.c $(pkg-config --cflags --libs godwit) -o mean_gradient
 *	mpirun -n 4 ./mean_gradient		or torchrun --no-python, or srun
 *
 * The ranks find each other through the environment that the launcher sets.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <godwit/collective.h>

#define ELEMENTS (UINT64_C(1) << 20)
#define STEPS	 10

static void die(const char *what, const char *why)
{
	fprintf(stderr, "mean_gradient: %s: %s\n", what, why);
	exit(1);
}

int main(void)
{
	float *gradient = malloc(ELEMENTS * sizeof(float));
	struct gw_comm *comm;

	if (!gradient)
		die("memory", "there is none");
	if (gw_comm_open(NULL, &comm))
		die("cannot meet the other ranks", gw_comm_error(NULL));
	for (int step = 0; step < STEPS; step++) {
		struct gw_coll_attr attr = { .send = gradient,
					     .recv = gradient,
					     .count = ELEMENTS,
					     .type = GW_FLOAT32,
					     .reduction = GW_MEAN };
		float expected = (float)step + (float)(gw_comm_size(comm) - 1) / 2;
		struct gw_coll *coll;

		for (uint64_t i = 0; i < ELEMENTS; i++)
			gradient[i] = (float)step + (float)gw_comm_rank(comm);
		/* Posted: a program would go on with the next layer here, and wait later. */
		if (gw_allreduce(comm, &attr, &coll))
			die("cannot post", gw_comm_error(comm));
		if (gw_coll_wait(coll, UINT64_MAX))
			die("the mean did not come", gw_comm_error(comm));
		gw_coll_close(coll);
		for (uint64_t i = 0; i < ELEMENTS; i++)
			if (gradient[i] != expected)
				die("the mean", "is wrong");
	}
	if (gw_comm_rank(comm) == 0)
		printf("%d means over %u ranks, all right\n", STEPS, gw_comm_size(comm));
	gw_comm_close(comm);
	free(gradient);
	return 0;
}

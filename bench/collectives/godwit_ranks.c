/* SPDX-License-Identifier: BSD-3-Clause */
/* godwit_ranks: times Godwit's collectives under any launcher, with defaults or, if the first argument is "multicast", broadcasts by that;
 * see ranks.h. */
#include <godwit/collective.h>

#include "ranks.h"

static struct gw_comm *comm;
/* of broadcasts from 256 KiB on */
static enum gw_algorithm broadcasts = GW_ALGORITHM_AUTO;

static void die(const char *what)
{
	fprintf(stderr, "godwit_ranks: %s: %s\n", what, gw_comm_error(comm));
	exit(1);
}

static void finish(int error, struct gw_coll **coll)
{
	if (error)
		die("cannot begin");
	if (gw_coll_wait(*coll, UINT64_MAX))
		die("failed");
	gw_coll_close(*coll);
}

static void operate(const struct cell *cell, float *send, float *recv)
{
	struct gw_coll_attr attr = {
		.send = send, .recv = recv, .count = (uint64_t)cell->count, .type = GW_FLOAT32
	};
	struct gw_coll *coll;

	switch (cell->operation) {
	case CELL_ALLREDUCE:
		finish(gw_allreduce(comm, &attr, &coll), &coll);
		break;
	case CELL_ALLGATHER:
		attr.count /= (uint64_t)ranks;
		finish(gw_allgather(comm, &attr, &coll), &coll);
		break;
	default:
		attr.recv = send;
		attr.algorithm = attr.count >= 65536 ? broadcasts : GW_ALGORITHM_AUTO;
		finish(gw_broadcast(comm, &attr, &coll), &coll);
		break;
	}
}

static double largest(double value)
{
	struct gw_coll_attr attr = {
		.send = &value, .recv = &value, .count = 1, .type = GW_FLOAT64, .reduction = GW_MAX
	};
	struct gw_coll *coll;

	finish(gw_allreduce(comm, &attr, &coll), &coll);
	return value;
}

int main(int argc, char **argv)
{
	/* Operations follow each other, and each makes progress for those before: they need not wait until what was sent arrived. */
	struct gw_comm_attr attr = { .flags = GW_COMM_SERVED };
	int status;

	if (gw_comm_open(&attr, &comm))
		die("cannot meet the other ranks");
	rank = (int)gw_comm_rank(comm);
	ranks = (int)gw_comm_size(comm);
	if (argc > 1 && !strcmp(argv[1], "multicast")) {
		broadcasts = GW_ALGORITHM_MULTICAST;
		argc--;
		argv++;
	}
	status = measure_all(argc, argv);
	gw_comm_close(comm);
	return status;
}

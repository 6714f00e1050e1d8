/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounded operations: their attributes, and what they consist of. */
#include <errno.h>
#include <stdlib.h>

#include "base/zero.h"
#include "collective/bounded.h"

/* Whether there can be such a grid: an allreduce of rows that are full. */
static bool grid_right(const struct task *task, uint32_t rows)
{
	return rows <= 1 || (task->operation == OPERATION_ALLREDUCE && rows < task->size &&
			     !(task->size % rows));
}

static bool attr_right(const struct gw_coll *coll, const struct gw_bounded_attr *attr)
{
	bool sums = coll->reduction == GW_SUM || coll->reduction == GW_MEAN;
	uint64_t blocks = coll->task.operation == OPERATION_REDUCE_SCATTER ? coll->task.size : 1;

	if ((unsigned)attr->recovery > GW_RECOVER_CODED ||
	    attr->flags & ~(GW_BOUNDED_REPAIR | GW_BOUNDED_TRANSFORMED) || attr->floor_ppm > PPM ||
	    !array_is_zero(attr->reserved) ||
	    (attr->flags & GW_BOUNDED_REPAIR && !attr->floor_ppm) ||
	    (attr->recovery == GW_RECOVER_PREVIOUS && !attr->previous))
		return false;
	if (!grid_right(&coll->task, attr->rows))
		return false;
	if (attr->flags & GW_BOUNDED_TRANSFORMED &&
	    (attr->recovery != GW_RECOVER_HADAMARD ||
	     coll->task.elements % (blocks * BOUNDED_BLOCK)))
		return false;
	if (coll->task.operation == OPERATION_ALLGATHER ||
	    coll->task.operation == OPERATION_BROADCAST)
		return attr->recovery <= GW_RECOVER_PREVIOUS && attr->recovery != GW_RECOVER_KEEP &&
		       !attr->floor_ppm;
	if (attr->recovery == GW_RECOVER_HADAMARD)
		return sums && (coll->type == GW_FLOAT32 || coll->type == GW_BFLOAT16);
	return coll->type == GW_FLOAT32 || coll->type == GW_FLOAT16 || coll->type == GW_BFLOAT16 ||
	       coll->type == GW_FLOAT64;
}

int bounded_make(struct gw_coll *coll, const struct gw_bounded_attr *attr)
{
	struct gw_comm *comm = coll->comm;
	struct bounded *run;

	if (!attr_right(coll, attr))
		return -EINVAL;
	if (!comm->bounded) {
		comm->bounded = calloc(1, sizeof(*comm->bounded));
		if (comm->bounded)
			list_init(&comm->bounded->spare);
	}
	run = calloc(1, sizeof(*run));
	if (!comm->bounded || !run) {
		free(run);
		return -ENOMEM;
	}
	coll->bounded = run;
	*run = (struct bounded){ .coll = coll, .comm = comm, .attr = *attr };
	run->rows = attr->rows ? attr->rows : 1;
	if (!attr->rows && coll->task.operation == OPERATION_ALLREDUCE)
		run->rows = grid_rows(comm->size);
	run->columns = comm->size / run->rows;
	run->peers = calloc(comm->size, sizeof(*run->peers));
	run->hails = calloc(comm->size, sizeof(*run->hails));
	run->owners = calloc(comm->size, sizeof(*run->owners));
	run->missing = calloc(comm->size, sizeof(*run->missing));
	return run->peers && run->hails && run->owners && run->missing ? 0 : -ENOMEM;
}

void bounded_free(struct gw_coll *coll)
{
	struct bounded *run = coll->bounded;

	if (!run)
		return;
	keep_give_back(run);
	for (uint32_t r = 0; run->peers && r < run->comm->size; r++)
		holes_free(&run->peers[r].holes);
	free(run->peers);
	free(run->hails);
	free(run->owners);
	free(run->missing);
	free(run);
	coll->bounded = NULL;
}

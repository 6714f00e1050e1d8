/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that do not call the same operations. Each message of an operation has a label (gw_op_attr.label), by which a rank that gets it
 * in another operation notices, also where the lengths are the same. What the operation is stands above LABEL_BITS; the bits below
 * follow from what ranks have to call alike.
 */
#include <errno.h>

#include "collective/comm.h"

#define LABEL_BITS    12
#define LABEL_CLOSING (OPERATION_COUNT + 1)

uint16_t coll_label(const struct gw_coll *coll)
{
	const struct task *task = &coll->task;
	bool reduces = task->operation == OPERATION_ALLREDUCE ||
		       task->operation == OPERATION_REDUCE_SCATTER;
	const uint64_t alike[] = { coll->number,
				   task->elements * task->unit,
				   task->algorithm,
				   task->operation == OPERATION_BROADCAST ? task->root : 0,
				   reduces ? coll->type : 0,
				   reduces ? coll->reduction : 0 };
	unsigned kind = coll == coll->comm->closing ? LABEL_CLOSING : task->operation + 1;
	uint64_t hash = 0;

	for (unsigned i = 0; i < sizeof(alike) / sizeof(alike[0]); i++) {
		hash = (hash ^ alike[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return (uint16_t)(kind << LABEL_BITS | hash >> (64 - LABEL_BITS));
}

/* What a rank does by the label of its message. */
static const char *called(uint16_t label)
{
	unsigned kind = label >> LABEL_BITS;

	if (kind == LABEL_CLOSING)
		return "gw_comm_close()";
	return kind && kind <= OPERATION_COUNT ? operation_name((enum operation)(kind - 1))
					       : "a bounded or multicast operation";
}

void coll_disagree(struct gw_coll *coll, const struct step *step, const struct gw_op_result *result)
{
	static const char question[] = "do all ranks call the same operations?";
	uint32_t rank = coll->comm->rank;
	/* Not of a send that does not fit, nor of a receive that the peer asks for because it does not. */
	bool labelled = step->kind == STEP_RECV && (!result->status || result->label);

	if (labelled && (result->label ^ coll->label) >> LABEL_BITS)
		comm_fail(coll->comm, true, -EPROTO,
			  "rank %u called %s where rank %u called %s (number %u): %s", step->peer,
			  called(result->label), rank, called(coll->label), coll->number, question);
	else if (result->status)
		comm_fail(coll->comm, true, -EPROTO,
			  "rank %u %s the %llu bytes that rank %u %s in %s number %u: %s",
			  step->peer,
			  step->kind == STEP_RECV ? "sent more than" : "expected less than",
			  (unsigned long long)step->bytes, rank,
			  step->kind == STEP_RECV ? "expected" : "sent",
			  operation_name(coll->task.operation), coll->number, question);
	else if (result->length != step->bytes)
		comm_fail(coll->comm, true, -EPROTO,
			  "rank %u sent %llu bytes where rank %u expected %llu in %s number %u: %s",
			  step->peer, (unsigned long long)result->length, rank,
			  (unsigned long long)step->bytes, operation_name(coll->task.operation),
			  coll->number, question);
	else
		comm_fail(
			coll->comm, true, -EPROTO,
			"rank %u called %s number %u with another size, type, reduction, root or algorithm than rank %u: %s",
			step->peer, operation_name(coll->task.operation), coll->number, rank,
			question);
}

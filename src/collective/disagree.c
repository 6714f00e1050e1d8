/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that do not call the same operations. Each message of an operation has a label (gw_op_attr.label), by which a rank that gets it
 * in another operation notices, also where the lengths are the same. What the operation is stands above LABEL_BITS; the bits below
 * follow from what ranks have to call alike. Bounded operations have no such bits: their ranks tell each other what holds. Notes of
 * multicast ones have no label, but a form of their own.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "collective/comm.h"

#define LABEL_BITS    12
#define LABEL_CLOSING (OPERATION_COUNT + 1)
#define LABEL_BOUNDED (OPERATION_COUNT + 2)

/* Bytes of what an operation is called. */
#define CALLED_MAX 32

static_assert(LABEL_BOUNDED + OPERATION_COUNT <= 1 << (16 - LABEL_BITS), "a kind has four bits");

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

	if (coll->bounded)
		return (uint16_t)((LABEL_BOUNDED + task->operation) << LABEL_BITS);
	for (unsigned i = 0; i < sizeof(alike) / sizeof(alike[0]); i++) {
		hash = (hash ^ alike[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return (uint16_t)(kind << LABEL_BITS | hash >> (64 - LABEL_BITS));
}

/* What a rank does by the label of its message. */
static const char *called(uint16_t label, char text[CALLED_MAX])
{
	unsigned kind = label >> LABEL_BITS;

	if (kind >= LABEL_BOUNDED && kind < LABEL_BOUNDED + OPERATION_COUNT)
		snprintf(text, CALLED_MAX, "bounded %s",
			 operation_name((enum operation)(kind - LABEL_BOUNDED)));
	else if (kind && kind <= OPERATION_COUNT)
		snprintf(text, CALLED_MAX, "%s", operation_name((enum operation)(kind - 1)));
	else
		snprintf(text, CALLED_MAX, "%s",
			 kind == LABEL_CLOSING ? "gw_comm_close()" : "a multicast operation");
	return text;
}

bool coll_fits(const struct gw_coll *coll, bool receives, uint64_t bytes,
	       const struct gw_op_result *result)
{
	if (result->status == -EMSGSIZE)
		return false;
	return result->status || !receives ||
	       (result->length == bytes && result->label == coll->label);
}

void coll_disagree(struct gw_coll *coll, uint32_t peer, bool receives, uint64_t bytes,
		   const struct gw_op_result *result)
{
	static const char question[] = "do all ranks call the same operations?";
	uint32_t rank = coll->comm->rank;
	char own[CALLED_MAX], others[CALLED_MAX];
	/* Not of a send that does not fit, nor of a receive that the peer asks for because it does not. */
	bool labelled = receives && (!result->status || result->label);

	called(coll->label, own);
	if (labelled && (result->label ^ coll->label) >> LABEL_BITS)
		comm_fail(coll->comm, true, -EPROTO,
			  "rank %u called %s where rank %u called %s (number %u): %s", peer,
			  called(result->label, others), rank, own, coll->number, question);
	else if (result->status)
		comm_fail(coll->comm, true, -EPROTO,
			  "rank %u %s the %llu bytes that rank %u %s in %s number %u: %s", peer,
			  receives ? "sent more than" : "expected less than",
			  (unsigned long long)bytes, rank, receives ? "expected" : "sent", own,
			  coll->number, question);
	else if (result->length != bytes)
		comm_fail(coll->comm, true, -EPROTO,
			  "rank %u sent %llu bytes where rank %u expected %llu in %s number %u: %s",
			  peer, (unsigned long long)result->length, rank, (unsigned long long)bytes,
			  own, coll->number, question);
	else
		comm_fail(
			coll->comm, true, -EPROTO,
			"rank %u called %s number %u with another size, type, reduction, root or algorithm than rank %u: %s",
			peer, own, coll->number, rank, question);
}

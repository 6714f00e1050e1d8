/* SPDX-License-Identifier: BSD-3-Clause */
/* What a communicator waits for, for a person. */
#include <errno.h>
#include <stdio.h>

#include "collective/bounded.h"
#include "collective/comm.h"
#include "collective/multicast.h"

/* Ranks named in one sentence. */
#define NAMED_MAX 4

/* The operation that was posted first among those that have not ended. */
static const struct gw_coll *oldest(const struct gw_comm *comm)
{
	const struct gw_coll *first = NULL;

	for (uint32_t t = 0; t < comm->track_count; t++) {
		const struct gw_coll *coll;

		if (list_empty(&comm->tracks[t].colls))
			continue;
		coll = container_of(comm->tracks[t].colls.next, struct gw_coll, node);
		if (!first || (int32_t)(coll->number - first->number) < 0)
			first = coll;
	}
	return first;
}

/* Appends what fits, and keeps count of what would. */
#define APPEND(...)                                                                                \
	do {                                                                                       \
		int length_ = snprintf(text + (used < size ? used : size),                         \
				       used < size ? size - used : 0, __VA_ARGS__);                \
		used += length_ > 0 ? (size_t)length_ : 0;                                         \
	} while (0)

int gw_comm_explain(const struct gw_comm *comm, char *text, size_t size)
{
	const struct gw_coll *coll;
	uint32_t named = 0, track;
	size_t used = 0;

	if (!comm || (!text && size))
		return -EINVAL;
	if (comm->status) {
		APPEND("failed: %s", comm->error);
		return (int)used;
	}
	coll = oldest(comm);
	if (!coll) {
		APPEND("no operation is open");
		return (int)used;
	}
	if (coll->multicast || coll->bounded) {
		char what[128];

		if (coll->multicast)
			multicast_explain(coll, what, sizeof(what));
		else
			bounded_explain(coll, what, sizeof(what));
		APPEND("%s number %u (%s, %llu bytes) of rank %u: %s",
		       operation_name(coll->task.operation), coll->number,
		       coll->multicast ? "multicast" : "bounded",
		       (unsigned long long)(coll->task.elements * coll->task.unit), comm->rank,
		       what);
		return (int)used;
	}
	if (coll->undecided) {
		APPEND("%s number %u (%llu bytes) of rank %u: waits until ranks have agreed on the rate of the network",
		       operation_name(coll->task.operation), coll->number,
		       (unsigned long long)(coll->task.elements * coll->task.unit), comm->rank);
		return (int)used;
	}
	track = coll->number % comm->track_count;
	APPEND("%s number %u (%s, %llu bytes) of rank %u: %u of %u steps left",
	       operation_name(coll->task.operation), coll->number,
	       algorithm_name(coll->task.algorithm),
	       (unsigned long long)(coll->task.elements * coll->task.unit), comm->rank,
	       coll->engine.left, coll->program.steps.count);
	for (uint32_t r = 0; r < comm->size && named < NAMED_MAX; r++) {
		const struct queue *queues = &coll->engine.queues[(size_t)2 * r];
		struct comm_link *link = comm->tracks[track].links[r];
		char name[80], why[256] = "";

		if (!queues[0].open && !queues[1].open && !(link && !link->connected))
			continue;
		if (link && link->connected)
			gw_channel_explain(link->channel, why, sizeof(why));
		APPEND("%s %s%s%s%s", named++ ? "," : "; waits for",
		       comm_rank_name(comm, r, name, sizeof(name)),
		       link && !link->connected ? ", which is not connected yet" : "",
		       why[0] ? ": " : "", why);
	}
	return (int)used;
}

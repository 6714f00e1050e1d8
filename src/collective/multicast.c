/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast operations: how they are made, begin and end, and which operations are better so. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective/multicast.h"

/* Bytes and ranks from which copies by the network beat copies by hosts. In an allgather each rank receives as much either way: few ranks gain
 * nothing, and on long round trips the turns of the ranks take longer than a ring's rounds. */
#define AUTO_BYTES	     (UINT64_C(256) << 10)
#define AUTO_BROADCAST_RANKS 4
#define AUTO_ALLGATHER_RANKS 16
#define BUCKET_BYTES	     (UINT64_C(64) << 10)

bool multicast_fits(enum operation operation)
{
	return operation == OPERATION_BROADCAST || operation == OPERATION_ALLGATHER;
}

bool multicast_asked(const struct task *task)
{
	return task->algorithm == GW_ALGORITHM_MULTICAST && multicast_fits(task->operation);
}

bool multicast_wanted(const struct gw_comm *comm, const struct task *task)
{
	uint64_t bytes = task->elements * task->unit;

	if (task->size < 2 || !bytes)
		return false;
	if (task->algorithm)
		return multicast_asked(task);
	if (!comm->multicast || bytes < AUTO_BYTES)
		return false;
	return (task->operation == OPERATION_BROADCAST && task->size >= AUTO_BROADCAST_RANKS) ||
	       (task->operation == OPERATION_ALLGATHER && task->near &&
		task->size >= AUTO_ALLGATHER_RANKS);
}

static int open_group(struct gw_comm *comm)
{
	struct multicast_group *group;

	if (comm->multicast)
		return 0;
	group = calloc(1, sizeof(*group));
	if (!group)
		return -ENOMEM;
	group->comm = comm;
	group->asker = comm->posted;
	list_init(&group->runs);
	multicast_rate_init(&group->rate, comm->channel.rate_bps, comm->channel.rate_bps);
	bucket_init(&group->bucket, BUCKET_BYTES, gw_now_ns(comm->office->ctx));
	comm->multicast = group;
	return 0;
}

static int find_partners(struct multicast *run)
{
	const struct task *task = &run->coll->task;
	uint32_t size = task->size, root = task->operation == OPERATION_BROADCAST ? task->root : 0;

	run->place = (task->rank + size - root) % size;
	if (run->place) {
		run->parent = partner_with(run, ((run->place - 1) / MULTICAST_FAN + root) % size);
		if (!run->parent)
			return -ENOMEM;
	}
	for (uint32_t i = 1; i <= MULTICAST_FAN && run->place * MULTICAST_FAN + i < size; i++) {
		uint32_t child = (run->place * MULTICAST_FAN + i + root) % size;

		run->children[run->child_count] = partner_with(run, child);
		if (!run->children[run->child_count])
			return -ENOMEM;
		run->child_count++;
	}
	return 0;
}

int multicast_make(struct gw_coll *coll)
{
	const struct task *task = &coll->task;
	bool gathers = task->operation == OPERATION_ALLGATHER;
	struct multicast *run;
	int error = open_group(coll->comm);

	if (error)
		return error;
	run = calloc(1, sizeof(*run));
	if (!run)
		return -ENOMEM;
	coll->multicast = run;
	run->coll = coll;
	run->report_ns = UINT64_MAX;
	list_init(&run->node);
	run->block_count = gathers ? task->size : 1;
	run->block_bytes = task->elements * task->unit / run->block_count;
	return find_partners(run);
}

void multicast_free(struct gw_coll *coll)
{
	struct multicast_group *group = coll->comm->multicast;
	struct multicast *run = coll->multicast;

	if (!run)
		return;
	coll->multicast = NULL;
	if (group && group->asking == run)
		group->asking = NULL;
	list_del(&run->node);
	for (uint32_t i = 0; i < run->partner_count; i++)
		partner_free(run->partners[i]);
	for (uint32_t b = 0; run->blocks && b < run->block_count; b++)
		block_free(&run->blocks[b]);
	free(run->blocks);
	free(run->repair);
	free(run);
	/* The first one could not be posted: another one is going to ask. */
	if (group && group->state == MULTICAST_UNKNOWN && group->asker == coll->comm->posted)
		multicast_close(coll->comm);
}

static void proceed(struct gw_coll *coll)
{
	if (coll->comm->multicast->state == MULTICAST_WORKS) {
		run_begin(coll->multicast);
		return;
	}
	/* Notes about the verdict may be on their way. */
	coll->multicast->started = true;
	coll->multicast->given_up = true;
	run_settle(coll->multicast);
}

void multicast_start(struct gw_coll *coll)
{
	struct multicast_group *group = coll->comm->multicast;

	switch (group->state) {
	case MULTICAST_UNKNOWN:
		if (coll->number != group->asker)
			break;
		group->state = MULTICAST_ASKING;
		group->asking = coll->multicast;
		join_begin(coll->multicast);
		break;
	case MULTICAST_ASKING:
		break;
	default:
		proceed(coll);
		break;
	}
}

void multicast_go_on(struct gw_comm *comm)
{
	for (uint32_t t = 0; t < comm->track_count && !comm->status; t++) {
		struct gw_coll *coll;

		if (list_empty(&comm->tracks[t].colls))
			continue;
		coll = container_of(comm->tracks[t].colls.next, struct gw_coll, node);
		if (coll->started && coll->multicast && !coll->multicast->started)
			proceed(coll);
	}
}

void multicast_kick(struct gw_coll *coll, uint32_t rank)
{
	struct multicast *run = coll->multicast;

	for (uint32_t i = 0; i < run->partner_count; i++)
		if (run->partners[i]->rank == rank)
			partner_pump(run->partners[i]);
}

void multicast_close(struct gw_comm *comm)
{
	struct multicast_group *group = comm->multicast;

	if (!group)
		return;
	if (group->group)
		gw_group_leave(group->group);
	if (group->stage_mr)
		gw_mr_deregister(group->stage_mr);
	free(group->stage);
	coder_close(&group->coder);
	free(group);
	comm->multicast = NULL;
}

int multicast_explain(const struct gw_coll *coll, char *text, size_t size)
{
	const struct multicast *run = coll->multicast;
	const struct multicast_group *group = coll->comm->multicast;
	uint64_t lacking = 0;

	if (group->state == MULTICAST_ASKING)
		return snprintf(text, size, "finding out whether multicast works");
	for (uint32_t b = 0; run->blocks && b < run->block_count; b++)
		lacking += run->blocks[b].lacking;
	return snprintf(text, size, "round %u, %llu packets lack here", run->round,
			(unsigned long long)lacking);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks agree on the rates that they have measured: agree.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collective/agree.h"
#include "collective/comm.h"

/* An agreement holds from so many operations after it on: it has about as many rounds, beside theirs. */
#define AGREE_LAG 4
/* Numbers of operations at which ranks agree: this, three times this and so on, and at last every AGREE_EVERY. An algorithm that was chosen
 * by one agreement has opened its windows before the next. */
#define AGREE_FIRST 6
#define AGREE_EVERY 64

/* In place of a rate that was not measured since the agreement before. */
#define NOTHING_NEW UINT64_MAX

struct agreement {
	/* link in agree.open */
	struct list node;
	struct gw_comm *comm;
	uint32_t number;
	bool known;
	/* in kbit/s: what this rank measured, then the minimum of all ranks */
	uint64_t rate_kbps[CHOOSE_RATES];
};

void agree_init(struct gw_comm *comm)
{
	list_init(&comm->agree.open);
	comm->agree.next = AGREE_FIRST;
}

void agree_free(struct gw_comm *comm)
{
	while (!list_empty(&comm->agree.open)) {
		struct agreement *first =
			container_of(comm->agree.open.next, struct agreement, node);

		list_del(&first->node);
		free(first);
	}
}

void agree_measure(const struct gw_coll *coll)
{
	struct gw_comm *comm = coll->comm;
	const struct task *task = &coll->task;
	uint64_t *rate = &comm->agree.rate_kbps[choose_rate_at(task->operation, task->algorithm)],
		 kbps;

	/* The first operation of a track connects ranks, and opens windows. */
	if (comm->size < 2 || !coll->start_ns || coll->number < comm->track_count)
		return;
	kbps = choose_rate_kbps(task->operation, task->elements * task->unit, task->size,
				task->algorithm, &coll->network,
				gw_now_ns(comm->office->ctx) - coll->start_ns);
	if (kbps > *rate)
		*rate = kbps;
}

bool agree_pending(const struct gw_comm *comm, uint32_t number)
{
	const struct agreement *first;

	if (list_empty(&comm->agree.open))
		return false;
	first = container_of(comm->agree.open.next, struct agreement, node);
	return (int32_t)(number - first->number) >= AGREE_LAG;
}

/* Operations that waited for the first agreement, and for no other. */
static void decide(struct gw_comm *comm)
{
	int error;

	for (uint32_t t = 0; t < comm->track_count; t++) {
		struct list *colls = &comm->tracks[t].colls;

		for (struct list *node = colls->next; node != colls; node = node->next) {
			struct gw_coll *coll = container_of(node, struct gw_coll, node);

			if (!coll->undecided || agree_pending(comm, coll->number))
				continue;
			error = coll_decide(coll);
			if (error)
				comm_fail(comm, true, error,
					  "rank %u could not begin %s number %u: %s", comm->rank,
					  operation_name(coll->task.operation), coll->number,
					  strerror(-error));
		}
	}
}

void agree_settle(struct gw_comm *comm)
{
	while (agree_pending(comm, comm->posted)) {
		struct agreement *first =
			container_of(comm->agree.open.next, struct agreement, node);

		if (!first->known)
			break;
		for (unsigned i = 0; i < CHOOSE_RATES; i++)
			if (first->rate_kbps[i] != NOTHING_NEW)
				comm->network.rate_kbps[i] = first->rate_kbps[i];
		list_del(&first->node);
		free(first);
		decide(comm);
	}
}

static void agreed(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	struct agreement *agreement = arg;
	struct gw_comm *comm = agreement->comm;

	(void)coll;
	/* After a failure there is nothing to choose any more: agree_free(). */
	if (result->status)
		return;
	agreement->known = true;
	agree_settle(comm);
	for (uint32_t t = 0; t < comm->track_count; t++)
		coll_start(comm, t);
}

void agree_posted(struct gw_comm *comm)
{
	struct agreement *agreement;
	struct gw_coll_attr attr = { .count = CHOOSE_RATES,
				     .type = GW_UINT64,
				     .reduction = GW_MIN,
				     .algorithm = GW_ALGORITHM_DOUBLING,
				     .done = agreed };
	int error = -ENOMEM;

	if (comm->size < 2 || (int32_t)(comm->posted - comm->agree.next) < 0 || comm->parting)
		return;
	if (comm->flags & GW_COMM_FIXED_ORDER)
		attr.algorithm = GW_ALGORITHM_DIRECT;
	comm->agree.next =
		comm->posted + (2 * comm->posted < AGREE_EVERY ? 2 * comm->posted : AGREE_EVERY);
	agreement = calloc(1, sizeof(*agreement));
	if (agreement) {
		agreement->comm = comm;
		agreement->number = comm->posted;
		for (unsigned i = 0; i < CHOOSE_RATES; i++)
			agreement->rate_kbps[i] =
				comm->agree.rate_kbps[i] ? comm->agree.rate_kbps[i] : NOTHING_NEW;
		if (comm->limits.arrivals.rate_bps)
			agreement->rate_kbps[CHOOSE_LINKS] = comm->limits.arrivals.rate_bps / 1000;
		memset(comm->agree.rate_kbps, 0, sizeof(comm->agree.rate_kbps));
		list_add_tail(&comm->agree.open, &agreement->node);
		attr.send = attr.recv = agreement->rate_kbps;
		attr.arg = agreement;
		error = coll_submit(comm, OPERATION_ALLREDUCE, &attr, 0, NULL, NULL);
	}
	if (error)
		comm_fail(comm, true, error, "rank %u could not agree on rates: %s", comm->rank,
			  strerror(-error));
}

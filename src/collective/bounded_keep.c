/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results that outlive their operation on its track: ranks that are late have still to get them.
 *
 * An operation whose caller has its result leaves the track, which goes on with the next one. Its messages to other ranks stay in
 * their channels, in front of those of later operations, and its results stay in memory of their own until the last of these messages
 * has ended. A rank may be so many operations behind the others as are kept; then tracks wait for it.
 */
#include <errno.h>
#include <stdlib.h>

#include "collective/bounded.h"

/* Bytes of results that a rank keeps, at most. */
#define KEPT_BYTES (UINT64_C(256) << 20)

/* Steps in which the time that late ranks are waited for grows and falls. */
#define CATCH_UP_STEPS 8
/* Results of late ranks over which it is averaged how much nearer they come: more than lie between two stalls of a rank that has
 * many. */
#define NEARER_SMOOTHING 32

struct results {
	/* in bounded_memory.spare, while no operation has it */
	struct list node;
	uint8_t *memory;
	uint64_t bytes;
	struct gw_mr *mr;
};

static void results_free(struct results *results)
{
	if (results->mr)
		gw_mr_deregister(results->mr);
	free(results->memory);
	free(results);
}

static struct results *spare_at(const struct list *node)
{
	return container_of(node, struct results, node);
}

/* Takes out the smallest spare one that is large enough; null: there is none. */
static struct results *take_spare(struct bounded_memory *memory, uint64_t bytes)
{
	struct results *best = NULL;
	struct list *node;

	list_for_each (node, &memory->spare)
		if (spare_at(node)->bytes >= bytes &&
		    (!best || spare_at(node)->bytes < best->bytes))
			best = spare_at(node);
	if (best)
		list_del(&best->node);
	return best;
}

int keep_reserve(struct bounded *run, uint64_t bytes)
{
	struct bounded_memory *memory = run->comm->bounded;
	struct results *results = take_spare(memory, bytes);
	int error;

	if (!results) {
		/* Memory that was right for other operations is not hoarded. */
		if (!list_empty(&memory->spare)) {
			results = spare_at(memory->spare.next);
			list_del(&results->node);
			results_free(results);
		}
		results = calloc(1, sizeof(*results));
		if (!results)
			return -ENOMEM;
		results->bytes = bounded_aligned(bytes ? bytes : 1);
		results->memory = aligned_alloc(MEMORY_ALIGN, results->bytes);
		error = results->memory ? gw_mr_register(run->comm->office->ctx, results->memory,
							 results->bytes, &results->mr)
					: -ENOMEM;
		if (error) {
			results_free(results);
			return error;
		}
	}
	run->results = results;
	run->results_mr = results->mr;
	run->results_memory = results->memory;
	return 0;
}

/*
 * Late ranks have a result. Without one of N ranks results have an Nth less data: they are to come nearer by an Nth of the time
 * from one operation to the next. Most do without help. What is missing is waited, for that long at most; but not for ranks that fall
 * behind by more than that on the mean, as one that stalls again and again: they would not come back, however long they are waited
 * for.
 */
static void note_lag(const struct bounded *run)
{
	struct bounded_memory *memory = run->comm->bounded;
	uint64_t lag = gw_now_ns(run->comm->office->ctx) - run->told_ns;
	uint64_t most = memory->period_ns / run->comm->size, step = most / CATCH_UP_STEPS;
	double nearer = memory->lag_ns ? (double)memory->lag_ns - (double)lag : 0;

	memory->nearer_ns += (nearer - memory->nearer_ns) / NEARER_SMOOTHING;
	if (lag + most > memory->lag_ns && memory->nearer_ns > -(double)most)
		memory->catch_up_ns += memory->catch_up_ns + step <= most ? step : 0;
	else
		memory->catch_up_ns -= memory->catch_up_ns > step ? step : memory->catch_up_ns;
	memory->lag_ns = memory->kept > 1 ? lag : 0;
}

void keep_give_back(struct bounded *run)
{
	struct bounded_memory *memory = run->comm->bounded;

	if (run->kept) {
		note_lag(run);
		memory->kept--;
		memory->kept_bytes -= run->results->bytes;
	}
	if (run->results)
		list_add_tail(&memory->spare, &run->results->node);
	run->results = NULL;
	run->kept = false;
}

void keep_free(struct gw_comm *comm)
{
	struct bounded_memory *memory = comm->bounded;

	while (memory && !list_empty(&memory->spare)) {
		struct results *results = spare_at(memory->spare.next);

		list_del(&results->node);
		results_free(results);
	}
}

/* Whether it is open for ranks that came late only. The others stay in step. */
static bool for_late_ranks(const struct bounded *run)
{
	for (uint32_t r = 0; run->report.late && r < run->comm->size; r++) {
		const struct message_queue *out = &run->peers[r].out;

		for (uint32_t m = 0; run->peers[r].present && m < out->count; m++)
			if (!out->items[m].ended)
				return false;
	}
	return run->report.late && run->open;
}

bool keep_leave_track(struct bounded *run)
{
	struct bounded_memory *memory = run->comm->bounded;
	struct track *track = &run->comm->tracks[coll_track(run->coll)];

	if (!for_late_ranks(run) || memory->kept >= run->comm->ahead ||
	    memory->kept_bytes + run->results->bytes > KEPT_BYTES)
		return false;
	memory->kept++;
	memory->kept_bytes += run->results->bytes;
	run->kept = true;
	list_del(&run->coll->node);
	list_add_tail(&track->kept, &run->coll->node);
	return true;
}

double keep_filled(const struct gw_comm *comm)
{
	double count = (double)comm->bounded->kept / (double)(comm->ahead ? comm->ahead : 1);
	double bytes = (double)comm->bounded->kept_bytes / (double)KEPT_BYTES;

	return count > bytes ? count : bytes;
}

static bool last_open(const struct message_queue *queue)
{
	return queue->count && !queue->items[queue->count - 1].ended;
}

/* Small results may be in memory of a rank that has not come: its hail is still awaited, where it is due. */
static bool misses(const struct bounded *run, uint32_t rank)
{
	const struct bounded_peer *peer = &run->peers[rank];

	return !peer->present && (last_open(&peer->in) || last_open(&peer->out));
}

bool keep_is_behind(const struct gw_comm *comm, uint32_t rank)
{
	struct list *node;

	for (uint32_t t = 0; t < comm->track_count; t++)
		list_for_each (node, &comm->tracks[t].kept)
			if (misses(container_of(node, struct gw_coll, node)->bounded, rank))
				return true;
	return false;
}

bool keep_pump(struct gw_comm *comm, uint32_t track, uint32_t peer)
{
	struct list *node;

	list_for_each (node, &comm->tracks[track].kept)
		if (!message_pump_one(container_of(node, struct gw_coll, node)->bounded, peer))
			return false;
	return true;
}

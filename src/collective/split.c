/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators split off another: who belongs to which is an allgather of colors and keys. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "collective/comm.h"

/* What a rank says, and where it comes from. */
struct vote {
	uint32_t color;
	uint32_t key;
};

struct candidate {
	uint32_t key;
	uint32_t rank;
};

static int by_key(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank < y->rank ? -1 : 1;
}

/* A number that the same call gives on every rank, and no other call. */
static uint64_t number_of(const struct gw_comm *comm, uint32_t split)
{
	uint64_t number = (comm->id ^ split) * UINT64_C(0x9e3779b97f4a7c15) + split;

	number ^= number >> 29;
	number *= UINT64_C(0xbf58476d1ce4e5b9);
	return number | 1;
}

static int found(struct gw_comm *comm, uint64_t id, const struct candidate *candidates,
		 uint32_t count, struct gw_comm **out)
{
	struct gw_comm_attr attr = { .size = count,
				     .flags = comm->flags,
				     .congestion = comm->channel.congestion,
				     .rate_bps = comm->channel.rate_bps,
				     .peer_timeout_ns = comm->channel.peer_timeout_ns,
				     .tracks = comm->track_count,
				     .ahead = comm->ahead,
				     .segment_bytes = comm->segment_bytes };
	uint32_t *members;
	int error;

	assert(count > 0); /* this rank at least */
	members = calloc(count, sizeof(*members));
	if (!members)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		members[i] = comm_office_rank(comm, candidates[i].rank);
		if (candidates[i].rank == comm->rank)
			attr.rank = i;
	}
	error = comm_create(comm->office, &attr, id, members, out);
	if (error)
		free(members);
	return error;
}

static int choose(struct gw_comm *comm, uint32_t color, const struct vote *votes,
		  struct gw_comm **out)
{
	struct candidate *candidates = calloc(comm->size, sizeof(*candidates));
	uint64_t id = number_of(comm, ++comm->splits);
	uint32_t count = 0;
	int error = 0;

	if (!candidates)
		return -ENOMEM;
	for (uint32_t r = 0; r < comm->size; r++)
		if (votes[r].color == color)
			candidates[count++] = (struct candidate){ votes[r].key, r };
	qsort(candidates, count, sizeof(*candidates), by_key);
	if (color == GW_COMM_NONE)
		*out = NULL;
	else
		error = found(comm, id, candidates, count, out);
	free(candidates);
	return error;
}

int gw_comm_split(struct gw_comm *comm, uint32_t color, uint32_t key, struct gw_comm **out)
{
	struct gw_coll_attr attr = { .count = 2, .type = GW_UINT32 };
	struct gw_coll *coll;
	struct vote *votes;
	int error;

	if (!comm || !out)
		return -EINVAL;
	/* From a callback there is no progress, and the operation could not end while this call waits. */
	error = gw_comm_progress(comm);
	if (error < 0)
		return error;
	votes = calloc(comm->size, sizeof(*votes));
	if (!votes)
		return -ENOMEM;
	votes[comm->rank] = (struct vote){ color, key };
	attr.send = &votes[comm->rank];
	attr.recv = votes;
	error = gw_allgather(comm, &attr, &coll);
	if (!error) {
		do {
			error = gw_coll_wait(coll, UINT64_MAX);
		} while (error == -EINTR);
		gw_coll_close(coll);
	}
	if (!error)
		error = choose(comm, color, votes, out);
	free(votes);
	return error;
}

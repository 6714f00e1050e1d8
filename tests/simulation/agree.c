/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agree: ranks that post operations at different times choose the same algorithm for each, while they find out that the network is
 * faster than they assumed. Rank 0 posts all operations at once, before it knows anything; the others post a few at a time, and
 * choose when they know more. In virtual time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulation/ranks.h"

#define MS	   UINT64_C(1000000)
#define SECOND	   UINT64_C(1000000000)
#define LIMIT_NS   (100 * SECOND)
#define RANKS	   8
#define SUM	   (RANKS * (RANKS + 1) / 2)
#define OPERATIONS 20
#define ELEMENTS   (UINT64_C(1) << 21)

struct post {
	uint32_t rank;
	uint32_t index;
};

static struct ranks ranks;
static struct post posts[RANKS][OPERATIONS];
static enum gw_algorithm chosen[RANKS][OPERATIONS];
static float *given[RANKS];
static float *got[RANKS];
static uint32_t posted[RANKS];
static uint32_t ended;

static void post(uint32_t rank);

static void done(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	const struct post *which = arg;

	if (result->status) {
		fprintf(stderr, "agree: operation %u of rank %u: %s\n", which->index, which->rank,
			gw_comm_error(ranks.rank[which->rank].comm));
		exit(1);
	}
	chosen[which->rank][which->index] = coll->task.algorithm;
	ended++;
	gw_coll_close(coll);
	post(which->rank);
}

/* What was measured before an agreement is part of it, and not of the next: a network may become slower. */
static void check_forgotten(const struct gw_comm *comm)
{
	for (unsigned i = 0; i < CHOOSE_RATES; i++)
		if (comm->agree.rate_kbps[i]) {
			fprintf(stderr, "agree: a rate outlives its agreement\n");
			exit(1);
		}
}

static void post(uint32_t rank)
{
	struct gw_comm *comm = ranks.rank[rank].comm;
	uint32_t next = comm->agree.next;
	struct post *which = &posts[rank][posted[rank]];
	struct gw_coll_attr attr = { .send = given[rank],
				     .recv = got[rank],
				     .count = ELEMENTS,
				     .type = GW_FLOAT32,
				     .done = done,
				     .arg = which };

	if (posted[rank] == OPERATIONS)
		return;
	*which = (struct post){ rank, posted[rank]++ };
	if (gw_allreduce(comm, &attr, NULL))
		abort();
	if (comm->agree.next != next)
		check_forgotten(comm);
}

static bool all_alike(void)
{
	for (uint32_t i = 0; i < OPERATIONS; i++)
		for (uint32_t r = 1; r < RANKS; r++)
			if (chosen[r][i] != chosen[0][i]) {
				fprintf(stderr, "agree: operation %u is %s at rank %u, %s at 0\n",
					i, algorithm_name(chosen[r][i]), r,
					algorithm_name(chosen[0][i]));
				return false;
			}
	return true;
}

int main(void)
{
	struct ranks_attr attr = {
		.sim = { .seed = 1, .payload = 4096, .start_ns = SECOND },
		.shape = { .shape = SIM_STAR,
			   .hosts = RANKS,
			   .edge = { .rate_bps = 10 * SECOND,
				     .delay_ns = 10 * MS / 4,
				     .queue_bytes = 13000000 } },
		.context = { .max_qps = 1024, .max_sends = 8192, .max_recvs = 8192 },
		.comm = { .flags = GW_COMM_SERVED },
		.mail_ns = 10 * MS,
		.rtt_ns = 10 * MS,
	};

	if (ranks_open(&ranks, &attr))
		abort();
	for (uint32_t r = 0; r < RANKS; r++) {
		given[r] = calloc(ELEMENTS, sizeof(float));
		got[r] = calloc(ELEMENTS, sizeof(float));
		given[r][0] = given[r][ELEMENTS - 1] = (float)(r + 1);
		for (uint32_t ahead = r ? r : OPERATIONS; ahead; ahead--)
			post(r);
		ranks_touch(&ranks, r);
	}
	while (ended < RANKS * OPERATIONS)
		if (!ranks_step(&ranks, SECOND + LIMIT_NS)) {
			fprintf(stderr, "agree: operations do not end\n");
			return 1;
		}
	printf("first %s, last %s\n", algorithm_name(chosen[0][0]),
	       algorithm_name(chosen[0][OPERATIONS - 1]));
	if (!all_alike())
		return 1;
	if (chosen[0][0] == chosen[0][OPERATIONS - 1]) {
		fprintf(stderr, "agree: what operations took changes nothing\n");
		return 1;
	}
	for (uint32_t r = 0; r < RANKS; r++) {
		if (got[r][0] != SUM || got[r][ELEMENTS - 1] != SUM) {
			fprintf(stderr, "agree: rank %u has a wrong sum\n", r);
			return 1;
		}
		free(given[r]);
		free(got[r]);
	}
	ranks_close(&ranks);
	return 0;
}

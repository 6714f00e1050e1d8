/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interleave: an allgather and a reduce-scatter in flight together, as sharded training has them, in virtual time. Both use the same
 * links, so that together they need as long as one after the other. They must not need more; and a short one beside a long one
 * gets a share of the links: it does not wait for the long one's end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulation/ranks.h"

#define MS	 UINT64_C(1000000)
#define SECOND	 UINT64_C(1000000000)
#define LIMIT_NS (600 * SECOND)
/* Rounds before those that count: each track connects, and learns its path, in its first operations. Of those that count the median
 * does. */
#define WARM_ROUNDS 6
#define ROUNDS	    7

/* What an operation may take beyond what sharing requires. */
#define TOGETHER_MOST 1.25
#define SHORT_MOST    5

struct point {
	uint32_t ranks;
	uint64_t rtt_ns;
	uint64_t rate_bps;
	/* bytes of all blocks together */
	uint64_t gathered;
	uint64_t scattered;
};

/* In the order of posting: the long one first. */
enum { SCATTER, GATHER, KINDS };

struct run {
	struct ranks ranks;
	uint8_t **send[KINDS];
	uint8_t **recv[KINDS];
	uint64_t count[KINDS];
	/* ranks at which the operation has ended, and when it ended at the last one */
	uint32_t ended[KINDS];
	uint64_t at_ns[KINDS];
};

struct end {
	struct run *run;
	int kind;
};

static void done(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	struct end *end = arg;

	if (result->status) {
		fprintf(stderr, "interleave: %s\n", strerror(-result->status));
		exit(1);
	}
	end->run->ended[end->kind]++;
	end->run->at_ns[end->kind] = ranks_now(&end->run->ranks);
	gw_coll_close(coll);
}

/* Posts those operations whose bit is set, at all ranks, and waits for their end. Their times are in `took_ns`. */
static void once(struct run *run, unsigned kinds, uint64_t took_ns[KINDS])
{
	struct end ends[KINDS] = { { run, SCATTER }, { run, GATHER } };
	uint64_t start = ranks_now(&run->ranks);

	memset(run->ended, 0, sizeof(run->ended));
	for (uint32_t r = 0; r < run->ranks.size; r++) {
		for (int kind = 0; kind < KINDS; kind++) {
			struct gw_coll_attr attr = { .send = run->send[kind][r],
						     .recv = run->recv[kind][r],
						     .count = run->count[kind],
						     .type = GW_FLOAT32,
						     .done = done,
						     .arg = &ends[kind] };

			if (!(kinds & 1u << kind))
				continue;
			if ((kind == GATHER ? gw_allgather : gw_reduce_scatter)(
				    run->ranks.rank[r].comm, &attr, NULL))
				abort();
		}
		ranks_touch(&run->ranks, r);
	}
	for (int kind = 0; kind < KINDS; kind++) {
		while (kinds & 1u << kind && run->ended[kind] < run->ranks.size)
			if (!ranks_step(&run->ranks, start + LIMIT_NS) &&
			    ranks_now(&run->ranks) >= start + LIMIT_NS) {
				fprintf(stderr, "interleave: an operation does not end\n");
				exit(1);
			}
		if (kinds & 1u << kind)
			took_ns[kind] = run->at_ns[kind] - start;
	}
}

static uint8_t **buffers(uint32_t ranks, uint64_t bytes)
{
	uint8_t **out = calloc(ranks, sizeof(*out));

	for (uint32_t r = 0; r < ranks; r++)
		out[r] = calloc(1, bytes);
	return out;
}

static void free_buffers(uint32_t ranks, uint8_t **all)
{
	for (uint32_t r = 0; r < ranks; r++)
		free(all[r]);
	free(all);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Repeats once(); medians. */
static void several(struct run *run, unsigned kinds, uint64_t took_ns[KINDS])
{
	uint64_t all[KINDS][ROUNDS], one[KINDS] = { 0 };

	for (int i = 0; i < WARM_ROUNDS; i++)
		once(run, kinds, one);
	for (int i = 0; i < ROUNDS; i++) {
		once(run, kinds, one);
		for (int kind = 0; kind < KINDS; kind++)
			all[kind][i] = one[kind];
	}
	for (int kind = 0; kind < KINDS; kind++) {
		if (!(kinds & 1u << kind))
			continue;
		qsort(all[kind], ROUNDS, sizeof(all[kind][0]), compare);
		took_ns[kind] = all[kind][ROUNDS / 2];
	}
}

static bool try_point(const struct point *p)
{
	struct ranks_attr attr = {
		.sim = { .seed = 1, .payload = 4096, .start_ns = SECOND },
		.shape = { .shape = SIM_STAR,
			   .hosts = p->ranks,
			   .edge = { .rate_bps = p->rate_bps,
				     .delay_ns = p->rtt_ns / 4,
				     .queue_bytes =
					     p->rate_bps / 8 * p->rtt_ns / SECOND + 500000 } },
		.context = { .max_qps = 1024, .max_sends = 8192, .max_recvs = 8192 },
		.mail_ns = p->rtt_ns,
	};
	uint64_t bytes[KINDS] = { p->scattered, p->gathered }, alone[KINDS], both[KINDS];
	bool is_short = p->gathered < p->scattered;
	struct run run = { 0 };
	double together, gather;

	if (ranks_open(&run.ranks, &attr))
		abort();
	for (int kind = 0; kind < KINDS; kind++) {
		run.count[kind] = bytes[kind] / 4 / p->ranks;
		run.send[kind] = buffers(p->ranks, bytes[kind]);
		run.recv[kind] = buffers(p->ranks, bytes[kind]);
	}
	several(&run, 1u << GATHER, alone);
	several(&run, 1u << SCATTER, alone);
	several(&run, 1u << GATHER | 1u << SCATTER, both);
	together = (double)(both[GATHER] > both[SCATTER] ? both[GATHER] : both[SCATTER]) /
		   (double)(alone[GATHER] + alone[SCATTER]);
	gather = (double)both[GATHER] / (double)alone[GATHER];
	printf("{\"ranks\": %u, \"rtt_ms\": %g, \"rate_mbit\": %g, \"allgather_bytes\": %llu, \"reduce_scatter_bytes\": %llu, "
	       "\"allgather_ms\": %.3f, \"reduce_scatter_ms\": %.3f, \"together_ms\": [%.3f, %.3f], \"together_to_sum\": %.3f, "
	       "\"allgather_to_alone\": %.3f}\n",
	       p->ranks, (double)p->rtt_ns / 1e6, (double)p->rate_bps / 1e6,
	       (unsigned long long)p->gathered, (unsigned long long)p->scattered,
	       (double)alone[GATHER] / 1e6, (double)alone[SCATTER] / 1e6,
	       (double)both[GATHER] / 1e6, (double)both[SCATTER] / 1e6, together, gather);
	for (int kind = 0; kind < KINDS; kind++) {
		free_buffers(p->ranks, run.send[kind]);
		free_buffers(p->ranks, run.recv[kind]);
	}
	ranks_close(&run.ranks);
	return together <= TOGETHER_MOST && (!is_short || gather <= SHORT_MOST);
}

int main(void)
{
	static const struct point points[] = {
		{ 4, 10 * MS, UINT64_C(1000000000), 8 << 20, 8 << 20 },
		{ 4, MS, UINT64_C(10000000000), 8 << 20, 8 << 20 },
		{ 8, 10 * MS, UINT64_C(1000000000), 16 << 20, 16 << 20 },
		{ 8, MS, UINT64_C(1000000000), 1 << 20, 16 << 20 },
	};
	bool kept = true;

	gw_log_set(GW_LOG_ERROR, NULL, NULL);
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		if (!try_point(&points[i])) {
			fprintf(stderr,
				"interleave: the last point takes longer than sharing requires\n");
			kept = false;
		}
	return !kept;
}

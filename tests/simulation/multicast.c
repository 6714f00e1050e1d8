/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * multicastsim: what multicast collectives cost on simulated networks, in virtual time and in bytes on every link, beside the
 * same operation by other algorithms. Prints one JSON object; with --check it fails where a promise is not kept.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collective/multicast.h"
#include "message/state.h"
#include "simulation/ranks.h"

#define US	 UINT64_C(1000)
#define MS	 UINT64_C(1000000)
#define SECOND	 UINT64_C(1000000000)
#define LIMIT_NS (600 * SECOND)
#define RUNS_MAX 4

struct trial {
	uint32_t hosts;
	enum operation operation;
	enum gw_algorithm algorithm;
	/* bytes that a rank gives */
	uint64_t bytes;
	/* how often, one after the other */
	unsigned runs;
	double loss;
	/* loss of the last host alone, on its way in; 0: as all */
	double bad;
	/* the last host does not get multicast after the first operation */
	uint64_t rate_bps;
	uint64_t delay_ns;
	uint64_t queue_bytes;
	/* a rank that dies during the first operation; 0: none */
	uint32_t victim;
	uint64_t seed;
};

struct end;

struct outcome {
	/* of each run */
	uint64_t time_ns[RUNS_MAX];
	/* in all runs together */
	uint64_t injected_most, injected_root, links_bytes;
	uint64_t data, parity, fetched, rounds, dropped, ended;
	/* packets that did not arrive, over all receivers */
	uint64_t lost;
	double wall_s;
	bool right;
	int status;
	struct end *ends[RUNS_MAX];
};

struct end {
	struct ranks *ranks;
	uint32_t rank;
	unsigned *left;
	bool over;
	int status;
	uint64_t at_ns;
};

static void done(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	struct end *end = arg;

	end->status = result->status;
	end->at_ns = ranks_now(end->ranks);
	if (!end->over)
		--*end->left;
	gw_coll_close(coll);
}

static uint8_t value(uint32_t rank, uint64_t i, unsigned run)
{
	return (uint8_t)(i * 31 + i / 509 + rank * 7 + run * 3);
}

static bool run_once(struct ranks *ranks, const struct trial *t, unsigned run, uint8_t **send,
		     uint8_t **recv, struct outcome *out)
{
	bool gathers = t->operation == OPERATION_ALLGATHER;
	uint64_t began = ranks_now(ranks), last = began, kill_ns = began + 100 * US;
	struct end *ends =
		calloc(t->hosts, sizeof(*ends)); /* stay until the communicators are closed */
	unsigned left = 0;
	bool right = true;

	for (uint32_t r = 0; r < t->hosts; r++) {
		struct gw_coll_attr attr = { .send = send[r],
					     .recv = recv[r],
					     .count = t->bytes,
					     .type = GW_UINT8,
					     .algorithm = t->algorithm,
					     .done = done,
					     .arg = &ends[r] };

		for (uint64_t i = 0; i < t->bytes; i++)
			send[r][i] = value(r, i, run);
		ends[r] = (struct end){ ranks, r, &left, false, 0, 0 };
		left++;
		if (gathers ? gw_allgather(ranks->rank[r].comm, &attr, NULL)
			    : gw_broadcast(ranks->rank[r].comm, &attr, NULL))
			abort();
		ranks_touch(ranks, r);
	}
	while (left && ranks_now(ranks) < began + LIMIT_NS) {
		if (t->victim && !ranks->rank[t->victim].dead && ranks_now(ranks) >= kill_ns) {
			ranks_kill(ranks, t->victim);
			continue;
		}
		ranks_step(ranks,
			   t->victim && !ranks->rank[t->victim].dead ? kill_ns : began + LIMIT_NS);
	}
	for (uint32_t r = 0; r < t->hosts; r++) {
		ends[r].over = true;
		if (ends[r].at_ns > last)
			last = ends[r].at_ns;
		if (ends[r].status && !out->status)
			out->status = ends[r].status;
		if (ranks->rank[r].dead || ends[r].status)
			continue;
		for (uint32_t b = 0; b < (gathers ? t->hosts : 1); b++)
			for (uint64_t i = 0; i<t->bytes; i += t->hosts> 64 ? 97 : 1)
				right &= recv[r][b * t->bytes + i] == value(b, i, run);
	}
	out->time_ns[run] = last - began;
	out->ends[run] = ends;
	for (uint32_t r = 0; left && r < t->hosts; r++) {
		char text[512] = "";

		if (ranks->rank[r].comm)
			gw_comm_explain(ranks->rank[r].comm, text, sizeof(text));
		fprintf(stderr, "%s\n", text);
	}
	return right && !left;
}

static void count_all(struct ranks *ranks, struct outcome *out)
{
	struct sim *sim = ranks->world.sim;

	for (uint32_t i = 0; i < sim_links(sim); i++) {
		const struct link *link = sim_link(sim, i);

		out->links_bytes += link->stats.bytes;
		out->lost += link->stats.lost + link->stats.overflow;
	}
	for (uint32_t r = 0; r < ranks->size; r++) {
		const struct gw_comm *comm = ranks->rank[r].comm;
		const struct multicast_group *group = comm ? comm->multicast : NULL;
		uint64_t bytes = sim_host(sim, r)->counters[FABRIC_TX_BYTES];

		if (bytes > out->injected_most)
			out->injected_most = bytes;
		if (!r)
			out->injected_root = bytes;
		if (!group)
			continue;
		out->data += group->sent_data;
		out->parity += group->sent_parity;
		out->fetched += group->fetched;
		out->rounds += r ? 0 : group->rounds;
		out->dropped += group->dropped;
		out->ended += group->ended;
	}
}

static struct outcome measure(const struct trial *t)
{
	struct ranks_attr attr = {
		.sim = { .seed = t->seed + 2, .start_ns = SECOND },
		.shape = { .shape = t->hosts == 2 ? SIM_PAIR : SIM_STAR,
			   .hosts = t->hosts,
			   .edge = { .rate_bps = t->rate_bps ? t->rate_bps : UINT64_C(10000000000),
				     .delay_ns = t->delay_ns ? t->delay_ns : 5 * US,
				     .loss = t->loss,
				     .queue_bytes = t->queue_bytes } },
		.context = { .max_qps = 128,
			     .max_sends = 1024,
			     .max_recvs = 1024,
			     .bitmap_bytes = UINT64_C(4) << 20 },
		.comm = { .tracks = 1 },
		.mail_ns = 50 * US,
		.seed = t->seed,
	};
	bool gathers = t->operation == OPERATION_ALLGATHER;
	struct outcome out = { .right = true };
	struct ranks ranks;
	uint8_t **send = calloc(t->hosts, sizeof(*send)), **recv = calloc(t->hosts, sizeof(*recv));
	clock_t began = clock();

	if (ranks_open(&ranks, &attr))
		abort();
	for (uint32_t r = 0; r < t->hosts; r++) {
		send[r] = malloc(t->bytes);
		recv[r] = malloc(t->bytes * (gathers ? t->hosts : 1));
	}
	/* The way in is the second of each host's two links (topology.c). */
	if (t->bad > 0)
		sim_link(ranks.world.sim, 2 * t->hosts - 1)->attr.loss = t->bad;
	for (unsigned run = 0; run < t->runs; run++)
		out.right &= run_once(&ranks, t, run, send, recv, &out);
	count_all(&ranks, &out);
	ranks_close(&ranks);
	for (unsigned run = 0; run < t->runs; run++)
		free(out.ends[run]);
	for (uint32_t r = 0; r < t->hosts; r++) {
		free(send[r]);
		free(recv[r]);
	}
	free(send);
	free(recv);
	out.wall_s = (double)(clock() - began) / CLOCKS_PER_SEC;
	return out;
}

int main(int argc, char **argv)
{
	struct trial t = { .hosts = 8,
			   .operation = OPERATION_BROADCAST,
			   .algorithm = GW_ALGORITHM_MULTICAST,
			   .bytes = 4 << 20,
			   .runs = 3,
			   .seed = 1 };
	struct outcome o;

	for (int i = 1; i + 1 < argc; i += 2) {
		const char *name = argv[i], *text = argv[i + 1];

		if (!strcmp(name, "hosts"))
			t.hosts = (uint32_t)atoi(text);
		else if (!strcmp(name, "op"))
			t.operation = !strcmp(text, "allgather") ? OPERATION_ALLGATHER
								 : OPERATION_BROADCAST;
		else if (!strcmp(name, "algorithm"))
			t.algorithm = (enum gw_algorithm)atoi(text);
		else if (!strcmp(name, "bytes"))
			t.bytes = strtoull(text, NULL, 0);
		else if (!strcmp(name, "runs"))
			t.runs = (unsigned)atoi(text);
		else if (!strcmp(name, "loss"))
			t.loss = atof(text);
		else if (!strcmp(name, "bad"))
			t.bad = atof(text);
		else if (!strcmp(name, "rate"))
			t.rate_bps = strtoull(text, NULL, 0);
		else if (!strcmp(name, "delay"))
			t.delay_ns = strtoull(text, NULL, 0);
		else if (!strcmp(name, "queue"))
			t.queue_bytes = strtoull(text, NULL, 0);
		else if (!strcmp(name, "victim"))
			t.victim = (uint32_t)atoi(text);
		else if (!strcmp(name, "seed"))
			t.seed = strtoull(text, NULL, 0);
	}
	o = measure(&t);
	printf("right %d status %d times_us", o.right, o.status);
	for (unsigned i = 0; i < t.runs; i++)
		printf(" %.1f", (double)o.time_ns[i] / 1e3);
	printf(" root %llu most %llu links %llu data %llu parity %llu rounds %llu fetched %llu dropped %llu ended %llu lost %llu wall %.2f\n",
	       (unsigned long long)o.injected_root, (unsigned long long)o.injected_most,
	       (unsigned long long)o.links_bytes, (unsigned long long)o.data,
	       (unsigned long long)o.parity, (unsigned long long)o.rounds,
	       (unsigned long long)o.fetched, (unsigned long long)o.dropped,
	       (unsigned long long)o.ended, (unsigned long long)o.lost, o.wall_s);
	return !o.right;
}

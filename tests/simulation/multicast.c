/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * multicastsim: what multicast collectives cost on simulated networks, in virtual time and in bytes on every link, beside the
 * same operation by other algorithms. Prints one JSON object, and fails where a promise is not kept. --quick leaves out what takes
 * long. With names and values it runs one trial.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collective/multicast.h"
#include "message/state.h"
#include "simulation/fat_tree.h"
#include "simulation/ranks.h"

#define SPINES	 16
#define US	 UINT64_C(1000)
#define MS	 UINT64_C(1000000)
#define SECOND	 UINT64_C(1000000000)
#define LIMIT_NS (600 * SECOND)
#define RUNS_MAX 4

struct trial {
	uint32_t hosts;
	/* leaf switches, each joined with 16 spines; 0: all hosts at one switch */
	uint32_t leaves;
	enum operation operation;
	enum gw_algorithm algorithm;
	/* bytes that a rank gives */
	uint64_t bytes;
	/* how often, one after the other */
	unsigned runs;
	double loss;
	/* loss of the last host alone, on its way in; 0: as all */
	double bad;
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
	uint64_t injected_most, injected_root, injected_leaf, links_bytes;
	uint64_t data, parity, fetched, rounds, dropped, ended;
	/* packets that did not arrive, over all receivers */
	uint64_t lost;
	/* events of the network, letters and timers */
	uint64_t steps;
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
		out->steps++;
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
		out->injected_leaf = bytes; /* the last rank has no children */
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

	if (t->leaves) {
		attr.shape.shape = SIM_CLOS;
		attr.shape.leaves = t->leaves;
		attr.shape.spines = SPINES;
		attr.shape.core = attr.shape.edge;
	}
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

/* ---- what is promised --------------------------------------------------------------------------------------------- */

static bool failed;

#define PROMISE(condition, ...)                                                                    \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "multicastsim: not kept: " __VA_ARGS__);                   \
			fputc('\n', stderr);                                                       \
			failed = true;                                                             \
		}                                                                                  \
	} while (0)

static double us(const struct outcome *o, unsigned run)
{
	return (double)o->time_ns[run] / 1e3;
}

/* The time of a broadcast does not depend on the number of receivers. The first operation also connects and joins. */
static void receivers(void)
{
	static const uint32_t counts[] = { 2, 4, 8, 16, 32, 64 };
	double least = 1e18, most = 0;

	puts("  \"broadcast_receivers\": [");
	for (unsigned i = 0; i < 6; i++) {
		struct trial t = { .hosts = counts[i] + 1,
				   .algorithm = GW_ALGORITHM_MULTICAST,
				   .operation = OPERATION_BROADCAST,
				   .bytes = 4 << 20,
				   .runs = 3,
				   .seed = 1 };
		struct outcome o = measure(&t), ring;
		double time = us(&o, 2);

		t.algorithm = GW_ALGORITHM_AUTO;
		ring = measure(&t);
		least = time < least ? time : least;
		most = time > most ? time : most;
		PROMISE(o.right && ring.right, "a broadcast to %u is right", counts[i]);
		PROMISE((double)o.injected_root < 1.05 * 3 * (double)t.bytes,
			"the root of a broadcast to %u sends %llu bytes three times, once each",
			counts[i], (unsigned long long)t.bytes);
		printf("    {\"receivers\": %u, \"bytes\": %llu, \"us\": %.1f, \"us_without_multicast\": %.1f, "
		       "\"root_bytes\": %llu, \"root_bytes_without\": %llu}%s\n",
		       counts[i], (unsigned long long)t.bytes, time, us(&ring, 2),
		       (unsigned long long)o.injected_root / 3,
		       (unsigned long long)ring.injected_root / 3, i < 5 ? "," : "");
	}
	PROMISE(most < 1.2 * least, "2 to 64 receivers take the same time: %.1f to %.1f us", least,
		most);
	puts("  ],");
}

/* From 18 ranks on some wait for the reports of others: they sleep meanwhile. */
static void waiting(void)
{
	struct trial t = { .hosts = 17,
			   .algorithm = GW_ALGORITHM_MULTICAST,
			   .operation = OPERATION_BROADCAST,
			   .bytes = 256 << 10,
			   .runs = 2,
			   .delay_ns = 10 * MS,
			   .seed = 1 };
	struct outcome flat = measure(&t), deep;

	t.hosts = 18;
	deep = measure(&t);
	PROMISE(flat.right && deep.right, "broadcasts to 16 and 17 are right");
	PROMISE(deep.steps < 2 * flat.steps,
		"a rank that waits for others sleeps: %llu events with 18 ranks, %llu with 17",
		(unsigned long long)deep.steps, (unsigned long long)flat.steps);
}

/* What crosses links, and what leaves a host, against the ring. */
static void traffic(bool all)
{
	static const struct {
		uint32_t hosts;
		uint64_t bytes;
	} cases[] = { { 4, 1 << 20 }, { 8, 1 << 20 }, { 32, 256 << 10 }, { 188, 64 << 10 } };
	unsigned count = all ? 4 : 3;

	puts("  \"allgather_traffic\": [");
	for (unsigned i = 0; i < count; i++) {
		struct trial t = { .hosts = cases[i].hosts,
				   .algorithm = GW_ALGORITHM_MULTICAST,
				   .operation = OPERATION_ALLGATHER,
				   .bytes = cases[i].bytes,
				   .runs = 3,
				   .seed = 1 };
		struct outcome o = measure(&t), ring;
		double links, host, inner, ideal = 2 - 2.0 / t.hosts;

		t.algorithm = GW_ALGORITHM_RING;
		ring = measure(&t);
		links = (double)ring.links_bytes / (double)o.links_bytes;
		host = (double)ring.injected_leaf / (double)o.injected_leaf;
		inner = (double)ring.injected_most / (double)o.injected_most;
		PROMISE(o.right && ring.right, "an allgather of %u ranks is right", t.hosts);
		PROMISE(links > 0.9 * ideal && links < 1.1 * ideal,
			"a ring of %u moves %.2f times as much, not %.2f", t.hosts, ideal, links);
		PROMISE(host > 0.8 * (t.hosts - 1), "a host of %u sends an (n - 1)th, not a %.1fth",
			t.hosts, host);
		printf("    {\"ranks\": %u, \"block_bytes\": %llu, \"ring_to_multicast_links\": %.3f, \"ideal\": %.3f, "
		       "\"ring_to_multicast_host\": %.1f, \"ring_to_multicast_busiest_host\": %.1f, \"us\": %.1f, \"us_ring\": %.1f, \"rate_bps\": 10000000000}%s\n",
		       t.hosts, (unsigned long long)t.bytes, links, ideal, host, inner, us(&o, 2),
		       us(&ring, 2), i + 1 < count ? "," : "");
	}
	puts("  ],");
}

/* What crosses the links of a fat tree: computed from the steps of all ranks, and for one leaf-and-spine network simulated, too. */
static void fat_tree(void)
{
	static const uint32_t counts[] = { 4, 16, 32, 64, 128, 256, 512, 1024 };
	struct trial t = { .hosts = 64,
			   .leaves = 4,
			   .operation = OPERATION_ALLGATHER,
			   .bytes = 64 << 10,
			   .runs = 1,
			   .seed = 1 };
	struct outcome by[3];
	double ring, doubling, seen_ring, seen_doubling;

	puts("  \"fat_tree_radix_32\": [");
	for (unsigned i = 0; i < 8; i++) {
		double copies = (double)fat_tree_multicast_crossings(counts[i]);

		printf("    {\"ranks\": %u, \"ring_to_multicast\": %.2f, \"doubling_to_multicast\": %.2f}%s\n",
		       counts[i], (double)fat_tree_crossings(counts[i], GW_ALGORITHM_RING) / copies,
		       (double)fat_tree_crossings(counts[i], GW_ALGORITHM_DOUBLING) / copies,
		       i < 7 ? "," : "");
	}
	puts("  ],");
	for (unsigned i = 0; i < 3; i++) {
		static const enum gw_algorithm algorithms[] = { GW_ALGORITHM_MULTICAST,
								GW_ALGORITHM_RING,
								GW_ALGORITHM_DOUBLING };

		t.algorithm = algorithms[i];
		by[i] = measure(&t);
		PROMISE(by[i].right, "an allgather of 64 ranks on 4 leaves is right");
	}
	seen_ring = (double)by[1].links_bytes / (double)by[0].links_bytes;
	seen_doubling = (double)by[2].links_bytes / (double)by[0].links_bytes;
	ring = (double)fat_tree_crossings(64, GW_ALGORITHM_RING) /
	       (double)fat_tree_multicast_crossings(64);
	doubling = (double)fat_tree_crossings(64, GW_ALGORITHM_DOUBLING) /
		   (double)fat_tree_multicast_crossings(64);
	PROMISE(seen_ring > 0.9 * ring && seen_ring < 1.1 * ring &&
			seen_doubling > 0.9 * doubling && seen_doubling < 1.1 * doubling,
		"64 ranks on 4 leaves: ring %.2f, doubling %.2f, computed %.2f and %.2f", seen_ring,
		seen_doubling, ring, doubling);
	printf("  \"fat_tree_simulated\": {\"ranks\": 64, \"leaves\": 4, \"block_bytes\": %llu, \"ring_to_multicast\": %.2f, "
	       "\"doubling_to_multicast\": %.2f},\n",
	       (unsigned long long)t.bytes, seen_ring, seen_doubling);
}

/* Parity packets that the root sends, against one packet for each that any receiver missed. */
static void repair(void)
{
	static const uint32_t counts[] = { 4, 16, 64 };

	puts("  \"broadcast_repair\": [");
	for (unsigned i = 0; i < 3; i++) {
		struct trial t = { .hosts = counts[i] + 1,
				   .algorithm = GW_ALGORITHM_MULTICAST,
				   .operation = OPERATION_BROADCAST,
				   .bytes = 8 << 20,
				   .runs = 3,
				   .loss = 0.01,
				   .seed = 2 };
		struct outcome o = measure(&t);

		PROMISE(o.right, "a broadcast to %u with loss is right", counts[i]);
		PROMISE(counts[i] < 16 || o.parity * 3 < o.lost,
			"%u receivers that lost %llu packets need fewer repairs than %llu",
			counts[i], (unsigned long long)o.lost, (unsigned long long)o.parity);
		printf("    {\"receivers\": %u, \"loss_each_link\": 0.01, \"data_packets\": %llu, \"lost_on_links\": %llu, "
		       "\"repair_packets\": %llu, \"us\": %.1f}%s\n",
		       counts[i], (unsigned long long)o.data, (unsigned long long)o.lost,
		       (unsigned long long)o.parity, us(&o, 2), i < 2 ? "," : "");
	}
	puts("  ],");
}

static void hardship(void)
{
	struct trial t = { .hosts = 33,
			   .algorithm = GW_ALGORITHM_MULTICAST,
			   .operation = OPERATION_BROADCAST,
			   .bytes = 4 << 20,
			   .runs = 2,
			   .bad = 0.3,
			   .seed = 3 };
	struct outcome o = measure(&t);

	PROMISE(o.right && !o.status && o.ended == 66, "a receiver that loses 30 %% gets all");
	printf("  \"one_receiver_loses_30_percent\": {\"receivers\": 32, \"us\": %.1f, \"repair_packets\": %llu, "
	       "\"groups_fetched\": %llu},\n",
	       us(&o, 1), (unsigned long long)o.parity, (unsigned long long)o.fetched);
	t.bad = 0;
	t.runs = 1;
	t.victim = 1; /* it has children: ranks 17 to 32 */
	o = measure(&t);
	PROMISE(o.status && o.right, "the death of a rank with children ends the operation");
	/* A path that is much slower than the rate that is tried first, with a short queue. */
	t = (struct trial){ .hosts = 9,
			    .algorithm = GW_ALGORITHM_MULTICAST,
			    .operation = OPERATION_BROADCAST,
			    .bytes = 20000000,
			    .runs = 3,
			    .rate_bps = 200000000,
			    .queue_bytes = 200000,
			    .seed = 4 };
	o = measure(&t);
	PROMISE(o.right && us(&o, 2) < 1.2 * 800000, "a slow path is used well: %.0f us",
		us(&o, 2));
	printf("  \"slow_path\": {\"rate_bps\": %llu, \"bytes\": %llu, \"us_first\": %.1f, \"us\": %.1f},\n",
	       (unsigned long long)t.rate_bps, (unsigned long long)t.bytes, us(&o, 0), us(&o, 2));
}

static void scale(void)
{
	struct trial t = { .hosts = 1024,
			   .algorithm = GW_ALGORITHM_MULTICAST,
			   .operation = OPERATION_BROADCAST,
			   .bytes = 128 << 10,
			   .runs = 2,
			   .loss = 0.001,
			   .seed = 5 };
	struct outcome o = measure(&t), ring;

	PROMISE(o.right && o.ended == 2048, "a broadcast to 1023 is right");
	printf("  \"ranks_1024\": {\"loss_each_link\": 0.001, \"broadcast_bytes\": %llu, \"us\": %.1f, \"repair_packets\": %llu, "
	       "\"lost_on_links\": %llu},\n",
	       (unsigned long long)t.bytes, us(&o, 1), (unsigned long long)o.parity,
	       (unsigned long long)o.lost);
	fprintf(stderr, "1024 ranks: broadcast in %.0f s of processor time\n", o.wall_s);
	t = (struct trial){ .hosts = 1024,
			    .algorithm = GW_ALGORITHM_MULTICAST,
			    .operation = OPERATION_ALLGATHER,
			    .bytes = 1 << 10,
			    .runs = 1,
			    .seed = 5 };
	o = measure(&t);
	t.algorithm = GW_ALGORITHM_RING;
	ring = measure(&t);
	PROMISE(o.right && ring.right, "an allgather of 1024 is right");
	printf("  \"ranks_1024_allgather\": {\"block_bytes\": %llu, \"us\": %.1f, \"us_ring\": %.1f},\n",
	       (unsigned long long)t.bytes, us(&o, 0), us(&ring, 0));
	fprintf(stderr, "1024 ranks: allgather in %.0f s, ring in %.0f s of processor time\n",
		o.wall_s, ring.wall_s);
}

/* One trial, by names and values: for those who look for something. */
static int one(int argc, char **argv)
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
	printf("right %d status %d us", o.right, o.status);
	for (unsigned i = 0; i < t.runs; i++)
		printf(" %.1f", us(&o, i));
	printf("; bytes of root %llu, most %llu, links %llu; packets %llu + %llu parity, lost %llu, dropped %llu; rounds %llu, fetched "
	       "%llu, ended %llu; %.2f s\n",
	       (unsigned long long)o.injected_root, (unsigned long long)o.injected_most,
	       (unsigned long long)o.links_bytes, (unsigned long long)o.data,
	       (unsigned long long)o.parity, (unsigned long long)o.lost,
	       (unsigned long long)o.dropped, (unsigned long long)o.rounds,
	       (unsigned long long)o.fetched, (unsigned long long)o.ended, o.wall_s);
	return !o.right;
}

int main(int argc, char **argv)
{
	bool all = argc == 1;

	gw_log_set(GW_LOG_ERROR, NULL, NULL);
	if (argc > 2)
		return one(argc, argv);
	if (argc == 2 && strcmp(argv[1], "--quick") != 0) {
		fputs("usage: multicastsim [--quick | NAME VALUE ...]\n", stderr);
		return 2;
	}
	puts("{");
	receivers();
	waiting();
	traffic(all);
	fat_tree();
	repair();
	hardship();
	if (all)
		scale();
	puts("  \"measured\": \"simulated: star of links with 10 Gbit/s and 5 us each way, unless a row says otherwise; third of three "
	     "operations\"\n}");
	return failed;
}

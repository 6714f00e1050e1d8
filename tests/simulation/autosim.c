/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * autosim: the automatic choice beside what it chooses from, on paths drawn at random.
 *
 * A seed draws a path and a use: rate, round trip, loss (independent or in bursts), jitter, reordering, queue; size and
 * number of messages, and how many are open at a time. A channel sends the same messages under Selective Repeat, under
 * erasure coding, under the automatic choice, and by default, each in a simulated network of its own with the same seed. Compared is the
 * time from the end of the ninth message to the end of the last: from the tenth on the automatic choice may take 1 / 0.8 of
 * what the better of the other two took.
 *
 * Usage: autosim [-v] [--least SHARE] [--congestion NAME] [--runs N] [--open N] [--path NUMBERS] FIRST[-LAST]
 *
 * --congestion none: a fixed rate of 0.9 of the link's, so that schemes are compared and not what a controller makes of
 * them. --runs: each path is run that many times, with other losses, and the times are added up. --open: so many messages are open,
 * whatever is drawn; 1: lone messages. --path: this one, and not
 * one that is drawn: rate in Mbit/s, round trip, jitter and the delay of a tenth of the packets in ms, loss, KiB in a
 * message, messages open, and their number; separated by commas.
 *
 * Prints a line for each path that misses the share, for every path with -v, and a summary. Exits with 1 if one missed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <godwit/auto.h>
#include <godwit/channel.h>

#include "base/rng.h"
#include "sim/world.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

#define SKIPPED	    9 /* messages before those that are compared */
#define OPEN_MAX    16
#define LEAST	    0.8 /* share of the better one's speed */
#define TOTAL	    (UINT64_C(24) << 20)
#define TOTAL_MOST  (UINT64_C(192) << 20)
#define ROUND_TRIPS 16 /* that the path is filled for, as far as that is not too much */

struct path {
	struct link_attr link;
	uint32_t payload;
	uint64_t length;
	uint32_t messages;
	uint32_t open;
};

enum { REPEAT, ERASURE, AUTO, DEFAULT, SCHEMES };
/* The last one is what operations get that name none: gw_auto with memory of the channel. */
static const struct gw_scheme *const scheme[SCHEMES] = { &gw_selective_repeat, &gw_erasure,
							 &gw_auto, NULL };
static const char *const names[SCHEMES] = { "repeat", "erasure", "auto", "default" };

static const char *congestion;
static uint64_t runs = 1;

struct end {
	struct gw_channel *channel;
	struct gw_mr *mr;
	uint8_t *memory;
	struct gw_erasure *erasure;
	uint32_t posted;
	uint32_t ended;
	int failure;
	/* Times at which messages ended. */
	uint64_t *at;
};

struct run {
	const struct path *path;
	int scheme;
	struct world world;
	struct end end[2];
};

/* Between two bounds, evenly over their logarithms. */
static double spread(struct rng *rng, double least, double most)
{
	return least * pow(most / least, rng_unit(rng));
}

static void draw_loss(struct rng *rng, struct link_attr *link)
{
	double loss = 0;

	switch (rng_below(rng, 4)) {
	case 0:
		return;
	case 1:
		loss = spread(rng, 0.0005, 0.02);
		break;
	default:
		loss = spread(rng, 0.005, 0.4);
	}
	if (rng_below(rng, 3)) {
		link->loss = loss;
		return;
	}
	link->burst_leave = 1 / spread(rng, 2, 32);
	link->burst_enter = link->burst_leave * loss / (1 - loss);
	link->burst_loss = 1;
	link->burst_max_ns = 200 * MS;
}

/* `open` is how many messages are open; 0: that is drawn, too. */
static void draw(uint64_t seed, uint32_t open, struct path *path)
{
	static const uint32_t payloads[] = { 1408, 4096, 8936 };
	static const uint32_t opens[] = { 1, 2, 4, 16 };
	struct rng rng;
	double rate, rtt;
	uint64_t bytes;

	rng_seed(&rng, seed);
	*path = (struct path){ .payload = payloads[rng_below(&rng, 3)] };
	rate = spread(&rng, 2e6, 1e9);
	rtt = spread(&rng, 1e5, 4e8);
	path->link.rate_bps = (uint64_t)rate;
	path->link.delay_ns = (uint64_t)(rtt / 2);
	path->link.queue_bytes = (uint64_t)(rate / 8e9 * rtt * spread(&rng, 0.5, 4)) + 65536;
	draw_loss(&rng, &path->link);
	switch (rng_below(&rng, 4)) {
	case 0:
		path->link.jitter_ns = (uint64_t)(rtt * spread(&rng, 0.02, 2));
		break;
	case 1:
		path->link.reorder = spread(&rng, 0.001, 0.2);
		path->link.reorder_ns = (uint64_t)(rtt * spread(&rng, 0.1, 2));
	}
	path->length = (uint64_t)spread(&rng, 65536, 8388608);
	path->open = opens[rng_below(&rng, 4)];
	if (open)
		path->open = open;
	/* Few enough are open that those under way when the ninth ends weigh little. */
	while (path->open > 1 && path->open * path->length > TOTAL / 8)
		path->open /= 2;
	bytes = (uint64_t)(rate / 8e9 * rtt * ROUND_TRIPS);
	bytes = bytes < TOTAL ? TOTAL : bytes > TOTAL_MOST ? TOTAL_MOST : bytes;
	path->messages = SKIPPED + (uint32_t)(bytes / path->length);
	if (path->messages < 10 + SKIPPED)
		path->messages = 10 + SKIPPED;
	/* A lone short message on a long path moves little in a round trip. */
	if (path->messages > SKIPPED + 80 * path->open)
		path->messages = SKIPPED + 80 * path->open;
}

/* A path by its numbers, in place of one that is drawn. Returns whether `text` has them. */
static bool parse(const char *text, struct path *path)
{
	double rate, rtt, jitter, reorder, loss, length;
	unsigned open, messages;

	if (sscanf(text, "%lf,%lf,%lf,%lf,%lf,%lf,%u,%u", &rate, &rtt, &jitter, &reorder, &loss,
		   &length, &open, &messages) != 8 ||
	    rate <= 0 || length < 8 || !open || open > OPEN_MAX || messages <= SKIPPED)
		return false;
	*path = (struct path){ .payload = 1408, .open = open, .messages = messages };
	path->link.rate_bps = (uint64_t)(rate * 1e6);
	path->link.delay_ns = (uint64_t)(rtt * 5e5);
	path->link.queue_bytes = (uint64_t)(rate * rtt * 125) + 65536;
	path->link.jitter_ns = (uint64_t)(jitter * 1e6);
	path->link.reorder = reorder > 0 ? 0.1 : 0;
	path->link.reorder_ns = (uint64_t)(reorder * 1e6);
	path->link.loss = loss;
	path->length = (uint64_t)(length * 1024);
	return true;
}

static void must(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "autosim: %s: %s\n", what, strerror(-error));
	exit(1);
}

static void post(struct run *run, int receiving);

static void ended(struct run *run, int receiving, const struct gw_op_result *result)
{
	struct end *end = &run->end[receiving];

	end->at[end->ended++] = sim_now_ns(run->world.sim);
	if (result->status)
		end->failure = result->status;
	else
		post(run, receiving);
}

static void sent(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	gw_op_close(op);
	ended(arg, 0, result);
}

static void received(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	gw_op_close(op);
	ended(arg, 1, result);
}

static void post(struct run *run, int receiving)
{
	struct end *end = &run->end[receiving];

	while (!end->failure && end->posted < run->path->messages &&
	       end->posted < end->ended + run->path->open) {
		uint32_t place = end->posted % run->path->open;
		struct gw_op_attr attr = { .addr = end->memory + place * run->path->length,
					   .length = run->path->length,
					   .mr = end->mr,
					   .scheme = scheme[run->scheme],
					   .options = gw_erasure_member(end->erasure, place),
					   .done = receiving ? received : sent,
					   .arg = run };
		struct gw_op *op;

		must((receiving ? gw_channel_recv : gw_channel_send)(end->channel, &attr, &op),
		     "post");
		end->posted++;
	}
	world_touch(&run->world, (uint32_t)receiving);
}

static void open_end(struct run *run, int i)
{
	struct end *end = &run->end[i];
	struct gw_erasure_attr erasure = { .max_length = run->path->length,
					   .transfers = run->path->open };
	struct gw_channel_attr attr = { .peer_timeout_ns = 60 * S, .congestion = congestion };
	struct gw_context *ctx = run->world.hosts[i].ctx;
	uint64_t bytes = run->path->length * run->path->open;

	end->memory = calloc(1, bytes);
	end->at = calloc(run->path->messages, sizeof(*end->at));
	must(end->memory && end->at ? 0 : -12, "memory");
	must(gw_mr_register(ctx, end->memory, bytes, &end->mr), "register");
	if (run->scheme == ERASURE || run->scheme == AUTO)
		must(gw_erasure_open(ctx, &erasure, &end->erasure), "coder");
	if (congestion && !strcmp(congestion, "none"))
		attr.rate_bps = run->path->link.rate_bps / 10 * 9;
	must(gw_channel_create(ctx, &attr, &end->channel), "channel");
}

/* Nanoseconds that the messages from the tenth on took; 0: they never came. */
static uint64_t took(uint64_t seed, const struct path *path, int which, char *why, size_t why_size)
{
	struct sim_attr sim = {
		.seed = seed, .payload = path->payload, .rungs = { 4096, 1200 }, .start_ns = S
	};
	struct sim_shape_attr shape = { .shape = SIM_PAIR, .hosts = 2, .edge = path->link };
	struct sim_host_attr host = { .queue = 1 << 15 };
	struct gw_context_attr ctx = { .max_qps = 8 };
	struct run run = { .path = path, .scheme = which };
	struct gw_channel_info info[2];
	uint64_t limit, took_ns = 0;

	if (path->payload <= 4096)
		sim.rungs[0] = 1200, sim.rungs[1] = 0;
	must(world_open(&run.world, &sim, &shape, &host, &ctx), "network");
	for (int i = 0; i < 2; i++) {
		open_end(&run, i);
		must(gw_channel_info(run.end[i].channel, &info[i]), "description");
	}
	for (int i = 0; i < 2; i++)
		must(gw_channel_connect(run.end[i].channel, &info[!i]), "connect");
	post(&run, 1);
	post(&run, 0);
	limit = S + 3600 * S;
	while (run.end[0].ended < path->messages && !run.end[0].failure && !run.end[1].failure &&
	       world_step(&run.world, limit))
		;
	if (run.end[0].ended == path->messages)
		took_ns = run.end[0].at[path->messages - 1] - run.end[0].at[SKIPPED - 1];
	if (which == AUTO)
		gw_auto_explain(run.end[0].erasure, why, why_size);
	for (int i = 0; i < 2; i++) {
		gw_channel_close(run.end[i].channel);
		gw_progress(run.world.hosts[i].ctx);
	}
	world_close(&run.world);
	for (int i = 0; i < 2; i++) {
		gw_erasure_abandon(run.end[i].erasure);
		free(run.end[i].memory);
		free(run.end[i].at);
	}
	return took_ns;
}

static void print(uint64_t seed, const struct path *p, const uint64_t ns[SCHEMES], const char *why)
{
	uint64_t bytes = (p->messages - SKIPPED) * p->length * runs;

	printf("seed %llu: %.3g Mbit/s, %.3g ms, jitter %.3g ms, reorder %.2g by %.3g ms, loss %.2g in bursts of %.2g, "
	       "payload %u, %u x %.3g KiB, %u open: Mbit/s",
	       (unsigned long long)seed, (double)p->link.rate_bps / 1e6,
	       (double)p->link.delay_ns / 5e5, (double)p->link.jitter_ns / 1e6, p->link.reorder,
	       (double)p->link.reorder_ns / 1e6, link_mean_loss(&p->link),
	       p->link.burst_leave > 0 ? 1 / p->link.burst_leave : 1, p->payload, p->messages,
	       (double)p->length / 1024, p->open);
	for (int i = 0; i < SCHEMES; i++)
		printf(" %s %.3g", names[i], ns[i] ? (double)bytes * 8e3 / (double)ns[i] : 0);
	printf("\n    %s\n", why);
}

int main(int argc, char **argv)
{
	unsigned long long first = 1, last = 0;
	unsigned paths = 0, missed = 0, behind = 0;
	const char *given = NULL;
	uint32_t open = 0;
	bool all = false;
	double least = LEAST, worst = 1e9;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-v"))
			all = true;
		else if (!strcmp(argv[i], "--least") && i + 1 < argc)
			least = strtod(argv[++i], NULL);
		else if (!strcmp(argv[i], "--path") && i + 1 < argc)
			given = argv[++i];
		else if (!strcmp(argv[i], "--open") && i + 1 < argc)
			open = (uint32_t)strtoul(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--runs") && i + 1 < argc)
			runs = strtoull(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--congestion") && i + 1 < argc)
			congestion = argv[++i];
		else if (sscanf(argv[i], "%llu-%llu", &first, &last) == 1)
			last = first;
	}
	if (last < first || open > OPEN_MAX) {
		fprintf(stderr,
			"usage: autosim [-v] [--least SHARE] [--congestion NAME] [--runs N] [--open N] [--path NUMBERS] FIRST[-LAST]\n");
		return 2;
	}
	for (uint64_t seed = first; seed <= last; seed++) {
		uint64_t ns[SCHEMES], better, slower;
		struct path path;
		double share = 0;
		char why[512] = "";

		if (!given || !parse(given, &path))
			draw(seed, open, &path);
		for (int i = 0; i < SCHEMES; i++) {
			ns[i] = 0;
			for (uint64_t run = 0; run < runs; run++) {
				uint64_t one = took(seed + (run << 32), &path, i, why, sizeof(why));
				missed += !one;
				ns[i] += one;
			}
		}
		better = !ns[ERASURE] || (ns[REPEAT] && ns[REPEAT] < ns[ERASURE]) ? ns[REPEAT]
										  : ns[ERASURE];
		slower = ns[AUTO] && ns[DEFAULT] > ns[AUTO] ? ns[DEFAULT] : ns[AUTO];
		if (ns[AUTO] && ns[DEFAULT])
			share = (double)better / (double)slower;
		paths++;
		behind += share < least;
		worst = share < worst ? share : worst;
		if (all || share < least || !ns[0] || !ns[1])
			print(seed, &path, ns, why);
		fflush(stdout);
	}
	printf("autosim: %u paths, %u below %.2f of the better scheme, worst %.2f, %u runs never ended\n",
	       paths, behind, least, worst, missed);
	return behind || missed;
}

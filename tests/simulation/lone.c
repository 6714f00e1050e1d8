/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lone: how long messages take that are sent one at a time, each when the last one has ended, beside what the path takes.
 *
 *	lone [-v] [--loss SHARE] [--queue PATHS] [--payload BYTES] [--messages N] RTT_MS MBIT KIB
 *	lone --check
 *
 * The floor is a round trip and the message's bytes at the link's rate. Prints the first and the fifth message, and mean and slowest of
 * those from the fifth on, as multiples of the floor; with -v also the time of each, and what the channel says about itself. The link's queue
 * holds 64 KiB and --queue times what the path holds. --check runs the paths below, and fails where one takes longer than it may.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <godwit/channel.h>

#include "sim/world.h"

#define S	     UINT64_C(1000000000)
#define HEADERS	     82 /* bytes that a packet has on the link beside its payload */
#define FIRST	     4	/* messages that may be slow */
#define MESSAGES     24
#define MESSAGES_MAX 1000
/* Runs of a kept path, and by what share their messages differ in size. */
#define RUNS	  5
#define SIZE_STEP 0.004

struct path {
	double rtt_ms, mbit, kib;
	uint32_t payload;
	/* size of the queue, in what the path holds, and share of packets lost */
	double queue, loss;
	/* most that the fifth message, and those from it on in the mean, may take, as multiples of the floor */
	double fifth_most, mean_most;
	/* the same of the first; 0: that may take as long as it likes */
	double first_most;
};

struct end {
	struct gw_channel *channel;
	struct gw_mr *mr;
	uint8_t *memory;
	uint32_t posted;
	uint32_t ended;
	/* when sends ended, after the time of the first */
	uint64_t at[MESSAGES_MAX + 1];
};

struct run {
	const struct path *path;
	uint64_t length;
	uint32_t messages;
	bool verbose;
	struct world world;
	struct end end[2];
};

static const struct path kept[] = {
	/* a message is less than the path holds: the rate at which it leaves is earned by those before it */
	{ 25, 1000, 1024, 1408, 1, 0, 1.1, 1.05, 0 },
	{ 25, 4000, 1024, 1408, 1, 0, 1.1, 1.05, 0 },
	{ 25, 4000, 1024, 8936, 1, 0, 1.1, 1.05, 0 },
	{ 25, 1000, 256, 1408, 1, 0, 1.1, 1.05, 0 },
	{ 25, 100, 256, 1408, 1, 0, 1.1, 1.05, 0 },
	{ 5, 4000, 256, 8936, 1, 0, 1.1, 1.05, 0 },
	{ 80, 1000, 256, 1408, 1, 0, 1.1, 1.05, 0 },
	{ 200, 4000, 256, 8936, 1, 0, 1.1, 1.05, 0 },
	{ 200, 4000, 16384, 1408, 1, 0, 1.1, 1.05, 0 },
	/* a little more than a window, so that the last packets are a flight of their own */
	{ 123.8, 3077, 718.1, 1408, 1, 0, 1.1, 1.05, 0 },
	{ 37.771, 729.2, 3847.2, 8936, 1, 0, 1.1, 1.05, 0 },
	/* several times what the path holds: the first packets of each meet no queue */
	{ 5, 1000, 1024, 8936, 1, 0, 1.1, 1.05, 0 },
	{ 4.952, 113.4, 316.4, 8936, 1, 0, 1.1, 1.1, 0 },
	/* a short queue that overflows when a message leaves too fast, as one of them does to see whether the link has more to give */
	{ 9.736, 912.8, 3175.1, 8936, 0.1, 0, 2, 1.1, 0 },
	{ 37.998, 473, 552.7, 8936, 0.1, 0, 1.1, 1.05, 0 },
	/* so long that the start is a small part: losses of the start that are told when it is over are no reason to send less */
	{ 10, 300, 16384, 8936, 0.1, 0, 1.05, 1.05, 1.15 },
	{ 25, 100, 16384, 8936, 0.1, 0, 1.05, 1.05, 1.1 },
	/* losses by chance, which do not tell of too fast a sender */
	{ 80, 1000, 1024, 1408, 1, 0.03, 1.2, 1.1, 0 },
	{ 25, 400, 512, 8936, 1, 0.03, 1.2, 1.1, 0 },
	{ 0.2, 1000, 1024, 1408, 1, 0, 1.1, 1.05, 0 },
};

static void must(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "lone: %s: %s\n", what, strerror(-error));
	exit(1);
}

static void post(struct run *run, int receiving);

static void ended(struct gw_op *op, struct run *run, int receiving, int status)
{
	struct end *end = &run->end[receiving];
	char text[512];

	must(status, "message");
	gw_op_close(op);
	end->at[++end->ended] = sim_now_ns(run->world.sim);
	if (run->verbose && !receiving) {
		gw_channel_explain(end->channel, text, sizeof(text));
		printf("%u: %.3f ms %s\n", end->ended,
		       (double)(end->at[end->ended] - end->at[end->ended - 1]) / 1e6, text);
	}
	post(run, receiving);
}

static void sent(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	ended(op, arg, 0, result->status);
}

static void received(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	ended(op, arg, 1, result->status);
}

static void post(struct run *run, int receiving)
{
	struct end *end = &run->end[receiving];
	struct gw_op_attr attr = { .addr = end->memory,
				   .length = run->length,
				   .mr = end->mr,
				   .done = receiving ? received : sent,
				   .arg = run };
	struct gw_op *op;

	if (end->posted++ < run->messages)
		must((receiving ? gw_channel_recv : gw_channel_send)(end->channel, &attr, &op),
		     "post");
	world_touch(&run->world, (uint32_t)receiving);
}

static void open_ends(struct run *run)
{
	const struct path *path = run->path;
	double holds = path->rtt_ms * path->mbit * 125;
	struct link_attr link = { .rate_bps = (uint64_t)(path->mbit * 1e6),
				  .delay_ns = (uint64_t)(path->rtt_ms * 5e5),
				  .queue_bytes = (uint64_t)(path->queue * holds) + 65536,
				  .loss = path->loss };
	struct sim_attr sim = {
		.seed = 1, .payload = path->payload, .rungs = { 1200 }, .start_ns = S
	};
	struct sim_shape_attr shape = { .shape = SIM_PAIR, .hosts = 2, .edge = link };
	struct sim_host_attr host = { .queue = 1 << 15 };
	struct gw_context_attr ctx = { .max_qps = 8 };
	struct gw_channel_attr attr = { .peer_timeout_ns = 60 * S };
	struct gw_channel_info info[2];

	if (path->payload > 4096)
		sim.rungs[0] = 4096, sim.rungs[1] = 1200;
	must(world_open(&run->world, &sim, &shape, &host, &ctx), "network");
	for (int i = 0; i < 2; i++) {
		struct end *end = &run->end[i];

		end->memory = calloc(1, run->length);
		must(end->memory ? 0 : -12, "memory");
		must(gw_mr_register(run->world.hosts[i].ctx, end->memory, run->length, &end->mr),
		     "register");
		must(gw_channel_create(run->world.hosts[i].ctx, &attr, &end->channel), "channel");
		must(gw_channel_info(end->channel, &info[i]), "description");
	}
	for (int i = 0; i < 2; i++)
		must(gw_channel_connect(run->end[i].channel, &info[!i]), "connect");
}

static void close_ends(struct run *run)
{
	for (int i = 0; i < 2; i++) {
		gw_channel_close(run->end[i].channel);
		gw_progress(run->world.hosts[i].ctx);
	}
	world_close(&run->world);
	for (int i = 0; i < 2; i++)
		free(run->end[i].memory);
}

/* Returns true if the messages took no longer than they may. */
static bool try_path(const struct path *path, uint32_t messages, bool verbose)
{
	static struct run run;
	uint64_t length = (uint64_t)(path->kib * 1024);
	uint64_t wire = length + (length / path->payload + 1) * HEADERS;
	double floor_ns = path->rtt_ms * 1e6 + (double)wire * 8e3 / path->mbit;
	double mean = 0, most = 0, first, fifth;
	bool good;

	run = (struct run){
		.path = path, .length = length, .messages = messages, .verbose = verbose
	};
	open_ends(&run);
	run.end[0].at[0] = sim_now_ns(run.world.sim);
	post(&run, 1);
	post(&run, 0);
	while (run.end[0].ended < messages && world_step(&run.world, 3600 * S))
		;
	must(run.end[0].ended < messages ? -110 : 0, "messages");
	for (uint32_t i = FIRST; i < messages; i++) {
		double took = (double)(run.end[0].at[i + 1] - run.end[0].at[i]) / floor_ns;

		mean += took / (messages - FIRST);
		most = took > most ? took : most;
	}
	first = (double)(run.end[0].at[1] - run.end[0].at[0]) / floor_ns;
	fifth = (double)(run.end[0].at[FIRST + 1] - run.end[0].at[FIRST]) / floor_ns;
	good = fifth <= path->fifth_most && mean <= path->mean_most &&
	       (first <= path->first_most || path->first_most <= 0);
	printf("%g ms, %g Mbit/s, %g KiB, payload %u, queue %g, loss %g: floor %.3f ms, first %.3f, fifth %.3f, mean %.3f, most %.3f%s\n",
	       path->rtt_ms, path->mbit, path->kib, path->payload, path->queue, path->loss,
	       floor_ns / 1e6, first, fifth, mean, most, good ? "" : " SLOW");
	close_ends(&run);
	return good;
}

/* Returns true if most runs of the path are good. When the queue overflows in the first messages decides how long the fifth takes,
 * and that hangs on a packet: single runs say little. */
static bool try_kept(const struct path *path, bool verbose)
{
	int good = 0;

	for (int i = 0; i < RUNS; i++) {
		struct path other = *path;

		other.kib *= 1 + i * SIZE_STEP;
		good += try_path(&other, MESSAGES, verbose);
	}
	if (2 * good <= RUNS)
		printf("too slow in %d of %d runs\n", RUNS - good, RUNS);
	return 2 * good > RUNS;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "loss", required_argument, NULL, 'l' },
		{ "queue", required_argument, NULL, 'q' },
		{ "payload", required_argument, NULL, 'p' },
		{ "messages", required_argument, NULL, 'm' },
		{ "check", no_argument, NULL, 'c' },
		{ NULL, 0, NULL, 0 },
	};
	struct path path = { .payload = 1408, .queue = 1, .fifth_most = 1.1, .mean_most = 1.1 };
	unsigned long messages = MESSAGES;
	bool verbose = false, check = false, good = true;
	int option;

	while ((option = getopt_long(argc, argv, "v", options, NULL)) != -1) {
		switch (option) {
		case 'l':
			path.loss = strtod(optarg, NULL);
			break;
		case 'q':
			path.queue = strtod(optarg, NULL);
			break;
		case 'p':
			path.payload = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'm':
			messages = strtoul(optarg, NULL, 10);
			break;
		case 'c':
			check = true;
			break;
		case 'v':
			verbose = true;
			break;
		default:
			return 2;
		}
	}
	if (argc - optind != (check ? 0 : 3) || messages <= FIRST || messages > MESSAGES_MAX)
		return 2;
	for (size_t i = 0; check && i < sizeof(kept) / sizeof(kept[0]); i++)
		good &= try_kept(&kept[i], verbose);
	if (!check) {
		path.rtt_ms = strtod(argv[optind], NULL);
		path.mbit = strtod(argv[optind + 1], NULL);
		path.kib = strtod(argv[optind + 2], NULL);
		good = try_path(&path, (uint32_t)messages, verbose);
	}
	return !good;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scale: how many packets a second one core simulates.
 *
 * Hosts of a Clos network stream messages under Selective Repeat, each to one other host half-way across, and each is
 * streamed to. Payload is counted and not carried, so that memory is never the limit and the message layer still does all
 * of its work. A packet event is the arrival of a packet at a node: a packet between two leaves makes four.
 *
 * Processor time is taken from the first packet to the last result; building the network is timed apart.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "sim/world.h"

#define LIMIT_NS UINT64_C(60000000000) /* of virtual time */

struct options {
	uint32_t hosts;
	uint32_t leaves;
	uint32_t spines;
	uint32_t messages; /* a host */
	uint32_t packets;  /* a message */
	uint32_t payload;
	double loss;
	uint64_t seed;
	bool json;
};

struct bench {
	struct options o;
	struct world world;
	struct gw_qp **qps; /* two a host: the one it sends on, the one it receives on */
	struct gw_mr **mrs;
	void *memory; /* nobody touches it: all hosts name the same */
	uint64_t length;
	uint64_t sent;
	uint64_t received;
	uint64_t failed;
};

static double cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void die(const char *what, int error)
{
	fprintf(stderr, "scale: %s: %s\n", what, strerror(-error));
	exit(1);
}

static void sent(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct bench *bench = arg;

	(void)now;
	bench->sent++;
	bench->failed += result->status != 0;
}

static void received(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct bench *bench = arg;

	(void)now;
	bench->received++;
	bench->failed += result->status != 0 || result->missing != 0;
}

static void build(struct bench *bench)
{
	const struct options *o = &bench->o;
	struct sim_attr sim = { .seed = o->seed, .payload = o->payload, .no_payload = true };
	struct sim_host_attr host = { .queue = 512 };
	struct link_attr edge = { .rate_bps = UINT64_C(100000000000), .delay_ns = 500 };
	struct link_attr core = { .rate_bps = UINT64_C(400000000000), .delay_ns = 1000 };
	struct sim_shape_attr shape = {
		.shape = SIM_CLOS, .hosts = o->hosts, .leaves = o->leaves, .spines = o->spines
	};
	struct gw_context_attr ctx = { .max_qps = 4,
				       .max_sends = 2 * o->messages,
				       .max_recvs = 2 * o->messages,
				       .bitmap_bytes = UINT64_C(1) << 20 };
	int error;

	core.loss = o->loss;
	shape.edge = edge;
	shape.core = core;
	bench->length = (uint64_t)o->packets * o->payload;
	bench->memory = mmap(NULL, bench->length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bench->memory == MAP_FAILED)
		die("memory", -errno);
	bench->qps = calloc(2 * (size_t)o->hosts, sizeof(*bench->qps));
	bench->mrs = calloc(o->hosts, sizeof(*bench->mrs));
	if (!bench->qps || !bench->mrs)
		die("memory", -ENOMEM);
	error = world_open(&bench->world, &sim, &shape, &host, &ctx);
	if (error)
		die("network", error);
	for (uint32_t i = 0; i < o->hosts; i++) {
		uint32_t to = (i + o->hosts / 2) % o->hosts;

		error = world_connect(&bench->world, i, to, NULL, NULL, &bench->qps[2 * i],
				      &bench->qps[2 * to + 1]);
		if (!error)
			error = gw_mr_register(bench->world.hosts[i].ctx, bench->memory,
					       bench->length, &bench->mrs[i]);
		if (error)
			die("queue pair", error);
	}
}

static void post(struct bench *bench, uint32_t host)
{
	struct gw_transfer_attr attr = {
		.addr = bench->memory, .length = bench->length, .mr = bench->mrs[host], .arg = bench
	};
	struct gw_send *send;
	struct gw_recv *recv;

	for (uint32_t i = 0; i < bench->o.messages; i++) {
		int error;

		attr.done = received;
		error = gw_transfer_recv(bench->qps[2 * host + 1], &gw_selective_repeat, &attr,
					 &recv);
		if (error)
			die("receive", error);
		attr.done = sent;
		error = gw_transfer_send(bench->qps[2 * host], &gw_selective_repeat, &attr, &send);
		if (error)
			die("send", error);
	}
	world_touch(&bench->world, host);
}

static uint64_t sum(const struct bench *bench, const char *name)
{
	uint64_t total = 0, value;

	for (unsigned c = 0; c < gw_counter_count(); c++)
		for (uint32_t i = 0; !strcmp(gw_counter_name(c), name) && i < bench->o.hosts; i++)
			if (!gw_counter_read(bench->world.hosts[i].ctx, c, &value))
				total += value;
	return total;
}

static uint64_t peak_bytes(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_maxrss * 1024;
}

static void report(const struct bench *bench, double building, double running)
{
	const struct options *o = &bench->o;
	uint64_t events = sim_events(bench->world.sim);
	double rate = (double)events / running;

	if (!o->json) {
		printf("%u hosts, %u leaves, %u spines: %u messages of %u packets from each, loss %g\n",
		       o->hosts, o->leaves, o->spines, o->messages, o->packets, o->loss);
		printf("%.2f million packet events a second (simulated): %lu events in %.2f CPU seconds\n",
		       rate / 1e6, (unsigned long)events, running);
		printf("%lu data packets, %lu of them again, %lu control; %.1f ms of virtual time; built in %.2f s; peak memory %.0f MiB\n",
		       (unsigned long)sum(bench, "sent_packets"),
		       (unsigned long)sum(bench, "retransmitted_packets"),
		       (unsigned long)sum(bench, "control_sent"),
		       (double)sim_now_ns(bench->world.sim) / 1e6, building,
		       (double)peak_bytes() / 1048576);
		return;
	}
	printf("{\"environment\": \"simulated\", \"hosts\": %u, \"leaves\": %u, \"spines\": %u, ",
	       o->hosts, o->leaves, o->spines);
	printf("\"messages\": %u, \"packets\": %u, \"payload\": %u, \"loss\": %g, \"seed\": %lu, ",
	       o->messages, o->packets, o->payload, o->loss, (unsigned long)o->seed);
	printf("\"events\": %lu, \"hash\": \"%016lx\", \"virtual_ns\": %lu, ",
	       (unsigned long)events, (unsigned long)sim_hash(bench->world.sim),
	       (unsigned long)sim_now_ns(bench->world.sim));
	printf("\"data_packets\": %lu, \"retransmitted\": %lu, \"control\": %lu, ",
	       (unsigned long)sum(bench, "sent_packets"),
	       (unsigned long)sum(bench, "retransmitted_packets"),
	       (unsigned long)sum(bench, "control_sent"));
	printf("\"build_cpu_s\": %.3f, \"run_cpu_s\": %.3f, \"events_a_second\": %.0f, ", building,
	       running, rate);
	printf("\"peak_bytes\": %lu}\n", (unsigned long)peak_bytes());
}

static int parse(int argc, char **argv, struct options *o)
{
	static const struct option options[] = { { "hosts", required_argument, NULL, 'h' },
						 { "leaves", required_argument, NULL, 'l' },
						 { "spines", required_argument, NULL, 's' },
						 { "messages", required_argument, NULL, 'm' },
						 { "packets", required_argument, NULL, 'p' },
						 { "loss", required_argument, NULL, 'x' },
						 { "seed", required_argument, NULL, 'r' },
						 { "json", no_argument, NULL, 'j' },
						 { NULL, 0, NULL, 0 } };
	int c;

	*o = (struct options){ .hosts = 1000,
			       .leaves = 32,
			       .spines = 8,
			       .messages = 4,
			       .packets = 1024,
			       .payload = 4096,
			       .loss = 1e-4,
			       .seed = 1 };
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint32_t value = optarg ? (uint32_t)strtoul(optarg, NULL, 10) : 0;

		switch (c) {
		case 'h':
			o->hosts = value;
			break;
		case 'l':
			o->leaves = value;
			break;
		case 's':
			o->spines = value;
			break;
		case 'm':
			o->messages = value;
			break;
		case 'p':
			o->packets = value;
			break;
		case 'x':
			o->loss = strtod(optarg, NULL);
			break;
		case 'r':
			o->seed = value;
			break;
		case 'j':
			o->json = true;
			break;
		default:
			return -EINVAL;
		}
	}
	return o->hosts >= 2 && o->messages && o->packets ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
	struct bench bench = { 0 };
	double started = cpu_seconds(), built;
	uint64_t all;

	if (parse(argc, argv, &bench.o)) {
		fputs("usage: scale [--hosts N] [--leaves N] [--spines N] [--messages N] [--packets N] [--loss P] [--seed N] [--json]\n",
		      stderr);
		return 2;
	}
	build(&bench);
	for (uint32_t i = 0; i < bench.o.hosts; i++)
		post(&bench, i);
	built = cpu_seconds();
	all = (uint64_t)bench.o.hosts * bench.o.messages;
	while ((bench.sent < all || bench.received < all) && world_step(&bench.world, LIMIT_NS))
		;
	if (bench.sent < all || bench.received < all || bench.failed) {
		fprintf(stderr, "scale: of %lu messages %lu were sent, %lu received, %lu failed\n",
			(unsigned long)all, (unsigned long)bench.sent,
			(unsigned long)bench.received, (unsigned long)bench.failed);
		return 1;
	}
	report(&bench, built - started, cpu_seconds() - built);
	world_close(&bench.world);
	munmap(bench.memory, bench.length);
	free(bench.qps);
	free(bench.mrs);
	return 0;
}

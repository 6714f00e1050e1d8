/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qps: what a queue pair costs in memory.
 *
 * One context, ten thousand default queue pairs, created and connected. They all connect to the same queue pair of a
 * second context: connecting is local and sends nothing, so that the other end's memory stays out of the count. Resident
 * memory is what counts; what malloc handed out is shown beside it, for pools reserve more than they touch.
 */
#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <godwit/message.h>

#include "fabric/sim/sim.h"
#include "message/context.h"

struct memory {
	uint64_t resident_bytes;
	uint64_t malloc_bytes;
};

static void die(const char *what, int error)
{
	fprintf(stderr, "qps: %s: %s\n", what, strerror(-error));
	exit(1);
}

static struct memory memory_now(void)
{
	unsigned long total = 0, resident = 0;
	struct mallinfo2 info = mallinfo2();
	struct memory memory = { .malloc_bytes = info.uordblks + info.hblkhd };
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%lu %lu", &total, &resident) != 2)
		die("/proc/self/statm", -EIO);
	fclose(file);
	memory.resident_bytes = (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
	return memory;
}

static void open_roce(struct gw_context **ctx)
{
	struct gw_context_attr attr = { .fabric = "roce:127.0.0.1@0" };

	for (int i = 0; i < 2; i++) {
		int error = gw_context_open(&attr, &ctx[i]);

		if (error)
			die("roce:127.0.0.1", error);
	}
}

static struct sim *open_sim(struct gw_context **ctx)
{
	struct sim_shape_attr shape = { .shape = SIM_PAIR, .hosts = 2 };
	struct gw_context_attr attr = { 0 };
	struct sim_host_attr host = { 0 };
	struct sim_attr sim_attr = { 0 };
	struct sim *sim;
	int error = sim_create(&sim_attr, &sim);

	if (!error)
		error = sim_build(sim, &shape, &host);
	for (uint32_t i = 0; !error && i < 2; i++)
		error = context_open_on(sim_host(sim, i), &attr, &ctx[i]);
	if (error)
		die("sim", error);
	return sim;
}

static struct memory measure(struct gw_context *const *ctx, uint32_t count)
{
	struct gw_qp_info peer;
	struct memory before, after;
	struct gw_qp *qp;
	int error = gw_qp_create(ctx[1], NULL, &qp);

	if (!error)
		error = gw_qp_info(qp, &peer);
	if (error)
		die("the peer", error);
	before = memory_now();
	for (uint32_t i = 0; i < count; i++) {
		error = gw_qp_create(ctx[0], NULL, &qp);
		if (!error)
			error = gw_qp_connect(qp, &peer);
		if (error)
			die("a queue pair", error);
	}
	after = memory_now();
	return (struct memory){ after.resident_bytes - before.resident_bytes,
				after.malloc_bytes - before.malloc_bytes };
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "count", required_argument, NULL, 'c' },
						 { "fabric", required_argument, NULL, 'f' },
						 { "json", no_argument, NULL, 'j' },
						 { NULL, 0, NULL, 0 } };
	struct gw_context *ctx[2] = { NULL, NULL };
	const char *fabric = "roce";
	uint32_t count = 10000;
	struct sim *sim = NULL;
	struct memory added;
	bool json = false;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'c')
			count = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 'f')
			fabric = optarg;
		else if (c == 'j')
			json = true;
		else
			count = 0;
	}
	if (!count || (strcmp(fabric, "roce") && strcmp(fabric, "sim"))) {
		fputs("usage: qps [--fabric roce|sim] [--count N] [--json]\n", stderr);
		return 2;
	}
	if (!strcmp(fabric, "sim"))
		sim = open_sim(ctx);
	else
		open_roce(ctx);
	added = measure(ctx, count);
	if (json)
		printf("{\"environment\": \"%s\", \"fabric\": \"%s\", \"queue_pairs\": %u, \"resident_bytes\": %lu, \"malloc_bytes\": %lu}\n",
		       sim ? "simulated" : "loopback", fabric, count,
		       (unsigned long)added.resident_bytes, (unsigned long)added.malloc_bytes);
	else
		printf("%u queue pairs on %s (%s): %.1f MiB resident, %.1f MiB from malloc; %.0f bytes each\n",
		       count, fabric, sim ? "simulated" : "loopback",
		       (double)added.resident_bytes / 1048576, (double)added.malloc_bytes / 1048576,
		       (double)added.resident_bytes / count);
	for (int i = 0; i < 2; i++)
		gw_context_close(ctx[i]);
	if (sim)
		sim_destroy(sim);
	return 0;
}

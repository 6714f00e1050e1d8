/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packets: a fixed number of packets from one context to another, for counting instructions (bench/instructions).
 *
 * Two simulated hosts, a lossless link, payload carried, messages of 256 packets under Selective Repeat, a few open at a
 * time. Nothing here depends on the clock or the machine: one argument, one sequence of instructions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world.h"

#define PAYLOAD	       1024
#define MESSAGE	       (256 * PAYLOAD)
#define MESSAGES_AHEAD 4
#define LIMIT_NS       UINT64_C(60000000000)

static struct gw_qp *qps[2];
static struct gw_mr *mrs[2];
static uint8_t memory[2][MESSAGE];
static unsigned posted[2], ended[2], messages;
static uint64_t wake_ns;

static void post(int end);

static void done(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	int end = arg != &ended[0];

	(void)now;
	if (result->status) {
		fprintf(stderr, "packets: a message ended with %d\n", result->status);
		exit(1);
	}
	ended[end]++;
	post(end);
}

static void post(int end)
{
	struct gw_transfer_attr attr = { .addr = memory[end],
					 .length = MESSAGE,
					 .mr = mrs[end],
					 .done = done,
					 .arg = &ended[end] };

	while (posted[end] < messages && posted[end] < ended[end] + MESSAGES_AHEAD) {
		struct gw_send *send;
		struct gw_recv *recv;

		/* Handles are left to the end of the context: closing them is not what is counted. */
		if (end ? gw_transfer_recv(qps[1], &gw_selective_repeat, &attr, &recv)
			: gw_transfer_send(qps[0], &gw_selective_repeat, &attr, &send)) {
			fputs("packets: a message was refused\n", stderr);
			exit(1);
		}
		posted[end]++;
	}
}

/* Hosts look at what came meanwhile, as one that polls does: packets come in batches. */
static bool step(struct world *world)
{
	uint64_t at = world_next_ns(world);

	if (!wake_ns)
		return world_step(world, LIMIT_NS);
	if (at > LIMIT_NS)
		return false;
	sim_run_until(world->sim, at + wake_ns);
	world_settle(world);
	return true;
}

int main(int argc, char **argv)
{
	struct sim_attr sim = { .seed = 1, .payload = PAYLOAD };
	struct sim_host_attr host = { 0 };
	struct sim_shape_attr shape = { .shape = SIM_PAIR,
					.hosts = 2,
					.edge = { .rate_bps = UINT64_C(100000000000),
						  .delay_ns = 5000 } };
	struct gw_context_attr ctx = { 0 };
	struct world world;

	messages = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	wake_ns = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	if (!messages || argc > 3) {
		fputs("usage: packets MESSAGES [WAKE_NS]\n", stderr);
		return 2;
	}
	memset(memory[0], 0x5a, MESSAGE);
	if (world_open(&world, &sim, &shape, &host, &ctx) ||
	    world_connect(&world, 0, 1, NULL, NULL, &qps[0], &qps[1]) ||
	    gw_mr_register(world.hosts[0].ctx, memory[0], MESSAGE, &mrs[0]) ||
	    gw_mr_register(world.hosts[1].ctx, memory[1], MESSAGE, &mrs[1])) {
		fputs("packets: no network\n", stderr);
		return 1;
	}
	for (int end = 0; end < 2; end++) {
		post(end);
		world_touch(&world, (uint32_t)end);
	}
	while ((ended[0] < messages || ended[1] < messages) && step(&world))
		;
	if (ended[1] < messages || memcmp(memory[0], memory[1], MESSAGE)) {
		fputs("packets: not everything arrived\n", stderr);
		return 1;
	}
	printf("%u packets, %lu events\n", messages * (MESSAGE / PAYLOAD),
	       (unsigned long)sim_events(world.sim));
	world_close(&world);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pings: a fixed number of small messages to and fro over a channel, for counting instructions (bench/instructions).
 *
 * Two simulated hosts, a lossless link, 64 bytes each way, the answer sent from the callback of the receive. The receive
 * for the next one is posted before. Nothing here depends on the clock or the machine: one argument, one sequence of instructions.
 */
#include <stdio.h>
#include <stdlib.h>

#include <godwit/channel.h>
#include <godwit/sim.h>

#define BYTES	 64
#define DELAY_NS UINT64_C(5000)
#define LIMIT_NS UINT64_C(60000000000)

struct end {
	struct gw_context *ctx;
	struct gw_channel *channel;
	struct gw_mr *mr;
	/* sent from, and received in */
	uint8_t memory[2][BYTES];
	unsigned received;
};

static struct end ends[2];
static unsigned pings;

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "pings: %s: %d\n", what, error);
		exit(1);
	}
}

static void sent(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	(void)arg;
	check(result->status, "a send ended");
	gw_op_close(op);
}

static void send_one(struct end *end)
{
	struct gw_op_attr attr = {
		.addr = end->memory[0], .length = BYTES, .mr = end->mr, .done = sent, .arg = end
	};
	struct gw_op *op;

	check(gw_channel_send(end->channel, &attr, &op), "a send was refused");
}

static void received(struct gw_op *op, void *arg, const struct gw_op_result *result);

static void receive_one(struct end *end)
{
	struct gw_op_attr attr = {
		.addr = end->memory[1], .length = BYTES, .mr = end->mr, .done = received, .arg = end
	};
	struct gw_op *op;

	check(gw_channel_recv(end->channel, &attr, &op), "a receive was refused");
}

static void received(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct end *end = arg;

	check(result->status, "a receive ended");
	gw_op_close(op);
	end->received++;
	receive_one(end);
	if (end == &ends[1] || end->received < pings)
		send_one(end);
}

static int is_over(void *arg)
{
	(void)arg;
	return ends[0].received >= pings;
}

int main(int argc, char **argv)
{
	struct gw_sim_attr attr = { .seed = 1, .delay_ns = DELAY_NS };
	struct gw_channel_info info[2];
	struct gw_sim *sim;

	pings = argc == 2 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	if (!pings) {
		fputs("usage: pings ROUND_TRIPS\n", stderr);
		return 2;
	}
	check(gw_sim_create(&attr, &sim), "no network");
	for (unsigned i = 0; i < 2; i++) {
		struct end *end = &ends[i];

		check(gw_sim_context_open(sim, i, NULL, &end->ctx), "no context");
		check(gw_channel_create(end->ctx, NULL, &end->channel), "no channel");
		check(gw_channel_info(end->channel, &info[i]), "no description");
		check(gw_mr_register(end->ctx, end->memory, sizeof(end->memory), &end->mr),
		      "no memory");
	}
	for (unsigned i = 0; i < 2; i++) {
		check(gw_channel_connect(ends[i].channel, &info[1 - i]), "not connected");
		receive_one(&ends[i]);
	}
	send_one(&ends[0]);
	if (gw_sim_run(sim, LIMIT_NS, is_over, NULL) < 0 || !is_over(NULL)) {
		fputs("pings: not everything arrived\n", stderr);
		return 1;
	}
	printf("%u round trips in %.3f ms\n", pings, (double)gw_sim_now_ns(sim) / 1e6);
	gw_sim_destroy(sim);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls: how many system calls and control datagrams a bulk transfer takes at either end.
 *
 * Usage: calls [CASE...]
 *
 * Two contexts on UDP sockets in one process, over the kernel of kernel.h: without loss, in virtual time. 16
 * messages of 1 MiB are under way. The first 192 settle packet size, credit and rate; the next 64 are counted. A case is an
 * MTU, messages on a bare queue pair or on a channel with its default controller, and whether they carry parity (32 + 4).
 * In the cases with pings one end sends a message of 64 bytes and the other answers with one, and 1000 round trips are
 * counted. In those with many queue pairs a thousand of them send messages of 64 KiB, four under way each, and 4000 messages
 * are counted. Prints a line of JSON for each case: totals of what was counted, at each end.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <godwit/channel.h>
#include <godwit/erasure.h>
#include <godwit/godwit.h>
#include <godwit/scheme.h>

#include "kernel.h"

#define MESSAGE	  (1u << 20)
#define UNDER_WAY 16u
#define SETTLING  192u
#define COUNTED	  64u
#define PING	  64u
#define PINGS	  1000u
#define MANY	  1000u
/* Of each of many queue pairs. */
#define MANY_MESSAGE   (64u << 10)
#define MANY_UNDER_WAY 4u
#define MANY_SETTLING  12u
#define MANY_COUNTED   4u
/* Turns without an end of a message: it has stopped. */
#define TURNS_MOST 100000
/* What a turn takes beside its system calls. */
#define TURN_NS 500

enum { SENDER, RECEIVER };

struct flow;

/* A message on a queue pair that is under way. */
struct shot {
	struct flow *flow;
	struct gw_send *send;
	struct gw_recv *recv;
};

/* A queue pair or a channel at one end. */
struct flow {
	struct end *end;
	struct gw_qp *qp;
	struct gw_channel *channel;
	unsigned posted, ended;
};

struct end {
	struct gw_context *ctx;
	struct flow *flows;
	struct gw_erasure *erasure;
	struct gw_mr *mr;
	uint8_t *memory;
	unsigned ended;
};

struct run_case {
	const char *name;
	int mtu;
	bool channel, coded, pings, many;
};

static const struct run_case cases[] = {
	{ .name = "1500-bare", .mtu = 1500 },
	{ .name = "1500-bare-coded", .mtu = 1500, .coded = true },
	{ .name = "1500-channel", .mtu = 1500, .channel = true },
	{ .name = "1500-channel-coded", .mtu = 1500, .channel = true, .coded = true },
	{ .name = "9000-bare", .mtu = 9000 },
	{ .name = "9000-bare-coded", .mtu = 9000, .coded = true },
	{ .name = "9000-channel", .mtu = 9000, .channel = true },
	{ .name = "9000-channel-coded", .mtu = 9000, .channel = true, .coded = true },
	{ .name = "1500-bare-pings", .mtu = 1500, .pings = true },
	{ .name = "1500-channel-pings", .mtu = 1500, .channel = true, .pings = true },
	{ .name = "1500-bare-many", .mtu = 1500, .many = true },
	{ .name = "9000-bare-many", .mtu = 9000, .many = true },
	{ .name = "9000-channel-many", .mtu = 9000, .channel = true, .many = true },
};

static struct end ends[2];
static const struct run_case *running;

static void must(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "calls: %s: %s: %d\n", running->name, what, error);
	exit(1);
}

static unsigned flows(void)
{
	return running->many ? MANY : 1;
}

static uint32_t length(void)
{
	return running->pings ? PING : running->many ? MANY_MESSAGE : MESSAGE;
}

/* Messages of each flow under way; of pings, receives open. */
static unsigned under_way(void)
{
	return running->many ? MANY_UNDER_WAY : UNDER_WAY;
}

/* Messages of each flow before those that are counted, and how many these are. */
static unsigned settling(void)
{
	return running->many ? MANY_SETTLING : SETTLING;
}

static unsigned counted(void)
{
	return running->pings ? PINGS : running->many ? MANY_COUNTED : COUNTED;
}

static void post(struct flow *flow);
static void post_message(struct flow *flow, bool sends);

/* A message was received, or sent. */
static void ended(struct flow *flow, bool sent, int status)
{
	must(status, "a message");
	if (sent && running->pings)
		return;
	flow->ended++;
	flow->end->ended++;
	if (running->pings)
		post_message(flow, true);
	post(flow);
}

static void transfer_sent(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct shot *shot = arg;

	(void)now;
	gw_send_close(shot->send);
	ended(shot->flow, true, result->status);
	free(shot);
}

static void transfer_received(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct shot *shot = arg;

	(void)now;
	gw_recv_close(shot->recv);
	ended(shot->flow, false, result->status);
	free(shot);
}

static void op_sent(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	gw_op_close(op);
	ended(arg, true, result->status);
}

static void op_received(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	gw_op_close(op);
	ended(arg, false, result->status);
}

static const void *coder(const struct flow *flow)
{
	return running->coded ? gw_erasure_member(flow->end->erasure, flow->posted % UNDER_WAY)
			      : NULL;
}

static int post_on_channel(struct flow *flow, bool sends, uint8_t *addr)
{
	struct gw_op_attr attr = { .addr = addr,
				   .length = length(),
				   .mr = flow->end->mr,
				   .scheme = running->coded ? &gw_erasure : NULL,
				   .options = coder(flow),
				   .done = sends ? op_sent : op_received,
				   .arg = flow };
	struct gw_op *op;

	return sends ? gw_channel_send(flow->channel, &attr, &op)
		     : gw_channel_recv(flow->channel, &attr, &op);
}

static int post_bare(struct flow *flow, bool sends, uint8_t *addr)
{
	const struct gw_scheme *scheme = running->coded ? &gw_erasure : &gw_selective_repeat;
	struct shot *shot = calloc(1, sizeof(*shot));
	struct gw_transfer_attr attr = { .addr = addr,
					 .length = length(),
					 .mr = flow->end->mr,
					 .options = coder(flow),
					 .done = sends ? transfer_sent : transfer_received,
					 .arg = shot };

	shot->flow = flow;
	return sends ? gw_transfer_send(flow->qp, scheme, &attr, &shot->send)
		     : gw_transfer_recv(flow->qp, scheme, &attr, &shot->recv);
}

/* All flows use the same memory: what they send is the same. */
static void post_message(struct flow *flow, bool sends)
{
	uint8_t *addr = flow->end->memory + (size_t)(flow->posted % UNDER_WAY) * MESSAGE;

	must(running->channel ? post_on_channel(flow, sends, addr) : post_bare(flow, sends, addr),
	     "post");
}

static void post(struct flow *flow)
{
	unsigned most = settling() + counted() + (running->pings || running->many ? UNDER_WAY : 0);

	while (flow->posted < most && flow->posted < flow->ended + under_way()) {
		post_message(flow, !running->pings && flow->end == &ends[SENDER]);
		flow->posted++;
	}
}

static void open_flow(struct flow *flow, struct end *end)
{
	struct gw_channel_attr channel = { .slots = running->many ? 2 * MANY_UNDER_WAY : 0 };
	struct gw_qp_attr qp = { .slots = running->many ? 2 * MANY_UNDER_WAY : 0 };

	flow->end = end;
	must(running->channel ? gw_channel_create(end->ctx, &channel, &flow->channel)
			      : gw_qp_create(end->ctx, &qp, &flow->qp),
	     "queue pair");
}

static void open_end(struct end *end)
{
	static const struct gw_erasure_attr code = { .max_length = MESSAGE,
						     .k = 32,
						     .m = 4,
						     .rows = 8,
						     .depth = 16,
						     .transfers = UNDER_WAY };
	struct gw_context_attr attr = { .fabric = "roce:127.0.0.1@0",
					.max_sends = running->many ? MANY * 128 : 0,
					.max_recvs = running->many ? MANY * 128 : 0,
					.bitmap_bytes = running->many ? 256u << 20 : 0 };
	size_t bytes = (size_t)UNDER_WAY * MESSAGE;

	*end = (struct end){ .memory = malloc(bytes),
			     .flows = calloc(flows(), sizeof(struct flow)) };
	memset(end->memory, 0x5a, bytes);
	must(gw_context_open(&attr, &end->ctx), "context");
	must(gw_mr_register(end->ctx, end->memory, bytes, &end->mr), "memory");
	if (running->coded)
		must(gw_erasure_open(end->ctx, &code, &end->erasure), "coder");
	for (unsigned i = 0; i < flows(); i++)
		open_flow(&end->flows[i], end);
}

static void connect_flow(struct flow *flow, const struct flow *peer)
{
	struct gw_channel_info channel;
	struct gw_qp_info qp;

	if (running->channel) {
		must(gw_channel_info(peer->channel, &channel), "description");
		must(gw_channel_connect(flow->channel, &channel), "connect");
	} else {
		must(gw_qp_info(peer->qp, &qp), "description");
		must(gw_qp_connect(flow->qp, &qp), "connect");
	}
}

static void live(int which)
{
	for (;;) {
		int work = gw_wait(ends[which].ctx, UINT64_MAX);

		must(work < 0 ? work : 0, "gw_wait");
		kernel_yield(TURN_NS);
	}
}

/* Until both ends have ended so many messages. */
static void run_until(unsigned messages)
{
	for (int turns = 0; ends[SENDER].ended < messages || ends[RECEIVER].ended < messages;
	     turns++) {
		must(turns == TURNS_MOST, "it has stopped");
		kernel_step();
	}
}

static void print_calls(const char *name, const struct kernel_calls *before,
			const struct kernel_calls *after)
{
	printf(", \"%s\": {\"sends\": %lu, \"batches\": %lu, \"packets\": %lu, \"control\": %lu, \"reads\": %lu, \"empty_reads\": %lu, \"sleeps\": %lu}",
	       name, after->sends - before->sends, after->batches - before->batches,
	       after->packets - before->packets, after->control - before->control,
	       after->reads - before->reads, after->empty_reads - before->empty_reads,
	       after->sleeps - before->sleeps);
}

static void run(const struct run_case *c)
{
	struct kernel_calls before[2];
	uint64_t began_ns;

	running = c;
	kernel_reset();
	kernel_mtu = c->mtu;
	for (int i = 0; i < 2; i++)
		open_end(&ends[i]);
	for (unsigned i = 0; i < 2 * flows(); i++)
		connect_flow(&ends[i % 2].flows[i / 2], &ends[!(i % 2)].flows[i / 2]);
	for (int i = 0; i < 2; i++) {
		for (unsigned j = 0; j < flows(); j++)
			post(&ends[i].flows[j]);
		kernel_start(i, live);
	}
	if (c->pings)
		post_message(&ends[SENDER].flows[0], true);
	run_until(flows() * settling());
	memcpy(before, kernel_calls, sizeof(before));
	began_ns = gw_now_ns(ends[RECEIVER].ctx);
	run_until(flows() * (settling() + counted()));
	printf("{\"case\": \"%s\", \"messages\": %u", c->name, flows() * counted());
	print_calls("sender", &before[SENDER], &kernel_calls[SENDER]);
	print_calls("receiver", &before[RECEIVER], &kernel_calls[RECEIVER]);
	printf(", \"elapsed_ns\": %lu}\n", gw_now_ns(ends[RECEIVER].ctx) - began_ns);
	for (int i = 0; i < 2; i++) {
		gw_context_close(ends[i].ctx);
		if (c->coded)
			gw_erasure_abandon(ends[i].erasure);
		free(ends[i].memory);
		free(ends[i].flows);
	}
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool wanted = argc == 1;

		for (int j = 1; j < argc; j++)
			wanted |= !strcmp(argv[j], cases[i].name);
		if (wanted)
			run(&cases[i]);
	}
	return 0;
}

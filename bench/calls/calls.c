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
 * counted. Prints a line of JSON for each case: totals of what was counted, at each end.
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
#define MESSAGES  (SETTLING + COUNTED)
#define PING	  64u
#define PINGS	  1000u
/* Turns without an end of a message: it has stopped. */
#define TURNS_MOST 100000
/* What a turn takes beside its system calls. */
#define TURN_NS 500

enum { SENDER, RECEIVER };

struct end {
	struct gw_context *ctx;
	struct gw_qp *qp;
	struct gw_channel *channel;
	struct gw_erasure *erasure;
	struct gw_mr *mr;
	uint8_t *memory;
	unsigned posted, ended;
};

struct run_case {
	const char *name;
	int mtu;
	bool channel, coded, pings;
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

static void post(struct end *end);
static void post_message(struct end *end, bool sends);

/* A message was received, or sent. */
static void ended(struct end *end, bool sent, int status)
{
	must(status, "a message");
	if (sent && running->pings)
		return;
	end->ended++;
	if (running->pings)
		post_message(end, true);
	post(end);
}

static void transfer_sent(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	(void)now;
	ended(arg, true, result->status);
}

static void transfer_received(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	(void)now;
	ended(arg, false, result->status);
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

static const void *coder(const struct end *end)
{
	return running->coded ? gw_erasure_member(end->erasure, end->posted % UNDER_WAY) : NULL;
}

static int post_on_channel(struct end *end, bool sends, uint8_t *addr)
{
	struct gw_op_attr attr = { .addr = addr,
				   .length = running->pings ? PING : MESSAGE,
				   .mr = end->mr,
				   .scheme = running->coded ? &gw_erasure : NULL,
				   .options = coder(end),
				   .done = sends ? op_sent : op_received,
				   .arg = end };
	struct gw_op *op;

	return sends ? gw_channel_send(end->channel, &attr, &op)
		     : gw_channel_recv(end->channel, &attr, &op);
}

static int post_bare(struct end *end, bool sends, uint8_t *addr)
{
	const struct gw_scheme *scheme = running->coded ? &gw_erasure : &gw_selective_repeat;
	struct gw_transfer_attr attr = { .addr = addr,
					 .length = running->pings ? PING : MESSAGE,
					 .mr = end->mr,
					 .options = coder(end),
					 .done = sends ? transfer_sent : transfer_received,
					 .arg = end };
	struct gw_send *send;
	struct gw_recv *recv;

	/* Handles are left to the end of the context: closing them is not what is counted. */
	return sends ? gw_transfer_send(end->qp, scheme, &attr, &send)
		     : gw_transfer_recv(end->qp, scheme, &attr, &recv);
}

static void post_message(struct end *end, bool sends)
{
	uint8_t *addr = end->memory + (size_t)(end->posted % UNDER_WAY) * MESSAGE;

	must(running->channel ? post_on_channel(end, sends, addr) : post_bare(end, sends, addr),
	     "post");
}

/* Keeps so many messages under way; of pings, so many receives open. */
static void post(struct end *end)
{
	unsigned most = running->pings ? SETTLING + PINGS + UNDER_WAY : MESSAGES;

	while (end->posted < most && end->posted < end->ended + UNDER_WAY) {
		post_message(end, !running->pings && end == &ends[SENDER]);
		end->posted++;
	}
}

static void open_end(struct end *end)
{
	static const struct gw_erasure_attr code = { .max_length = MESSAGE,
						     .k = 32,
						     .m = 4,
						     .rows = 8,
						     .depth = 16,
						     .transfers = UNDER_WAY };
	struct gw_context_attr attr = { .fabric = "roce:127.0.0.1@0" };
	size_t bytes = (size_t)UNDER_WAY * MESSAGE;

	*end = (struct end){ .memory = malloc(bytes) };
	memset(end->memory, 0x5a, bytes);
	must(gw_context_open(&attr, &end->ctx), "context");
	must(gw_mr_register(end->ctx, end->memory, bytes, &end->mr), "memory");
	if (running->coded)
		must(gw_erasure_open(end->ctx, &code, &end->erasure), "coder");
	must(running->channel ? gw_channel_create(end->ctx, NULL, &end->channel)
			      : gw_qp_create(end->ctx, NULL, &end->qp),
	     "queue pair");
}

static void connect_ends(void)
{
	for (int i = 0; i < 2; i++) {
		struct gw_channel_info channel;
		struct gw_qp_info qp;

		if (running->channel) {
			must(gw_channel_info(ends[!i].channel, &channel), "description");
			must(gw_channel_connect(ends[i].channel, &channel), "connect");
		} else {
			must(gw_qp_info(ends[!i].qp, &qp), "description");
			must(gw_qp_connect(ends[i].qp, &qp), "connect");
		}
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
	printf(", \"%s\": {\"sends\": %lu, \"packets\": %lu, \"control\": %lu, \"reads\": %lu, \"sleeps\": %lu}",
	       name, after->sends - before->sends, after->packets - before->packets,
	       after->control - before->control, after->reads - before->reads,
	       after->sleeps - before->sleeps);
}

static void run(const struct run_case *c)
{
	unsigned counted = c->pings ? PINGS : COUNTED;
	struct kernel_calls before[2];
	uint64_t began_ns;

	running = c;
	kernel_reset();
	kernel_mtu = c->mtu;
	for (int i = 0; i < 2; i++)
		open_end(&ends[i]);
	connect_ends();
	for (int i = 0; i < 2; i++) {
		post(&ends[i]);
		kernel_start(i, live);
	}
	if (c->pings)
		post_message(&ends[SENDER], true);
	run_until(SETTLING);
	memcpy(before, kernel_calls, sizeof(before));
	began_ns = gw_now_ns(ends[RECEIVER].ctx);
	run_until(SETTLING + counted);
	printf("{\"case\": \"%s\", \"messages\": %u", c->name, counted);
	print_calls("sender", &before[SENDER], &kernel_calls[SENDER]);
	print_calls("receiver", &before[RECEIVER], &kernel_calls[RECEIVER]);
	printf(", \"elapsed_ns\": %lu}\n", gw_now_ns(ends[RECEIVER].ctx) - began_ns);
	for (int i = 0; i < 2; i++) {
		gw_context_close(ends[i].ctx);
		if (c->coded)
			gw_erasure_abandon(ends[i].erasure);
		free(ends[i].memory);
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

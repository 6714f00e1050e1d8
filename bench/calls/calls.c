/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls: how many system calls and control datagrams a bulk transfer takes at either end.
 *
 * Usage: calls [CASE...]
 *
 * Two contexts on UDP sockets in one process, over the kernel of kernel.h: without loss, in virtual time. 16
 * messages of 1 MiB are under way. The first 32 settle packet size, credit and rate; the next 64 are counted. A case is an
 * MTU, messages on a bare queue pair or on a channel with its default controller, and whether they carry parity (32 + 4).
 * Prints a line of JSON for each case: totals of the 64 messages.
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
#include "message/context.h"

#define MESSAGE	  (1u << 20)
#define UNDER_WAY 16u
#define SETTLING  32u
#define COUNTED	  64u
#define MESSAGES  (SETTLING + COUNTED)
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
	bool asleep;
};

struct run_case {
	const char *name;
	int mtu;
	bool channel, coded;
};

static const struct run_case cases[] = {
	{ "1500-bare", 1500, false, false },   { "1500-bare-coded", 1500, false, true },
	{ "1500-channel", 1500, true, false }, { "1500-channel-coded", 1500, true, true },
	{ "9000-bare", 9000, false, false },   { "9000-bare-coded", 9000, false, true },
	{ "9000-channel", 9000, true, false }, { "9000-channel-coded", 9000, true, true },
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

static void ended(struct end *end, int status)
{
	must(status, "a message");
	end->ended++;
}

static void transfer_done(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	(void)now;
	ended(arg, result->status);
}

static void op_done(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	ended(arg, result->status);
	gw_op_close(op);
}

static const void *coder(const struct end *end)
{
	return running->coded ? gw_erasure_member(end->erasure, end->posted % UNDER_WAY) : NULL;
}

static int post_on_channel(struct end *end, uint8_t *addr)
{
	struct gw_op_attr attr = { .addr = addr,
				   .length = MESSAGE,
				   .mr = end->mr,
				   .scheme = running->coded ? &gw_erasure : NULL,
				   .options = coder(end),
				   .done = op_done,
				   .arg = end };
	struct gw_op *op;

	return end == &ends[SENDER] ? gw_channel_send(end->channel, &attr, &op)
				    : gw_channel_recv(end->channel, &attr, &op);
}

static int post_bare(struct end *end, uint8_t *addr)
{
	const struct gw_scheme *scheme = running->coded ? &gw_erasure : &gw_selective_repeat;
	struct gw_transfer_attr attr = { .addr = addr,
					 .length = MESSAGE,
					 .mr = end->mr,
					 .options = coder(end),
					 .done = transfer_done,
					 .arg = end };
	struct gw_send *send;
	struct gw_recv *recv;

	/* Handles are left to the end of the context: closing them is not what is counted. */
	return end == &ends[SENDER] ? gw_transfer_send(end->qp, scheme, &attr, &send)
				    : gw_transfer_recv(end->qp, scheme, &attr, &recv);
}

static void post(struct end *end)
{
	while (end->posted < MESSAGES && end->posted < end->ended + UNDER_WAY) {
		uint8_t *addr = end->memory + (size_t)(end->posted % UNDER_WAY) * MESSAGE;

		must(running->channel ? post_on_channel(end, addr) : post_bare(end, addr), "post");
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

/* A turn of the end whose clock is behind: as gw_wait(), which sleeps when there was nothing to do. */
static void take_turn(void)
{
	int which = kernel_run_next();
	struct end *end = &ends[which];

	if (end->asleep && !kernel_sleep(context_deadline_ns(end->ctx)))
		return;
	end->asleep = !gw_progress(end->ctx);
	kernel_calls[which].sleeps += end->asleep;
	post(end);
	kernel_pass(TURN_NS);
}

/* Until both ends have ended so many messages. */
static void run_until(unsigned messages)
{
	for (int turns = 0; ends[SENDER].ended < messages || ends[RECEIVER].ended < messages;
	     turns++) {
		must(turns == TURNS_MOST, "it has stopped");
		take_turn();
	}
}

static void print_calls(const char *name, const struct kernel_calls *before,
			const struct kernel_calls *after)
{
	printf(", \"%s\": {\"sends\": %lu, \"control\": %lu, \"reads\": %lu, \"sleeps\": %lu}",
	       name, after->sends - before->sends, after->control - before->control,
	       after->reads - before->reads, after->sleeps - before->sleeps);
}

static void run(const struct run_case *c)
{
	struct kernel_calls before[2];

	running = c;
	kernel_reset();
	kernel_mtu = c->mtu;
	for (int i = 0; i < 2; i++)
		open_end(&ends[i]);
	connect_ends();
	for (int i = 0; i < 2; i++)
		post(&ends[i]);
	run_until(SETTLING);
	memcpy(before, kernel_calls, sizeof(before));
	run_until(MESSAGES);
	printf("{\"case\": \"%s\", \"messages\": %u", c->name, COUNTED);
	print_calls("sender", &before[SENDER], &kernel_calls[SENDER]);
	print_calls("receiver", &before[RECEIVER], &kernel_calls[RECEIVER]);
	printf("}\n");
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * godwit perf: bandwidth and latency between two hosts. The client goes through the sizes; the server does as it is
 * told, within its means, and each prints what both found.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/meet.h"
#include "measure.h"
#include "options.h"
#include "print.h"
#include "tools/control.h"
#include "tools/progress.h"
#include "tools/report.h"
#include "tools/session.h"

/* One test: all sizes with one peer. */
struct perf {
	struct perf_options options;
	struct report report;
	struct perf_talk talk;
	struct gw_context *ctx;
	struct perf_plan ctx_plan; /* that it was opened for */
	struct perf_bench bench;
	struct progress progress;
	bool client;
	bool headed; /* the table has its head */
	json_t *rows;
};

/* A plan as it came, to be decoded when there is someone to refuse. */
struct raw_plan {
	uint8_t body[PROTOCOL_BODY_MAX];
	size_t length;
};

static void start(struct perf *perf, const char *command)
{
	perf->report.command = command;
	perf->talk = (struct perf_talk){ .connection = { .fd = -1 },
					 .report = &perf->report,
					 .options = &perf->options.common };
}

static void show(struct perf *perf, const struct perf_plan *plan,
		 const struct perf_measurement *what)
{
	if (perf->report.json) {
		json_array_append_new(perf->rows, perf_json_row(plan, perf->client, what));
		return;
	}
	if (perf->report.quiet)
		return;
	if (!perf->headed)
		perf_print_head(plan, perf->report.peer, what->icrc);
	perf->headed = true;
	perf_print_row(plan, perf->client, what);
}

/* The bench is open and the peer has agreed. */
static int measure(struct perf *perf, const struct perf_plan *plan)
{
	struct perf_measurement what;
	int rc;

	if (!perf->rows) {
		perf->rows = json_array();
		json_object_update_new(perf->report.body, perf_json_plan(plan, perf->client));
		json_object_set(perf->report.body, "results", perf->rows);
	}
	progress_start(&perf->progress, perf->options.common.quiet, 0, rendezvous_now());
	rc = perf_measure(&perf->bench, &perf->talk, &perf->progress, &what);
	if (rc)
		return rc;
	json_object_set_new(perf->report.body, "icrc", json_boolean(what.icrc));
	show(perf, plan, &what);
	return 0;
}

/* All sizes have as many queue pairs and travel in the same way, so that one context does for them. */
static int open_bench(struct perf *perf, const struct perf_plan *plan)
{
	const struct perf_plan *first = &perf->ctx_plan;
	int rc = 0;

	if (!perf->ctx)
		rc = perf_context_open(&perf->report, &perf->options.common,
				       perf->talk.connection.local, plan,
				       perf->options.memory_bytes, &perf->ctx);
	else if (plan->qps > first->qps)
		rc = report_fail(&perf->report, -EPROTO, "%s asks for more queue pairs than before",
				 perf->report.peer);
	else if (plan->lanes != first->lanes || plan->traffic_class != first->traffic_class ||
		 plan->skip_icrc != first->skip_icrc)
		rc = report_fail(&perf->report, -EPROTO, "%s wants packets other than before",
				 perf->report.peer);
	if (rc)
		return rc;
	if (!first->qps)
		perf->ctx_plan = *plan;
	return perf_bench_open(&perf->bench, &perf->report, &perf->options.common, plan,
			       perf->client, perf->ctx);
}

static int run_size(struct perf *perf, uint64_t size)
{
	struct perf_plan plan = perf_options_plan(&perf->options, size);
	uint8_t encoded[PERF_PLAN_BYTES];
	int rc;

	rc = open_bench(perf, &plan);
	if (rc)
		return rc;
	perf_plan_encode(&plan, encoded);
	rc = perf_talk_say(&perf->talk, PROTOCOL_KIND_PERF_PLAN, encoded, sizeof(encoded));
	if (rc == 0)
		rc = perf_talk_hear_kind(&perf->talk, PROTOCOL_KIND_ACCEPT);
	if (rc == 0)
		rc = measure(perf, &plan);
	if (rc)
		perf_talk_give_up(&perf->talk);
	perf_bench_close(&perf->bench);
	return rc;
}

static int run_client(struct perf *perf)
{
	int rc;

	snprintf(perf->report.peer, sizeof(perf->report.peer), "%s", perf->options.common.host);
	rc = rendezvous_connect(&perf->report, &perf->options.common, &perf->talk.connection);
	for (unsigned i = 0; rc == 0 && i < perf->options.size_count; i++)
		rc = run_size(perf, perf->options.sizes[i]);
	if (rc == 0)
		rc = perf_talk_say(&perf->talk, PROTOCOL_KIND_PERF_END, "", 0);
	return rc;
}

static int keep_plan(const uint8_t *body, size_t length, void *out)
{
	struct raw_plan *raw = out;

	memcpy(raw->body, body, length);
	raw->length = length;
	return 0;
}

static int serve_size(struct perf *perf, const struct raw_plan *raw)
{
	struct perf_plan plan;
	char why[PERF_WHY];
	int rc;

	rc = perf_plan_decode(raw->body, raw->length, &plan, why);
	if (rc == 0)
		rc = perf_plan_check(&plan, perf->options.memory_bytes, why);
	if (rc)
		return report_fail(&perf->report, rc, "cannot measure what %s asks for: %s",
				   perf->report.peer, why);
	rc = open_bench(perf, &plan);
	if (rc)
		return rc;
	rc = perf_talk_say(&perf->talk, PROTOCOL_KIND_ACCEPT, "", 0);
	return rc ? rc : measure(perf, &plan);
}

/* All sizes of one client. */
static int serve(struct perf *perf, int listener)
{
	struct raw_plan raw;
	int rc;

	rc = meet_caller(&perf->report, &perf->options.common, listener, PROTOCOL_KIND_PERF_PLAN,
			 keep_plan, &raw, &perf->talk.connection);
	/* One test, one client: whoever else is waiting is told so by the reset. */
	if (!perf->options.keep)
		close(listener);
	if (rc)
		return rc;
	snprintf(perf->report.peer, sizeof(perf->report.peer), "%s", perf->talk.connection.remote);
	for (;;) {
		rc = serve_size(perf, &raw);
		if (rc)
			perf_talk_give_up(&perf->talk);
		perf_bench_close(&perf->bench);
		if (rc == 0)
			rc = perf_talk_hear(&perf->talk);
		if (rc || perf->talk.header.kind == PROTOCOL_KIND_PERF_END)
			return rc;
		if (perf->talk.header.kind != PROTOCOL_KIND_PERF_PLAN)
			return report_fail(&perf->report, -EPROTO,
					   "%s said something that makes no sense",
					   perf->report.peer);
		keep_plan(perf->talk.body, perf->talk.header.length, &raw);
	}
}

/* Prints and returns the exit status. */
static int finish(struct perf *perf, int rc)
{
	if (rc)
		session_explain_signal(&perf->report, rc);
	rendezvous_close(&perf->talk.connection);
	if (perf->ctx)
		gw_context_close(perf->ctx);
	json_decref(perf->rows);
	return report_finish(&perf->report);
}

static int run_server(struct perf *perf)
{
	const struct perf_options options = perf->options;
	const char *command = perf->report.command;
	int listener, status, rc;

	rc = meet_listen(&perf->report, &options.common, &listener);
	if (rc)
		return finish(perf, rc);
	for (;;) {
		rc = serve(perf, listener);
		status = finish(perf, rc);
		if (!options.keep || rc == -EINTR)
			return status;
		*perf = (struct perf){ .options = options };
		start(perf, command);
		perf->report.json = options.common.json;
		perf->report.quiet = options.common.quiet;
		perf->report.body = json_object();
	}
}

static int perf_run(int argc, char **argv)
{
	static struct perf perf;
	int rc;

	start(&perf, argv[0]);
	perf.report.body = json_object();
	rc = perf_options_parse(argc, argv, &perf.report, &perf.options);
	if (rc == 0)
		rc = session_prepare(&perf.report);
	if (rc)
		return finish(&perf, rc);
	perf.client = perf.options.common.host != NULL;
	if (!perf.client)
		return run_server(&perf);
	return finish(&perf, run_client(&perf));
}

const struct command command_perf = {
	.name = "perf",
	.summary = "measure bandwidth or latency between two hosts",
	.usage =
		"usage: godwit perf [OPTION ...]\n"
		"       godwit perf HOST [OPTION ...]\n"
		"\n"
		"Without HOST, waits for one test and takes part in it. With HOST, where such a `godwit perf`\n"
		"waits, runs the test. Both print what they found.\n"
		"\n"
		"of the client:\n"
		"  --test T        bw: bandwidth (default); lat: latency, half the round trip of a ping\n"
		"  --scheme S      sr: Selective Repeat (default); ec: erasure coding; auto: the better of both, by\n"
		"                  message; bounded: in time rather than whole; raw: nothing is repaired\n"
		"  --channel       over ordered channels, under congestion control, instead of bare queue pairs\n"
		"  --congestion C  under controller C: default, long-haul, swift, none (default on queue pairs)\n"
		"  --rate RATE     no faster than RATE, such as 800M, on each of them\n"
		"  --size SIZE     bytes in a message (default 1M, 64 for lat); LO..HI doubles; A,B,C lists\n"
		"  --count N       end after N messages on each queue pair\n"
		"  --duration S    end after S seconds (default 2; for lat 10,000 pings or 2 s)\n"
		"  --depth N       messages under way on each queue pair (default 16, or what fits)\n"
		"  --both          both directions at once\n"
		"  --qps N         as many queue pairs, all active (default 1)\n"
		"  --working-set SIZE  memory that the messages cycle through (default: depth times size)\n"
		"  --poll          poll without pause (default for lat)\n"
		"  --sleep         sleep until something happens (default for bw)\n" OPTIONS_USAGE_WIRE
		"  --verify        check every byte that arrives\n"
		"of the server:\n"
		"  --keep          go on after a test\n"
		"of both:\n"
		"  --icrc on|off   client: off measures without ICRC; server: on insists on it (default on)\n"
		"  --memory SIZE   the most that messages may take at this end (default 1G)\n"
		"  --bind ADDR     use this address of this host\n" OPTIONS_USAGE,
	.run = perf_run,
};

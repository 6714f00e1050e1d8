/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * godwit perf: bandwidth and latency between two hosts. The client decides what is measured, size by size; the server
 * takes part as far as its own limits allow. Both print the results of both.
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
#include "records.h"
#include "tools/progress.h"
#include "tools/report.h"
#include "tools/session.h"

/* One test: all sizes with one peer. */
struct perf {
	struct perf_options options;
	struct report report;
	struct control control;
	/* plan that the contexts were opened for */
	struct perf_plan ctx_plan;
	struct perf_team team;
	struct progress progress;
	struct perf_intervals intervals;
	bool client;
	/* the head of the table was printed */
	bool headed;
	json_t *rows;
};

/* A plan as it came: what follows it on the control connection takes its place there. */
struct raw_plan {
	uint8_t body[GW_RENDEZVOUS_MESSAGE_MAX];
	/* bytes in `body` */
	size_t length;
};

static void start(struct perf *perf, const char *command)
{
	perf->report.command = command;
	perf->control =
		(struct control){ .report = &perf->report, .options = &perf->options.common };
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

/* Lines for a person, entries for a program, nothing for one who wants it quiet. */
static void prepare_intervals(struct perf *perf)
{
	if (!perf->options.interval_ns || (perf->report.quiet && !perf->report.json))
		return;
	perf->intervals = (struct perf_intervals){ .every_ns = perf->options.interval_ns };
	if (!perf->report.json)
		return;
	perf->intervals.entries = json_array();
	json_object_set_new(perf->report.body, "intervals", perf->intervals.entries);
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
		prepare_intervals(perf);
	}
	progress_start(&perf->progress, perf->options.common.quiet, 0, session_now());
	rc = perf_measure(&perf->team, &perf->control, &perf->progress, &perf->intervals, &what);
	if (rc)
		return rc;
	json_object_set_new(perf->report.body, "icrc", json_boolean(what.icrc));
	show(perf, plan, &what);
	return 0;
}

/* The same contexts serve all sizes: they have the same number of queue pairs and the same kind of packets. */
static int open_bench(struct perf *perf, const struct perf_plan *plan)
{
	const struct perf_plan *first = &perf->ctx_plan;
	int rc = 0;

	if (!perf->team.ctx)
		rc = perf_team_start(&perf->team, &perf->report, &perf->options.common,
				     gw_rendezvous_local(perf->control.rendezvous), plan,
				     perf->options.memory_bytes);
	else if (plan->qps > first->qps)
		rc = report_fail(&perf->report, -EPROTO, "%s asks for more queue pairs than before",
				 perf->report.peer);
	else if (plan->threads != first->threads)
		rc = report_fail(&perf->report, -EPROTO, "%s asks for other threads than before",
				 perf->report.peer);
	else if (plan->lanes != first->lanes || plan->traffic_class != first->traffic_class ||
		 plan->skip_icrc != first->skip_icrc)
		rc = report_fail(&perf->report, -EPROTO, "%s wants packets other than before",
				 perf->report.peer);
	if (rc)
		return rc;
	if (!first->qps)
		perf->ctx_plan = *plan;
	return perf_team_open(&perf->team, &perf->report, &perf->options.common, plan, perf->client,
			      perf->control.rendezvous);
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
	rc = control_send(&perf->control, PERF_KIND_PLAN, encoded, sizeof(encoded));
	if (rc == 0)
		rc = perf_expect(&perf->control, PERF_KIND_ACCEPT);
	if (rc == 0)
		rc = measure(perf, &plan);
	if (rc)
		control_give_up(&perf->control);
	perf_team_close(&perf->team);
	return rc;
}

static int run_client(struct perf *perf)
{
	int rc;

	snprintf(perf->report.peer, sizeof(perf->report.peer), "%s", perf->options.common.host);
	rc = meet_connect(&perf->report, &perf->options.common, &perf->control.rendezvous);
	for (unsigned i = 0; rc == 0 && i < perf->options.size_count; i++)
		rc = run_size(perf, perf->options.sizes[i]);
	if (rc == 0)
		rc = control_send(&perf->control, PERF_KIND_END, "", 0);
	if (rc == 0)
		control_part(&perf->control);
	return rc;
}

/* -errno and a sentence in `why` of a plan that makes no sense or asks for more than this end gives. */
static int read_plan(const struct perf *perf, const struct raw_plan *raw, struct perf_plan *out,
		     char why[PERF_WHY])
{
	int rc = perf_plan_decode(raw->body, raw->length, out, why);

	return rc ? rc : perf_plan_check(out, perf->options.memory_bytes, why);
}

static int serve_size(struct perf *perf, const struct raw_plan *raw)
{
	struct perf_plan plan;
	char why[PERF_WHY];
	int rc;

	rc = read_plan(perf, raw, &plan, why);
	if (rc)
		return report_fail(&perf->report, rc, "cannot measure what %s asks for: %s",
				   perf->report.peer, why);
	rc = open_bench(perf, &plan);
	if (rc)
		return rc;
	rc = control_send(&perf->control, PERF_KIND_ACCEPT, "", 0);
	return rc ? rc : measure(perf, &plan);
}

/* -EAGAIN: the first message of the client is not a plan that can be measured, and it was told so. */
static int check_first(struct perf *perf, struct gw_rendezvous_listener *listener)
{
	struct control *control = &perf->control;
	struct raw_plan raw;
	struct perf_plan plan;
	char why[PERF_WHY] = "it makes no sense", line[PERF_WHY + 64];
	int rc = perf_recv(control);

	if (rc == -EINTR)
		return rc;
	if (rc == 0 && control->kind == PERF_KIND_PLAN) {
		raw.length = control->length;
		memcpy(raw.body, control->body, raw.length);
		rc = read_plan(perf, &raw, &plan, why);
	} else {
		rc = -EPROTO;
	}
	/* It is read once more, in its turn. */
	control->pending = rc == 0;
	if (rc == 0)
		return 0;
	perf->report.error[0] = '\0';
	snprintf(line, sizeof(line), "cannot measure what it asks for: %s", why);
	meet_refuse(&perf->report, listener, &control->rendezvous, line, line);
	return -EAGAIN;
}

/* All sizes of one client. */
static int serve(struct perf *perf, struct gw_rendezvous_listener **listener)
{
	struct control *control = &perf->control;
	struct raw_plan raw;
	int rc;

	do {
		rc = meet_accept(&perf->report, *listener, &control->rendezvous);
		if (rc == 0)
			rc = check_first(perf, *listener);
	} while (rc == -EAGAIN);
	/* One test, one client: the others that wait are told so by a reset. */
	if (!perf->options.keep) {
		gw_rendezvous_listener_close(*listener);
		*listener = NULL;
	}
	if (rc)
		return rc;
	snprintf(perf->report.peer, sizeof(perf->report.peer), "%s",
		 gw_rendezvous_remote(control->rendezvous));
	for (;;) {
		rc = perf_recv(control);
		if (rc || control->kind == PERF_KIND_END)
			return rc;
		raw.length = control->length;
		memcpy(raw.body, control->body, raw.length);
		rc = control->kind == PERF_KIND_PLAN ? serve_size(perf, &raw)
						     : control_explain_nonsense(control);
		if (rc)
			control_give_up(control);
		perf_team_close(&perf->team);
		if (rc)
			return rc;
	}
}

/* Prints and returns the exit status. */
static int finish(struct perf *perf, int rc)
{
	if (rc)
		session_explain_signal(&perf->report, rc);
	gw_rendezvous_close(perf->control.rendezvous);
	perf->control.rendezvous = NULL;
	perf_team_end(&perf->team);
	json_decref(perf->rows);
	return report_finish(&perf->report);
}

static int run_server(struct perf *perf)
{
	const struct perf_options options = perf->options;
	const char *command = perf->report.command;
	struct gw_rendezvous_listener *listener;
	int status, rc;

	rc = meet_listen(&perf->report, &options.common, &listener);
	if (rc)
		return finish(perf, rc);
	for (;;) {
		rc = serve(perf, &listener);
		status = finish(perf, rc);
		if (!options.keep || rc == -EINTR)
			break;
		*perf = (struct perf){ .options = options };
		start(perf, command);
		perf->report.json = options.common.json;
		perf->report.quiet = options.common.quiet;
		perf->report.body = json_object();
	}
	gw_rendezvous_listener_close(listener);
	return status;
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
		"waits, runs the test. Both print what they found. iperf3's letters -c HOST, -s, -p, -t, -b, -l, -P, -R,\n"
		"-i, -J, -n, -B, -C, -S and -1 are understood.\n"
		"\n"
		"of the client:\n"
		"  --test T        bw: bandwidth (default); lat: latency, half the round trip of a ping\n"
		"  --scheme S      auto: what a channel chooses by message, sr or ec (default; with --bare: sr); sr: Selective\n"
		"                  Repeat; ec: erasure coding; bounded: in time rather than whole; raw: nothing is repaired\n"
		"  --channel       over ordered channels, as applications have them, under congestion control (default)\n"
		"  --bare          over bare queue pairs instead (default for --scheme bounded and raw)\n"
		"  --congestion C  under controller C: default, long-haul, swift, none (default on queue pairs)\n"
		"  --rate RATE     no faster than RATE on each of them: 800M, 1Gbit; -b\n"
		"  --size SIZE     bytes in a message (default 1M, 64 for lat); LO..HI doubles; A,B,C lists; -l\n"
		"  --count N       end after N messages on each channel\n"
		"  --bytes SIZE    end after as many messages as SIZE takes, over all channels; -n\n"
		"  --duration T    end after T: 5s, 500ms (default 2s; for lat 10,000 pings or 2s); -t\n"
		"  --depth N       messages under way on each channel (default 16, or what fits)\n"
		"  --both          both directions at once\n"
		"  --reverse       the server sends and the client receives; -R\n"
		"  --qps N         as many channels or queue pairs, all active (default one a thread); -P\n"
		"  --threads N     share them out among N threads at either end, each with a context (default 1)\n"
		"  --working-set SIZE  memory that the messages cycle through (default: depth times size)\n"
		"  --poll          poll without pause (default for lat)\n"
		"  --sleep         sleep until something happens (default for bw)\n" OPTIONS_USAGE_WIRE
		"  --verify        check every byte that arrives\n"
		"of the server:\n"
		"  --keep          go on after a test; -s does too, -s -1 does not\n" OPTIONS_USAGE_FROM
		"of both:\n"
		"  --interval T    tell every T what has moved: 1s, 500ms; -i\n"
		"  --icrc on|off   client: off measures without ICRC; server: on insists on it (default on)\n"
		"  --memory SIZE   the most that messages may take at this end (default 1G)\n"
		"  --bind ADDR     use this address of this host\n" OPTIONS_USAGE_SEAL
			OPTIONS_USAGE,
	.run = perf_run,
};

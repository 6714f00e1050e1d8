/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A receiver measures from the moment at which it tells the sender to start until its last byte has arrived. So half a
 * round trip and the sender's start-up time make the result worse, never better.
 */
#include "measure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/interrupt.h"
#include "flow.h"
#include "scheme.h"
#include "tools/report.h"
#include "tools/session.h"
#include "tools/text.h"

#define NAP_NS	 UINT64_C(50000000)
#define WATCH_NS UINT64_C(50000000)

static int send_flows(struct perf_team *team, struct control *control)
{
	uint32_t threads = team->plan.threads;
	uint8_t info[PERF_INFO_MAX];
	size_t length;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < team->plan.qps; i++) {
		struct perf_bench *bench = perf_team_enter(team, i % threads);

		rc = perf_flow_info(&bench->flows[i / threads], info, &length);
		perf_team_leave(team, i % threads);
		if (rc)
			return report_fail(control->report, rc, "cannot describe queue pair %u: %s",
					   i, strerror(-rc));
		rc = control_send(control, PERF_KIND_QP, info, length);
	}
	return rc;
}

static int recv_flows(struct perf_team *team, struct control *control)
{
	uint32_t threads = team->plan.threads;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < team->plan.qps; i++) {
		struct perf_bench *bench;

		rc = perf_expect(control, PERF_KIND_QP);
		if (rc)
			return rc;
		bench = perf_team_enter(team, i % threads);
		rc = perf_flow_connect(&bench->flows[i / threads], control->body, control->length);
		perf_team_leave(team, i % threads);
		if (rc == -EPROTO)
			return report_fail(control->report, -EPROTO,
					   "%s described a queue pair in a way that makes no sense",
					   control->report->peer);
		if (rc)
			return session_explain_connect(control->report, control->report->peer, rc);
	}
	return rc;
}

static int explain_post(const struct perf_team *team, struct control *control, int error)
{
	char size[TEXT_SIZE];

	if (error == -EMSGSIZE)
		return report_fail(control->report, error,
				   "a message of %s has more packets than can be counted",
				   text_bytes(team->plan.size, size));
	return report_fail(control->report, error, "cannot post receives: %s", strerror(-error));
}

static int stock(struct perf_bench *bench, void *arg)
{
	(void)arg;
	return perf_bench_stock(bench);
}

/* The server has receives posted before the client can send. */
static int connect_all(struct perf_team *team, struct control *control)
{
	bool client = team->benches[0].client;
	int rc = 0;

	if (client)
		rc = send_flows(team, control);
	if (rc == 0)
		rc = recv_flows(team, control);
	if (rc)
		return rc;
	rc = perf_team_each(team, stock, NULL);
	if (rc)
		return explain_post(team, control, rc);
	return client ? 0 : send_flows(team, control);
}

/* What all threads have moved so far, and how many of their flows have not sent everything. */
struct moved {
	uint64_t bytes;
	uint64_t messages;
	uint64_t packets;
	uint32_t flows_sending;
};

static int add_moved(struct perf_bench *bench, void *arg)
{
	struct moved *moved = arg;
	uint64_t value;
	const char *name;

	moved->bytes += bench->phase.bytes;
	for (uint32_t i = 0; !bench->receives && i < bench->plan.qps; i++)
		moved->bytes += bench->flows[i].delivered * bench->plan.size;
	moved->messages += bench->phase.messages;
	moved->flows_sending += bench->phase.flows_sending;
	for (unsigned i = 0; (name = gw_counter_name(i)); i++) {
		if ((strcmp(name, "sent_packets") == 0 || strcmp(name, "landed_packets") == 0) &&
		    gw_counter_read(bench->ctx, i, &value) == 0)
			moved->packets += value;
	}
	return 0;
}

static void show(const struct perf_team *team, const struct moved *moved, struct progress *progress,
		 uint64_t now)
{
	const struct perf_phase *phase = &team->benches[0].phase;
	char line[4 * TEXT_SIZE], size[TEXT_SIZE], rate[TEXT_SIZE];
	double seconds = session_seconds(now - phase->started_ns);

	if (!progress_due(progress, now))
		return;
	text_bytes(team->plan.size, size);
	if (!phase->measured)
		snprintf(line, sizeof(line), "%s: warming up", size);
	else if (team->plan.test == PERF_LATENCY)
		snprintf(line, sizeof(line), "%s: %llu messages", size,
			 (unsigned long long)moved->messages);
	else
		snprintf(line, sizeof(line), "%s: %s", size,
			 text_rate(seconds > 0 ? (double)moved->bytes * 8 / seconds : 0, rate));
	progress_note(progress, line, now);
}

static int peer_sent(struct perf_bench *bench, void *arg)
{
	const uint64_t *now = arg;

	perf_bench_peer_sent(bench, *now);
	return 0;
}

/* Reads what the peer has sent on the control connection; under a scheme that repairs nothing, tells it when all was sent. */
static int watch(struct perf_team *team, const struct moved *moved, struct control *control,
		 uint64_t now, bool *told)
{
	int rc = control_poll(control);

	if (rc == 0 && control->pending && control->kind == PERF_KIND_SENT) {
		control->pending = false;
		perf_team_each(team, peer_sent, &now);
	}
	if (rc || *told || team->plan.scheme->exact || moved->flows_sending)
		return rc;
	*told = true;
	return control_send(control, PERF_KIND_SENT, "", 0);
}

/* What was last seen to move, to notice that nothing does. */
struct motion {
	/* data packets sent and received since the context was opened */
	uint64_t packets;
	/* that number at the start of the phase */
	uint64_t first;
	/* time at which that number last changed */
	uint64_t at_ns;
};

/* A flow that has not finished, in words. */
struct unfinished {
	char *text;
	size_t size;
};

/* Describes the first of the bench, if there is one. Returns 1 then. */
static int explain_flow(struct perf_bench *bench, void *arg)
{
	const struct unfinished *out = arg;

	for (uint32_t i = 0; i < bench->plan.qps; i++) {
		const struct perf_flow *flow = &bench->flows[i];
		char why[384];

		if (!flow->channel || (bench->sends && flow->send_finished))
			continue;
		if (gw_channel_explain(flow->channel, why, sizeof(why)) > 0)
			snprintf(out->text, out->size, "channel %u %s", flow->number, why);
		return 1;
	}
	return 0;
}

/* Fails if the peer is there but no data packet was sent or received for --timeout: a part of the messages waits for ever,
 * for room that others hold. The first packet may take longer: the peer sends it when our GO has come, by TCP. */
static int check_motion(struct perf_team *team, uint64_t packets, struct control *control,
			struct motion *motion, uint64_t now)
{
	uint64_t limit_ns = control->options->timeout_ns;
	char text[448] = "some messages do not end";

	if (!motion->at_ns)
		*motion = (struct motion){ packets, packets, now };
	if (packets != motion->packets)
		*motion = (struct motion){ packets, motion->first, now };
	if (packets == motion->first)
		limit_ns = control_patience_ns(control);
	if (now - motion->at_ns < limit_ns)
		return 0;
	perf_team_each(team, explain_flow, &(struct unfinished){ text, sizeof(text) });
	return report_fail(control->report, -ETIMEDOUT, "nothing has moved for %g s: %s",
			   session_seconds(limit_ns), text);
}

struct failure {
	/* first error of any thread, or status with which its peer was lost; 0: none */
	int error;
	char why[PERF_WHY];
};

static int find_failure(struct perf_bench *bench, void *arg)
{
	struct failure *failure = arg;

	failure->error = bench->gone ? bench->gone : bench->error;
	memcpy(failure->why, bench->why, sizeof(failure->why));
	return failure->error;
}

/* Explains why a thread failed, if one has. */
static int explain_failure(struct perf_team *team, struct control *control)
{
	struct failure failure = { 0 };

	perf_team_each(team, find_failure, &failure);
	if (failure.why[0] != '\0')
		return report_fail(control->report, failure.error, "%s", failure.why);
	return failure.error ? control_explain_loss(control, failure.error) : 0;
}

/* Makes progress until every message of the phase has ended. */
static int run(struct perf_team *team, struct control *control, struct progress *progress,
	       struct perf_intervals *intervals)
{
	struct perf_bench *first = &team->benches[0];
	struct motion motion = { 0 };
	uint64_t watched_ns = 0;
	bool told = !first->sends;

	while (perf_team_state(team) == PERF_RUNNING) {
		struct moved moved = { 0 };
		uint64_t now;
		int rc;

		perf_bench_turn(first, NAP_NS);
		now = gw_now_ns(first->ctx);
		if (interrupt_signal())
			return -EINTR;
		if (perf_team_state(team) == PERF_FAILED)
			break;
		if (first->phase.measured && perf_intervals_due(intervals, now)) {
			progress_clear(progress);
			perf_intervals_report(intervals, team, now);
		}
		if (now - watched_ns < WATCH_NS)
			continue;
		watched_ns = now;
		perf_team_each(team, add_moved, &moved);
		rc = watch(team, &moved, control, now, &told);
		if (rc == 0)
			rc = check_motion(team, moved.packets, control, &motion, now);
		if (rc)
			return rc;
		show(team, &moved, progress, now);
	}
	if (!told && !team->plan.scheme->exact && perf_team_state(team) == PERF_OVER)
		return control_send(control, PERF_KIND_SENT, "", 0);
	return explain_failure(team, control);
}

static int begin_phase(struct perf_bench *bench, void *arg)
{
	const bool *measured = arg;

	perf_bench_phase(bench, *measured, gw_now_ns(bench->ctx));
	return 0;
}

static int go(struct perf_bench *bench, void *arg)
{
	(void)arg;
	perf_bench_go(bench, gw_now_ns(bench->ctx));
	return 0;
}

static int run_phase(struct perf_team *team, struct control *control, struct progress *progress,
		     struct perf_intervals *intervals, bool measured, struct perf_mark *mark)
{
	int rc;

	rc = control_send(control, PERF_KIND_READY, "", 0);
	if (rc == 0)
		rc = perf_expect(control, PERF_KIND_READY);
	if (rc)
		return rc;
	perf_mark_take(team, mark);
	perf_team_each(team, begin_phase, &measured);
	rc = control_send(control, PERF_KIND_GO, "", 0);
	if (rc == 0)
		rc = perf_expect(control, PERF_KIND_GO);
	if (rc)
		return rc;
	if (measured) {
		progress_clear(progress);
		perf_intervals_begin(intervals, team);
	}
	perf_team_each(team, go, NULL);
	rc = run(team, control, progress, intervals);
	if (rc == 0 && measured)
		perf_intervals_end(intervals, team, gw_now_ns(team->ctx));
	return rc;
}

static int send_result(struct control *control, const struct perf_result *here)
{
	uint8_t bytes[PERF_COUNTER_BYTES + PERF_RESULT_BYTES];
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < here->counter_count; i++) {
		perf_counter_encode(&here->counters[i], bytes);
		rc = control_send(control, PERF_KIND_COUNTER, bytes, PERF_COUNTER_BYTES);
	}
	for (uint32_t i = 0; rc == 0 && here->threads > 1 && i < here->threads; i++) {
		perf_share_encode(&here->shares[i], bytes);
		rc = control_send(control, PERF_KIND_SHARE, bytes, PERF_SHARE_BYTES);
	}
	if (rc)
		return rc;
	perf_result_encode(here, bytes);
	return control_send(control, PERF_KIND_RESULT, bytes, PERF_RESULT_BYTES);
}

/* Takes a counter or a share. Returns 0 or -EPROTO. */
static int take_part(const struct control *control, struct perf_result *there)
{
	int rc = -EPROTO;

	if (control->kind == PERF_KIND_COUNTER && there->counter_count < PERF_COUNTERS_MAX) {
		rc = perf_counter_decode(control->body, control->length,
					 &there->counters[there->counter_count]);
		there->counter_count++;
	} else if (control->kind == PERF_KIND_SHARE && there->threads < PERF_THREADS_MAX) {
		rc = perf_share_decode(control->body, control->length,
				       &there->shares[there->threads]);
		there->threads++;
	}
	return rc;
}

static int trade_results(struct control *control, struct perf_measurement *out)
{
	int rc = send_result(control, &out->here);

	out->there = (struct perf_result){ 0 };
	while (rc == 0) {
		rc = perf_recv(control);
		if (rc)
			break;
		if (control->kind == PERF_KIND_RESULT &&
		    perf_result_decode(control->body, control->length, &out->there) == 0)
			return 0;
		if (take_part(control, &out->there))
			return report_fail(control->report, -EPROTO,
					   "%s sent a result that makes no sense",
					   control->report->peer);
	}
	return rc;
}

int perf_measure(struct perf_team *team, struct control *control, struct progress *progress,
		 struct perf_intervals *intervals, struct perf_measurement *out)
{
	struct perf_mark mark;
	int rc;

	control->ctx = team->ctx;
	rc = connect_all(team, control);
	/* From now on a channel notices when the peer is gone. */
	if (rc == 0 && team->plan.channel)
		control->gone = &team->benches[0].gone;
	if (rc == 0)
		rc = run_phase(team, control, progress, intervals, false, &mark);
	if (rc == 0)
		rc = run_phase(team, control, progress, intervals, true, &mark);
	if (rc == 0 && perf_result_take(team, &mark, &out->here))
		rc = report_fail(control->report, -ENOMEM, "no memory for samples");
	/* An end that has both results closes its context, and its result may still be on its way by TCP. */
	control->gone = NULL;
	if (rc == 0) {
		out->icrc = session_icrc(team->ctx);
		rc = trade_results(control, out);
	}
	control->ctx = NULL;
	progress_clear(progress);
	return rc;
}

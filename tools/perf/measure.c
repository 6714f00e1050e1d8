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

static int send_flows(struct perf_bench *bench, struct control *control)
{
	uint8_t info[PERF_INFO_MAX];
	size_t length;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < bench->plan.qps; i++) {
		rc = perf_flow_info(&bench->flows[i], info, &length);
		if (rc)
			return report_fail(control->report, rc, "cannot describe queue pair %u: %s",
					   i, strerror(-rc));
		rc = control_send(control, PERF_KIND_QP, info, length);
	}
	return rc;
}

static int recv_flows(struct perf_bench *bench, struct control *control)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < bench->plan.qps; i++) {
		rc = perf_expect(control, PERF_KIND_QP);
		if (rc)
			return rc;
		rc = perf_flow_connect(&bench->flows[i], control->body, control->length);
		if (rc == -EPROTO)
			return report_fail(control->report, -EPROTO,
					   "%s described a queue pair in a way that makes no sense",
					   control->report->peer);
		if (rc)
			return session_explain_connect(control->report, control->report->peer, rc);
	}
	return rc;
}

static int explain_post(struct perf_bench *bench, struct control *control, int error)
{
	char size[TEXT_SIZE];

	if (error == -EMSGSIZE)
		return report_fail(control->report, error,
				   "a message of %s has more packets than can be counted",
				   text_bytes(bench->plan.size, size));
	return report_fail(control->report, error, "cannot post receives: %s", strerror(-error));
}

/* The server has receives posted before the client can send. */
static int connect_all(struct perf_bench *bench, struct control *control)
{
	int rc = 0;

	if (bench->client)
		rc = send_flows(bench, control);
	if (rc == 0)
		rc = recv_flows(bench, control);
	if (rc)
		return rc;
	rc = perf_bench_stock(bench);
	if (rc)
		return explain_post(bench, control, rc);
	return bench->client ? 0 : send_flows(bench, control);
}

static void show(const struct perf_bench *bench, struct progress *progress, uint64_t now)
{
	char line[4 * TEXT_SIZE], size[TEXT_SIZE], rate[TEXT_SIZE];
	double seconds = session_seconds(now - bench->phase.started_ns);
	uint64_t bytes = bench->phase.bytes;

	if (!progress_due(progress, now))
		return;
	if (!bench->receives) {
		for (uint32_t i = 0; i < bench->plan.qps; i++)
			bytes += bench->flows[i].delivered * bench->plan.size;
	}
	text_bytes(bench->plan.size, size);
	if (!bench->phase.measured)
		snprintf(line, sizeof(line), "%s: warming up", size);
	else if (bench->plan.test == PERF_LATENCY)
		snprintf(line, sizeof(line), "%s: %llu messages", size,
			 (unsigned long long)bench->phase.messages);
	else
		snprintf(line, sizeof(line), "%s: %s", size,
			 text_rate(seconds > 0 ? (double)bytes * 8 / seconds : 0, rate));
	progress_note(progress, line, now);
}

/* Reads what the peer has sent on the control connection; under a scheme that repairs nothing, tells it when all was sent. */
static int watch(struct perf_bench *bench, struct control *control, uint64_t now, bool *told)
{
	int rc = control_poll(control);

	if (rc == 0 && control->pending && control->kind == PERF_KIND_SENT) {
		control->pending = false;
		perf_bench_peer_sent(bench, now);
	}
	if (rc || *told || bench->plan.scheme->exact || bench->phase.flows_sending)
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

static uint64_t data_packets(const struct perf_bench *bench)
{
	uint64_t sum = 0, value;
	const char *name;

	for (unsigned i = 0; (name = gw_counter_name(i)); i++) {
		if ((strcmp(name, "sent_packets") == 0 || strcmp(name, "landed_packets") == 0) &&
		    gw_counter_read(bench->ctx, i, &value) == 0)
			sum += value;
	}
	return sum;
}

/* The first flow that has not finished, in words. */
static void explain_flow(const struct perf_bench *bench, char *text, size_t size)
{
	snprintf(text, size, "some messages do not end");
	for (uint32_t i = 0; i < bench->plan.qps; i++) {
		const struct perf_flow *flow = &bench->flows[i];
		char why[384];

		if (!flow->channel || (bench->sends && flow->send_finished))
			continue;
		if (gw_channel_explain(flow->channel, why, sizeof(why)) > 0)
			snprintf(text, size, "channel %u %s", i, why);
		return;
	}
}

/* Fails if the peer is there but no data packet was sent or received for --timeout: a part of the messages waits for ever,
 * for room that others hold. The first packet may take longer: the peer sends it when our GO has come, by TCP. */
static int check_motion(struct perf_bench *bench, struct control *control, struct motion *motion,
			uint64_t now)
{
	uint64_t packets = data_packets(bench), limit_ns = control->options->timeout_ns;
	char text[448];

	if (!motion->at_ns)
		*motion = (struct motion){ packets, packets, now };
	if (packets != motion->packets)
		*motion = (struct motion){ packets, motion->first, now };
	if (packets == motion->first)
		limit_ns = control_patience_ns(control);
	if (now - motion->at_ns < limit_ns)
		return 0;
	explain_flow(bench, text, sizeof(text));
	return report_fail(control->report, -ETIMEDOUT, "nothing has moved for %g s: %s",
			   session_seconds(limit_ns), text);
}

/* Makes progress until every message of the phase has ended. */
static int run(struct perf_bench *bench, struct control *control, struct progress *progress,
	       struct perf_intervals *intervals)
{
	struct motion motion = { 0 };
	uint64_t watched_ns = 0;
	bool told = !bench->sends;

	while (!perf_bench_idle(bench)) {
		uint64_t now;
		int rc;

		perf_bench_turn(bench, NAP_NS);
		now = gw_now_ns(bench->ctx);
		if (interrupt_signal())
			return -EINTR;
		if (bench->gone || bench->error)
			break;
		if (bench->phase.measured && perf_intervals_due(intervals, now)) {
			progress_clear(progress);
			perf_intervals_report(intervals, bench, now);
		}
		if (now - watched_ns < WATCH_NS)
			continue;
		watched_ns = now;
		rc = watch(bench, control, now, &told);
		if (rc == 0)
			rc = check_motion(bench, control, &motion, now);
		if (rc)
			return rc;
		show(bench, progress, now);
	}
	if (!told && !bench->plan.scheme->exact && perf_bench_idle(bench) && !bench->error)
		return control_send(control, PERF_KIND_SENT, "", 0);
	if (bench->why[0] != '\0')
		return report_fail(control->report, bench->error, "%s", bench->why);
	if (bench->gone || bench->error)
		return control_explain_loss(control, bench->gone ? bench->gone : bench->error);
	return 0;
}

static int run_phase(struct perf_bench *bench, struct control *control, struct progress *progress,
		     struct perf_intervals *intervals, bool measured, struct perf_mark *mark)
{
	int rc;

	rc = control_send(control, PERF_KIND_READY, "", 0);
	if (rc == 0)
		rc = perf_expect(control, PERF_KIND_READY);
	if (rc)
		return rc;
	perf_mark_take(bench, mark);
	perf_bench_phase(bench, measured, gw_now_ns(bench->ctx));
	rc = control_send(control, PERF_KIND_GO, "", 0);
	if (rc == 0)
		rc = perf_expect(control, PERF_KIND_GO);
	if (rc)
		return rc;
	if (measured) {
		progress_clear(progress);
		perf_intervals_begin(intervals, bench);
	}
	perf_bench_go(bench, gw_now_ns(bench->ctx));
	rc = run(bench, control, progress, intervals);
	if (rc == 0 && measured)
		perf_intervals_end(intervals, bench, gw_now_ns(bench->ctx));
	return rc;
}

static int trade_results(struct control *control, struct perf_measurement *out)
{
	uint8_t bytes[PERF_COUNTER_BYTES + PERF_RESULT_BYTES];
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < out->here.counter_count; i++) {
		perf_counter_encode(&out->here.counters[i], bytes);
		rc = control_send(control, PERF_KIND_COUNTER, bytes, PERF_COUNTER_BYTES);
	}
	if (rc)
		return rc;
	perf_result_encode(&out->here, bytes);
	rc = control_send(control, PERF_KIND_RESULT, bytes, PERF_RESULT_BYTES);
	out->there = (struct perf_result){ 0 };
	while (rc == 0) {
		struct perf_result *there = &out->there;

		rc = perf_recv(control);
		if (rc)
			break;
		if (control->kind == PERF_KIND_RESULT &&
		    perf_result_decode(control->body, control->length, there) == 0)
			return 0;
		if (control->kind != PERF_KIND_COUNTER ||
		    there->counter_count == PERF_COUNTERS_MAX ||
		    perf_counter_decode(control->body, control->length,
					&there->counters[there->counter_count]))
			return report_fail(control->report, -EPROTO,
					   "%s sent a result that makes no sense",
					   control->report->peer);
		there->counter_count++;
	}
	return rc;
}

int perf_measure(struct perf_bench *bench, struct control *control, struct progress *progress,
		 struct perf_intervals *intervals, struct perf_measurement *out)
{
	struct perf_mark mark;
	int rc;

	control->ctx = bench->ctx;
	rc = connect_all(bench, control);
	/* From now on a channel notices when the peer is gone. */
	if (rc == 0 && bench->plan.channel)
		control->gone = &bench->gone;
	if (rc == 0)
		rc = run_phase(bench, control, progress, intervals, false, &mark);
	if (rc == 0)
		rc = run_phase(bench, control, progress, intervals, true, &mark);
	if (rc == 0) {
		perf_result_take(bench, &mark, &out->here);
		out->icrc = session_icrc(bench->ctx);
		rc = trade_results(control, out);
	}
	control->ctx = NULL;
	control->gone = NULL;
	progress_clear(progress);
	return rc;
}

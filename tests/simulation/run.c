/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a scenario: opens its flows, lets its faults happen, and checks what is left at the end. The invariants are in run.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message/state.h"
#include "simulation/flow.h"
#include "simulation/run.h"
#include "wire/control.h"

/* Virtual time within which every request has to end. */
#define LIMIT_NS UINT64_C(900000000000)
/* Round trips of a far path that are added to it. */
#define FAR_ROUNDS 6000
/* Virtual time for packets to arrive after the last request has ended. */
#define SETTLE_NS UINT64_C(60000000000)
/* Packet arrivals above which a run is taken for an endless exchange of packets. */
#define EVENT_LIMIT UINT64_C(20000000)

void run_fail(struct run *run, const char *format, ...)
{
	va_list args;

	if (run->result->failed)
		return;
	run->result->failed = true;
	va_start(args, format);
	vsnprintf(run->result->why, sizeof(run->result->why), format, args);
	va_end(args);
}

void run_note(struct run *run, const char *format, ...)
{
	char *note = run->notes[run->noted++ % NOTES];
	va_list args;
	int used;

	used = snprintf(note, NOTE_LENGTH, "%14.6f ms  ",
			(double)(sim_now_ns(run->world.sim) - run->start_ns) / 1e6);
	va_start(args, format);
	vsnprintf(note + used, NOTE_LENGTH - (size_t)used, format, args);
	va_end(args);
}

static void print_notes(const struct run *run)
{
	uint32_t first = run->noted > NOTES ? run->noted - NOTES : 0;

	for (uint32_t i = first; i < run->noted; i++)
		fprintf(stderr, "%s\n", run->notes[i % NOTES]);
}

static void observer(void *arg, const struct sim_seen *seen)
{
	static const enum sight lost[] = {
		[CONTROL_ANNOUNCE] = SIGHT_ANNOUNCE_LOST, [CONTROL_GRANT] = SIGHT_GRANT_LOST,
		[CONTROL_REPORT] = SIGHT_REPORT_LOST,	  [CONTROL_NACK] = SIGHT_NACK_LOST,
		[CONTROL_CREDIT] = SIGHT_CREDIT_LOST,	  [CONTROL_PROBE] = SIGHT_PROBE_LOST,
		[CONTROL_CLOSE] = SIGHT_CLOSE_LOST,	  [CONTROL_SCHEME] = SIGHT_SCHEME_LOST,
		[CONTROL_SIZE] = SIGHT_SIZE_LOST,	  [CONTROL_DATA] = SIGHT_TOLD_LOST,
	};
	struct run *run = arg;

	switch (seen->what) {
	case SIM_LOST:
		/* Counts each message of the datagram; its type is the second byte. */
		for (uint32_t at = 0; seen->control && at < seen->length;
		     at += (uint32_t)control_first(seen->control + at, seen->length - at))
			run_saw(run, lost[seen->control[at + 1]]);
		if (!seen->control)
			run_saw(run, seen->again ? SIGHT_REPAIR_LOST : SIGHT_DATA_LOST);
		break;
	case SIM_LATE_LANDING:
		run_saw(run, SIGHT_LATE_LANDING);
		break;
	case SIM_LATE_FENCE:
		run_saw(run, SIGHT_LATE_FENCE);
		break;
	}
}

static void gone(struct gw_qp *qp, void *arg, int status, uint64_t now)
{
	struct run *run = arg;

	(void)now;
	if (status != -ETIMEDOUT && status != -ECONNRESET)
		run_fail(run, "a queue pair ended with %d", status);
	if (status == -ETIMEDOUT && !run->scenario->may_fail)
		run_fail(run, "a peer that is alive was declared dead");
	run_saw(run, status == -ETIMEDOUT ? SIGHT_PEER_SILENT : SIGHT_PEER_CLOSED);
	if (!list_empty(&qp->tx.flushing))
		run_saw(run, SIGHT_GONE_WHILE_READING);
	for (uint32_t i = 0; i < run->scenario->flow_count; i++) {
		if (run->flows[i].tx == qp)
			run->flows[i].tx_over = true;
		if (run->flows[i].rx == qp)
			run->flows[i].rx_over = true;
	}
}

static void note_death(struct run *run, uint32_t host)
{
	for (uint32_t i = 0; i < run->scenario->flow_count; i++) {
		struct flow *flow = &run->flows[i];

		if (flow->plan->to == host)
			flow_note_receiver_death(flow);
		if (flow->plan->from == host)
			flow_note_sender_death(flow);
	}
}

/* Closes a queue pair at one end, the sender's or the receiver's. */
static void close_pair(struct run *run, uint32_t which)
{
	uint32_t pair = which % (run->scenario->flow_count / 2);
	struct flow *flow = &run->flows[2 * pair];
	struct flow *back = &run->flows[2 * pair + 1];
	bool receiver = which >> 16 & 1;
	struct gw_qp **mine = receiver ? &flow->rx : &flow->tx;
	uint32_t host = receiver ? flow->plan->to : flow->plan->from;

	if (run->scenario->channels) {
		channels_close_one(run, pair, receiver);
		return;
	}
	if (!*mine || !run->world.hosts[host].ctx)
		return;
	run_saw(run, SIGHT_CLOSED_IN_THE_MIDDLE);
	gw_qp_close(*mine);
	*mine = NULL;
	if (receiver) {
		flow->rx_over = back->tx_over = true;
		back->tx = NULL;
	} else {
		flow->tx_over = back->rx_over = true;
		back->rx = NULL;
	}
	world_touch(&run->world, host);
}

static void strike(struct run *run, const struct misfortune *m)
{
	uint32_t host = m->which % run->world.host_count;

	switch (m->kind) {
	case PARTITION:
		run_saw(run, SIGHT_PARTITION);
		sim_link(run->world.sim, m->which % sim_links(run->world.sim))->down = true;
		break;
	case STALL:
		run_saw(run, SIGHT_PROCESS_STALLED);
		world_stall(&run->world, host, true);
		break;
	case DEATH:
		if (!run->world.hosts[host].ctx)
			return;
		if (run->scenario->channels) {
			channels_host_dies(run, host);
		} else {
			note_death(run, host);
			flows_host_dies(run, host);
		}
		world_kill(&run->world, host);
		break;
	case JUMP:
		run_saw(run, SIGHT_CLOCK_JUMPED);
		sim_jump(run->world.sim, host, m->for_ns);
		world_touch(&run->world, host);
		break;
	case CLOSE:
		close_pair(run, m->which);
		break;
	case MISFORTUNES:
		break;
	}
}

static void relieve(struct run *run, const struct misfortune *m)
{
	if (m->kind == PARTITION)
		sim_link(run->world.sim, m->which % sim_links(run->world.sim))->down = false;
	else if (m->kind == STALL)
		world_stall(&run->world, m->which % run->world.host_count, false);
}

/* Begins and ends the faults that are due. Returns when the next one is due. */
static uint64_t misfortunes(struct run *run, uint64_t start_ns)
{
	uint64_t now = sim_now_ns(run->world.sim);
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < run->scenario->misfortune_count; i++) {
		const struct misfortune *m = &run->scenario->misfortune[i];
		uint64_t at = start_ns + m->at_ns + (run->struck[i] ? m->for_ns : 0);

		if (run->relieved[i])
			continue;
		if (now >= at) {
			if (!run->struck[i]) {
				run->struck[i] = true;
				strike(run, m);
				at += m->for_ns;
			} else {
				run->relieved[i] = true;
				relieve(run, m);
				continue;
			}
		}
		next = at < next ? at : next;
	}
	return next;
}

/* When the path is to carry less; does so when the time has come. */
static uint64_t shrink(struct run *run, uint64_t start_ns)
{
	const struct scenario *s = run->scenario;

	if (!s->shrink_payload || run->shrunk)
		return UINT64_MAX;
	if (sim_now_ns(run->world.sim) < start_ns + s->shrink_ns)
		return start_ns + s->shrink_ns;
	run->shrunk = true;
	sim_path_payload(run->world.sim, s->shrink_payload);
	run_saw(run, SIGHT_PATH_SHRUNK);
	return UINT64_MAX;
}

static void count_sights(struct run *run)
{
	static const struct {
		const char *counter;
		enum sight sight;
	} map[] = {
		{ "grant_repeats", SIGHT_GRANT_REPEATED },
		{ "announce_repeats", SIGHT_ANNOUNCE_REPEATED },
		{ "result_repeats", SIGHT_RESULT_REPEATED },
		{ "rebuilt_packets", SIGHT_REBUILT },
		{ "drop_rkey", SIGHT_STALE_KEY },
		{ "drop_generation", SIGHT_STALE_GENERATION },
		{ "drop_slot", SIGHT_CLOSED_WINDOW },
		{ "late_packets", SIGHT_LATE_PACKET },
		{ "duplicate_packets", SIGHT_DUPLICATE },
		{ "drop_icrc", SIGHT_CORRUPT },
		{ "drop_overrun", SIGHT_OVERRUN },
		{ "window_stalls", SIGHT_STALL },
		{ "payload_cuts", SIGHT_PAYLOAD_CUT },
		{ "lanes_retired", SIGHT_LANE_RETIRED },
		{ "lanes_restored", SIGHT_LANE_RESTORED },
		{ "retransmitted_packets", SIGHT_RETRANSMITTED },
	};

	for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++) {
		unsigned counter = (unsigned)gw_counter_find(map[i].counter);

		for (uint32_t h = 0; h < run->world.host_count; h++) {
			uint64_t value = 0;

			gw_counter_read(run->world.hosts[h].ctx, counter, &value);
			run->result->sights[map[i].sight] += value;
		}
	}
}

static void check_claims(struct run *run)
{
	for (uint32_t h = 0; h < run->world.host_count; h++) {
		const struct gw_context *ctx = run->world.hosts[h].ctx;

		if (ctx && (ctx->counters[COUNT_DROP_CLAIM] || ctx->counters[COUNT_DROP_TOKEN] ||
			    ctx->counters[COUNT_DROP_CONTROL] || ctx->counters[COUNT_DROP_SHAPE]))
			run_fail(
				run,
				"host %u dropped valid control of its peer: claim %lu token %lu control %lu shape %lu",
				h, (unsigned long)ctx->counters[COUNT_DROP_CLAIM],
				(unsigned long)ctx->counters[COUNT_DROP_TOKEN],
				(unsigned long)ctx->counters[COUNT_DROP_CONTROL],
				(unsigned long)ctx->counters[COUNT_DROP_SHAPE]);
	}
}

static void check_memory(struct run *run)
{
	for (uint32_t h = 0; h < run->world.host_count; h++) {
		const struct gw_context *ctx = run->world.hosts[h].ctx;

		if (!ctx)
			continue;
		if (pool_used(&ctx->sends) || pool_used(&ctx->recvs) || pool_used(&ctx->grants) ||
		    pool_used(&ctx->puts) || pool_used(&ctx->qps) || pool_used(&ctx->mrs) ||
		    arena_used(&ctx->arena))
			run_fail(
				run,
				"host %u leaks: sends %u recvs %u grants %u puts %u qps %u mrs %u arena %zu",
				h, pool_used(&ctx->sends), pool_used(&ctx->recvs),
				pool_used(&ctx->grants), pool_used(&ctx->puts),
				pool_used(&ctx->qps), pool_used(&ctx->mrs),
				arena_used(&ctx->arena));
	}
}

static bool finished(const struct run *run)
{
	for (uint32_t i = 0; i < run->scenario->flow_count; i++)
		if (!flow_finished(&run->flows[i]))
			return false;
	return true;
}

static int open_flows(struct run *run)
{
	struct gw_qp_attr attr = run->scenario->qp;

	attr.handler = &run->qp_handler;
	attr.arg = run;
	for (uint32_t i = 0; i < run->scenario->flow_count; i += 2) {
		const struct flow_plan *plan = &run->scenario->flow[i];
		struct gw_qp *a, *b;
		int error;

		if (run->scenario->channels) {
			error = channels_open(run, i);
			if (error)
				return error;
			continue;
		}
		error = world_connect(&run->world, plan->from, plan->to, &attr, &attr, &a, &b);

		if (error)
			return error;
		error = flow_open(run, i, a, b);
		if (!error)
			error = flow_open(run, i + 1, b, a);
		if (error)
			return error;
	}
	return 0;
}

/* After every request has ended: closes what is open, lets packets under way arrive, and checks memory and counters. */
static void wind_up(struct run *run)
{
	uint64_t until;

	count_sights(run);
	check_claims(run);
	if (run->scenario->channels)
		channels_check(run);
	for (uint32_t i = 0; i < run->scenario->flow_count; i++)
		flow_close(&run->flows[i]);
	channels_close(run);
	for (uint32_t i = 0; i < run->scenario->flow_count; i += 2)
		flow_close_qps(&run->flows[i], &run->flows[i + 1]);
	for (uint32_t h = 0; h < run->world.host_count; h++)
		world_stall(&run->world, h, false);
	until = sim_now_ns(run->world.sim) + SETTLE_NS;
	while (world_step(&run->world, until))
		;
	for (uint32_t h = 0; h < run->world.host_count; h++)
		/* A poll gives the packets of the previous poll back. */
		if (run->world.hosts[h].ctx)
			gw_progress(run->world.hosts[h].ctx);
	for (uint32_t i = 0; i < run->scenario->flow_count; i++)
		flow_check_untouched(&run->flows[i]);
	check_memory(run);
	if (sim_packets(run->world.sim))
		run_fail(run, "%u packets are still under way", sim_packets(run->world.sim));
}

/* Nothing may take longer, in virtual time. A question, its answer and the retransmission that it asks for all have to get
 * through, and each takes a part of a round trip. The slots of a NIC rest after each part of a message. */
static uint64_t limit_ns(const struct run *run)
{
	double through = 1 - run->scenario->loss;

	return (uint64_t)((double)LIMIT_NS / (through * through * through)) +
	       FAR_ROUNDS * run->scenario->far_ns + run->rests_ns;
}

void scenario_run(const struct scenario *scenario, bool trace, struct run_result *out)
{
	struct gw_context_attr ctx = {
		.max_qps = 16, .max_sends = 512, .max_recvs = 512, .bitmap_bytes = 1 << 20
	};
	struct run *run = calloc(1, sizeof(*run));
	uint64_t start, limit, next = 0;

	if (!run) {
		*out = (struct run_result){ .failed = true, .why = "no memory" };
		return;
	}
	memset(out, 0, sizeof(*out));
	run->scenario = scenario;
	run->result = out;
	run->trace = trace;
	run->qp_handler.gone = gone;
	if (world_open(&run->world, &scenario->sim, &scenario->shape, &scenario->host, &ctx)) {
		run_fail(run, "the network cannot be opened");
		free(run);
		return;
	}
	sim_observe(run->world.sim, observer, run);
	start = run->start_ns = sim_now_ns(run->world.sim);
	if (open_flows(run))
		run_fail(run, "the flows cannot be opened");
	limit = start + limit_ns(run);
	while (!out->failed && !finished(run)) {
		if (sim_now_ns(run->world.sim) >= next) {
			uint64_t shrinks = shrink(run, start);

			next = misfortunes(run, start);
			next = next < shrinks ? next : shrinks;
		}
		if (!world_step(&run->world, next < limit ? next : limit) && next >= limit) {
			flows_explain(run);
			run_fail(run, "requests did not end in time: %s", run->explanation);
		}
		if (sim_events(run->world.sim) > EVENT_LIMIT)
			run_fail(run, "endless exchange of packets: %lu so far",
				 (unsigned long)sim_events(run->world.sim));
	}
	if (!out->failed)
		wind_up(run);
	if (trace && out->failed)
		print_notes(run);
	out->hash = sim_hash(run->world.sim);
	out->events = sim_events(run->world.sim);
	out->virtual_ns = sim_now_ns(run->world.sim) - start;
	world_close(&run->world);
	flows_free(run);
	free(run);
}

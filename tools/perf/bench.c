/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posts messages, handles their completions, and decides when a phase is over.
 *
 * A flow has finished sending when its last message was posted and no send is open. It has finished receiving when the
 * message marked as the last, and all before it, have arrived: a loss may delay any of them. No end starts a new phase
 * before both have finished, so a message always belongs to the phase in which it arrives.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "flow.h"
#include "pattern.h"
#include "scheme.h"

#define WARM_SHARE	   10		       /* a tenth of the measurement, */
#define WARM_LIMIT_NS	   UINT64_C(200000000) /* and no more than this */
#define TURNS_WHEN_POLLING 256
#define IDLE_NAP_NS	   UINT64_C(1000000)

static void fail(struct perf_bench *bench, int error)
{
	if (!bench->error)
		bench->error = error;
	perf_bench_settle(bench);
}

void perf_bench_settle(struct perf_bench *bench)
{
	enum perf_state state = PERF_RUNNING;

	if (bench->error || bench->gone)
		state = PERF_FAILED;
	else if (perf_bench_idle(bench))
		state = PERF_OVER;
	atomic_store(&bench->state, state);
}

int perf_bench_stock(struct perf_bench *bench)
{
	for (uint32_t i = 0; bench->receives && i < bench->plan.qps; i++)
		perf_flow_restock(&bench->flows[i]);
	return bench->error;
}

static void set_limits(struct perf_bench *bench, uint64_t now)
{
	const struct perf_plan *plan = &bench->plan;
	uint64_t duration = plan->duration_ns;
	uint64_t count = plan->count;

	if (!bench->phase.measured) {
		count = count ? (count + WARM_SHARE - 1) / WARM_SHARE : 0;
		duration /= WARM_SHARE;
		if (!duration || duration > WARM_LIMIT_NS)
			duration = WARM_LIMIT_NS;
	}
	bench->phase.count = count;
	bench->phase.stop_ns = duration ? now + duration : 0;
}

void perf_bench_phase(struct perf_bench *bench, bool measured, uint64_t now)
{
	bench->phase = (struct perf_phase){
		.measured = measured,
		.started_ns = now,
		.last_ns = now,
		.flows_sending = bench->sends ? bench->plan.qps : 0,
		.flows_receiving = bench->receives ? bench->plan.qps : 0,
	};
	bench->samples.count = 0;
	bench->samples.lost = 0;
	for (uint32_t i = 0; i < bench->plan.qps; i++) {
		struct perf_flow *flow = &bench->flows[i];

		flow->sent = flow->delivered = flow->bytes = flow->fair_bytes = 0;
		flow->last_sent = flow->send_finished = false;
	}
	perf_bench_settle(bench);
}

void perf_bench_go(struct perf_bench *bench, uint64_t now)
{
	set_limits(bench, now);
	bench->engine->begin(bench, now);
}

bool perf_bench_idle(const struct perf_bench *bench)
{
	return bench->error ||
	       (bench->phase.flows_sending == 0 && bench->phase.flows_receiving == 0);
}

void perf_bench_peer_sent(struct perf_bench *bench, uint64_t now)
{
	bench->phase.peer_sent = true;
	for (uint32_t i = 0; bench->plan.scheme->all_sent && i < bench->plan.qps; i++)
		bench->plan.scheme->all_sent(&bench->flows[i], now);
}

static void post_again(struct perf_bench *bench)
{
	bench->waits = false;
	for (uint32_t i = 0; i < bench->plan.qps && !bench->error; i++) {
		struct perf_flow *flow = &bench->flows[i];

		if (flow->recv_waits)
			perf_flow_restock(flow);
		if (flow->send_waits)
			bench->engine->sent(flow, gw_now_ns(bench->ctx));
	}
}

static void end_turn(struct perf_bench *bench)
{
	if (bench->waits)
		post_again(bench);
	if (bench->engine->between)
		bench->engine->between(bench);
}

void perf_bench_turn(struct perf_bench *bench, uint64_t nap_ns)
{
	if (!bench->plan.poll || perf_bench_idle(bench)) {
		/* If this thread has finished before others, it looks for their end now and then. */
		gw_wait(bench->ctx, perf_bench_idle(bench) ? IDLE_NAP_NS : nap_ns);
		end_turn(bench);
		return;
	}
	for (int i = 0; i < TURNS_WHEN_POLLING && !perf_bench_idle(bench); i++) {
		gw_progress(bench->ctx);
		end_turn(bench);
	}
}

bool perf_flow_ends(const struct perf_flow *flow, uint64_t now)
{
	const struct perf_phase *phase = &flow->bench->phase;

	return (phase->count && flow->sent + 1 >= phase->count) ||
	       (phase->stop_ns && now >= phase->stop_ns);
}

void perf_samples_add(struct perf_samples *samples, uint64_t ns)
{
	if (samples->count < samples->room)
		samples->ns[samples->count++] = ns;
}

static uint8_t *next_piece(struct perf_shot *shot, const struct perf_area *area)
{
	uint64_t piece = shot->uses++ % area->pieces;

	return shot->memory + piece * perf_plan_stride(&shot->flow->bench->plan);
}

/* The library has no room while an early message is repaired and later ones have ended: then it is tried again after each turn. Other
 * errors end the test. */
static bool posted(struct perf_bench *bench, int rc, bool *waits)
{
	*waits = rc == -ENOBUFS;
	bench->waits |= *waits;
	if (rc && !*waits)
		fail(bench, rc);
	return !rc;
}

bool perf_flow_send(struct perf_flow *flow, uint32_t flags)
{
	struct perf_bench *bench = flow->bench;
	struct perf_shot *shot =
		container_of(list_first(&flow->idle_sends), struct perf_shot, link);
	uint8_t *memory = next_piece(shot, &bench->send_area);

	shot->sequence = flow->send_sequence;
	if (bench->plan.verify)
		perf_pattern_fill(memory, bench->plan.size,
				  perf_pattern_key(bench->client, flow->number, shot->sequence));
	if (bench->plan.test == PERF_BANDWIDTH)
		shot->posted_ns = gw_now_ns(bench->ctx);
	if (!posted(bench,
		    perf_flow_post_send(shot, memory, bench->plan.size,
					flags | (uint32_t)(shot->sequence & PERF_IMM_SEQUENCE)),
		    &flow->send_waits))
		return false;
	list_del(&shot->link);
	flow->send_sequence++;
	flow->sends_open++;
	flow->sent++;
	flow->last_sent = flags & PERF_IMM_LAST;
	return true;
}

static bool post_recv(struct perf_flow *flow)
{
	struct perf_bench *bench = flow->bench;
	struct perf_shot *shot =
		container_of(list_first(&flow->idle_recvs), struct perf_shot, link);

	shot->sequence = flow->recv_sequence;
	shot->landed = 0;
	shot->landed_ns = shot->heard_ns = 0;
	shot->announced = shot->completed = false;
	if (!posted(bench,
		    perf_flow_post_recv(shot, next_piece(shot, &bench->recv_area),
					bench->plan.size),
		    &flow->recv_waits))
		return false;
	flow->recv_sequence++;
	flow->idle_recv_count--;
	list_del(&shot->link);
	list_add_tail(&flow->open_recvs, &shot->link);
	return true;
}

void perf_flow_restock(struct perf_flow *flow)
{
	while (!flow->bench->error && !list_empty(&flow->idle_recvs) && post_recv(flow))
		;
}

void perf_shot_sent(struct perf_shot *shot, int status, uint64_t now)
{
	struct perf_flow *flow = shot->flow;
	struct perf_bench *bench = flow->bench;

	perf_shot_close(shot);
	list_add_tail(&flow->idle_sends, &shot->link);
	flow->sends_open--;
	flow->delivered++;
	if (status) {
		fail(bench, status);
		return;
	}
	if (bench->plan.test == PERF_BANDWIDTH && bench->phase.measured)
		perf_samples_add(&bench->samples, gw_now_ns(bench->ctx) - shot->posted_ns);
	bench->engine->sent(flow, now);
	if (flow->last_sent && !flow->sends_open && !flow->send_finished) {
		flow->send_finished = true;
		bench->phase.flows_sending--;
		perf_bench_settle(bench);
	}
}

static const uint8_t *memory_of(const struct perf_shot *shot)
{
	const struct perf_bench *bench = shot->flow->bench;

	return shot->memory +
	       (shot->uses - 1) % bench->recv_area.pieces * perf_plan_stride(&bench->plan);
}

/* Checks the length and the immediate of a message, both of which the library guarantees. */
static int read_head(const struct perf_shot *shot, struct perf_arrival *arrival)
{
	struct gw_recv_status what = { 0 };
	uint32_t known = PERF_IMM_SEQUENCE;
	int rc;

	if (shot->op) {
		arrival->imm =
			perf_head_read(memory_of(shot), shot->flow->bench->plan.size, &known);
	} else {
		rc = gw_recv_status(shot->recv, &what);
		if (rc == 0)
			rc = gw_recv_imm(shot->recv, &arrival->imm);
		if (rc)
			return rc;
		if (what.length != shot->flow->bench->plan.size)
			return -EPROTO;
	}
	return (arrival->imm ^ shot->sequence) & known ? -EPROTO : 0;
}

/* Checks what landed of a message, hole by hole, and counts what did not. A channel's has no holes. */
static int examine(struct perf_shot *shot, struct perf_arrival *arrival)
{
	struct perf_bench *bench = shot->flow->bench;
	uint64_t key = perf_pattern_key(!bench->client, shot->flow->number, shot->sequence);
	uint64_t size = bench->plan.size, from = shot->op ? perf_head_bytes(size) : 0, at = 0;
	const uint8_t *memory = memory_of(shot);
	struct gw_run hole = { 0, 0 };
	struct gw_recv_status status = { .payload = 1 };
	uint32_t payload;

	if (shot->recv)
		gw_recv_status(shot->recv, &status);
	payload = status.payload;
	for (;;) {
		int more = shot->recv ? gw_recv_next_hole(shot->recv, hole.first + hole.count,
							  UINT32_MAX, &hole)
				      : 0;
		uint64_t below = more == 1 ? (uint64_t)hole.first * payload : size;
		uint64_t next = (uint64_t)(hole.first + hole.count) * payload;

		if (bench->plan.verify && !perf_pattern_check(memory, from, below, key, &at)) {
			snprintf(
				bench->why, sizeof(bench->why),
				"message %llu of queue pair %u arrived with wrong bytes from byte %llu on",
				(unsigned long long)shot->sequence, shot->flow->number,
				(unsigned long long)at);
			return -EILSEQ;
		}
		if (more != 1)
			return 0;
		from = next < size ? next : size;
		arrival->missing_packets += hole.count;
		arrival->missing_bytes += from - below;
	}
}

/* Notes the bytes of every flow when the first one has finished: from then on fewer flows compete. */
static void take_shares(struct perf_bench *bench)
{
	if (bench->phase.fair_taken)
		return;
	bench->phase.fair_taken = true;
	for (uint32_t i = 0; i < bench->plan.qps; i++)
		bench->flows[i].fair_bytes = bench->flows[i].bytes;
}

static void account(struct perf_flow *flow, const struct perf_arrival *arrival, uint64_t landed_ns)
{
	struct perf_phase *phase = &flow->bench->phase;
	uint64_t bytes = flow->bench->plan.size - arrival->missing_bytes;

	flow->bytes += bytes;
	phase->bytes += bytes;
	phase->messages++;
	phase->missing_bytes += arrival->missing_bytes;
	phase->missing_packets += arrival->missing_packets;
	phase->holed_messages += arrival->missing_packets != 0;
	if (landed_ns > phase->last_ns)
		phase->last_ns = landed_ns;
}

void perf_shot_received(struct perf_shot *shot, int status, uint64_t landed_ns, uint64_t now)
{
	struct perf_flow *flow = shot->flow;
	struct perf_bench *bench = flow->bench;
	struct perf_arrival arrival = { 0 };

	if (status == 0)
		status = read_head(shot, &arrival);
	if (status == 0)
		status = examine(shot, &arrival);
	perf_shot_close(shot);
	list_del(&shot->link);
	list_add_tail(&flow->idle_recvs, &shot->link);
	flow->idle_recv_count++;
	if (status) {
		fail(bench, status);
		return;
	}
	account(flow, &arrival, landed_ns);
	flow->received++;
	if (arrival.imm & PERF_IMM_LAST)
		flow->recv_end = shot->sequence + 1;
	if (flow->received == flow->recv_end) {
		take_shares(bench);
		bench->phase.flows_receiving--;
		perf_bench_settle(bench);
	}
	bench->engine->received(flow, &arrival, now);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channels in a scenario. The flows of a pair are the two directions of one channel, and their messages are its operations;
 * some are cancelled, have a deadline, or are too large for their receive. The checks are what a channel promises: every
 * operation ends once; a receive that ended with status 0 holds the bytes of the i-th send and no others; both ends report
 * the same status unless the scenario has a reason why not; memory that was given back does not change.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "simulation/flow.h"

#define MS UINT64_C(1000000)

static void post_sends(struct flow *flow);
static void post_recvs(struct flow *flow);

static bool disturbed(const struct message *m)
{
	return m->plan->receive_early || m->plan->send_abandoned || m->deadline;
}

/* Whether an operation may end with this status. */
static bool plausible(const struct message *m, int status)
{
	bool fits = m->plan->capacity >= m->plan->length;

	switch (status) {
	case 0:
		return fits;
	case -EMSGSIZE:
		return !fits;
	case -ECANCELED:
	case -ETIMEDOUT:
		return disturbed(m) || m->flow->run->scenario->may_fail;
	case -ECONNRESET:
		return m->flow->run->scenario->may_fail;
	}
	return false;
}

static void ended(struct message *m, const char *what, struct gw_op *op, int status)
{
	struct run *run = m->flow->run;

	if (run->trace)
		run_note(run, "%u -> %u: %s %u ended with %d", m->flow->plan->from,
			 m->flow->plan->to, what, m->index, status);
	if (!plausible(m, status))
		run_fail(run, "operation %u: the %s ended with %d", m->index, what, status);
	if (status == -EMSGSIZE)
		run_saw(run, SIGHT_CHANNEL_TOO_SMALL);
	else if (status == -ECANCELED)
		run_saw(run, SIGHT_CHANNEL_CANCELLED);
	else if (status == -ETIMEDOUT && disturbed(m))
		run_saw(run, SIGHT_CHANNEL_DEADLINE);
	if (gw_op_close(op))
		run_fail(run, "operation %u: the %s does not close", m->index, what);
}

static void sent(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct message *m = arg;

	if (m->sent) {
		run_fail(m->flow->run, "operation %u: the end of the send was reported twice",
			 m->index);
		return;
	}
	m->sent = true;
	m->send_status = result->status;
	m->flow->ended_sends++;
	memset(m->source, ~MARGIN_BYTE, m->plan->length);
	ended(m, "send", op, result->status);
	post_sends(m->flow);
}

static void received(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct message *m = arg;
	struct run *run = m->flow->run;

	if (m->received) {
		run_fail(run, "operation %u: the end of the receive was reported twice", m->index);
		return;
	}
	m->received = true;
	m->recv_status = result->status;
	m->flow->ended_recvs++;
	if (!result->status && (result->length != m->plan->length ||
				memcmp(message_target(m), m->expected, m->plan->length) != 0))
		run_fail(run, "operation %u: the receive ended with status 0 and wrong bytes",
			 m->index);
	m->sum = message_sum(m);
	ended(m, "receive", op, result->status);
	post_recvs(m->flow);
}

static int post(struct message *m, struct gw_channel *channel, bool receiving, struct gw_op **op)
{
	struct gw_op_attr attr = { .addr = receiving ? message_target(m) : m->source,
				   .length = receiving ? m->plan->capacity : m->plan->length,
				   .mr = receiving ? m->target_mr : m->source_mr,
				   .done = receiving ? received : sent,
				   .arg = m };
	uint32_t host = receiving ? m->flow->plan->to : m->flow->plan->from;

	if (m->erasure[receiving]) {
		attr.scheme = m->plan->mode == MODE_AUTO ? &gw_auto : &gw_erasure;
		attr.options = m->erasure[receiving];
	}
	if (m->deadline == 1 + receiving)
		attr.deadline_ns =
			gw_now_ns(m->flow->run->world.hosts[host].ctx) + m->plan->hold_ns;
	return (receiving ? gw_channel_recv : gw_channel_send)(channel, &attr, op);
}

static void post_sends(struct flow *flow)
{
	while (!flow->tx_over && flow->posted_sends < flow->plan->messages &&
	       flow->posted_sends - flow->ended_sends < flow->plan->sends_open) {
		struct message *m = &flow->message[flow->posted_sends];
		struct gw_op *op;
		int error = post(m, flow->tx_channel, false, &op);

		if (error) {
			if (!flow->run->scenario->may_fail)
				run_fail(flow->run, "operation %u: send refused with %d", m->index,
					 error);
			/* The channel is gone and will report it. */
			flow->tx_over = true;
			return;
		}
		flow->posted_sends++;
		if (m->plan->send_abandoned)
			gw_op_cancel(op);
	}
}

static void post_recvs(struct flow *flow)
{
	while (!flow->rx_over && flow->posted_recvs < flow->plan->messages &&
	       flow->posted_recvs - flow->ended_recvs < flow->plan->recvs_open) {
		struct message *m = &flow->message[flow->posted_recvs];
		struct gw_op *op;
		int error = post(m, flow->rx_channel, true, &op);

		if (error) {
			if (!flow->run->scenario->may_fail)
				run_fail(flow->run, "operation %u: receive refused with %d",
					 m->index, error);
			flow->rx_over = true;
			return;
		}
		flow->posted_recvs++;
		if (m->plan->receive_early)
			gw_op_cancel(op);
	}
}

static void gone(struct gw_channel *channel, void *arg, int status, uint64_t now)
{
	struct run *run = arg;

	(void)now;
	if (status != -ETIMEDOUT && status != -ECONNRESET)
		run_fail(run, "a channel ended with %d", status);
	if (status == -ETIMEDOUT && !run->scenario->may_fail)
		run_fail(run, "a peer that is alive was declared dead");
	run_saw(run, SIGHT_CHANNEL_GONE);
	for (uint32_t i = 0; i < run->scenario->flow_count; i++) {
		if (run->flows[i].tx_channel == channel)
			run->flows[i].tx_over = true;
		if (run->flows[i].rx_channel == channel)
			run->flows[i].rx_over = true;
	}
}

static const struct gw_channel_handler handler = { .gone = gone };

static void draw_attr(struct rng *rng, const struct scenario *s, struct gw_channel_attr *attr)
{
	static const char *const controllers[] = { NULL, "none", "swift", "long-haul" };
	bool restful = s->host.lifetime_ns > UINT64_C(1000000000);

	attr->congestion = controllers[rng_below(rng, 4)];
	attr->peer_timeout_ns = s->qp.peer_timeout_ns;
	attr->flags = rng_chance(rng, 0.3) ? GW_CHANNEL_CRC : 0;
	attr->operations = 64;
	attr->small_bytes = 1u << (7 + rng_below(rng, 6));
	attr->pack_bytes = attr->small_bytes + 64 + (uint32_t)rng_below(rng, 2000);
	if (attr->pack_bytes < 128)
		attr->pack_bytes = 128;
	attr->packs = 4 + (uint32_t)rng_below(rng, 5);
	/* Where a slot rests for seconds, many messages through few slots would take too long. */
	attr->slots = restful ? 64 : s->qp.slots;
	attr->part_bytes =
		attr->slots >= 8 && rng_chance(rng, 0.7) ? 500 + rng_below(rng, 8000) : 0;
	attr->handler = &handler;
}

/* Returns how long the slots of a receiving end rest: each once for every part that it takes, and for a part's parity. */
static uint64_t rests_ns(const struct scenario *s, const struct flow_plan *plan,
			 const struct gw_channel_attr *attr)
{
	uint64_t parts = 0;

	for (uint32_t i = 0; attr->part_bytes && i < plan->messages; i++)
		parts += plan->message[i].length / attr->part_bytes + 1;
	return 2 * parts / attr->slots * s->host.lifetime_ns;
}

int channels_open(struct run *run, uint32_t index)
{
	struct flow *flow = &run->flows[index], *back = &run->flows[index + 1];
	const uint32_t host[2] = { run->scenario->flow[index].from, run->scenario->flow[index].to };
	struct gw_channel *channel[2] = { NULL, NULL };
	struct gw_channel_info info[2];
	struct rng rng;
	int error = 0;

	rng_seed(&rng, run->scenario->seed * 31 + index);
	for (int i = 0; i < 2 && !error; i++) {
		struct gw_channel_attr attr = { .arg = run };

		draw_attr(&rng, run->scenario, &attr);
		run->rests_ns += rests_ns(run->scenario, &run->scenario->flow[index + !i], &attr);
		error = gw_channel_create(run->world.hosts[host[i]].ctx, &attr, &channel[i]);
		if (!error)
			gw_channel_info(channel[i], &info[i]);
	}
	for (int i = 0; i < 2 && !error; i++)
		error = gw_channel_connect(channel[i], &info[!i]);
	if (error)
		return error;
	flow->tx_channel = back->rx_channel = channel[0];
	flow->rx_channel = back->tx_channel = channel[1];
	for (uint32_t i = index; i < index + 2 && !error; i++) {
		struct flow *f = &run->flows[i];

		error = flow_prepare(run, i);
		for (uint32_t m = 0; m < f->plan->messages; m++)
			if (f->plan->message[m].mode != MODE_EXACT && rng_chance(&rng, 0.1))
				f->message[m].deadline = 1 + (uint8_t)rng_below(&rng, 2);
		if (error)
			break;
		post_recvs(f);
		post_sends(f);
		world_touch(&run->world, f->plan->from);
	}
	return error;
}

void channels_close_one(struct run *run, uint32_t pair, bool receiver)
{
	struct flow *flow = &run->flows[2 * pair], *back = &run->flows[2 * pair + 1];
	struct gw_channel **mine = receiver ? &flow->rx_channel : &flow->tx_channel;
	uint32_t host = receiver ? flow->plan->to : flow->plan->from;

	if (!*mine || !run->world.hosts[host].ctx)
		return;
	run_saw(run, SIGHT_CLOSED_IN_THE_MIDDLE);
	gw_channel_close(*mine);
	world_touch(&run->world, host);
	channels_forget(flow, receiver);
	channels_forget(back, !receiver);
}

/* Marks one end of the flow as gone: its operations will not be reported, and their memory must not change any more. */
void channels_forget(struct flow *flow, bool receiver)
{
	if (!receiver) {
		flow->tx_channel = NULL;
		flow->tx_over = true;
		flow->ended_sends = flow->posted_sends;
		return;
	}
	flow->rx_channel = NULL;
	flow->rx_over = true;
	flow->ended_recvs = flow->posted_recvs;
	for (uint32_t i = 0; i < flow->posted_recvs; i++) {
		if (!flow->message[i].received)
			flow->message[i].sum = message_sum(&flow->message[i]);
		flow->message[i].received = true;
	}
}

void channels_host_dies(struct run *run, uint32_t host)
{
	/* The host is dead before its channels are closed, so that its peers hear nothing. Closing frees their memory. */
	sim_kill(run->world.sim, host);
	for (uint32_t i = 0; i < run->scenario->flow_count; i++)
		if (run->flows[i].plan->from == host && run->flows[i].tx_channel)
			gw_channel_close(run->flows[i].tx_channel);
	for (uint32_t i = 0; i < run->scenario->flow_count; i++) {
		if (run->flows[i].plan->from == host)
			channels_forget(&run->flows[i], false);
		if (run->flows[i].plan->to == host)
			channels_forget(&run->flows[i], true);
	}
}

/* After every operation has ended: compares the status at both ends and counts rare events. */
void channels_check(struct run *run)
{
	for (uint32_t i = 0; i < run->scenario->flow_count; i++) {
		const struct flow *flow = &run->flows[i];
		struct gw_channel_stats stats;

		for (uint32_t j = 0; j < flow->plan->messages && !run->scenario->may_fail; j++) {
			const struct message *m = &flow->message[j];

			if (m->send_status != m->recv_status && !disturbed(m))
				run_fail(
					run,
					"operation %u: the send ended with %d, the receive with %d",
					j, m->send_status, m->recv_status);
		}
		if (!flow->tx_channel || gw_channel_stats(flow->tx_channel, &stats))
			continue;
		run->result->sights[SIGHT_CHANNEL_SKIP] += stats.skips;
		if (stats.parts > stats.sends)
			run_saw(run, SIGHT_CHANNEL_PARTS);
		if (2 * stats.records > 3 * stats.packs)
			run_saw(run, SIGHT_CHANNEL_PACKED);
	}
}

void channels_close(struct run *run)
{
	for (uint32_t i = 0; i < run->scenario->flow_count; i++) {
		struct flow *flow = &run->flows[i];

		if (flow->tx_channel && gw_channel_close(flow->tx_channel))
			run_fail(run, "a channel does not close");
		flow->tx_channel = NULL;
	}
}

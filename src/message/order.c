/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Order: what the packets that landed prove about those that did not.
 *
 * Packets of one queue pair leave for the first time in order, message by message and ascending within each, and a lane
 * keeps them nearly in order. So what was first sent well before a packet that landed on the same lane has landed or is
 * lost. Which lane a missing packet took is not known, and need not be: what lies behind the front of every lane does.
 * A lane that has fallen silent while the others go on for two turns of spraying and a round trip proves nothing and holds
 * up nobody.
 *
 * "Well before" is `slack` packets. A packet that is overtaken by more of them, and comes sooner than a repeat could have
 * come, was only late: slack grows to cover it, and shrinks again when such things are seen no more. How soon is too soon
 * is known from where the front was a quarter of a round trip ago: what was not behind it by then cannot have been asked
 * for in time. (A whole round trip would do if it were known; but the shortest so far may have been measured behind a
 * queue that is gone.) It is learnt for the queue pair, not for each message anew.
 *
 * A position is a message's number, counted from the first, in the high 32 bits, and a packet's in the low ones. It wraps
 * as serial numbers do.
 */
#include <errno.h>
#include <stdlib.h>

#include "constants/protocol.h"
#include "message/state.h"

#define SLACK_LIMIT	 8192
#define SLACK_STEP	 4u
#define LOOK_EVERY	 4096u /* packets */
#define GRACE_UNKNOWN_NS UINT64_C(25000000)
#define GRACE_TRIPS	 4
#define MESSAGE(n)	 ((uint64_t)(n) << 32)

static bool after(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) > 0;
}

static uint64_t start_of(const struct gw_qp *qp, uint32_t msn)
{
	return MESSAGE(msn - qp->rx.first_msn);
}

int order_open(struct gw_qp *qp, uint32_t lanes)
{
	struct order *o = &qp->order;

	o->slack = SLACK_FIRST;
	if (lanes < 2)
		return 0;
	o->lanes = calloc(1, sizeof(*o->lanes));
	if (!o->lanes)
		return -ENOMEM;
	o->lanes->count = lanes < FABRIC_LANES_MAX ? lanes : FABRIC_LANES_MAX;
	o->lanes->alive = (1u << o->lanes->count) - 1;
	return 0;
}

void order_close(struct gw_qp *qp)
{
	free(qp->order.lanes);
	qp->order.lanes = NULL;
}

void order_sent(struct gw_qp *qp, const struct gw_send *send, uint32_t packet)
{
	uint64_t at = MESSAGE(send->msn) + packet + 1;

	if (after(at, qp->tx.front))
		qp->tx.front = at;
}

/* How many packets the message before that of `at` has, as far as it is still of interest. */
static uint32_t packets_before(struct gw_qp *qp, uint64_t at)
{
	const struct gw_recv *recv = recv_find(qp, qp->rx.first_msn + (uint32_t)(at >> 32) - 1);

	if (!recv)
		return 0;
	return recv->is_announced ? recv->packets : recv->highest;
}

static bool is_oldest(const struct gw_qp *qp, uint64_t at)
{
	return !after(at, start_of(qp, qp->rx.results_acked) + UINT32_MAX);
}

/* So many packets before `at`; not before the oldest message that is still open. */
static uint64_t back(struct gw_qp *qp, uint64_t at, uint32_t packets)
{
	while ((uint32_t)at < packets) {
		packets -= (uint32_t)at;
		at -= (uint32_t)at;
		if (is_oldest(qp, at))
			return at;
		at += packets_before(qp, at) - MESSAGE(1);
	}
	return at - packets;
}

/* How many packets `at` is behind `front`. */
static uint32_t behind(struct gw_qp *qp, uint64_t at, uint64_t front)
{
	uint32_t packets = 0;

	while (at >> 32 != front >> 32 && packets < SLACK_LIMIT && !is_oldest(qp, front)) {
		packets += (uint32_t)front;
		front -= (uint32_t)front;
		front += packets_before(qp, front) - MESSAGE(1);
	}
	return packets + (after(front, at) ? (uint32_t)(front - at) : 0);
}

static uint64_t grace_ns(const struct gw_qp *qp)
{
	uint64_t least = qp->feedback.rtt_ns ? qp->feedback.rtt_ns : GRACE_UNKNOWN_NS;

	return qp->order.lanes->grace_ns > least ? qp->order.lanes->grace_ns : least;
}

static uint64_t silence_ns(const struct gw_qp *qp, uint32_t lane)
{
	const struct order_lanes *lanes = qp->order.lanes;
	uint64_t since = lanes->heard_ns[lane] > lanes->resumed_ns ? lanes->heard_ns[lane]
								   : lanes->resumed_ns;

	return qp->ctx->now - since;
}

static bool is_silent(const struct gw_qp *qp, uint32_t lane)
{
	const struct order_lanes *lanes = qp->order.lanes;

	return silence_ns(qp, lane) > grace_ns(qp) &&
	       qp->feedback.landed - lanes->heard_at[lane] > 2 * PATH_TURN * lanes->count;
}

/* The front that all lanes have passed which prove something. */
static uint64_t common_front(struct gw_qp *qp)
{
	struct order_lanes *lanes = qp->order.lanes;
	uint64_t front = 0;
	bool any = false;

	if (!lanes)
		return qp->order.one.front;
	for (uint32_t i = 0; i < lanes->count; i++) {
		if (!(lanes->alive & 1u << i))
			continue;
		if (is_silent(qp, i)) {
			lanes->alive &= ~(1u << i);
			continue;
		}
		if (!any || after(front, lanes->lane[i].front))
			front = lanes->lane[i].front;
		any = true;
	}
	return front;
}

static uint64_t passed(struct gw_qp *qp)
{
	return back(qp, common_front(qp), qp->order.slack);
}

static void turn_one(struct lane_order *lane, bool paused)
{
	lane->old = paused ? lane->front : lane->recent;
	lane->recent = lane->front;
}

/* `old` is a quarter of a shortest round trip old at the most, and not much less. */
static void turn(struct gw_qp *qp)
{
	struct order *o = &qp->order;
	uint64_t age = qp->ctx->now - o->turned_ns;
	bool paused = age > qp->feedback.rtt_min_ns / 4;

	if (age < qp->feedback.rtt_min_ns / 8)
		return;
	o->turned_ns = qp->ctx->now;
	turn_one(&o->one, paused);
	for (uint32_t i = 0; o->lanes && i < o->lanes->count; i++)
		turn_one(&o->lanes->lane[i], paused);
}

/* A packet landed behind its lane's front. Was it late, or is it a repeat? */
static void learn(struct gw_qp *qp, const struct lane_order *lane, uint64_t at)
{
	struct order *o = &qp->order;
	uint32_t needed;

	if (after(lane->old, at) && behind(qp, at, lane->old) > o->slack)
		return; /* it may have been asked for */
	needed = behind(qp, at, lane->front);
	if (needed > o->seen)
		o->seen = needed < SLACK_LIMIT ? (uint16_t)needed : SLACK_LIMIT;
	if (needed > o->slack) {
		/* One packet may be misjudged: step by step. */
		needed += needed / 4;
		if (needed > SLACK_STEP * o->slack)
			needed = SLACK_STEP * o->slack;
		o->slack = needed < SLACK_LIMIT ? (uint16_t)needed : SLACK_LIMIT;
	}
}

/* What was not needed for long is given up by and by. */
static void forget(struct gw_qp *qp)
{
	struct order *o = &qp->order;

	if (qp->feedback.landed - o->looked_at < LOOK_EVERY)
		return;
	o->looked_at = qp->feedback.landed;
	if (o->seen < o->slack / 2)
		o->slack -= o->slack / 4;
	if (o->slack < SLACK_FIRST)
		o->slack = SLACK_FIRST;
	o->seen = 0;
}

static void lane_heard(struct gw_qp *qp, uint32_t lane)
{
	struct order_lanes *lanes = qp->order.lanes;
	uint64_t silence = silence_ns(qp, lane);

	/* It had been given up, and was only slow. After a longer time it may be that nothing was sent on it. */
	if (!(lanes->alive & 1u << lane) && silence < GRACE_TRIPS * qp->feedback.rtt_ns &&
	    silence > lanes->grace_ns)
		lanes->grace_ns = silence + silence / 4;
	lanes->heard_ns[lane] = qp->ctx->now;
	lanes->heard_at[lane] = qp->feedback.landed;
	lanes->alive |= 1u << lane;
}

/* Receives that waited for the first pass to come this far are shown it. */
static void wake(struct gw_qp *qp)
{
	struct order *o = &qp->order;
	uint64_t reached = passed(qp);
	struct list *item, *next;

	o->watch = reached + INT64_MAX;
	for (item = o->watchers.next; item != &o->watchers; item = next) {
		struct gw_recv *recv = container_of(item, struct gw_recv, link);

		next = item->next;
		if (after(recv->watch, reached)) {
			if (after(o->watch, recv->watch))
				o->watch = recv->watch;
			continue;
		}
		order_unwatch(recv);
		if (list_empty(&recv->touched))
			list_add_tail(&qp->ctx->touched, &recv->touched);
	}
}

void order_landed(struct gw_qp *qp, const struct gw_recv *recv, uint32_t packet, uint32_t packets,
		  const struct fabric_event *event, bool fresh)
{
	struct order *o = &qp->order;
	uint64_t at = start_of(qp, recv->msn) + packet;
	struct lane_order *l = &o->one;
	uint32_t lane = 0;

	turn(qp);
	forget(qp);
	if (o->lanes) {
		if (qp->ctx->now - o->lanes->landed_ns > grace_ns(qp))
			o->lanes->resumed_ns = qp->ctx->now;
		o->lanes->landed_ns = qp->ctx->now;
		lane = event->lane % o->lanes->count;
		l = &o->lanes->lane[lane];
		o->lanes->landed[lane] += packets;
		if (event->ce)
			o->lanes->ce[lane] += packets;
	}
	if (after(l->front, at)) {
		if (fresh)
			learn(qp, l, at);
		return;
	}
	if (o->lanes)
		lane_heard(qp, lane);
	l->front = at + packets;
	if (!list_empty(&o->watchers) && !after(o->watch, l->front))
		wake(qp);
}

void order_unwatch(struct gw_recv *recv)
{
	if (!recv->watch)
		return;
	recv->watch = 0;
	list_del(&recv->link);
}

int gw_send_position(const struct gw_send *send, uint64_t *out)
{
	uint64_t start;

	if (!send || !out)
		return -EINVAL;
	if (!send_valid(send))
		return -ESTALE;
	if (!send->qp)
		return -EALREADY;
	start = MESSAGE(send->msn);
	*out = after(send->qp->tx.front, start) ? send->qp->tx.front - start : 0;
	return 0;
}

static int check(const struct gw_recv *recv)
{
	if (!recv)
		return -EINVAL;
	if (!recv_valid(recv))
		return -ESTALE;
	return recv_is_completed(recv) || !recv->qp ? -EALREADY : 0;
}

int gw_recv_passed(const struct gw_recv *recv, uint64_t *out)
{
	int error = check(recv);
	uint64_t reached, start;

	if (error)
		return error;
	if (!out)
		return -EINVAL;
	if (recv->recut) {
		*out = GW_POSITION_END;
		return 0;
	}
	reached = passed(recv->qp);
	start = start_of(recv->qp, recv->msn);
	*out = after(reached, start) ? reached - start : 0;
	return 0;
}

int gw_recv_watch(struct gw_recv *recv, uint64_t position)
{
	int error = check(recv);
	struct order *o;

	if (error)
		return error;
	if (recv_find(recv->qp, recv->msn) != recv)
		return -EAGAIN;
	order_unwatch(recv);
	if (!position)
		return 0;
	o = &recv->qp->order;
	recv->watch = start_of(recv->qp, recv->msn) + position;
	if (!recv->watch)
		return 0; /* the one number that means none: its place is long passed */
	if (list_empty(&o->watchers) || after(o->watch, recv->watch))
		o->watch = recv->watch;
	list_add_tail(&o->watchers, &recv->link);
	return 0;
}

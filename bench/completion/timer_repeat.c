/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timers are all of one length, so that they end in the order in which they were started. Those of the first pass
 * need no memory: packet i leaves so many packet times after the first. Those of repeats stand in a ring. Whichever of
 * the two ends first is looked at next.
 *
 * An acknowledgement is a hole list: its `round` says where it begins, and everything from there to `below` that is in
 * no run has landed.
 */
#include "timer_repeat.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define SCHEME_ID	 130
#define ACK_EVERY	 64 /* packets */
#define DATAGRAMS_AN_ACK 16

struct sending {
	struct gw_transfer transfer;
	struct timer_repeat_options options;
	uint64_t began_ns;
	uint32_t packets;
	uint32_t first; /* packets below this have had their first timer end, or landed */
	uint32_t head;	/* of the ring; wraps at packets_max */
	uint32_t waiting;
};

struct receiving {
	struct gw_transfer transfer;
	uint32_t acked; /* landed when last acknowledged */
};

_Static_assert(sizeof(struct sending) <= GW_STATE_BYTES, "a request's own memory");

static int prepare(struct gw_qp *qp, const struct gw_transfer_attr *attr, uint32_t geometry[2])
{
	(void)qp;
	(void)attr;
	geometry[0] = geometry[1] = 0;
	return 0;
}

/* ---- the sender ------------------------------------------------------------------------------------------------ */

static void send_begin(struct gw_send *send, uint64_t now)
{
	struct sending *s = gw_send_state(send);

	(void)now;
	s->options = *(const struct timer_repeat_options *)s->transfer.options;
}

static int put(struct gw_send *send, uint32_t first, uint32_t count)
{
	struct sending *s = gw_send_state(send);
	uint32_t payload = 0;
	uint64_t from, length;

	gw_send_payload(send, &payload);
	from = (uint64_t)first * payload;
	length = (uint64_t)count * payload;
	if (length > s->transfer.length - from)
		length = s->transfer.length - from;
	return gw_stream_put(send, from, (const uint8_t *)s->transfer.addr + from, length,
			     s->transfer.mr);
}

/* The timer that ends next among those that still matter; null when there is none. */
static struct timer_repeat_entry *next_timer(struct sending *s, struct timer_repeat_entry *scratch)
{
	const struct timer_repeat_options *o = &s->options;
	struct timer_repeat_entry *repeat = NULL;

	while (s->first < s->packets && o->landed[s->first])
		s->first++;
	while (s->waiting && o->landed[o->ring[s->head].packet]) {
		s->head = (s->head + 1) % o->packets_max;
		s->waiting--;
	}
	if (s->waiting)
		repeat = &o->ring[s->head];
	if (s->first == s->packets)
		return repeat;
	*scratch = (struct timer_repeat_entry){
		.due_ns = s->began_ns + o->rto_ns + (s->first + 1) * o->unit_ns, .packet = s->first
	};
	return repeat && repeat->due_ns < scratch->due_ns ? repeat : scratch;
}

static void set_timer(struct gw_send *send)
{
	struct timer_repeat_entry scratch;
	const struct timer_repeat_entry *next = next_timer(gw_send_state(send), &scratch);

	gw_send_timer(send, next ? next->due_ns : 0);
}

static void granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now)
{
	struct sending *s = gw_send_state(send);
	uint32_t payload = 1;
	int error;

	(void)arg;
	(void)capacity;
	gw_send_payload(send, &payload);
	s->packets = (uint32_t)((s->transfer.length + payload - 1) / payload);
	s->began_ns = now;
	if (s->packets > s->options.packets_max)
		error = -EMSGSIZE;
	else
		error = put(send, 0, s->packets);
	if (error) {
		gw_transfer_finish_send(send, error, GW_MISSING_UNKNOWN);
		return;
	}
	memset(s->options.landed, 0, s->packets);
	set_timer(send);
}

static void timer(struct gw_send *send, void *arg, uint64_t now)
{
	struct sending *s = gw_send_state(send);
	const struct timer_repeat_options *o = &s->options;
	struct timer_repeat_entry scratch, *next;

	(void)arg;
	while ((next = next_timer(s, &scratch)) && next->due_ns <= now) {
		uint32_t packet = next->packet;

		if (put(send, packet, 1)) {
			gw_send_timer(send, now + o->unit_ns); /* no room for more just now */
			return;
		}
		if (next == &scratch) {
			s->first++;
		} else {
			s->head = (s->head + 1) % o->packets_max;
			s->waiting--;
		}
		o->ring[(s->head + s->waiting++) % o->packets_max] =
			(struct timer_repeat_entry){ .due_ns = now + o->unit_ns + o->rto_ns,
						     .packet = packet };
	}
	set_timer(send);
}

static void acknowledged(struct gw_send *send, void *arg, const struct gw_nack *nack, uint64_t now)
{
	struct sending *s = gw_send_state(send);
	uint32_t at = nack->round;

	(void)arg;
	(void)now;
	for (uint32_t i = 0; i <= nack->count; i++) {
		uint32_t to = i < nack->count ? nack->runs[i].first : nack->below;

		if (to > s->packets || to < at)
			return;
		memset(s->options.landed + at, 1, to - at);
		if (i < nack->count)
			at = to + nack->runs[i].count;
	}
	set_timer(send);
}

static void result(struct gw_send *send, void *arg, const struct gw_result *outcome, uint64_t now)
{
	(void)arg;
	(void)now;
	gw_transfer_finish_send(send, outcome->missing ? -ECANCELED : 0, outcome->missing);
}

/* ---- the receiver ---------------------------------------------------------------------------------------------- */

static void acknowledge(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	struct gw_run runs[GW_NACK_RUNS_MAX];
	struct gw_nack nack = { .runs = runs };
	struct gw_recv_status status;

	(void)arg;
	(void)now;
	if (gw_recv_status(recv, &status) || status.flags & GW_RECV_COMPLETED)
		return;
	r->acked = status.landed;
	for (int i = 0; i < DATAGRAMS_AN_ACK && nack.below < status.highest; i++) {
		nack.round = nack.below;
		nack.count = 0;
		while (nack.count < GW_NACK_RUNS_MAX &&
		       gw_recv_next_hole(recv, nack.below, status.highest, &runs[nack.count]) ==
			       1) {
			nack.below = runs[nack.count].first + runs[nack.count].count;
			nack.count++;
		}
		if (nack.count < GW_NACK_RUNS_MAX)
			nack.below = status.highest;
		gw_recv_nack(recv, &nack);
	}
}

static void look(struct gw_recv *recv, void *arg, uint64_t now)
{
	const struct receiving *r = gw_recv_state(recv);
	struct gw_recv_status status;
	struct gw_estimate estimate;

	if (gw_recv_status(recv, &status) || status.flags & GW_RECV_COMPLETED)
		return;
	if (status.flags & GW_RECV_FULL)
		gw_transfer_finish_recv(recv, 0, 0);
	else if (status.landed - r->acked >= ACK_EVERY)
		acknowledge(recv, arg, now);
	else if (!gw_qp_estimate(gw_recv_qp(recv), &estimate))
		gw_recv_timer(recv, now + estimate.rtt_min_ns / 4);
}

const struct gw_scheme timer_repeat = {
	.name = "timer-repeat",
	.id = SCHEME_ID,
	.prepare = prepare,
	.send_begin = send_begin,
	.send = {
		.granted = granted,
		.nack = acknowledged,
		.timer = timer,
		.result = result,
		.done = gw_transfer_sent,
	},
	.recv = {
		.announced = look,
		.progress = look,
		.timer = acknowledge,
		.released = gw_transfer_received,
	},
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective Repeat, driven by the receiver: the table, and the sender's half.
 *
 * The sender puts the whole message once and from then on repeats what it is asked for. It keeps no state for single
 * packets. Each round of asking it answers with where its first pass has got to: repeats leave before that goes on, so
 * that packets from there on, once they land, prove a repeat lost that did not.
 *
 * A tail lost as a whole proves no hole: nothing lands above it, and nothing behind the repeats of a message that is
 * otherwise over. The sender asks (a tail probe) when it has not heard anything for a round trip after its last packet
 * left, and backs off while nobody answers. On a long path it asks once more before that, as soon as what left has
 * arrived or is lost, unless the next message follows and proves as much.
 *
 * There a repeat that is lost costs a round trip, too. What is asked for a second time leaves twice, a sixteenth of a
 * round trip apart, if the line is idle: the message is over but for this, the next has not begun, no queue and no mark
 * was seen. That is at most a packet in 64 of the message, and one.
 *
 * The message is finished at the receiver when it is whole, and at the sender when the receiver's result says so.
 */
#include <errno.h>

#include "reliability/selective_repeat_state.h"

#define SCHEME_ID   1
#define ROUNDS_SEEN 64

struct sending {
	struct gw_transfer transfer;
	/* One bit for each of the last 64 rounds that was answered; bit 0 is `round`. */
	uint64_t seen;
	/* The last round that was answered. */
	uint32_t round;
	/* Holes up to here were asked for. */
	uint32_t below;
	/* Tail probes in a row without an answer. */
	uint32_t silent;
	/* Packets sent once more unasked. */
	uint32_t spared;
	/* Congestion notifications, and marks, before the first round. */
	uint32_t cnps;
	uint32_t marked;
	/* Puts wait to be sent. */
	uint8_t waiting;
	/* The next question does not wait for an answer's time. */
	uint8_t early;
	/* Number of runs in `spare`. */
	uint8_t spare_runs;
	/* Packets that were asked for a second time and leave once more. */
	struct gw_run spare[SPARE_RUNS];
};

_Static_assert(sizeof(struct sending) <= GW_STATE_BYTES, "a request's own memory");

static void write_be(uint8_t *bytes, uint64_t value, int size)
{
	for (int i = 0; i < size; i++)
		bytes[i] = (uint8_t)(value >> 8 * (size - 1 - i));
}

/* How much later than what was sent before it a packet may arrive; 0 where that is not known well. */
static uint64_t disorder_ns(const struct gw_qp *qp, const struct gw_estimate *path)
{
	uint64_t most = path->rtt_ns / 8, least = UINT64_MAX, longest = 0;
	struct gw_lane lane;

	if (4 * path->rtt_var_ns > most)
		most = 4 * path->rtt_var_ns;
	for (uint32_t i = 0; !gw_qp_lane(qp, i, &lane); i++) {
		if (!lane.rtt_ns)
			return 0;
		least = lane.rtt_ns < least ? lane.rtt_ns : least;
		longest = lane.rtt_ns > longest ? lane.rtt_ns : longest;
	}
	return longest > least ? most + longest - least : most;
}

uint64_t selective_repeat_ask_ns(const struct gw_qp *qp)
{
	uint64_t answer = gw_qp_answer_ns(qp), early = 0;
	struct gw_estimate path;

	if (answer >= FAR_NS && !gw_qp_estimate(qp, &path) && path.rtt_min_ns >= FAR_NS)
		early = disorder_ns(qp, &path);
	return early && early < answer ? early : answer;
}

/* Longer each time in vain, up to a second or what one answer may take. On a long path the first question waits only
 * until what left before it has arrived. */
static void wait_for_news(struct gw_send *send, uint64_t now)
{
	struct sending *s = gw_send_state(send);
	const struct gw_qp *qp = gw_send_qp(send);
	uint32_t shift = s->silent < BACKOFF_LIMIT ? s->silent : BACKOFF_LIMIT;
	uint64_t answer = gw_qp_answer_ns(qp);
	uint64_t limit = answer > BACKOFF_LIMIT_NS ? answer : BACKOFF_LIMIT_NS;
	uint64_t ask = s->early ? selective_repeat_ask_ns(qp) : answer;

	s->early = ask < answer;
	if (s->early)
		gw_send_timer(send, now + (s->spare_runs ? ask / 2 : ask));
	else
		gw_send_timer(send, now + (answer << shift < limit ? answer << shift : limit));
	if (!s->early)
		s->spare_runs = 0;
}

static int put_packets(struct gw_send *send, const struct gw_run *run)
{
	struct sending *s = gw_send_state(send);
	uint32_t payload = 0;
	uint64_t first, length;
	int error;

	gw_send_payload(send, &payload);
	first = (uint64_t)run->first * payload;
	length = (uint64_t)run->count * payload;
	if (length > s->transfer.length - first)
		length = s->transfer.length - first;
	error = gw_stream_put(send, first, (const uint8_t *)s->transfer.addr + first, length,
			      s->transfer.mr);
	if (error)
		return error;
	/* While packets wait here silence means nothing. `drained` starts the clock. */
	s->waiting = 1;
	gw_send_timer(send, 0);
	return 0;
}

void selective_repeat_granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now)
{
	struct sending *s = gw_send_state(send);
	uint32_t payload = 1;
	struct gw_run all = { 0, 0 };
	int error = 0;

	(void)arg;
	(void)capacity;
	gw_send_payload(send, &payload);
	all.count = (uint32_t)((s->transfer.length + payload - 1) / payload);
	if (all.count)
		error = put_packets(send, &all);
	if (error && error != -EAGAIN)
		gw_transfer_finish_send(send, error, GW_MISSING_UNKNOWN);
	else if (!s->waiting)
		wait_for_news(
			send,
			now); /* nothing to send, or no room: then the receiver will ask for all of it */
}

/* The receiver names what is missing, in the new numbering. */
void selective_repeat_send_recut(struct gw_send *send, void *arg, uint64_t now)
{
	struct sending *s = gw_send_state(send);

	(void)arg;
	s->waiting = 0;
	s->spare_runs = 0;
	s->below = 0;
	wait_for_news(send, now);
}

void selective_repeat_drained(struct gw_send *send, void *arg, uint64_t now)
{
	struct sending *s = gw_send_state(send);

	(void)arg;
	s->waiting = 0;
	s->early = 1;
	wait_for_news(send, now);
}

static void answer(struct gw_send *send, uint32_t round)
{
	uint8_t bytes[ANSWER_SIZE] = { ANSWER };
	uint64_t position;

	if (gw_send_position(send, &position))
		return;
	write_be(bytes + 1, round, 4);
	write_be(bytes + 5, position, 8);
	gw_send_control(send, bytes, sizeof(bytes));
}

/* Rounds are numbered so that one that is said twice, delivered twice or late is answered once. */
static int is_new(struct sending *s, uint32_t round)
{
	uint32_t ahead = round - s->round, behind = s->round - round;

	if ((int32_t)ahead > 0) {
		s->seen = ahead < ROUNDS_SEEN ? s->seen << ahead | 1 : 1;
		s->round = round;
		return 1;
	}
	if (behind >= ROUNDS_SEEN || s->seen >> behind & 1)
		return 0;
	s->seen |= UINT64_C(1) << behind;
	return 1;
}

/* Nothing of this queue pair leaves but what is asked for, all of this message was sent, and nothing after it. */
static int is_over(struct gw_send *send)
{
	const struct sending *s = gw_send_state(send);
	uint64_t position;
	uint32_t payload;

	return !gw_send_payload(send, &payload) && !gw_send_position(send, &position) &&
	       position == (s->transfer.length + payload - 1) / payload;
}

/* Repeats of repeats, when little else is missing. */
static void keep_spare(struct gw_send *send, const struct gw_nack *nack)
{
	struct sending *s = gw_send_state(send);

	/* A round that was overtaken is none of the second time. */
	if (nack->below > s->below || nack->round != s->round || !is_over(send))
		return;
	for (uint32_t i = 0; i < nack->count && s->spare_runs < SPARE_RUNS; i++)
		s->spare[s->spare_runs++] = nack->runs[i];
}

void selective_repeat_nack(struct gw_send *send, void *arg, const struct gw_nack *nack,
			   uint64_t now)
{
	struct sending *s = gw_send_state(send);
	struct gw_estimate path;
	int error = 0;

	(void)arg;
	if (!s->round && !gw_qp_estimate(gw_send_qp(send), &path)) {
		s->cnps = path.cnps;
		s->marked = path.marked;
	}
	if (!is_new(s, nack->round))
		return;
	s->silent = 0;
	for (uint32_t i = 0; i < nack->count && !error; i++)
		error = put_packets(send, &nack->runs[i]);
	/* No room is no harm: what is not repeated now will be asked for again. */
	if (!error) {
		answer(send, nack->round);
		keep_spare(send, nack);
	}
	if (nack->below > s->below)
		s->below = nack->below;
	if (!s->waiting)
		wait_for_news(send, now);
}

/* To send twice what a queue swallows would make that longer. */
static int is_calm(struct gw_send *send)
{
	const struct sending *s = gw_send_state(send);
	struct gw_estimate path;

	return !gw_qp_estimate(gw_send_qp(send), &path) && path.cnps == s->cnps &&
	       path.marked == s->marked && path.rtt_ns <= path.rtt_min_ns + path.rtt_min_ns / 8;
}

static void put_spare(struct gw_send *send)
{
	struct sending *s = gw_send_state(send);
	uint32_t payload = 1, packets = 0, runs = s->spare_runs;

	s->spare_runs = 0;
	gw_send_payload(send, &payload);
	for (uint32_t i = 0; i < runs; i++)
		packets += s->spare[i].count;
	if (!is_over(send) || !is_calm(send) ||
	    s->spared + packets > s->transfer.length / payload / SPARE_SHARE + 1)
		return;
	s->spared += packets;
	for (uint32_t i = 0; i < runs; i++)
		put_packets(send, &s->spare[i]);
}

/* Everything was sent, and nothing was heard. Where the next message follows its packets prove as much, at first. */
void selective_repeat_send_timer(struct gw_send *send, void *arg, uint64_t now)
{
	struct sending *s = gw_send_state(send);
	uint8_t tail_probe[TAIL_PROBE_SIZE] = { TAIL_PROBE };
	uint64_t position = 0;

	(void)arg;
	if (s->spare_runs) {
		put_spare(send);
		if (!s->waiting)
			wait_for_news(send, now);
		return;
	}
	if (s->early)
		gw_send_position(send, &position);
	else
		s->silent++;
	s->early = 0;
	if (position < GW_POSITION_END) {
		write_be(tail_probe + 1, s->round, 4);
		gw_send_control(send, tail_probe, sizeof(tail_probe));
	}
	wait_for_news(send, now);
}

void selective_repeat_result(struct gw_send *send, void *arg, const struct gw_result *outcome,
			     uint64_t now)
{
	(void)arg;
	(void)now;
	gw_transfer_finish_send(send, outcome->missing ? -ECANCELED : 0, outcome->missing);
}

const struct gw_scheme gw_selective_repeat = {
	.name = "selective-repeat",
	.id = SCHEME_ID,
	.send = {
		.granted = selective_repeat_granted,
		.drained = selective_repeat_drained,
		.nack = selective_repeat_nack,
		.timer = selective_repeat_send_timer,
		.result = selective_repeat_result,
		.done = gw_transfer_sent,
		.recut = selective_repeat_send_recut,
	},
	.recv = {
		.progress = selective_repeat_look,
		.control = selective_repeat_told,
		.timer = selective_repeat_overdue,
		.released = gw_transfer_received,
		.recut = selective_repeat_recut,
	},
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective Repeat, driven by the receiver: the table, and the sender's half.
 *
 * The sender puts the whole message once and from then on repeats what it is asked for. It keeps no state for single
 * packets. Each round of asking it answers with where its first pass has got to: repeats leave before that goes on, so
 * that packets from there on, once they land, prove a repeat lost that did not.
 *
 * A tail lost as a whole proves no hole: nothing lands above it. The sender asks (a tail probe) when it has not heard
 * anything for a round trip after its last packet left, and backs off while nobody answers.
 *
 * The message is finished at the receiver when it is whole, and at the sender when the receiver's result says so.
 */
#include <errno.h>

#include "reliability/selective_repeat_state.h"

#define SCHEME_ID	 1
#define BACKOFF_LIMIT	 6
#define BACKOFF_LIMIT_NS UINT64_C(1000000000)

struct sending {
	struct gw_transfer transfer;
	uint32_t round;	 /* the last one answered */
	uint32_t silent; /* tail probes in a row without an answer */
	int waiting;	 /* puts wait to be sent */
};

_Static_assert(sizeof(struct sending) <= GW_STATE_BYTES, "a request's own memory");

static void write_be(uint8_t *bytes, uint64_t value, int size)
{
	for (int i = 0; i < size; i++)
		bytes[i] = (uint8_t)(value >> 8 * (size - 1 - i));
}

/* Longer each time in vain, up to a second or what one answer may take. */
static void wait_for_news(struct gw_send *send, uint64_t now)
{
	const struct sending *s = gw_send_state(send);
	uint32_t shift = s->silent < BACKOFF_LIMIT ? s->silent : BACKOFF_LIMIT;
	uint64_t answer = gw_qp_answer_ns(gw_send_qp(send));
	uint64_t limit = answer > BACKOFF_LIMIT_NS ? answer : BACKOFF_LIMIT_NS;

	gw_send_timer(send, now + (answer << shift < limit ? answer << shift : limit));
}

static int put_packets(struct gw_send *send, const struct gw_run *run)
{
	struct sending *s = gw_send_state(send);
	uint32_t payload = 0;
	uint64_t first, length;
	int error;

	gw_qp_payload(gw_send_qp(send), &payload);
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

static void granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now)
{
	struct sending *s = gw_send_state(send);
	uint32_t payload = 1;
	struct gw_run all = { 0, 0 };
	int error = 0;

	(void)arg;
	(void)capacity;
	gw_qp_payload(gw_send_qp(send), &payload);
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

static void drained(struct gw_send *send, void *arg, uint64_t now)
{
	struct sending *s = gw_send_state(send);

	(void)arg;
	s->waiting = 0;
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

static void repeat(struct gw_send *send, void *arg, const struct gw_nack *nack, uint64_t now)
{
	struct sending *s = gw_send_state(send);
	int error = 0;

	(void)arg;
	/* Rounds are numbered so that one datagram delivered twice, or late, is answered once. */
	if (s->round && (int32_t)(nack->round - s->round) <= 0)
		return;
	s->round = nack->round;
	s->silent = 0;
	for (uint32_t i = 0; i < nack->count && !error; i++)
		error = put_packets(send, &nack->runs[i]);
	/* No room is no harm: what is not repeated now will be asked for again. */
	if (!error)
		answer(send, nack->round);
	if (!s->waiting)
		wait_for_news(send, now);
}

static void ask(struct gw_send *send, void *arg, uint64_t now)
{
	struct sending *s = gw_send_state(send);
	uint8_t tail_probe[TAIL_PROBE_SIZE] = { TAIL_PROBE };

	(void)arg;
	write_be(tail_probe + 1, s->round, 4);
	gw_send_control(send, tail_probe, sizeof(tail_probe));
	s->silent++;
	wait_for_news(send, now);
}

static void result(struct gw_send *send, void *arg, const struct gw_result *outcome, uint64_t now)
{
	(void)arg;
	(void)now;
	gw_transfer_finish_send(send, outcome->missing ? -ECANCELED : 0, outcome->missing);
}

const struct gw_scheme gw_selective_repeat = {
	.name = "selective-repeat",
	.id = SCHEME_ID,
	.send = {
		.granted = granted,
		.drained = drained,
		.nack = repeat,
		.timer = ask,
		.result = result,
		.done = gw_transfer_sent,
	},
	.recv = {
		.announced = selective_repeat_look,
		.progress = selective_repeat_look,
		.control = selective_repeat_told,
		.timer = selective_repeat_overdue,
		.released = gw_transfer_received,
	},
};

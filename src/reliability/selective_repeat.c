/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective Repeat, driven by the receiver.
 *
 * The sender puts the whole message once and from then on repeats what it is asked for. The receiver looks at the bitmap
 * as packets land. A hole is provable when a packet well above it has landed (`slack` packets above: networks reorder),
 * or when the sender says that it has sent everything. A provable hole is named at once; holes that were named and did
 * not close within a round trip and some patience are named again. So a repeat that is lost costs one patience, not a
 * special case, and the sender needs no state for single packets.
 *
 * A tail lost as a whole proves no hole: nothing lands above it. The sender asks (a tail probe) when it has not heard
 * anything for a patience after its last packet left, and backs off while nobody answers.
 *
 * The message is finished at the receiver when it is whole, and at the sender when the receiver's result says so.
 */
#include <errno.h>

#include <godwit/scheme.h>

#define SCHEME_ID	  1
#define TAIL_PROBE	  1 /* the one thing the sender says: everything was sent */
#define SLACK_FIRST	  3 /* packets; as many as TCP's duplicate acknowledgements */
#define SLACK_LIMIT	  1024
#define BACKOFF_LIMIT	  6
#define BACKOFF_LIMIT_NS  UINT64_C(1000000000)
#define DATAGRAMS_A_ROUND 4

struct sending {
	struct gw_transfer transfer;
	uint32_t round;	 /* the last one answered */
	uint32_t silent; /* tail probes in a row without an answer */
	int asked;	 /* a round was answered */
	int first;	 /* the first pass is not all sent yet */
	int waiting;	 /* puts wait to be sent */
	uint32_t queued; /* packets below this that were asked for again may still wait */
};

struct receiving {
	struct gw_transfer transfer;
	uint32_t round;
	uint32_t slack;
	uint32_t examined; /* holes below were named at least once */
	uint32_t landed;   /* when last looked at */
	uint32_t named;	   /* holes (packets) in the last look at new ones */
	uint32_t quiet;	   /* rounds in a row that brought nothing */
	uint64_t named_at;
	int tail; /* the sender says that it has sent everything */
};

_Static_assert(sizeof(struct sending) <= GW_STATE_BYTES, "a request's own memory");
_Static_assert(sizeof(struct receiving) <= GW_STATE_BYTES, "a request's own memory");

/* Patience grows while nobody answers, but not beyond a second or what one answer may take: a round trip measured on a
 * busy host must not turn a few lost questions into a minute of silence. */
static uint64_t backed_off(uint64_t patience_ns, uint32_t shift)
{
	uint64_t limit = patience_ns > BACKOFF_LIMIT_NS ? patience_ns : BACKOFF_LIMIT_NS;

	return patience_ns << shift < limit ? patience_ns << shift : limit;
}

/* ---- the sender ------------------------------------------------------------------------------------------------ */

static void wait_for_news(struct gw_send *send, uint64_t now)
{
	const struct sending *s = gw_send_state(send);
	uint32_t shift = s->silent < BACKOFF_LIMIT ? s->silent : BACKOFF_LIMIT;

	gw_send_timer(send, now + backed_off(gw_qp_patience_ns(gw_send_qp(send)), shift));
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
	s->first = s->waiting;
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
	s->first = 0;
	wait_for_news(send, now);
}

static void repeat(struct gw_send *send, void *arg, const struct gw_nack *nack, uint64_t now)
{
	struct sending *s = gw_send_state(send);

	(void)arg;
	/* Rounds are numbered so that one datagram delivered twice, or late, is answered once. */
	if (s->asked && (int32_t)(nack->round - s->round) <= 0)
		return;
	s->asked = 1;
	s->round = nack->round;
	s->silent = 0;
	if (gw_stream_waiting(send) <= s->first)
		s->queued = 0;
	for (uint32_t i = 0; i < nack->count; i++) {
		/* What still waits from an earlier round is not put again. No room is no harm: what is not repeated
		 * now will be asked for again. */
		if (nack->runs[i].first < s->queued)
			continue;
		if (put_packets(send, &nack->runs[i]))
			break;
		s->queued = nack->runs[i].first + nack->runs[i].count;
	}
	if (!s->waiting)
		wait_for_news(send, now);
}

static void ask(struct gw_send *send, void *arg, uint64_t now)
{
	static const uint8_t tail_probe[] = { TAIL_PROBE };
	struct sending *s = gw_send_state(send);

	(void)arg;
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

/* ---- the receiver ---------------------------------------------------------------------------------------------- */

/* Names the holes in [from, below): several datagrams where one does not hold them. */
static uint32_t name_holes(struct gw_recv *recv, uint32_t from, uint32_t below, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	struct gw_run runs[GW_NACK_RUNS_MAX];
	struct gw_nack nack = { .runs = runs };
	uint32_t holes = 0;

	for (int i = 0; i < DATAGRAMS_A_ROUND; i++) {
		nack.count = 0;
		while (nack.count < GW_NACK_RUNS_MAX &&
		       gw_recv_next_hole(recv, from, below, &runs[nack.count]) == 1) {
			holes += runs[nack.count].count;
			from = runs[nack.count].first + runs[nack.count].count;
			nack.count++;
		}
		if (!nack.count)
			break;
		nack.round = ++r->round;
		nack.below = from;
		gw_recv_nack(recv, &nack);
	}
	if (holes)
		r->named_at = now;
	return holes;
}

static uint32_t count_holes(struct gw_recv *recv, uint32_t below)
{
	struct gw_run run;
	uint32_t holes = 0;

	for (uint32_t from = 0; gw_recv_next_hole(recv, from, below, &run) == 1;
	     from = run.first + run.count)
		holes += run.count;
	return holes;
}

/* A hole that closes sooner than a repeat could have come was a packet out of order: be slower to call it lost. */
static void learn_slack(struct gw_recv *recv, struct receiving *r, uint64_t now)
{
	struct gw_estimate estimate;

	if (!r->named || gw_qp_estimate(gw_recv_qp(recv), &estimate) ||
	    now - r->named_at >= estimate.rtt_min_ns)
		return;
	if (count_holes(recv, r->examined) < r->named && r->slack < SLACK_LIMIT)
		r->slack *= 2;
	r->named = 0;
}

static void set_round_timer(struct gw_recv *recv, const struct receiving *r, uint64_t now)
{
	uint32_t shift = r->quiet < BACKOFF_LIMIT ? r->quiet : BACKOFF_LIMIT;

	gw_recv_timer(recv, now + backed_off(gw_qp_patience_ns(gw_recv_qp(recv)), shift));
}

static uint32_t provable(const struct receiving *r, const struct gw_recv_status *status)
{
	if (r->tail)
		return status->flags & GW_RECV_ANNOUNCED ? status->packets : status->highest;
	return status->highest > r->slack ? status->highest - r->slack : 0;
}

static void look(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	struct gw_recv_status status;
	uint32_t below, holes;

	(void)arg;
	if (gw_recv_status(recv, &status) || status.flags & GW_RECV_COMPLETED)
		return;
	if (status.flags & GW_RECV_FULL) {
		gw_transfer_finish_recv(recv, 0, 0);
		return;
	}
	if (status.landed != r->landed) {
		r->landed = status.landed;
		r->quiet = 0;
	}
	learn_slack(recv, r, now);
	below = provable(r, &status);
	if (below <= r->examined)
		return;
	holes = name_holes(recv, r->examined, below, now);
	r->examined = below;
	if (holes) {
		r->named = count_holes(recv, below);
		set_round_timer(recv, r, now);
	}
}

/* A patience has passed since holes were named. */
static void name_again(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);

	(void)arg;
	r->named = 0;
	if (!name_holes(recv, 0, r->examined, now))
		return;
	r->quiet++;
	set_round_timer(recv, r, now);
}

/* The sender has sent everything and heard nothing: whatever is missing now is lost. */
static void asked(struct gw_recv *recv, void *arg, const void *data, size_t length, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	struct gw_recv_status status;

	(void)arg;
	if (length < 1 || *(const uint8_t *)data != TAIL_PROBE || gw_recv_status(recv, &status))
		return;
	r->tail = 1;
	r->examined = provable(r, &status);
	r->quiet = 0;
	name_again(recv, NULL, now);
}

static void recv_begin(struct gw_recv *recv, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);

	(void)now;
	r->slack = SLACK_FIRST;
}

const struct gw_scheme gw_selective_repeat = {
	.name = "selective-repeat",
	.id = SCHEME_ID,
	.recv_begin = recv_begin,
	.send = {
		.granted = granted,
		.drained = drained,
		.nack = repeat,
		.timer = ask,
		.result = result,
		.done = gw_transfer_sent,
	},
	.recv = {
		.announced = look,
		.progress = look,
		.control = asked,
		.timer = name_again,
		.released = gw_transfer_received,
	},
};

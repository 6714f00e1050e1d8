/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounded completion.
 *
 * The sender puts the message once, says when the last packet has left, and says it again until it hears the result. The
 * receiver's clock starts at the first sign of the message: an earlier message may have held it up, and that is not its
 * fault. From there one timer runs to whatever ends it first: the deadline, or a grace of silence after the sender's
 * word. A message that has not reached its floor by then goes on as Selective Repeat would, naming its holes once a
 * patience, until it has, or until it is given up.
 *
 * Receives may stand in a line, numbered as they were posted. Whichever begins ends the one before it that is still open,
 * and one that begins, or is announced, when a newer has begun ends itself.
 *
 * Holes are filled with zeros when the memory is released and not before: a late packet may land until then.
 */
#include <errno.h>
#include <string.h>

#include <godwit/bounded.h>

#include "constants/protocol.h"

#define SCHEME_ID	    3
#define ALL_SENT	    1 /* the one thing the sender says */
#define DEADLINE_DEFAULT_NS UINT64_C(1000000000)
#define CEILING_DEFAULT_PPM 100000u
#define PPM		    UINT64_C(1000000)

struct sending {
	struct gw_transfer transfer;
	/* number of the round that was answered last */
	uint32_t round;
	/* statements in a row without an answer */
	uint32_t silent;
	/* a round was answered */
	int asked;
};

struct receiving {
	struct gw_transfer transfer;
	struct gw_pace *pace;
	struct gw_bounded_outcome *outcome;
	struct gw_line *line;
	uint64_t began;
	/* deadline: a duration until the message begins, then a time */
	uint64_t deadline;
	/* the same for the time at which the message is given up */
	uint64_t give_up;
	uint64_t grace_ns;
	/* since when nothing came after everything was sent; 0: not everything was sent */
	uint64_t quiet_since;
	uint64_t elapsed_ns;
	uint32_t floor_ppm;
	uint32_t ceiling_ppm;
	uint32_t round;
	/* place in the line */
	uint32_t place;
	uint8_t flags;
	uint8_t reason;
	/* the deadline passed below the floor */
	uint8_t repairing;
};

_Static_assert(sizeof(struct sending) <= GW_STATE_BYTES, "a request's own memory");
_Static_assert(sizeof(struct receiving) <= GW_STATE_BYTES, "a request's own memory");

static int prepare(struct gw_qp *qp, const struct gw_transfer_attr *attr, uint32_t geometry[2])
{
	const struct gw_bounded_options *options = attr->options;

	(void)qp;
	geometry[0] = geometry[1] = 0;
	if (!options)
		return 0;
	if (options->reserved[0] || options->reserved[1] || options->reserved[2] ||
	    options->reserved32 || options->flags & ~GW_BOUNDED_KEEP || options->floor_ppm > PPM ||
	    options->ceiling_ppm > PPM ||
	    (options->give_up_ns && options->give_up_ns < options->deadline_ns))
		return -EINVAL;
	return 0;
}

/* ---- the sender ------------------------------------------------------------------------------------------------ */

static int put(struct gw_send *send, uint64_t first, uint64_t length)
{
	const struct sending *s = gw_send_state(send);
	int error;

	if (length > s->transfer.length - first)
		length = s->transfer.length - first;
	error = gw_stream_put(send, first, (const uint8_t *)s->transfer.addr + first, length,
			      s->transfer.mr);
	/* Not all is sent while this waits. `drained` says it. */
	if (!error && length)
		gw_send_timer(send, 0);
	return error;
}

static void say_all_sent(struct gw_send *send, void *arg, uint64_t now)
{
	static const uint8_t all_sent[] = { ALL_SENT };
	struct sending *s = gw_send_state(send);

	(void)arg;
	gw_send_control(send, all_sent, sizeof(all_sent));
	gw_send_timer(send, now + (gw_qp_patience_ns(gw_send_qp(send)) << s->silent));
	if (s->silent < BACKOFF_LIMIT)
		s->silent++;
}

static void granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now)
{
	const struct sending *s = gw_send_state(send);
	int error = put(send, 0, s->transfer.length);

	(void)capacity;
	if (error)
		gw_transfer_finish_send(send, error, GW_MISSING_UNKNOWN);
	else if (!s->transfer.length)
		say_all_sent(send, arg, now);
}

/* Below its floor the receiver asks as under Selective Repeat; a round is answered once. */
static void repeat(struct gw_send *send, void *arg, const struct gw_nack *nack, uint64_t now)
{
	struct sending *s = gw_send_state(send);
	uint32_t payload = 0;

	(void)arg;
	(void)now;
	/* While packets wait here they may be the very ones: if not, it will ask again. */
	if (gw_stream_waiting(send) > 0 || (s->asked && (int32_t)(nack->round - s->round) <= 0))
		return;
	s->asked = 1;
	s->round = nack->round;
	s->silent = 0;
	gw_send_payload(send, &payload);
	for (uint32_t i = 0; i < nack->count; i++)
		if (put(send, (uint64_t)nack->runs[i].first * payload,
			(uint64_t)nack->runs[i].count * payload))
			break;
}

static void result(struct gw_send *send, void *arg, const struct gw_result *outcome, uint64_t now)
{
	(void)arg;
	(void)now;
	gw_transfer_finish_send(send, outcome->missing == GW_MISSING_UNKNOWN ? -ECANCELED : 0,
				outcome->missing);
}

/* ---- the receiver ---------------------------------------------------------------------------------------------- */

static void recv_begin(struct gw_recv *recv, uint64_t now)
{
	static const struct gw_bounded_options defaults;
	struct receiving *r = gw_recv_state(recv);
	const struct gw_bounded_options *options =
		r->transfer.options ? r->transfer.options : &defaults;

	(void)now;
	r->pace = options->pace;
	r->outcome = options->outcome;
	r->line = options->line;
	if (r->line)
		r->place = ++r->line->posted;
	r->deadline = options->deadline_ns;
	if (!r->deadline && options->pace)
		r->deadline = gw_pace_timeout_ns(options->pace, 1, r->transfer.length);
	if (!r->deadline)
		r->deadline = DEADLINE_DEFAULT_NS;
	r->give_up = options->give_up_ns  ? options->give_up_ns
		     : options->floor_ppm ? 10 * r->deadline
					  : r->deadline;
	r->grace_ns = options->grace_ns;
	r->floor_ppm = options->floor_ppm;
	r->ceiling_ppm = options->ceiling_ppm ? options->ceiling_ppm : CEILING_DEFAULT_PPM;
	r->flags = (uint8_t)options->flags;
}

static int reached_floor(const struct receiving *r, const struct gw_recv_status *status)
{
	return status->flags & GW_RECV_ANNOUNCED &&
	       status->landed * PPM >= (uint64_t)r->floor_ppm * status->packets;
}

static void leave_line(struct gw_recv *recv)
{
	const struct receiving *r = gw_recv_state(recv);

	if (r->line && r->line->current == recv)
		r->line->current = NULL;
}

static void end(struct gw_recv *recv, const struct gw_recv_status *status,
		enum gw_bounded_reason reason, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	uint32_t missing = status->packets - status->landed;
	int error = 0;

	r->reason = (uint8_t)reason;
	r->elapsed_ns = now - r->began;
	leave_line(recv);
	if (!(status->flags & GW_RECV_ANNOUNCED)) {
		error = -ETIMEDOUT; /* of unknown length: nobody can say what is missing */
		missing = GW_MISSING_UNKNOWN;
	} else if (reason == GW_BOUNDED_GAVE_UP ||
		   (reason == GW_BOUNDED_PREEMPTED && !reached_floor(r, status))) {
		error = -ETIMEDOUT;
	} else if (missing * PPM > (uint64_t)r->ceiling_ppm * status->packets) {
		error = -EIO;
	}
	gw_transfer_finish_recv(recv, error, missing);
}

static uint64_t ends_at(const struct receiving *r)
{
	uint64_t early = r->quiet_since + r->grace_ns;

	return r->quiet_since && early < r->deadline ? early : r->deadline;
}

static void repair(struct gw_recv *recv, const struct gw_recv_status *status, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	uint64_t again = now + gw_qp_patience_ns(gw_recv_qp(recv));
	uint32_t below = status->flags & GW_RECV_ANNOUNCED ? status->packets : status->highest;
	uint32_t from = 0;

	r->repairing = 1;
	gw_recv_nack_holes(recv, ++r->round, &from, below);
	gw_recv_timer(recv, again < r->give_up ? again : r->give_up);
}

static void time_up(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	/* Before it was announced nobody can say what is missing: that is lost and repeated like anything else. */
	uint64_t unknown_until = r->floor_ppm ? r->deadline : r->give_up;
	struct gw_recv_status status;

	(void)arg;
	if (gw_recv_status(recv, &status) || status.flags & GW_RECV_COMPLETED)
		return;
	if (now < unknown_until && !(status.flags & GW_RECV_ANNOUNCED)) {
		gw_recv_timer(recv, unknown_until);
		return;
	}
	if (reached_floor(r, &status))
		end(recv, &status, now >= r->deadline ? GW_BOUNDED_DEADLINE : GW_BOUNDED_EARLY,
		    now);
	else if (now >= r->give_up)
		end(recv, &status, GW_BOUNDED_GAVE_UP, now);
	else
		repair(recv, &status, now);
}

/* A newer one has begun. Nobody can say what is missing before it was announced: until then it goes on. */
static int preempted(struct gw_recv *recv, const struct gw_recv_status *status, uint64_t now)
{
	const struct receiving *r = gw_recv_state(recv);

	if (!r->line || (int32_t)(r->line->begun - r->place) <= 0 ||
	    !(status->flags & GW_RECV_ANNOUNCED))
		return 0;
	end(recv, status, GW_BOUNDED_PREEMPTED, now);
	return 1;
}

/* It begins to land, or was sent and is lost: what is older in its line ends. An announcement is not enough, for several
 * come at once. */
static void join_line(struct gw_recv *recv, uint64_t now)
{
	const struct receiving *r = gw_recv_state(recv);
	struct gw_recv *older = r->line ? r->line->current : NULL;
	struct gw_recv_status status;

	if (!r->line || (int32_t)(r->line->begun - r->place) >= 0)
		return;
	r->line->begun = r->place;
	r->line->current = recv;
	if (older && !gw_recv_status(older, &status) && !(status.flags & GW_RECV_COMPLETED))
		preempted(older, &status, now);
}

static void look(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	struct gw_recv_status status;

	(void)arg;
	if (gw_recv_status(recv, &status) || status.flags & GW_RECV_COMPLETED)
		return;
	if (!r->began) {
		r->began = now;
		r->deadline += now;
		r->give_up += now;
		gw_recv_timer(recv, r->deadline);
	}
	if (status.landed || status.flags & GW_RECV_FULL)
		join_line(recv, now);
	if (status.flags & GW_RECV_FULL) {
		end(recv, &status, GW_BOUNDED_WHOLE, now);
	} else if (preempted(recv, &status, now)) {
		return;
	} else if (r->repairing) {
		if (reached_floor(r, &status))
			end(recv, &status, GW_BOUNDED_FLOOR, now);
	} else if (r->quiet_since) {
		r->quiet_since = now;
		gw_recv_timer(recv, ends_at(r));
	} else if (now >= r->deadline) {
		time_up(recv, NULL, now); /* it was announced only now */
	}
}

static void told(struct gw_recv *recv, void *arg, const void *data, size_t length, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);

	(void)arg;
	if (length < 1 || *(const uint8_t *)data != ALL_SENT || r->quiet_since || r->repairing)
		return;
	if (!r->grace_ns)
		r->grace_ns = gw_qp_patience_ns(gw_recv_qp(recv)) / 4;
	look(recv, NULL, now); /* it may be the first sign */
	if (r->transfer.finished)
		return;
	join_line(recv, now);
	r->quiet_since = now;
	gw_recv_timer(recv, ends_at(r));
}

/* Walks the holes; the bytes that are not missing. */
static uint64_t settle(struct gw_recv *recv, const struct gw_recv_status *status, int zero)
{
	const struct receiving *r = gw_recv_state(recv);
	uint64_t bytes = status->length;
	struct gw_run run;

	for (uint32_t from = 0; gw_recv_next_hole(recv, from, status->packets, &run) == 1;
	     from = run.first + run.count) {
		uint64_t first = (uint64_t)run.first * status->payload;
		uint64_t length = (uint64_t)run.count * status->payload;

		if (length > status->length - first)
			length = status->length - first;
		bytes -= length;
		if (zero)
			memset((uint8_t *)r->transfer.addr + first, 0, length);
	}
	return bytes;
}

static void released(struct gw_recv *recv, void *arg, int status, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	struct gw_recv_status what;
	uint64_t bytes = 0;

	leave_line(recv); /* where it was ended from outside */
	if (!gw_recv_status(recv, &what) && what.flags & GW_RECV_ANNOUNCED)
		bytes = settle(recv, &what, !(r->flags & GW_BOUNDED_KEEP));
	if (r->outcome)
		*r->outcome = (struct gw_bounded_outcome){ .bytes = bytes,
							   .elapsed_ns = r->elapsed_ns,
							   .reason = r->reason };
	if (r->pace && !status && r->reason != GW_BOUNDED_FAILED &&
	    r->reason != GW_BOUNDED_PREEMPTED)
		gw_pace_add(r->pace, bytes, r->elapsed_ns);
	gw_transfer_received(recv, arg, status, now);
}

const struct gw_scheme gw_bounded = {
	.name = "bounded",
	.id = SCHEME_ID,
	.prepare = prepare,
	.recv_begin = recv_begin,
	.send = {
		.granted = granted,
		.drained = say_all_sent,
		.nack = repeat,
		.timer = say_all_sent,
		.result = result,
		.done = gw_transfer_sent,
		/* It is not begun anew: what is missing ends as a hole, or is asked for. */
		.recut = say_all_sent,
	},
	.recv = {
		.announced = look,
		.progress = look,
		.control = told,
		.timer = time_up,
		.released = released,
	},
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective Repeat: the receiver's half, which drives it.
 *
 * Whatever happens (packets land, the sender says something, a timer ends) goes to loss_detection.h, which says what is lost
 * now. This file names those holes in NACKs and waits for the next event. On a long path, where a lost NACK is found out
 * late, every NACK is said twice.
 */
#include "reliability/loss_detection.h"
#include "reliability/selective_repeat_state.h"

#define DATAGRAMS_A_ROUND 4

/* A NACK that will be said once more: the same holes, as far as they are still open, under the same round. */
struct second_copy {
	/* The time of sending, in ns; 0: none. */
	uint64_t at_ns;
	uint32_t round;
	uint32_t from;
	uint32_t below;
};

struct receiving {
	struct gw_transfer transfer;
	struct loss_detection loss;
	struct second_copy twice;
	/* The last round. */
	uint32_t round;
	/* Packets landed when last looked at. */
	uint32_t landed;
	/* Whether the request's timer runs. */
	bool timed;
};

_Static_assert(sizeof(struct receiving) <= GW_STATE_BYTES, "a request's own memory");

static struct loss_detection *loss_of(struct gw_recv *recv, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);

	loss_time(&r->loss, now, gw_qp_answer_ns(gw_recv_qp(recv)));
	return &r->loss;
}

static void say_again(struct gw_recv *recv)
{
	struct receiving *r = gw_recv_state(recv);
	uint32_t from = r->twice.from;

	if (r->twice.at_ns)
		gw_recv_nack_holes(recv, r->twice.round, &from, r->twice.below);
	r->twice.at_ns = 0;
}

/* How long after a NACK its second copy is sent, with the next NACK or alone, in ns; 0: not at all. */
static uint64_t again_ns(struct gw_recv *recv)
{
	struct gw_estimate path;

	return gw_qp_estimate(gw_recv_qp(recv), &path) ? 0 : second_copy_ns(path.rtt_min_ns);
}

/* Names the holes in a range: several datagrams where one does not hold them. Returns the last round, 0 without holes. */
static uint32_t name_holes(struct gw_recv *recv, const struct loss_range *range, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	uint32_t from = range->from, named = 0;
	struct gw_run hole;

	for (int i = 0;
	     i < DATAGRAMS_A_ROUND && gw_recv_next_hole(recv, from, range->below, &hole) == 1;
	     i++) {
		uint64_t soon = again_ns(recv);

		say_again(recv);
		if (!++r->round)
			r->round = 1; /* 0 is for none */
		named = r->round;
		r->twice = (struct second_copy){ .at_ns = soon ? now + soon : 0,
						 .round = r->round,
						 .from = from };
		gw_recv_nack_holes(recv, r->round, &from, range->below);
		r->twice.below = from;
	}
	return named;
}

/* Below this what has not landed is lost. */
static uint32_t provable(const struct loss_detection *loss, const struct gw_recv_status *status)
{
	if (loss->tail || loss->passed >= GW_POSITION_END)
		return status->flags & GW_RECV_ANNOUNCED ? status->packets : status->highest;
	return (uint32_t)loss->passed;
}

/* The clock that runs out first, and the place that is awaited next. */
static void wait(struct gw_recv *recv, const struct gw_recv_status *status)
{
	struct receiving *r = gw_recv_state(recv);
	uint64_t at, place;

	loss_wait(&r->loss, &at, &place);
	if (r->twice.at_ns && (!at || r->twice.at_ns < at))
		at = r->twice.at_ns;
	/* The tail may be proved by the next message. */
	if (place > GW_POSITION_END &&
	    (!(status->flags & GW_RECV_ANNOUNCED) || loss_end(&r->loss) < status->packets))
		place = GW_POSITION_END;
	/* Where nothing is lost there is none, packet by packet. */
	if (at || r->timed)
		gw_recv_timer(recv, at);
	r->timed = at != 0;
	gw_recv_watch(recv, place == UINT64_MAX ? 0 : place);
}

/* Names what is lost now. */
static void name_lost(struct gw_recv *recv, const struct gw_recv_status *status, uint64_t now)
{
	struct loss_detection *loss = loss_of(recv, now);
	struct loss_range range;
	uint64_t passed;

	if (!gw_recv_passed(recv, &passed))
		loss_passed(loss, passed);
	while (loss_next(loss, provable(loss, status), &range))
		loss_named(loss, &range, name_holes(recv, &range, now));
	wait(recv, status);
}

/* Stretches at the front whose holes have all landed need no clock. */
static void drop_filled(struct gw_recv *recv, struct loss_detection *loss)
{
	struct gw_run hole;

	while (loss->count && gw_recv_next_hole(recv, loss->from, loss->list[0].below, &hole) != 1)
		loss_named(loss, &(struct loss_range){ .stretch = 0 }, 0);
}

/* Only here is a message ended, so that whoever wraps `progress` sees it whole first. */
void selective_repeat_look(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	struct gw_recv_status status;

	(void)arg;
	if (gw_recv_status(recv, &status) || status.flags & GW_RECV_COMPLETED)
		return;
	if (status.flags & GW_RECV_FULL) {
		gw_transfer_finish_recv(recv, 0, 0);
		return;
	}
	if (status.landed != r->landed) {
		r->landed = status.landed;
		loss_landed(&r->loss);
	}
	drop_filled(recv, &r->loss);
	name_lost(recv, &status, now);
}

void selective_repeat_overdue(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	struct gw_recv_status status;

	(void)arg;
	if (gw_recv_status(recv, &status))
		return;
	if (r->twice.at_ns <= now)
		say_again(recv);
	loss_overdue(loss_of(recv, now));
	name_lost(recv, &status, now);
}

static uint64_t read_be(const uint8_t *bytes, int size)
{
	uint64_t value = 0;

	for (int i = 0; i < size; i++)
		value = value << 8 | bytes[i];
	return value;
}

void selective_repeat_told(struct gw_recv *recv, void *arg, const void *data, size_t length,
			   uint64_t now)
{
	struct gw_recv_status status;
	const uint8_t *bytes = data;
	uint32_t round = length >= TAIL_PROBE_SIZE ? (uint32_t)read_be(bytes + 1, 4) : 0;

	(void)arg;
	if (length < 1 || gw_recv_status(recv, &status))
		return;
	if (bytes[0] == TAIL_PROBE)
		loss_tail(loss_of(recv, now), round, length < TAIL_PROBE_SIZE);
	else if (bytes[0] == ANSWER && length >= ANSWER_SIZE)
		loss_answered(loss_of(recv, now), round, read_be(bytes + 5, 8));
	else
		return;
	name_lost(recv, &status, now);
}

/* Packets are numbered anew: what was named before is not known any more, and all that is missing is named. */
void selective_repeat_recut(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);

	(void)arg;
	(void)now;
	r->loss = (struct loss_detection){ .took_ns = r->loss.took_ns,
					   .passed = r->loss.passed,
					   .flowed_ns = r->loss.flowed_ns,
					   .tail = r->loss.tail };
	r->twice.at_ns = 0;
	r->landed = 0;
}

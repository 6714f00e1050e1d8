/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective Repeat: the receiver's half, which drives it.
 *
 * It looks at the bitmap as packets land. A hole is provable when the first pass has passed it (gw_recv_passed(): packets
 * well behind it in the order of sending have landed, of this message or of a later one), or when the sender says that it
 * has sent everything. A provable hole is named at once, in a round. It is named again
 *
 *  - as soon as the first pass has passed the place where the sender answered that round: then the repeat was lost too;
 *  - when the sender, having answered that round, says that all has left and it hears nothing;
 *  - when none of this came in the time that an answer takes: then it was the question or the answer that was lost, or
 *    there is nothing that could follow a lost repeat. Each stretch of the message waits by its own clock (rounds.h),
 *    which starts when the first pass has stopped: as long as that goes on it tells more than any clock.
 *
 * So a lost repeat, a lost NACK and a lost answer are told apart only by how soon they are found out. On a long path, where
 * that is late, every round is said twice.
 */
#include "reliability/rounds.h"
#include "reliability/selective_repeat_state.h"

#define DATAGRAMS_A_ROUND 4

/* A round that will be said once more: the same holes, as far as they are still open, under the same number. */
struct saying {
	uint64_t at; /* 0: none */
	uint32_t round;
	uint32_t from;
	uint32_t below;
};

struct receiving {
	struct gw_transfer transfer;
	struct rounds rounds;
	struct saying twice;
	uint32_t round;
	uint32_t landed;    /* when last looked at */
	uint64_t took_ns;   /* the last answer */
	uint64_t passed;    /* when last looked at */
	uint64_t flowed_ns; /* when that was last seen to move */
	int timed;	    /* a clock runs */
	int tail;	    /* the sender says that it has sent everything */
};

_Static_assert(sizeof(struct receiving) <= GW_STATE_BYTES, "a request's own memory");

/* The round trip is measured now and then; the last answer knows better what it is under load. */
static uint64_t answer_ns(struct gw_recv *recv)
{
	const struct receiving *r = gw_recv_state(recv);
	uint64_t usual = gw_qp_answer_ns(gw_recv_qp(recv));
	uint64_t last = r->took_ns + r->took_ns / 8;

	return usual > last ? usual : last;
}

static void say_again(struct gw_recv *recv)
{
	struct receiving *r = gw_recv_state(recv);
	uint32_t from = r->twice.from;

	if (r->twice.at)
		gw_recv_nack_holes(recv, r->twice.round, &from, r->twice.below);
	r->twice.at = 0;
}

/* How long after a round its second copy is sent, with the next round or alone; 0: not. */
static uint64_t again_ns(struct gw_recv *recv)
{
	struct gw_estimate path;

	return gw_qp_estimate(gw_recv_qp(recv), &path) ? 0 : second_copy_ns(path.rtt_min_ns);
}

/* Names the holes in [from, below): several datagrams where one does not hold them. Returns how many. */
static uint32_t name_holes(struct gw_recv *recv, uint32_t from, uint32_t below, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	uint32_t holes = 0;
	struct gw_run hole;

	for (int i = 0; i < DATAGRAMS_A_ROUND && gw_recv_next_hole(recv, from, below, &hole) == 1;
	     i++) {
		uint64_t soon = again_ns(recv);

		say_again(recv);
		if (!++r->round)
			r->round = 1; /* 0 is for none */
		r->twice = (struct saying){ .at = soon ? now + soon : 0,
					    .round = r->round,
					    .from = from };
		holes += (uint32_t)gw_recv_nack_holes(recv, r->round, &from, below);
		r->twice.below = from;
	}
	return holes;
}

/* Names the holes of a stretch again; without any it is forgotten, and false returned. */
static int name_again(struct gw_recv *recv, uint32_t index, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);

	if (!name_holes(recv, round_start(&r->rounds, index), r->rounds.list[index].below, now)) {
		rounds_remove(&r->rounds, index);
		return 0;
	}
	rounds_renew(&r->rounds, index, r->round, now);
	return 1;
}

/* Below this what has not landed is lost. */
static uint32_t provable(const struct receiving *r, const struct gw_recv_status *status,
			 uint64_t passed)
{
	if (r->tail || passed >= GW_POSITION_END)
		return status->flags & GW_RECV_ANNOUNCED ? status->packets : status->highest;
	return (uint32_t)passed;
}

static void name_new(struct gw_recv *recv, uint32_t below, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	uint32_t from = rounds_end(&r->rounds);

	if (below <= from)
		return;
	if (name_holes(recv, from, below, now))
		rounds_add(&r->rounds, below, r->round, now, answer_ns(recv) / 8);
	else
		rounds_extend(&r->rounds, below);
}

/* The clock that runs out first, and the place that is awaited next. */
static void wait(struct gw_recv *recv, const struct gw_recv_status *status)
{
	struct receiving *r = gw_recv_state(recv);
	uint64_t patience = r->rounds.count ? answer_ns(recv) : 0;
	uint64_t at = r->twice.at, place = UINT64_MAX;

	for (uint32_t i = 0; i < r->rounds.count; i++) {
		uint64_t ends = round_ends(&r->rounds, i, patience, r->flowed_ns);

		if (!at || ends < at)
			at = ends;
		if (r->rounds.list[i].position < place)
			place = r->rounds.list[i].position;
	}
	/* The tail may be proved by the next message. */
	if (place > GW_POSITION_END &&
	    (!(status->flags & GW_RECV_ANNOUNCED) || rounds_end(&r->rounds) < status->packets))
		place = GW_POSITION_END;
	/* Where nothing is lost there is none, packet by packet. */
	if (at || r->timed)
		gw_recv_timer(recv, at);
	r->timed = at != 0;
	gw_recv_watch(recv, place == UINT64_MAX ? 0 : place);
}

/* How far the first pass has come. */
static uint64_t follow(struct gw_recv *recv, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	uint64_t passed;

	if (!gw_recv_passed(recv, &passed) && passed != r->passed) {
		r->passed = passed;
		r->flowed_ns = now;
	}
	return r->passed;
}

/* Names what has become provable since the last time. */
static void search(struct gw_recv *recv, const struct gw_recv_status *status, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	uint64_t passed = follow(recv, now);

	for (uint32_t i = 0; i < r->rounds.count;)
		i += passed < r->rounds.list[i].position || name_again(recv, i, now);
	name_new(recv, provable(r, status, passed), now);
	wait(recv, status);
}

/* Only here is a message ended, so that whoever wraps `progress` sees it whole first. */
void selective_repeat_look(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	struct gw_recv_status status;
	struct gw_run hole;

	(void)arg;
	if (gw_recv_status(recv, &status) || status.flags & GW_RECV_COMPLETED)
		return;
	if (status.flags & GW_RECV_FULL) {
		gw_transfer_finish_recv(recv, 0, 0);
		return;
	}
	if (status.landed != r->landed) {
		r->landed = status.landed;
		rounds_cheer(&r->rounds);
	}
	while (r->rounds.count &&
	       gw_recv_next_hole(recv, r->rounds.from, r->rounds.list[0].below, &hole) != 1)
		rounds_remove(&r->rounds, 0);
	search(recv, &status, now);
}

void selective_repeat_overdue(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	uint64_t patience = answer_ns(recv);
	struct gw_recv_status status;

	(void)arg;
	if (gw_recv_status(recv, &status))
		return;
	follow(recv, now);
	if (r->twice.at <= now)
		say_again(recv);
	for (uint32_t i = 0; i < r->rounds.count;) {
		if (round_ends(&r->rounds, i, patience, r->flowed_ns) > now) {
			i++;
		} else if (name_again(recv, i, now)) {
			if (r->rounds.tries[i] < UINT8_MAX)
				r->rounds.tries[i]++;
			i++;
		}
	}
	wait(recv, &status);
}

static uint64_t read_be(const uint8_t *bytes, int size)
{
	uint64_t value = 0;

	for (int i = 0; i < size; i++)
		value = value << 8 | bytes[i];
	return value;
}

/* The sender has sent everything and heard nothing: whatever is missing now is lost, but for what was asked for so lately
 * that the question may still be under way. */
static void asked(struct gw_recv *recv, uint32_t answered, int all, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	uint64_t patience = answer_ns(recv);
	struct gw_recv_status status;

	if (gw_recv_status(recv, &status))
		return;
	r->tail = 1;
	for (uint32_t i = 0; i < r->rounds.count;) {
		const struct round *round = &r->rounds.list[i];

		if (all || (int32_t)(round->number - answered) <= 0 ||
		    now - round->since_ns >= patience) {
			r->rounds.tries[i] = 0;
			i += (uint32_t)name_again(recv, i, now);
		} else {
			i++;
		}
	}
	name_new(recv, provable(r, &status, 0), now);
	wait(recv, &status);
}

void selective_repeat_told(struct gw_recv *recv, void *arg, const void *data, size_t length,
			   uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	struct gw_recv_status status;
	const uint8_t *bytes = data;

	(void)arg;
	if (length < 1)
		return;
	if (bytes[0] == TAIL_PROBE) {
		int all = length < TAIL_PROBE_SIZE;

		asked(recv, all ? 0 : (uint32_t)read_be(bytes + 1, 4), all, now);
	} else if (bytes[0] == ANSWER && length >= ANSWER_SIZE) {
		uint32_t number = (uint32_t)read_be(bytes + 1, 4);

		r->took_ns = rounds_took(&r->rounds, number, now, r->took_ns);
		rounds_answered(&r->rounds, number, read_be(bytes + 5, 8), now, answer_ns(recv));
		if (!gw_recv_status(recv, &status))
			search(recv, &status, now);
	}
}

/* Packets are numbered anew: what was named before is not known any more, and all that is missing is named. */
void selective_repeat_recut(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);

	(void)arg;
	(void)now;
	r->rounds = (struct rounds){ .count = 0 };
	r->twice.at = 0;
	r->landed = 0;
}

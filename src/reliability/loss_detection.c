/* SPDX-License-Identifier: BSD-3-Clause */
/* See loss_detection.h. */
#include "reliability/loss_detection.h"

#include <string.h>

#include "constants/protocol.h"

/* How many answers' time the first pass may hold up a clock. */
#define FLOWS_LIMIT 8
/* Holes join the last stretch when that was named less than this part of an answer's time ago. */
#define JOIN_PART 8

static bool after(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

/* The round-trip time is measured now and then; the last answer knows better what it is under load. */
static uint64_t answer_ns(const struct loss_detection *loss)
{
	uint64_t last = loss->took_ns + loss->took_ns / 8;

	return loss->usual_ns > last ? loss->usual_ns : last;
}

/* ---- stretches -------------------------------------------------------------------------------------------------- */

uint32_t loss_start(const struct loss_detection *loss, uint32_t index)
{
	return index ? loss->list[index - 1].below : loss->from;
}

uint32_t loss_end(const struct loss_detection *loss)
{
	return loss_start(loss, loss->count);
}

static void take_out(struct loss_detection *loss, uint32_t index)
{
	uint32_t rest = --loss->count - index;

	memmove(&loss->list[index], &loss->list[index + 1], rest * sizeof(loss->list[0]));
	memmove(&loss->tries[index], &loss->tries[index + 1], rest);
	memmove(&loss->due[index], &loss->due[index + 1], rest);
}

/* The second of two stretches takes the first one in. The later of both clocks counts. */
static void join(struct loss_detection *loss, uint32_t index)
{
	const struct stretch *first = &loss->list[index];
	struct stretch *second = &loss->list[index + 1];

	if (first->since_ns > second->since_ns)
		second->since_ns = first->since_ns;
	if (after(first->round, second->round))
		second->round = first->round;
	/* LOSS_UNANSWERED is the largest. */
	if (first->position > second->position)
		second->position = first->position;
	if (loss->tries[index] < loss->tries[index + 1])
		loss->tries[index + 1] = loss->tries[index];
	take_out(loss, index);
}

static uint64_t apart(const struct loss_detection *loss, uint32_t index)
{
	uint64_t a = loss->list[index].since_ns, b = loss->list[index + 1].since_ns;

	return a < b ? b - a : a - b;
}

static void make_room(struct loss_detection *loss)
{
	uint32_t nearest = 0;

	if (loss->count < STRETCHES)
		return;
	for (uint32_t i = 1; i + 1 < loss->count; i++)
		if (apart(loss, i) < apart(loss, nearest))
			nearest = i;
	join(loss, nearest);
}

static void add(struct loss_detection *loss, uint32_t below, uint32_t round)
{
	uint32_t last = loss->count - 1u;

	if (loss->count && loss->list[last].position == LOSS_UNANSWERED && !loss->tries[last] &&
	    loss->now_ns - loss->list[last].since_ns < answer_ns(loss) / JOIN_PART) {
		loss->list[last].below = below;
		loss->list[last].round = round;
		return;
	}
	make_room(loss);
	loss->tries[loss->count] = 0;
	loss->due[loss->count] = LOSS_NOT_DUE;
	loss->list[loss->count++] = (struct stretch){
		.since_ns = loss->now_ns,
		.position = LOSS_UNANSWERED,
		.below = below,
		.round = round,
	};
}

/* Up to `below` there are no holes beyond the last stretch. */
static void extend(struct loss_detection *loss, uint32_t below)
{
	if (loss->count)
		loss->list[loss->count - 1].below = below;
	else
		loss->from = below;
}

/* The stretch before it, or the part without holes, grows by it. */
static void remove_stretch(struct loss_detection *loss, uint32_t index)
{
	uint32_t below = loss->list[index].below;

	if (index)
		loss->list[index - 1].below = below;
	else
		loss->from = below;
	take_out(loss, index);
}

/* When the holes of a stretch are named again if nothing else happens.
 *
 * The wait grows while nobody answers, but not beyond a second or what one answer may take: a round trip measured on a busy
 * host must not turn a few lost NACKs into a minute of silence. Repeats follow an answer closely, so half the time is
 * enough then. */
static uint64_t ends_ns(const struct loss_detection *loss, uint32_t index)
{
	const struct stretch *stretch = &loss->list[index];
	uint64_t answer = answer_ns(loss);
	uint32_t shift = loss->tries[index] < BACKOFF_LIMIT ? loss->tries[index] : BACKOFF_LIMIT;
	uint64_t wait = stretch->position == LOSS_UNANSWERED ? answer : answer / 2;
	uint64_t limit = wait > BACKOFF_LIMIT_NS ? wait : BACKOFF_LIMIT_NS;
	uint64_t latest = stretch->since_ns + FLOWS_LIMIT * answer;
	uint64_t since = loss->flowed_ns > stretch->since_ns ? loss->flowed_ns : stretch->since_ns;

	wait = wait << shift < limit ? wait << shift : limit;
	if (since + wait > latest && stretch->since_ns + wait < latest)
		return latest;
	return since + wait > latest ? stretch->since_ns + wait : since + wait;
}

/* ---- what happened ---------------------------------------------------------------------------------------------- */

void loss_landed(struct loss_detection *loss)
{
	for (uint32_t i = 0; i < loss->count; i++)
		if (loss->tries[i] > 1)
			loss->tries[i] = 1;
}

void loss_passed(struct loss_detection *loss, uint64_t position)
{
	if (position != loss->passed) {
		loss->passed = position;
		loss->flowed_ns = loss->now_ns;
	}
	for (uint32_t i = 0; i < loss->count; i++)
		if (position >= loss->list[i].position)
			loss->due[i] = LOSS_PROVEN;
}

/* How long the answer to `round` took that comes now. A clock may have been set ahead, when a stretch took in one that was
 * answered: then that is not known. */
static void measure(struct loss_detection *loss, uint32_t round)
{
	for (uint32_t i = 0; i < loss->count; i++) {
		const struct stretch *stretch = &loss->list[i];

		if (stretch->round == round && stretch->position == LOSS_UNANSWERED &&
		    loss->now_ns > stretch->since_ns) {
			loss->took_ns = loss->now_ns - stretch->since_ns;
			return;
		}
	}
}

void loss_answered(struct loss_detection *loss, uint32_t round, uint64_t position)
{
	uint64_t answer;

	measure(loss, round);
	answer = answer_ns(loss);
	for (uint32_t i = 0; i < loss->count; i++) {
		struct stretch *stretch = &loss->list[i];
		/* Not before an answer was due anyway. */
		uint64_t least = stretch->since_ns + answer - answer / 2;

		if (stretch->position != LOSS_UNANSWERED || after(stretch->round, round))
			continue;
		stretch->position = position;
		stretch->since_ns = loss->now_ns > least ? loss->now_ns : least;
	}
}

void loss_tail(struct loss_detection *loss, uint32_t round, bool all)
{
	uint64_t answer = answer_ns(loss);

	loss->tail = true;
	for (uint32_t i = 0; i < loss->count; i++) {
		const struct stretch *stretch = &loss->list[i];

		if (all || !after(stretch->round, round) ||
		    loss->now_ns - stretch->since_ns >= answer)
			loss->due[i] = LOSS_ASKED;
	}
}

void loss_overdue(struct loss_detection *loss)
{
	for (uint32_t i = 0; i < loss->count; i++)
		if (!loss->due[i] && ends_ns(loss, i) <= loss->now_ns)
			loss->due[i] = LOSS_OVERDUE;
}

/* ---- what to do ------------------------------------------------------------------------------------------------- */

bool loss_next(const struct loss_detection *loss, uint32_t provable, struct loss_range *out)
{
	uint32_t index = 0;

	while (index < loss->count && !loss->due[index])
		index++;
	out->from = loss_start(loss, index);
	out->below = index < loss->count ? loss->list[index].below : provable;
	out->stretch = index < loss->count ? index : STRETCHES;
	return out->below > out->from;
}

static void renew(struct loss_detection *loss, uint32_t index, uint32_t round)
{
	struct stretch *stretch = &loss->list[index];
	uint8_t *tries = &loss->tries[index];

	if (loss->due[index] == LOSS_ASKED)
		*tries = 0;
	else if (loss->due[index] == LOSS_OVERDUE && *tries < UINT8_MAX)
		(*tries)++;
	loss->due[index] = LOSS_NOT_DUE;
	stretch->since_ns = loss->now_ns;
	stretch->position = LOSS_UNANSWERED;
	stretch->round = round;
}

void loss_named(struct loss_detection *loss, const struct loss_range *range, uint32_t round)
{
	if (range->stretch == STRETCHES && round)
		add(loss, range->below, round);
	else if (range->stretch == STRETCHES)
		extend(loss, range->below);
	else if (round)
		renew(loss, range->stretch, round);
	else
		remove_stretch(loss, range->stretch);
}

void loss_wait(const struct loss_detection *loss, uint64_t *at_ns, uint64_t *position)
{
	*at_ns = 0;
	*position = UINT64_MAX;
	for (uint32_t i = 0; i < loss->count; i++) {
		uint64_t ends = ends_ns(loss, i);

		if (!*at_ns || ends < *at_ns)
			*at_ns = ends;
		if (loss->list[i].position < *position)
			*position = loss->list[i].position;
	}
}

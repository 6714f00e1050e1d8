/* SPDX-License-Identifier: BSD-3-Clause */
/* See rounds.h. */
#include "reliability/rounds.h"

#include <string.h>

#include "constants/protocol.h"

#define FLOWS_LIMIT	 8
#define BACKOFF_LIMIT_NS UINT64_C(1000000000)

static int after(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

uint32_t rounds_end(const struct rounds *rounds)
{
	return rounds->count ? rounds->list[rounds->count - 1].below : rounds->from;
}

/* The second of two stretches takes the first one in. The later of both clocks counts. */
static void join(struct rounds *rounds, uint32_t index)
{
	const struct round *first = &rounds->list[index];
	struct round *second = &rounds->list[index + 1];

	if (first->since_ns > second->since_ns)
		second->since_ns = first->since_ns;
	if (after(first->number, second->number))
		second->number = first->number;
	/* ROUND_UNANSWERED is the largest. */
	if (first->position > second->position)
		second->position = first->position;
	if (rounds->tries[index] < rounds->tries[index + 1])
		rounds->tries[index + 1] = rounds->tries[index];
	rounds->count--;
	memmove(&rounds->list[index], &rounds->list[index + 1],
		(rounds->count - index) * sizeof(rounds->list[0]));
	memmove(&rounds->tries[index], &rounds->tries[index + 1], rounds->count - index);
}

static uint64_t apart(const struct rounds *rounds, uint32_t index)
{
	uint64_t a = rounds->list[index].since_ns, b = rounds->list[index + 1].since_ns;

	return a < b ? b - a : a - b;
}

static void make_room(struct rounds *rounds)
{
	uint32_t nearest = 0;

	if (rounds->count < ROUNDS)
		return;
	for (uint32_t i = 1; i + 1 < rounds->count; i++)
		if (apart(rounds, i) < apart(rounds, nearest))
			nearest = i;
	join(rounds, nearest);
}

void rounds_add(struct rounds *rounds, uint32_t below, uint32_t number, uint64_t now,
		uint64_t within_ns)
{
	struct round *last = rounds->count ? &rounds->list[rounds->count - 1] : NULL;

	if (last && last->position == ROUND_UNANSWERED && now - last->since_ns < within_ns &&
	    !rounds->tries[rounds->count - 1]) {
		last->below = below;
		last->number = number;
		return;
	}
	make_room(rounds);
	rounds->tries[rounds->count] = 0;
	rounds->list[rounds->count++] = (struct round){
		.since_ns = now, .position = ROUND_UNANSWERED, .below = below, .number = number
	};
}

void rounds_extend(struct rounds *rounds, uint32_t below)
{
	if (rounds->count)
		rounds->list[rounds->count - 1].below = below;
	else
		rounds->from = below;
}

void rounds_renew(struct rounds *rounds, uint32_t index, uint32_t number, uint64_t now)
{
	struct round *round = &rounds->list[index];

	round->since_ns = now;
	round->position = ROUND_UNANSWERED;
	round->number = number;
}

/* The stretch before it, or the part without holes, grows by it. */
void rounds_remove(struct rounds *rounds, uint32_t index)
{
	uint32_t below = rounds->list[index].below;

	if (index)
		rounds->list[index - 1].below = below;
	else
		rounds->from = below;
	rounds->count--;
	memmove(&rounds->list[index], &rounds->list[index + 1],
		(rounds->count - index) * sizeof(rounds->list[0]));
	memmove(&rounds->tries[index], &rounds->tries[index + 1], rounds->count - index);
}

void rounds_answered(struct rounds *rounds, uint32_t number, uint64_t position, uint64_t now,
		     uint64_t answer_ns)
{
	for (uint32_t i = 0; i < rounds->count; i++) {
		struct round *round = &rounds->list[i];
		/* Not before an answer was due anyway. */
		uint64_t least = round->since_ns + answer_ns - answer_ns / 2;

		if (round->position != ROUND_UNANSWERED || after(round->number, number))
			continue;
		round->position = position;
		round->since_ns = now > least ? now : least;
	}
}

uint64_t rounds_took(const struct rounds *rounds, uint32_t number, uint64_t now, uint64_t otherwise)
{
	for (uint32_t i = 0; i < rounds->count; i++)
		/* A clock may have been set ahead, when a stretch took in one that was answered. */
		if (rounds->list[i].number == number &&
		    rounds->list[i].position == ROUND_UNANSWERED && now > rounds->list[i].since_ns)
			return now - rounds->list[i].since_ns;
	return otherwise;
}

void rounds_cheer(struct rounds *rounds)
{
	for (uint32_t i = 0; i < rounds->count; i++)
		if (rounds->tries[i] > 1)
			rounds->tries[i] = 1;
}

/* While the first pass goes on its packets will tell, and a clock would only measure the queue that they stand in: it
 * starts when they stop coming, or after long. Repeats follow an answer on its heels.
 *
 * Patience grows while nobody answers, but not beyond a second or what one answer may take: a round trip measured on a
 * busy host must not turn a few lost questions into a minute of silence. */
uint64_t round_ends(const struct rounds *rounds, uint32_t index, uint64_t answer_ns,
		    uint64_t flowed_ns)
{
	const struct round *round = &rounds->list[index];
	uint32_t shift =
		rounds->tries[index] < BACKOFF_LIMIT ? rounds->tries[index] : BACKOFF_LIMIT;
	uint64_t wait = round->position == ROUND_UNANSWERED ? answer_ns : answer_ns / 2;
	uint64_t limit = wait > BACKOFF_LIMIT_NS ? wait : BACKOFF_LIMIT_NS;
	uint64_t latest = round->since_ns + FLOWS_LIMIT * answer_ns;
	uint64_t since = flowed_ns > round->since_ns ? flowed_ns : round->since_ns;

	wait = wait << shift < limit ? wait << shift : limit;
	if (since + wait > latest && round->since_ns + wait < latest)
		return latest;
	return since + wait > latest ? round->since_ns + wait : since + wait;
}

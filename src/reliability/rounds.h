/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rounds.h: holes that were named, and when each is to be named again.
 *
 * The part of a message in which holes were named is cut into stretches, ascending and without gaps. All holes of a
 * stretch were named at about the same time, in rounds up to `number`. A stretch has its own clock: naming others does not
 * put it off. When the sender has answered it is known, too, where the first pass had got to when the repeats were put:
 * once packets beyond that land the repeats have landed or are lost. There are few stretches; when more are needed those
 * two become one that are nearest in time. Private to Selective Repeat.
 */
#ifndef RELIABILITY_ROUNDS_H
#define RELIABILITY_ROUNDS_H

#include <stdint.h>

#define ROUNDS		 8
#define ROUND_UNANSWERED UINT64_MAX

struct round {
	uint64_t since_ns;
	uint64_t position; /* of the first pass when it was answered, or ROUND_UNANSWERED */
	uint32_t below;	   /* where the stretch ends */
	uint32_t number;
};

struct rounds {
	uint32_t from; /* where the first one begins: no holes below */
	uint8_t count;
	uint8_t tries[ROUNDS]; /* in a row that only a clock ended */
	uint8_t reserved[3];
	struct round list[ROUNDS];
};

static inline uint32_t round_start(const struct rounds *rounds, uint32_t index)
{
	return index ? rounds->list[index - 1].below : rounds->from;
}

/* Where the last one ends: holes below were named. */
uint32_t rounds_end(const struct rounds *rounds);

/* Holes up to `below` were named, in rounds up to `number`. They join the last stretch if that began less than `within_ns`
 * ago and is not answered. */
void rounds_add(struct rounds *rounds, uint32_t below, uint32_t number, uint64_t now,
		uint64_t within_ns);
/* Up to `below` there are no holes beyond the last stretch. */
void rounds_extend(struct rounds *rounds, uint32_t below);
/* The holes of a stretch were named again. */
void rounds_renew(struct rounds *rounds, uint32_t index, uint32_t number, uint64_t now);
/* A stretch has no holes any more. */
void rounds_remove(struct rounds *rounds, uint32_t index);
/* The sender has put what was asked for up to round `number`. `answer_ns` is how long an answer takes as a rule. */
void rounds_answered(struct rounds *rounds, uint32_t number, uint64_t position, uint64_t now,
		     uint64_t answer_ns);
/* How long the answer to round `number` took that comes now; `otherwise` when that is not known. */
uint64_t rounds_took(const struct rounds *rounds, uint32_t number, uint64_t now,
		     uint64_t otherwise);
/* Something landed: whoever backed off need not any more. */
void rounds_cheer(struct rounds *rounds);
/* When the holes of a stretch are to be named again if nothing else happens; `flowed_ns` is when the first pass was last
 * seen to go on. */
uint64_t round_ends(const struct rounds *rounds, uint32_t index, uint64_t answer_ns,
		    uint64_t flowed_ns);

#endif

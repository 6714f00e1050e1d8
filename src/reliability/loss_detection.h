/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loss_detection.h: which packets of one message are lost, and when to ask for them again.
 *
 * A packet of the first pass (every packet once, in order) is lost when the first pass has passed it: packets well behind
 * it have landed, of this message or of a later one (gw_recv_passed(), message/order.c, which knows lanes and reordering).
 * It is lost, too, when the sender says that it has sent everything and nothing more comes. Such a hole is named at once,
 * in a NACK that has a round number.
 *
 * A hole that was named is lost again when
 *
 *  - the first pass has passed the place that it had reached when the sender answered the round: then the repeat, which
 *    left before, was lost;
 *  - the sender answered the round and says that all has left;
 *  - none of this came in the time that an answer takes: then the NACK or the answer was lost, or nothing followed a
 *    repeat that was lost. This clock starts when the first pass stops: as long as that goes on its packets prove more
 *    than a clock, which would only measure the queue that they wait in.
 *
 * The part of the message in which holes were named is cut into stretches, ascending and without gaps. All holes of a
 * stretch were named at about the same time, so that it has one round, one clock and one answer. There are few: when more
 * are needed, the two nearest in time become one.
 *
 * The caller says what happened (loss_passed, loss_answered, loss_tail, loss_overdue), then names every range that
 * loss_next() returns and says so with loss_named(), then waits as loss_wait() says. Nothing here touches a request. Private
 * to Selective Repeat.
 */
#ifndef RELIABILITY_LOSS_DETECTION_H
#define RELIABILITY_LOSS_DETECTION_H

#include <stdbool.h>
#include <stdint.h>

#define STRETCHES	8
#define LOSS_UNANSWERED UINT64_MAX

/* Why the holes of a stretch are to be named again. */
enum loss_due {
	LOSS_NOT_DUE,
	/* Later packets landed. */
	LOSS_PROVEN,
	/* The sender asks what is missing. */
	LOSS_ASKED,
	/* Only a clock ran out. */
	LOSS_OVERDUE,
};

struct stretch {
	/* The time of naming, or of the answer, in ns. */
	uint64_t since_ns;
	/* The first pass's position when the sender answered, or LOSS_UNANSWERED. */
	uint64_t position;
	/* The packet after the stretch's last one. */
	uint32_t below;
	/* The last round in which the holes were named. */
	uint32_t round;
};

struct loss_detection {
	/* The current time and the usual time of an answer, in ns, as loss_time() was told. */
	uint64_t now_ns;
	uint64_t usual_ns;
	/* The time that the last answer took, in ns. */
	uint64_t took_ns;
	/* The first pass's position, and when it last moved, in ns. */
	uint64_t passed;
	uint64_t flowed_ns;
	/* The start of the first stretch: no holes lie below. */
	uint32_t from;
	/* The number of stretches. */
	uint8_t count;
	/* Whether the sender said that it has sent everything. */
	bool tail;
	/* How often in a row only a clock ended the wait, for each stretch. */
	uint8_t tries[STRETCHES];
	/* enum loss_due, for each stretch. */
	uint8_t due[STRETCHES];
	struct stretch list[STRETCHES];
};

/* Packets [from, below). */
struct loss_range {
	uint32_t from;
	uint32_t below;
	/* The stretch, or STRETCHES where these packets were never named. */
	uint32_t stretch;
};

/* The time, and how long an answer usually takes; before every call below. */
static inline void loss_time(struct loss_detection *loss, uint64_t now_ns, uint64_t usual_ns)
{
	loss->now_ns = now_ns;
	loss->usual_ns = usual_ns;
}

/* Something landed: stretches that backed off start over. */
void loss_landed(struct loss_detection *loss);
/* The first pass has come to `position`. */
void loss_passed(struct loss_detection *loss, uint64_t position);
/* The sender has put what round `round` asked for, where the first pass had come to `position`. */
void loss_answered(struct loss_detection *loss, uint32_t round, uint64_t position);
/* The sender has sent everything and hears nothing. `round` is the last one that it answered; later ones that were asked a
 * short time ago may still be under way, unless `all`. */
void loss_tail(struct loss_detection *loss, uint32_t round, bool all);
/* A clock may have run out. */
void loss_overdue(struct loss_detection *loss);

/* The next range to name, the stretches first, then what is new below `provable`. False: none. */
bool loss_next(const struct loss_detection *loss, uint32_t provable, struct loss_range *out);
/* The range was looked through, and its holes named in rounds up to `round`; 0: it has none. */
void loss_named(struct loss_detection *loss, const struct loss_range *range, uint32_t round);
/* When to call loss_overdue(), in ns (0: never), and the nearest position that will prove something (UINT64_MAX: none). */
void loss_wait(const struct loss_detection *loss, uint64_t *at_ns, uint64_t *position);

/* Where the last stretch ends: packets from here on were never named. */
uint32_t loss_end(const struct loss_detection *loss);
/* Where a stretch begins. */
uint32_t loss_start(const struct loss_detection *loss, uint32_t index);

#endif

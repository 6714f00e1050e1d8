/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chance.h: tells loss by chance from loss by congestion.
 *
 * A radio link loses the same share of packets at any rate. A full buffer loses the packets that are too many, so that it
 * loses a smaller share when less is sent. When loss clearly passes a ceiling, the sender therefore sends CHANCE_TEST of its rate
 * for two round trips: the first shows what was already in flight, the second shows the effect. If the loss did not fall by
 * a quarter and no queue stands, it is chance, and the ceiling becomes 1.5 times that loss. Otherwise it is congestion.
 * While more than the first ceiling is lost, the test is repeated every 10 s. Loss soon after a test that showed congestion is
 * congestion without another test.
 *
 * Loss above CHANCE_BREAKER is always congestion: beyond it a sender that is several times too fast would see its loss fall
 * by less than a quarter.
 */
#ifndef CONGESTION_CHANCE_H
#define CONGESTION_CHANCE_H

#include <stdbool.h>
#include <stdint.h>

/* Share of the rate that is sent during the test. */
#define CHANCE_TEST 0.7
/* Highest ceiling. */
#define CHANCE_BREAKER 0.65

/* Counting losses until there are enough to compare; waiting for the effect of the lower rate; measuring it. */
enum chance_stage { CHANCE_COUNTING, CHANCE_WAITING, CHANCE_TESTING };

enum chance_verdict {
	/* loss is below the ceiling, or is not yet known well enough */
	CHANCE_FINE,
	/* the test runs: send CHANCE_TEST of the rate */
	CHANCE_SEND_LESS,
	CHANCE_CONGESTION,
};

struct chance {
	/* share of packets that the path loses without a queue, as far as is known */
	double share;
	/* rounds that it was learned from, as far as they matter */
	double learned;
	/* the same, as the last test measured it; 0: none did */
	double proven;
	/* first ceiling, and the one in force */
	double base;
	double ceiling;
	/* packets sent and lost in this stage, and before the test */
	double packets, lost;
	double packets_before, lost_before;
	/* time of the last test that showed chance; 0: none */
	uint64_t proven_ns;
	/* time of the last test that showed congestion; 0: none */
	uint64_t refuted_ns;
	enum chance_stage stage;
};

/* What one round trip showed. */
struct chance_round {
	/* packets sent whose loss was counted, and how many of them were lost */
	double packets;
	double lost;
	/* a queue stands although less is sent */
	bool queue;
	/* the sender did not use its window: nothing can be concluded */
	bool idle;
};

void chance_init(struct chance *chance, double base);

/* Adds a round trip to the share that is lost by chance. For rounds without a queue in which the window did
 * not grow. Only a test raises a share above what a test has proven. */
void chance_learn(struct chance *chance, const struct chance_round *round);

/* True if this share of so many packets lost is clearly more than chance. */
bool chance_exceeded(const struct chance *chance, double loss, double packets);

/* Returns which share of so many packets was lost by chance, as far as a test has proven that, if `loss` is the share lost. */
double chance_part(const struct chance *chance, double loss, double packets);

/* True while it is being found out whether loss above the ceiling is chance. */
bool chance_is_open(const struct chance *chance);

/* Adds a round trip and returns what to do in the next. */
enum chance_verdict chance_judge(struct chance *chance, const struct chance_round *round,
				 uint64_t now_ns);

#endif

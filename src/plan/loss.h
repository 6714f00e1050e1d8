/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loss.h: which units are lost. Losses are independent, or come in bursts (Gilbert-Elliott: a good state that loses
 * nothing and a bad state that loses everything, as in src/link). The state changes with each unit sent, not with time.
 */
#ifndef PLAN_LOSS_H
#define PLAN_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

struct loss_model {
	/* share of units that are lost */
	double mean;
	/* mean number of units lost in a row; 1: losses are independent */
	double burst;
	/* with bursts: probabilities at each unit that a good path becomes bad, and a bad one good */
	double enter;
	double leave;
};

struct loss_model loss_model(double mean, double burst);

/* Returns the loss of chunks of so many packets, each lost if any of its packets is. */
struct loss_model loss_of_chunks(const struct loss_model *packets, unsigned chunk);

/* Returns the probability that `units` sent in a row all arrive. */
double loss_none(const struct loss_model *model, double units);

/*
 * Sets out[b], for b from 0 to n, to the probability that exactly b of n units are lost if they are sent `apart` units
 * from each other. n is at most LOSS_UNITS_MAX.
 */
#define LOSS_UNITS_MAX 256
void loss_counts(const struct loss_model *model, unsigned n, unsigned apart, double *out);

/* A random sequence of losses. */
struct loss_stream {
	const struct loss_model *model;
	struct rng rng;
	/* units that arrive before the next loss */
	uint64_t arriving;
};

void loss_stream_start(struct loss_stream *stream, const struct loss_model *model, uint64_t seed);
/* Draws the state anew, so that messages are independent of each other. */
void loss_stream_renew(struct loss_stream *stream);
/* Sends one unit; returns true if it is lost. */
bool loss_stream_next(struct loss_stream *stream);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loss.h: which units are lost: independently, or in runs (Gilbert-Elliott: a good state that loses nothing and a bad one
 * that loses all, as src/link draws it). Time plays no part: the state moves with each unit sent.
 */
#ifndef PLAN_LOSS_H
#define PLAN_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

struct loss_model {
	double mean;
	double burst; /* mean run of lost units; 1: independent */
	double enter; /* chances, a unit, of going bad and good again; bursts only */
	double leave;
};

struct loss_model loss_model(double mean, double burst);

/* The same path seen in chunks of so many packets, a chunk being lost with any of its packets. */
struct loss_model loss_of_chunks(const struct loss_model *packets, unsigned chunk);

/* Chance that `units` sent in a row all arrive. */
double loss_none(const struct loss_model *model, double units);

/*
 * out[b] = chance that of n units, each `apart` after the one before, exactly b are lost; b from 0 to n. n is at most
 * LOSS_UNITS_MAX.
 */
#define LOSS_UNITS_MAX 256
void loss_counts(const struct loss_model *model, unsigned n, unsigned apart, double *out);

/* Losses drawn one after the other. */
struct loss_stream {
	const struct loss_model *model;
	struct rng rng;
	uint64_t arriving; /* units that arrive before the next that does not */
};

void loss_stream_start(struct loss_stream *stream, const struct loss_model *model, uint64_t seed);
/* Forgets the state between messages: a new one meets the path as it is on average. */
void loss_stream_renew(struct loss_stream *stream);
/* One unit is sent. True if it is lost. */
bool loss_stream_next(struct loss_stream *stream);

#endif

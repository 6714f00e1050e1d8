/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Seeded random numbers for simulation and jitter: the same seed gives the same numbers on every
 * machine, fractions included. Not for secrets: those come from entropy.h.
 */
#ifndef GODWIT_BASE_RNG_H
#define GODWIT_BASE_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rng {
	uint64_t state[4];
};

/* Any seed is a good one, 0 included. */
void rng_seed(struct rng *rng, uint64_t seed);

/*
 * A child whose numbers have nothing to do with those its parent draws from then on. Give each link
 * and each host a child: a change in how often one draws then leaves the others' numbers alone.
 */
struct rng rng_split(struct rng *rng);

uint64_t rng_u64(struct rng *rng);

/* Uniform in [0, bound), without bias; bound is not 0. Rarely draws more than once. */
uint64_t rng_below(struct rng *rng, uint64_t bound);

/* Uniform in [0, 1), in steps of 2^-53. One draw. */
double rng_unit(struct rng *rng);

/*
 * True with probability p: never for p <= 0, always for p >= 1. One draw whatever p is, so that
 * turning a loss off moves no other decision.
 */
bool rng_chance(struct rng *rng, double p);

/* Exponential with this mean; never negative, at most 45 means. One draw. */
double rng_exponential(struct rng *rng, double mean);

/* Random bytes. Draws a word for every 8 bytes begun. */
void rng_fill(struct rng *rng, void *buffer, size_t length);

#endif

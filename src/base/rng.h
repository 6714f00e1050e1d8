/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rng.h: seeded random numbers for simulation and jitter. The same seed gives the same numbers on
 * every machine, fractions included. Keys and other secrets come from entropy.h instead.
 */
#ifndef GODWIT_BASE_RNG_H
#define GODWIT_BASE_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rng {
	/* xoshiro256** state; never all zeros */
	uint64_t state[4];
};

/* Starts the generator. Every seed is usable, 0 included. */
void rng_seed(struct rng *rng, uint64_t seed);

/*
 * Returns a child generator, independent of what its parent draws afterwards. Each simulated link and
 * host gets a child, so that one more draw in one of them does not change the numbers of the others.
 */
struct rng rng_split(struct rng *rng);

/* Uniform over all 64-bit values. */
uint64_t rng_u64(struct rng *rng);

/* Uniform in [0, bound), without bias; bound is not 0. Draws once, rarely more often. */
uint64_t rng_below(struct rng *rng, uint64_t bound);

/* Uniform in [0, 1), in steps of 2^-53. One draw. */
double rng_unit(struct rng *rng);

/*
 * True with probability p: never for p <= 0, always for p >= 1. One draw whatever p is, so that
 * setting a loss rate to 0 changes no later decision.
 */
bool rng_chance(struct rng *rng, double p);

/* Fills the buffer with random bytes. One draw for every 8 bytes or part of 8 bytes. */
void rng_fill(struct rng *rng, void *buffer, size_t length);

#endif

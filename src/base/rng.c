/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rng.c: the generator is xoshiro256** of Blackman and Vigna, its state filled by splitmix64 (Steele, Lea,
 * Flood; constants by Stafford): 256 bits of state, a period of 2^256 - 1, a few cycles a number.
 * The state may be anything but all zeros, and four successive outputs of splitmix64, a bijection
 * of a counter, are never that.
 *
 * Nothing here calls the math library. Its last bits differ from version to version and from one
 * CPU to another, and one different bit in a delay gives a different simulation.
 */
#include "base/rng.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

static uint64_t rotate_left(uint64_t word, unsigned int by)
{
	return word << by | word >> (64 - by);
}

static uint64_t splitmix64(uint64_t *counter)
{
	uint64_t word = *counter += UINT64_C(0x9e3779b97f4a7c15);

	word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
	return word ^ word >> 31;
}

void rng_seed(struct rng *rng, uint64_t seed)
{
	for (size_t i = 0; i < 4; i++)
		rng->state[i] = splitmix64(&seed);
}

struct rng rng_split(struct rng *rng)
{
	struct rng child;

	rng_seed(&child, rng_u64(rng));
	return child;
}

uint64_t rng_u64(struct rng *rng)
{
	uint64_t *s = rng->state;
	uint64_t result = rotate_left(s[1] * 5, 7) * 9;
	uint64_t shifted = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= shifted;
	s[3] = rotate_left(s[3], 45);
	return result;
}

/*
 * Takes the high half of draw x bound (Lemire). 2^64 draws do not divide evenly among `bound`
 * results, so draws whose low half is below 2^64 mod bound are rejected; the rest is uniform. The
 * division is needed only when the low half is below bound, which is rare.
 */
uint64_t rng_below(struct rng *rng, uint64_t bound)
{
	unsigned __int128 product;

	assert(bound != 0);
	product = (unsigned __int128)rng_u64(rng) * bound;
	if ((uint64_t)product < bound) {
		uint64_t excess = -bound % bound;

		while ((uint64_t)product < excess)
			product = (unsigned __int128)rng_u64(rng) * bound;
	}
	return (uint64_t)(product >> 64);
}

double rng_unit(struct rng *rng)
{
	return (double)(rng_u64(rng) >> 11) * 0x1p-53;
}

bool rng_chance(struct rng *rng, double p)
{
	return rng_unit(rng) < p;
}

void rng_fill(struct rng *rng, void *buffer, size_t length)
{
	unsigned char *next = buffer;

	while (length > 0) {
		uint64_t word = htole64(rng_u64(rng));
		size_t step = length < sizeof(word) ? length : sizeof(word);

		memcpy(next, &word, step);
		next += step;
		length -= step;
	}
}

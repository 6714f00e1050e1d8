/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The generator is xoshiro256** of Blackman and Vigna, its state filled by splitmix64 (Steele, Lea,
 * Flood; constants by Stafford): 256 bits of state, a period of 2^256 - 1, a few cycles a number.
 * The state may be anything but all zeros, and four successive outputs of splitmix64, a bijection
 * of a counter, are never that.
 *
 * Nothing here calls the math library. Its last bits differ from version to version and from one
 * CPU to another, and one different bit in a delay is a different simulation.
 */
#include "base/rng.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#define LOG2_FRACTION_BITS 48
#define NATURAL_LOG_OF_2   0.69314718055994530942

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
 * The high half of draw x bound is uniform once the draws that make some results one too many are
 * rejected: those whose low half is below 2^64 mod bound (Lemire). The division is needed only when
 * the low half is below bound, hence almost never.
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

/*
 * -log2(word / 2^64), as a fixed-point number. The integer part is the place of the top bit; each
 * squaring of the rest, a number in [1, 2), yields one bit of the fraction.
 */
static uint64_t minus_log2(uint64_t word)
{
	unsigned int zeros = (unsigned int)__builtin_clzll(word);
	uint64_t rest = word << zeros; /* 2^63 stands for 1 */
	uint64_t fraction = 0;

	for (int i = 0; i < LOG2_FRACTION_BITS; i++) {
		unsigned __int128 square = (unsigned __int128)rest * rest;
		unsigned int carry = (unsigned int)(square >> 127); /* it reached 2 */

		fraction = fraction << 1 | carry;
		rest = (uint64_t)(square >> (63 + carry));
	}
	return ((uint64_t)(zeros + 1) << LOG2_FRACTION_BITS) - fraction;
}

double rng_exponential(struct rng *rng, double mean)
{
	/* Odd words are the midpoints of equal steps: never 0, and symmetric. */
	uint64_t halvings = minus_log2(rng_u64(rng) | 1);

	/* Only products, so no compiler may fuse an addition into them. */
	return (double)halvings * (0x1p-48 * NATURAL_LOG_OF_2) * mean;
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

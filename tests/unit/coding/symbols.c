/* SPDX-License-Identifier: BSD-3-Clause */
#include "symbols.h"

#define GUARD	    0xa5
#define GUARD_BYTES 80
#define ROOM	    9120 /* a multiple of 32, so that a whole group can be aligned */

static uint8_t data_memory[SYMBOLS][ROOM] __attribute__((aligned(32)));
static uint8_t parity_memory[SYMBOLS][ROOM] __attribute__((aligned(32)));

_Static_assert(ROOM > LENGTH_MAX + GUARD_BYTES, "a guard behind the longest symbol");

uint8_t slow_times(uint8_t a, uint8_t b)
{
	unsigned product = 0, shifted = a;

	for (unsigned bit = 0; bit < 8; bit++, shifted <<= 1) {
		if (shifted & 0x100)
			shifted ^= 0x11d;
		if (b >> bit & 1)
			product ^= shifted;
	}
	return (uint8_t)product;
}

uint8_t slow_inverse(uint8_t a)
{
	for (unsigned b = 1; b < 256; b++) {
		if (slow_times(a, (uint8_t)b) == 1)
			return (uint8_t)b;
	}
	return 0;
}

static size_t size_of(const struct symbols *symbols, unsigned index)
{
	return index == symbols->group.count - 1 ? symbols->group.last : symbols->group.length;
}

void symbols_make(struct symbols *symbols, unsigned count, size_t length, size_t last)
{
	bool odd = rng_chance(&symbols->rng, 0.5);

	symbols->group = (struct coding_group){ .count = count, .length = length, .last = last };
	for (unsigned i = 0; i < SYMBOLS; i++) {
		memset(symbols->truth[i], 0, length);
		memset(data_memory[i], GUARD, length + GUARD_BYTES + 1);
		memset(parity_memory[i], GUARD, length + GUARD_BYTES + 1);
		symbols->data[i] = data_memory[i] + (odd ? i % 2 : 0);
		symbols->parity[i] = parity_memory[i] + (odd ? (i + 1) % 2 : 0);
		if (i >= count) {
			/* Touching what is not there must show. */
			symbols->data[i] = NULL;
			continue;
		}
		rng_fill(&symbols->rng, symbols->truth[i], size_of(symbols, i));
		memcpy(symbols->data[i], symbols->truth[i], size_of(symbols, i));
	}
}

void symbols_lose(struct symbols *symbols, unsigned index)
{
	memset(symbols->data[index], 0x5a, size_of(symbols, index));
}

void symbols_check(const struct symbols *symbols)
{
	for (unsigned i = 0; i < SYMBOLS; i++) {
		const uint8_t *parity = symbols->parity[i];

		if (i < symbols->group.count) {
			const uint8_t *data = symbols->data[i];
			size_t size = size_of(symbols, i);

			assert_memory_equal(data, symbols->truth[i], size);
			for (unsigned at = 0; at < GUARD_BYTES; at++)
				assert_int_equal(data[size + at], GUARD);
		}
		for (unsigned at = 0; at < GUARD_BYTES; at++)
			assert_int_equal(parity[symbols->group.length + at], GUARD);
	}
}

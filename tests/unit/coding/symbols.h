/* SPDX-License-Identifier: BSD-3-Clause */
/* A group of random symbols to lose and rebuild, with guards around every buffer; and a field that nobody made fast. */
#ifndef TESTS_CODING_SYMBOLS_H
#define TESTS_CODING_SYMBOLS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "coding/group.h"

#define SYMBOLS	   256
#define LENGTH_MAX 9000

struct symbols {
	struct rng rng;
	struct coding_group group;
	uint8_t truth[SYMBOLS][LENGTH_MAX]; /* the data, zeros where there is none */
	void *data[SYMBOLS]; /* what the code sees; in every other group at odd addresses */
	void *parity[SYMBOLS];
};

/* Times, in the field of 256 elements that 0x11d makes; bit by bit. */
uint8_t slow_times(uint8_t a, uint8_t b);
uint8_t slow_inverse(uint8_t a);

/* Fresh random data of this shape; parity buffers are filled with rubbish. */
void symbols_make(struct symbols *symbols, unsigned count, size_t length, size_t last);

/* Overwrites a data symbol with rubbish, as far as it is there. */
void symbols_lose(struct symbols *symbols, unsigned index);

/* Every data symbol is right, and nothing was written behind the end of any buffer. */
void symbols_check(const struct symbols *symbols);

#endif

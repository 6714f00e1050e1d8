/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cauchy.c: every symbol has a point: data symbol j has j, parity row r has x = 255 - r. Let Y be the points of the erased
 * symbols and X those of the parity rows used instead. With
 *
 *     w(p) = prod_{y in Y} (p + y) / prod_{x in X} (p + x),   where the factor 0 for p itself is left out,
 *
 * the coefficient of the symbol at p in erased symbol y is w(p) / (w(y) (p + y)): the inverse of the submatrix at X and Y,
 * times the columns that are present, summed by partial fractions. Scaling column j by 255 + j multiplies w(j) by it,
 * whether j is present or erased. Addition is exclusive or, so there are no signs.
 */
#include "coding/cauchy.h"

#include <assert.h>

#include <isa-l.h>

/* The powers of 2 are all elements but 0, and repeat after this many. */
#define ORDER 255

void cauchy_init(struct cauchy *cauchy)
{
	uint8_t element = 1;

	cauchy->log[0] = 0;
	for (unsigned exponent = 0; exponent < sizeof(cauchy->power); exponent++) {
		cauchy->power[exponent] = element;
		if (exponent < ORDER)
			cauchy->log[element] = (uint8_t)exponent;
		element = gf_mul(element, 2);
	}
}

/* Point of a parity row. */
static uint8_t point(unsigned row)
{
	return (uint8_t)(CAUCHY_SIZE - 1 - row);
}

void cauchy_row(const struct cauchy *cauchy, unsigned row, unsigned columns, uint8_t *out)
{
	const uint8_t *log = cauchy->log;

	assert(row + columns < CAUCHY_SIZE);
	for (unsigned j = 0; j < columns; j++)
		out[j] = cauchy->power[log[point(0) ^ j] + ORDER - log[point(row) ^ j]];
}

/* Returns the logarithm of w(p). */
static unsigned weight(const struct cauchy *cauchy, unsigned p, const uint8_t *erased,
		       const uint8_t *rows, unsigned n)
{
	/* Division subtracts logarithms; a multiple of the order keeps the sum positive. */
	unsigned sum = n * ORDER;

	for (unsigned i = 0; i < n; i++)
		sum += cauchy->log[p ^ erased[i]] - cauchy->log[p ^ point(rows[i])];
	return sum % ORDER;
}

void cauchy_solve(const struct cauchy *cauchy, unsigned count, const uint8_t *erased,
		  const uint8_t *rows, unsigned n, uint8_t *out)
{
	const uint8_t *log = cauchy->log;
	uint8_t points[CAUCHY_SIZE], weights[CAUCHY_SIZE], lost[CAUCHY_SIZE];
	unsigned there = 0, next = 0;

	assert(n <= count && count < CAUCHY_SIZE);
	for (unsigned j = 0; j < count; j++) {
		unsigned scaled = (weight(cauchy, j, erased, rows, n) + log[point(0) ^ j]) % ORDER;

		if (next < n && erased[next] == j) {
			lost[next++] = (uint8_t)scaled;
			continue;
		}
		points[there] = (uint8_t)j;
		weights[there++] = (uint8_t)scaled;
	}
	assert(next == n);
	for (unsigned i = 0; i < n; i++) {
		points[there] = point(rows[i]);
		weights[there] = (uint8_t)weight(cauchy, points[there], erased, rows, n);
		there++;
	}
	for (unsigned i = 0; i < n; i++)
		for (unsigned j = 0; j < count; j++)
			*out++ = cauchy->power[weights[j] + 2 * ORDER - lost[i] -
					       log[points[j] ^ erased[i]]];
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cauchy.h: the one matrix of the Reed-Solomon code, over the field of 256 elements.
 *
 * Parity row r takes data symbol j times 1 / ((255 - r) + j), where + is exclusive or. Every square part of such a
 * matrix can be inverted, so that any k of the symbols sent rebuild the data, however many parity rows were ever made,
 * as long as no row's 255 - r is some column's j: that is the rule k + rows <= 256. The matrix does not depend on k or
 * m. One more parity row is just the next row, and the inverse of a part has a formula: no elimination, no pivots.
 */
#ifndef CODING_CAUCHY_H
#define CODING_CAUCHY_H

#include <stdint.h>

#define CAUCHY_SIZE 256 /* rows and columns together */

/* Logarithms of the field, so that a product is a sum: a group's matrix is worked out for each group that lost anything. */
struct cauchy {
	uint8_t log[CAUCHY_SIZE];     /* log[0] is not used */
	uint8_t power[CAUCHY_SIZE];   /* of logarithms below 255 */
	uint8_t inverse[CAUCHY_SIZE]; /* of elements; inverse[0] is not used */
};

void cauchy_init(struct cauchy *cauchy);

/* The coefficient of data symbol `column` in parity row `row`; row + column < CAUCHY_SIZE - 1. */
static inline uint8_t cauchy_element(const struct cauchy *cauchy, unsigned row, unsigned column)
{
	return cauchy->inverse[(CAUCHY_SIZE - 1 - row) ^ column];
}

/* The first `columns` coefficients of a parity row; row + columns < CAUCHY_SIZE. */
void cauchy_row(const struct cauchy *cauchy, unsigned row, unsigned columns, uint8_t *out);

/*
 * The inverse of the part at these rows and columns, n of each: out[i * n + j] is how much of syndrome j goes into the
 * symbol of column i. Rows differ from each other and so do columns, and 255 - row is no column of the list.
 */
void cauchy_inverse(const struct cauchy *cauchy, const uint8_t *rows, const uint8_t *columns,
		    unsigned n, uint8_t *out);

#endif

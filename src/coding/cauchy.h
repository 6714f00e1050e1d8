/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cauchy.h: the one matrix of the Reed-Solomon code, over the field of 256 elements.
 *
 * Parity row r takes data symbol j times (255 + j) / ((255 - r) + j), where + is exclusive or. That is a Cauchy matrix,
 * each column scaled so that the first row is all ones: the first parity symbol is the plain sum of the data, which costs
 * a fraction of multiplying to make and to use. Every square part of such a matrix can be inverted, so that any k of the
 * symbols sent rebuild the data, however many parity rows were ever made, as long as no row's 255 - r is some column's j:
 * that is the rule k + rows <= 256. The matrix does not depend on k or m. One more parity row is just the next row, and
 * what rebuilds lost symbols has a formula: no elimination, no pivots, no product of matrices.
 */
#ifndef CODING_CAUCHY_H
#define CODING_CAUCHY_H

#include <stdint.h>

#define CAUCHY_SIZE 256 /* rows and columns together */

/* Logarithms of the field, so that a product is a sum: a group's matrix is worked out for each group that lost anything. */
struct cauchy {
	uint8_t log[CAUCHY_SIZE];	/* log[0] is 0, so that a factor 0 counts as none */
	uint8_t power[3 * CAUCHY_SIZE]; /* of sums of up to three logarithms */
};

void cauchy_init(struct cauchy *cauchy);

/* The first `columns` coefficients of a parity row; row + columns < CAUCHY_SIZE. */
void cauchy_row(const struct cauchy *cauchy, unsigned row, unsigned columns, uint8_t *out);

/*
 * What rebuilds the data symbols erased[] (ascending), n of them, of `count`, from the others and n parity rows: out has n
 * rows of count coefficients, first those of the data that is there, ascending, then those of the parity, as in rows[].
 * Rows differ from each other, and row + count < CAUCHY_SIZE for each.
 */
void cauchy_solve(const struct cauchy *cauchy, unsigned count, const uint8_t *erased,
		  const uint8_t *rows, unsigned n, uint8_t *out);

#endif

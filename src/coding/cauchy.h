/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cauchy.h: the matrix of the Reed-Solomon code, over the field of 256 elements.
 *
 * In parity row r the coefficient of data symbol j is (255 + j) / ((255 - r) + j), where + is exclusive or. This is a
 * Cauchy matrix whose columns are scaled so that the first row is all ones: the first parity symbol is the exclusive or of
 * the data, which takes a fraction of the time of multiplying. Every square submatrix of a Cauchy matrix can be inverted,
 * so any k of the symbols sent give the data, whichever parity rows they are, as long as no row's 255 - r equals a
 * column's j; hence k + rows <= 256. The matrix depends neither on k nor on m: a further parity symbol is the next row.
 * The inverse has a formula, so that decoding needs no elimination.
 */
#ifndef CODING_CAUCHY_H
#define CODING_CAUCHY_H

#include <stdint.h>

/* Most rows and columns together. */
#define CAUCHY_SIZE 256

/* Logarithm tables of the field, which turn products into sums: a new matrix is computed for each group that lost data. */
struct cauchy {
	/* logarithm of each element; log[0] is 0, so that a factor of 0 is left out of a product */
	uint8_t log[CAUCHY_SIZE];
	/* element for each sum of up to three logarithms */
	uint8_t power[3 * CAUCHY_SIZE];
};

void cauchy_init(struct cauchy *cauchy);

/* Writes the first `columns` coefficients of a parity row; row + columns < CAUCHY_SIZE. */
void cauchy_row(const struct cauchy *cauchy, unsigned row, unsigned columns, uint8_t *out);

/*
 * Writes the matrix that computes n erased data symbols of `count` from the other ones and n parity rows. out has n rows of
 * `count` coefficients: first those of the data symbols present, ascending, then those of the parity rows, in the order of
 * rows[]. erased[] is ascending; the rows are distinct, and row + count < CAUCHY_SIZE for each.
 */
void cauchy_solve(const struct cauchy *cauchy, unsigned count, const uint8_t *erased,
		  const uint8_t *rows, unsigned n, uint8_t *out);

#endif

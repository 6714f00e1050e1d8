/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With x = 255 - row and y = column, the element is 1 / (x + y), and the inverse's element (i, j) is
 *
 *     a_j b_i / (x_j + y_i),   a_j = prod_k (x_j + y_k) / prod_{k != j} (x_j + x_k),
 *                              b_i = prod_k (x_k + y_i) / prod_{k != i} (y_i + y_k)
 *
 * In a field where adding is exclusive or, plus and minus are the same and the usual signs vanish.
 */
#include "coding/cauchy.h"

#include <assert.h>

#include <isa-l.h>

#define ORDER 255 /* of the powers of 2, which are all elements but 0 */

void cauchy_init(struct cauchy *cauchy)
{
	uint8_t element = 1;

	for (unsigned exponent = 0; exponent < ORDER; exponent++) {
		cauchy->power[exponent] = element;
		cauchy->log[element] = (uint8_t)exponent;
		element = gf_mul(element, 2);
	}
	cauchy->power[ORDER] = 1;
	cauchy->log[0] = cauchy->inverse[0] = 0;
	for (unsigned i = 1; i < CAUCHY_SIZE; i++)
		cauchy->inverse[i] = cauchy->power[ORDER - cauchy->log[i]];
}

static uint8_t point(unsigned row)
{
	return (uint8_t)(CAUCHY_SIZE - 1 - row);
}

void cauchy_row(const struct cauchy *cauchy, unsigned row, unsigned columns, uint8_t *out)
{
	assert(row + columns < CAUCHY_SIZE);
	for (unsigned j = 0; j < columns; j++)
		out[j] = cauchy_element(cauchy, row, j);
}

void cauchy_inverse(const struct cauchy *cauchy, const uint8_t *rows, const uint8_t *columns,
		    unsigned n, uint8_t *out)
{
	const uint8_t *log = cauchy->log;
	unsigned a[CAUCHY_SIZE / 2], b[CAUCHY_SIZE / 2];

	assert(n <= CAUCHY_SIZE / 2);
	for (unsigned i = 0; i < n; i++) {
		uint8_t x = point(rows[i]), y = columns[i];
		/* Dividing is subtracting; a multiple of the order keeps the sum above 0. log[0] is 0: i itself adds nothing. */
		unsigned sum_a = n * ORDER, sum_b = n * ORDER;

		for (unsigned other = 0; other < n; other++) {
			uint8_t other_x = point(rows[other]), other_y = columns[other];

			sum_a += log[x ^ other_y] - log[x ^ other_x];
			sum_b += log[other_x ^ y] - log[y ^ other_y];
		}
		a[i] = sum_a % ORDER;
		b[i] = sum_b % ORDER;
	}
	for (unsigned i = 0; i < n; i++) {
		for (unsigned j = 0; j < n; j++)
			out[i * n + j] = cauchy->power[(a[j] + b[i] + ORDER -
							log[point(rows[j]) ^ columns[i]]) %
						       ORDER];
	}
}

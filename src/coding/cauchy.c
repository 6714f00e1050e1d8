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

static uint8_t point(unsigned row)
{
	return (uint8_t)(CAUCHY_SIZE - 1 - row);
}

void cauchy_row(unsigned row, unsigned columns, uint8_t *out)
{
	assert(row + columns < CAUCHY_SIZE);
	for (unsigned j = 0; j < columns; j++)
		out[j] = gf_inv((uint8_t)(point(row) ^ j));
}

void cauchy_inverse(const uint8_t *rows, const uint8_t *columns, unsigned n, uint8_t *out)
{
	uint8_t a[CAUCHY_SIZE], b[CAUCHY_SIZE];

	assert(n <= CAUCHY_SIZE / 2);
	for (unsigned i = 0; i < n; i++) {
		uint8_t x = point(rows[i]), y = columns[i];
		uint8_t above_a = 1, below_a = 1, above_b = 1, below_b = 1;

		for (unsigned other = 0; other < n; other++) {
			above_a = gf_mul(above_a, x ^ columns[other]);
			above_b = gf_mul(above_b, point(rows[other]) ^ y);
			if (other == i)
				continue;
			below_a = gf_mul(below_a, x ^ point(rows[other]));
			below_b = gf_mul(below_b, y ^ columns[other]);
		}
		a[i] = gf_mul(above_a, gf_inv(below_a));
		b[i] = gf_mul(above_b, gf_inv(below_b));
	}
	for (unsigned i = 0; i < n; i++) {
		for (unsigned j = 0; j < n; j++) {
			uint8_t element = gf_inv(point(rows[j]) ^ columns[i]);

			out[i * n + j] = gf_mul(gf_mul(a[j], b[i]), element);
		}
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All work is one operation of ISA-L: outputs = matrix times inputs, symbol by symbol, from tables made of the matrix.
 * ISA-L picks the instructions. The layout of its tables is its own, so tables are only ever used with the matrix they
 * were made of, and made anew for any other. That costs 6 ns a coefficient; a coefficient's work on a packet of 4 KiB
 * takes 25 times as long.
 *
 * Decoding. Let E be the erased symbols, P as many parity rows, R the data that is there. The syndromes are
 * s = parity + C[P,R] data[R], and data[E] = C[P,E]^-1 s. Multiplying the two matrices first, which is a product of
 * small matrices that ISA-L does as well, leaves one pass over the packets: k inputs, e outputs, no syndromes stored.
 *
 * A group whose last symbol is short is two regions with one symbol less in the second. Each is coded by itself.
 */
#include "coding/reed_solomon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <isa-l.h>

#include "coding/cauchy.h"

#define TABLE_BYTES 32 /* a coefficient, as ISA-L asks for */
#define BATCH_ROWS  6  /* ISA-L makes at most this many outputs in one pass */
#define LINE	    64 /* below this ISA-L falls back to bytes */

struct rs {
	unsigned k;
	unsigned m;
	struct cauchy cauchy;
	unsigned table_k;
	unsigned table_m;
	uint8_t *matrix; /* that the tables are made of */
	uint8_t *tables; /* of the first table_m rows, table_k columns; room for m and k */

	/* Room to work in. */
	uint8_t *batch_tables; /* BATCH_ROWS by k */
	uint8_t *inverse;      /* most by most */
	uint8_t *coefficients; /* most rows, each `stride` apart */
	uint8_t *product;      /* likewise */
	size_t stride;	       /* k in whole lines */
	uint8_t *input[RS_SYMBOLS_MAX];
	uint8_t *output[RS_SYMBOLS_MAX];
};

/* The most symbols that can be erased and rebuilt. */
static unsigned most_erasures(const struct rs *rs)
{
	return rs->k < RS_SYMBOLS_MAX - rs->k ? rs->k : RS_SYMBOLS_MAX - rs->k;
}

static int allocate(struct rs *rs)
{
	size_t most = most_erasures(rs);
	/* Encoding uses the coefficients too, a batch at a time. */
	size_t rows = most > BATCH_ROWS ? most : BATCH_ROWS;

	rs->stride = (rs->k + LINE - 1) / LINE * LINE;
	rs->matrix = malloc((size_t)rs->k * rs->m);
	rs->tables = malloc((size_t)TABLE_BYTES * rs->k * rs->m);
	rs->batch_tables = malloc((size_t)TABLE_BYTES * BATCH_ROWS * rs->k);
	rs->inverse = malloc(most * most);
	rs->coefficients = calloc(rows, rs->stride);
	rs->product = calloc(rows, rs->stride);
	return rs->matrix && rs->tables && rs->batch_tables && rs->inverse && rs->coefficients &&
			       rs->product
		       ? 0
		       : -ENOMEM;
}

int rs_retable(struct rs *rs, unsigned k, unsigned m)
{
	if (k < 1 || m < 1 || k > rs->k || m > rs->m)
		return -EINVAL;
	if (k == rs->table_k && m == rs->table_m)
		return 0;
	for (unsigned row = 0; row < m; row++)
		cauchy_row(&rs->cauchy, row, k, rs->matrix + (size_t)row * k);
	ec_init_tables((int)k, (int)m, rs->matrix, rs->tables);
	rs->table_k = k;
	rs->table_m = m;
	return 0;
}

int rs_create(unsigned k, unsigned m, struct rs **out)
{
	struct rs *rs;

	if (k < 1 || m < 1 || k >= RS_SYMBOLS_MAX || m > RS_SYMBOLS_MAX - k)
		return -EINVAL;
	rs = calloc(1, sizeof(*rs));
	if (!rs)
		return -ENOMEM;
	rs->k = k;
	rs->m = m;
	cauchy_init(&rs->cauchy);
	if (allocate(rs)) {
		rs_destroy(rs);
		return -ENOMEM;
	}
	rs_retable(rs, k, m);
	*out = rs;
	return 0;
}

void rs_destroy(struct rs *rs)
{
	if (!rs)
		return;
	free(rs->matrix);
	free(rs->tables);
	free(rs->batch_tables);
	free(rs->inverse);
	free(rs->coefficients);
	free(rs->product);
	free(rs);
}

/* output = matrix times input, for `length` bytes: `rows` rows of `columns`, each `stride` after the one before. */
static void multiply(struct rs *rs, const uint8_t *matrix, size_t stride, unsigned columns,
		     unsigned rows, uint8_t *input[], uint8_t *output[], size_t length)
{
	uint8_t packed[BATCH_ROWS * RS_SYMBOLS_MAX];

	for (unsigned done = 0; done < rows; done += BATCH_ROWS) {
		unsigned batch = rows - done < BATCH_ROWS ? rows - done : BATCH_ROWS;

		for (unsigned row = 0; row < batch; row++)
			memcpy(packed + (size_t)row * columns, matrix + (done + row) * stride,
			       columns);
		ec_init_tables((int)columns, (int)batch, packed, rs->batch_tables);
		ec_encode_data((int)length, (int)columns, (int)batch, rs->batch_tables, input,
			       output + done);
	}
}

static void encode_region(struct rs *rs, unsigned count, const void *const data[], size_t from,
			  size_t to, unsigned first, unsigned rows, void *const parity[])
{
	for (unsigned i = 0; i < count; i++)
		rs->input[i] = (uint8_t *)data[i] + from;
	for (unsigned i = 0; i < rows; i++)
		rs->output[i] = (uint8_t *)parity[i] + from;
	if (count == 0) {
		for (unsigned i = 0; i < rows; i++)
			memset(rs->output[i], 0, to - from);
		return;
	}
	if (count == rs->table_k && first == 0 && rows == rs->table_m) {
		ec_encode_data((int)(to - from), (int)count, (int)rows, rs->tables, rs->input,
			       rs->output);
		return;
	}
	for (unsigned done = 0; done < rows; done += BATCH_ROWS) {
		unsigned batch = rows - done < BATCH_ROWS ? rows - done : BATCH_ROWS;

		for (unsigned row = 0; row < batch; row++)
			cauchy_row(&rs->cauchy, first + done + row, count,
				   rs->coefficients + row * rs->stride);
		multiply(rs, rs->coefficients, rs->stride, count, batch, rs->input,
			 rs->output + done, to - from);
	}
}

int rs_encode(struct rs *rs, const struct coding_group *group, const void *const data[],
	      unsigned first, unsigned rows, void *const parity[])
{
	if (!coding_group_valid(group, rs->k) || rows < 1 || rows > RS_SYMBOLS_MAX - rs->k ||
	    first > RS_SYMBOLS_MAX - rs->k - rows)
		return -EINVAL;
	encode_region(rs, group->count, data, 0, group->last, first, rows, parity);
	if (group->last < group->length)
		encode_region(rs, group->count - 1, data, group->last, group->length, first, rows,
			      parity);
	return 0;
}

int rs_fold(struct rs *rs, unsigned index, const void *data, size_t length, void *const parity[])
{
	const struct coding_group shape = { .count = index + 1, .length = length, .last = length };

	if (!coding_group_valid(&shape, rs->table_k))
		return -EINVAL;
	for (unsigned i = 0; i < rs->table_m; i++)
		rs->output[i] = parity[i];
	ec_encode_data_update((int)length, (int)rs->table_k, (int)rs->table_m, (int)index,
			      rs->tables, (uint8_t *)data, rs->output);
	return 0;
}

static void decode_region(struct rs *rs, unsigned count, void *const data[], size_t from, size_t to,
			  const uint8_t *erased, unsigned erasures, const uint8_t *rows,
			  const void *const parity[])
{
	unsigned present = 0, next = 0;

	if (erasures == 0)
		return;
	/* C[P,R]: the columns of what is there, side by side; the rows are wanted one by one below. */
	for (unsigned j = 0; j < count; j++) {
		if (next < erasures && erased[next] == j) {
			next++;
			continue;
		}
		for (unsigned i = 0; i < erasures; i++)
			rs->coefficients[i * rs->stride + present] =
				cauchy_element(&rs->cauchy, rows[i], j);
		rs->input[present++] = (uint8_t *)data[j] + from;
	}
	cauchy_inverse(&rs->cauchy, rows, erased, erasures, rs->inverse);
	if (present > 0) {
		uint8_t *left[RS_SYMBOLS_MAX], *right[RS_SYMBOLS_MAX];

		for (unsigned i = 0; i < erasures; i++) {
			left[i] = rs->coefficients + i * rs->stride;
			right[i] = rs->product + i * rs->stride;
		}
		/* Whole lines: what lies behind the last column is never looked at. */
		multiply(rs, rs->inverse, erasures, erasures, erasures, left, right, rs->stride);
	}
	for (unsigned i = 0; i < erasures; i++) {
		memcpy(rs->product + i * rs->stride + present, rs->inverse + (size_t)i * erasures,
		       erasures);
		rs->input[present + i] = (uint8_t *)parity[i] + from;
		rs->output[i] = (uint8_t *)data[erased[i]] + from;
	}
	multiply(rs, rs->product, rs->stride, present + erasures, erasures, rs->input, rs->output,
		 to - from);
}

static bool rows_valid(const struct rs *rs, const uint8_t *rows, unsigned count)
{
	bool seen[RS_SYMBOLS_MAX] = { false };

	for (unsigned i = 0; i < count; i++) {
		if (rows[i] >= RS_SYMBOLS_MAX - rs->k || seen[rows[i]])
			return false;
		seen[rows[i]] = true;
	}
	return true;
}

int rs_decode(struct rs *rs, const struct coding_group *group, void *const data[],
	      const uint8_t *erased, unsigned erasures, const uint8_t *rows,
	      const void *const parity[])
{
	unsigned left = erasures;

	if (!coding_group_valid(group, rs->k) || erasures > most_erasures(rs) ||
	    !coding_erased_valid(group, erased, erasures) || !rows_valid(rs, rows, erasures))
		return -EINVAL;
	decode_region(rs, group->count, data, 0, group->last, erased, erasures, rows, parity);
	if (group->last == group->length)
		return 0;
	/* Behind its end the last symbol is known to be zeros, so one parity symbol fewer is needed. */
	if (left > 0 && erased[left - 1] == group->count - 1)
		left--;
	decode_region(rs, group->count - 1, data, group->last, group->length, erased, left, rows,
		      parity);
	return 0;
}

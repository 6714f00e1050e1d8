/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reed_solomon.c: all work is one operation of ISA-L: outputs = matrix times inputs, from tables computed from the matrix.
 * The first parity row has only ones as coefficients, so that computing it, and repairing a single loss with it, is an
 * exclusive or (xor.h).
 *
 * Decoding: let E be the erased symbols, P as many parity rows, R the data symbols present. The syndromes are
 * s = parity + C[P,R] data[R], and data[E] = C[P,E]^-1 s. The product of both matrices has a closed form (cauchy.c), so
 * that one pass over the packets is enough: k inputs, e outputs, no stored syndromes.
 *
 * A group whose last symbol is short has two regions, the second with one symbol less. Each is coded by itself.
 */
#include "coding/reed_solomon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <isa-l.h>

#include "coding/cauchy.h"
#include "coding/registers.h"
#include "coding/tables.h"
#include "coding/xor.h"

/* ISA-L computes at most this many outputs in one pass over the inputs. */
#define BATCH_ROWS 6

struct rs {
	/* most data symbols in a group, and most rows in `tables` */
	unsigned k;
	unsigned m;
	struct cauchy cauchy;
	/* ISA-L's table entry for each coefficient */
	struct tables coefficient_tables;
	/* ISA-L's tables of the first table_m rows and table_k columns; allocated for m and k */
	uint8_t *tables;
	unsigned table_k;
	unsigned table_m;

	/* Working memory: tables of one batch of rows; a matrix of as many rows as are encoded or decoded; and the symbols. */
	uint8_t *batch_tables;
	uint8_t *matrix;
	uint8_t *input[RS_SYMBOLS_MAX];
	uint8_t *output[RS_SYMBOLS_MAX];
};

/* Returns how many erased symbols can be decoded at most. */
static unsigned most_erasures(const struct rs *rs)
{
	return rs->k < RS_SYMBOLS_MAX - rs->k ? rs->k : RS_SYMBOLS_MAX - rs->k;
}

static int allocate(struct rs *rs)
{
	size_t rows = most_erasures(rs);

	if (rows < rs->m)
		rows = rs->m;
	if (rows < BATCH_ROWS)
		rows = BATCH_ROWS;
	rs->tables = malloc((size_t)TABLES_ENTRY_MAX * rs->k * rs->m);
	rs->batch_tables = malloc((size_t)TABLES_ENTRY_MAX * rs->k * BATCH_ROWS);
	rs->matrix = malloc(rs->k * rows);
	return rs->tables && rs->batch_tables && rs->matrix ? 0 : -ENOMEM;
}

int rs_retable(struct rs *rs, unsigned k, unsigned m)
{
	if (k < 1 || m < 1 || k > rs->k || m > rs->m)
		return -EINVAL;
	if (k == rs->table_k && m == rs->table_m)
		return 0;
	for (unsigned row = 0; row < m; row++)
		cauchy_row(&rs->cauchy, row, k, rs->matrix + (size_t)row * k);
	tables_make(&rs->coefficient_tables, k, m, rs->matrix, rs->tables);
	rs->table_k = k;
	rs->table_m = m;
	return 0;
}

/* Tables are computed when they are first used: a coder that only decodes needs none, and they take half a megabyte. */
static void table(struct rs *rs)
{
	if (!rs->table_k)
		rs_retable(rs, rs->k, rs->m);
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
	tables_init(&rs->coefficient_tables);
	if (allocate(rs)) {
		rs_destroy(rs);
		return -ENOMEM;
	}
	*out = rs;
	return 0;
}

void rs_destroy(struct rs *rs)
{
	if (!rs)
		return;
	free(rs->tables);
	free(rs->batch_tables);
	free(rs->matrix);
	free(rs);
}

/* Returns how many of `rows` to compute in the next pass. All passes have about the same number, because ISA-L is slow at
 * computing a single row. */
static unsigned batch_of(unsigned rows)
{
	unsigned passes = (rows + BATCH_ROWS - 1) / BATCH_ROWS;

	return (rows + passes - 1) / passes;
}

/* Computes up to BATCH_ROWS outputs, from index `at` on, from the first `columns` inputs. */
static void multiply(struct rs *rs, const uint8_t *matrix, unsigned columns, unsigned rows,
		     unsigned at, size_t length)
{
	tables_make(&rs->coefficient_tables, columns, rows, matrix, rs->batch_tables);
	ec_encode_data((int)length, (int)columns, (int)rows, rs->batch_tables, rs->input,
		       rs->output + at);
	registers_clean();
}

/* Sets the first output to the exclusive or of the first `count` inputs. */
static void add(struct rs *rs, unsigned count, size_t length)
{
	void *vectors[RS_SYMBOLS_MAX + 1];

	for (unsigned i = 0; i < count; i++)
		vectors[i] = rs->input[i];
	vectors[count] = rs->output[0];
	xor_sum(vectors, count, length);
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
	if (first == 0 && rows == 1) {
		add(rs, count, to - from);
		return;
	}
	if (count == rs->table_k && first == 0 && rows == rs->table_m) {
		ec_encode_data((int)(to - from), (int)count, (int)rows, rs->tables, rs->input,
			       rs->output);
		registers_clean();
		return;
	}
	for (unsigned done = 0, batch; done < rows; done += batch) {
		batch = batch_of(rows - done);
		for (unsigned row = 0; row < batch; row++)
			cauchy_row(&rs->cauchy, first + done + row, count,
				   rs->matrix + row * count);
		multiply(rs, rs->matrix, count, batch, done, to - from);
	}
}

int rs_encode(struct rs *rs, const struct coding_group *group, const void *const data[],
	      unsigned first, unsigned rows, void *const parity[])
{
	if (!coding_group_valid(group, rs->k) || rows < 1 || rows > RS_SYMBOLS_MAX - rs->k ||
	    first > RS_SYMBOLS_MAX - rs->k - rows)
		return -EINVAL;
	table(rs);
	encode_region(rs, group->count, data, 0, group->last, first, rows, parity);
	if (group->last < group->length)
		encode_region(rs, group->count - 1, data, group->last, group->length, first, rows,
			      parity);
	return 0;
}

int rs_fold(struct rs *rs, unsigned index, const void *data, size_t length, void *const parity[])
{
	const struct coding_group shape = { .count = index + 1, .length = length, .last = length };

	table(rs);
	if (!coding_group_valid(&shape, rs->table_k))
		return -EINVAL;
	for (unsigned i = 0; i < rs->table_m; i++)
		rs->output[i] = parity[i];
	ec_encode_data_update((int)length, (int)rs->table_k, (int)rs->table_m, (int)index,
			      rs->tables, (uint8_t *)data, rs->output);
	registers_clean();
	return 0;
}

static void decode_region(struct rs *rs, unsigned count, void *const data[], size_t from, size_t to,
			  const uint8_t *erased, unsigned erasures, const uint8_t *rows,
			  const void *const parity[])
{
	unsigned present = 0, next = 0;

	if (erasures == 0)
		return;
	for (unsigned j = 0; j < count; j++) {
		if (next < erasures && erased[next] == j)
			next++;
		else
			rs->input[present++] = (uint8_t *)data[j] + from;
	}
	for (unsigned i = 0; i < erasures; i++) {
		rs->input[present + i] = (uint8_t *)parity[i] + from;
		rs->output[i] = (uint8_t *)data[erased[i]] + from;
	}
	if (erasures == 1 && rows[0] == 0) {
		add(rs, count, to - from);
		return;
	}
	cauchy_solve(&rs->cauchy, count, erased, rows, erasures, rs->matrix);
	for (unsigned done = 0, batch; done < erasures; done += batch) {
		batch = batch_of(erasures - done);
		multiply(rs, rs->matrix + done * count, count, batch, done, to - from);
	}
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
	/* Beyond its end the last symbol is zeros, so that it need not be computed there. */
	if (left > 0 && erased[left - 1] == group->count - 1)
		left--;
	decode_region(rs, group->count - 1, data, group->last, group->length, erased, left, rows,
		      parity);
	return 0;
}

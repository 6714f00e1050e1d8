/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rates while all hosts send, against those of the same pairs alone; and rates of source ports against each other. One pair
 * that is slow once says little here, because all hosts compete: what is named is the network, if a quarter of the pairs or
 * more are slow, or a host, if more than half of its pairs are.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/text.h"
#include "verdict.h"

#define NETWORK_SHARE 4 /* a quarter */

/* What a pair keeps of its rate alone. A host that is slow alone is left out: its own link is full, both of data and of the
 * acknowledgements that the other direction waits for. So is a pair that loses packets, which is slow by chance. */
static double kept(const struct matrix *matrix, unsigned i, unsigned j, const bool *slow)
{
	const struct matrix_cell *there = matrix_at(matrix, i, j), *back = matrix_at(matrix, j, i);

	if (i == j || slow[i] || slow[j] || !(there->alone_bps > 0) ||
	    matrix_loss(there) >= VERDICT_LOSS || matrix_loss(back) >= VERDICT_LOSS)
		return NAN;
	return there->together_bps / there->alone_bps;
}

/* Fills in which hosts send or receive slowly alone. */
static void find_slow(const struct matrix *matrix, double *scratch, bool *slow)
{
	unsigned n = matrix->hosts, count = 0;
	double usual;

	for (unsigned i = 0; i < n * n; i++)
		scratch[count++] = i / n == i % n ? NAN : matrix->cells[i].alone_bps;
	usual = matrix_median(scratch, count);
	for (unsigned i = 0; i < n; i++) {
		double median;

		for (unsigned j = 0; j < n; j++)
			scratch[j] = i == j ? NAN : matrix_at(matrix, i, j)->alone_bps;
		median = matrix_median(scratch, n);
		slow[i] = median < VERDICT_SLOW * usual;
		for (unsigned j = 0; j < n; j++)
			scratch[j] = i == j ? NAN : matrix_at(matrix, j, i)->alone_bps;
		median = matrix_median(scratch, n);
		slow[i] |= median < VERDICT_SLOW * usual;
	}
}

static int add_host(const struct matrix *matrix, struct verdict *verdict, unsigned host, bool sends,
		    const bool *slow)
{
	unsigned pairs = 0, fallen = 0;
	double worst = 1;

	for (unsigned j = 0; j < matrix->hosts; j++) {
		double share = sends ? kept(matrix, host, j, slow) : kept(matrix, j, host, slow);

		pairs += !isnan(share);
		fallen += share < VERDICT_TOGETHER;
		worst = fmin(worst, share);
	}
	if (pairs < 2 || 2 * fallen <= pairs)
		return 0;
	return verdict_add(
		verdict,
		(struct finding){ .kind = FINDING_TOGETHER,
				  .from = sends ? (int)host : -1,
				  .to = sends ? -1 : (int)host,
				  .measured = worst,
				  .expected = 1 },
		"while all hosts send, %s %s with %u of %u hosts at less than half of its rate alone (worst %.2f)",
		matrix->host[host].name, sends ? "sends" : "receives", fallen, pairs, worst);
}

static int judge(const struct matrix *matrix, struct verdict *verdict, double *scratch,
		 const bool *slow)
{
	unsigned n = matrix->hosts, pairs = 0, fallen = 0;
	double median;
	int rc = 0;

	for (unsigned i = 0; i < n * n; i++) {
		double share = kept(matrix, i / n, i % n, slow);

		pairs += !isnan(share);
		if (share < VERDICT_TOGETHER)
			scratch[fallen++] = share;
	}
	median = matrix_median(scratch, fallen);
	if (fallen && NETWORK_SHARE * fallen >= pairs)
		return verdict_add(
			verdict,
			(struct finding){ .kind = FINDING_TOGETHER,
					  .from = -1,
					  .to = -1,
					  .measured = median,
					  .expected = 1 },
			"while all hosts send, %u of %u pairs reach less than half of their rate alone (median of these %.2f): the network between the hosts carries less than they can send",
			fallen, pairs, median);
	for (unsigned i = 0; !rc && i < n; i++) {
		rc = add_host(matrix, verdict, i, true, slow);
		if (!rc)
			rc = add_host(matrix, verdict, i, false, slow);
	}
	return rc;
}

int verdict_together(const struct matrix *matrix, struct verdict *verdict)
{
	size_t n = matrix->hosts;
	double *scratch = malloc(n * n * sizeof(*scratch));
	bool *slow = calloc(n, sizeof(*slow));
	int rc = -ENOMEM;

	if (scratch && slow) {
		find_slow(matrix, scratch, slow);
		rc = n < 3 ? 0 : judge(matrix, verdict, scratch, slow);
	}
	free(scratch);
	free(slow);
	return rc;
}

/* The slowest port of a pair, if it is slow beside the best. */
static const struct matrix_port *slow_port(const struct matrix *matrix,
					   const struct matrix_cell *cell)
{
	const struct matrix_port *slowest = NULL;

	for (unsigned p = 0; p < matrix->ports; p++) {
		if (cell->ports[p].bps < VERDICT_TOGETHER * cell->alone_bps &&
		    (!slowest || cell->ports[p].bps < slowest->bps))
			slowest = &cell->ports[p];
	}
	return slowest;
}

int verdict_paths(const struct matrix *matrix, struct verdict *verdict)
{
	unsigned pairs = 0, slow = 0;
	char is[TEXT_SIZE], was[TEXT_SIZE];
	int rc = 0;

	for (unsigned i = 0; i < matrix->hosts; i++) {
		for (unsigned j = 0; j < matrix->hosts; j++) {
			pairs += i != j && !isnan(matrix_at(matrix, i, j)->alone_bps);
			slow += slow_port(matrix, matrix_at(matrix, i, j)) != NULL;
		}
	}
	if (matrix->hosts > 2 && NETWORK_SHARE * slow >= pairs && slow)
		return verdict_add(
			verdict,
			(struct finding){ .kind = FINDING_SLOW_PATH,
					  .from = -1,
					  .to = -1,
					  .measured = slow,
					  .expected = 0 },
			"between %u of %u pairs of hosts some source port reaches less than half of the rate of the others: one of several paths is slow",
			slow, pairs);
	for (unsigned i = 0; !rc && i < matrix->hosts; i++) {
		for (unsigned j = 0; !rc && j < matrix->hosts; j++) {
			const struct matrix_cell *cell = matrix_at(matrix, i, j);
			const struct matrix_port *port = slow_port(matrix, cell);

			if (!port)
				continue;
			rc = verdict_add(
				verdict,
				(struct finding){ .kind = FINDING_SLOW_PATH,
						  .from = (int)i,
						  .to = (int)j,
						  .measured = port->bps,
						  .expected = cell->alone_bps },
				"%s -> %s is slow from source port %u: %s against %s from others: one of several paths is slow",
				matrix->host[i].name, matrix->host[j].name, port->number,
				text_rate(port->bps, is), text_rate(cell->alone_bps, was));
		}
	}
	return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Losses. If half of all pairs lose packets the network does, and a host or a pair is worth a finding only if it loses
 * several times as much. A host loses if more than half of the pairs that it sends to, or receives from, do. The pairs that
 * are left are named one by one.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "verdict.h"

/* What a host or a pair loses, of what the whole network does, before it is named too. */
#define TIMES_USUAL 3
/* Share of the losses that a pair has with its worst source port, if they are those of one path. */
#define ONE_PATH  0.8
#define PATH_TEXT 160

struct losses {
	const struct matrix *matrix;
	struct verdict *verdict;
	/* share that counts as a loss */
	double least;
	/* by host */
	bool *sends, *receives;
};

static bool measured(const struct losses *l, unsigned i, unsigned j)
{
	return i != j && matrix_at(l->matrix, i, j)->sent;
}

static bool loses(const struct losses *l, unsigned i, unsigned j)
{
	const struct matrix_cell *cell = matrix_at(l->matrix, i, j);

	return measured(l, i, j) && cell->lost >= VERDICT_LOST && matrix_loss(cell) >= l->least;
}

/* Packets of some pairs. */
struct pool {
	uint64_t sent, lost;
	/* lost with the worst port of each pair, and sent with it */
	uint64_t worst_lost, worst_sent;
	unsigned pairs, lossy;
};

static void pool_add(const struct losses *l, struct pool *pool, unsigned i, unsigned j)
{
	const struct matrix_cell *cell = matrix_at(l->matrix, i, j);
	const struct matrix_port *worst = &cell->ports[0];

	if (!measured(l, i, j))
		return;
	for (unsigned p = 1; p < l->matrix->ports; p++) {
		if (cell->ports[p].lost > worst->lost)
			worst = &cell->ports[p];
	}
	pool->pairs++;
	pool->lossy += loses(l, i, j);
	pool->sent += cell->sent;
	pool->lost += cell->lost;
	pool->worst_lost += worst->lost;
	pool->worst_sent += worst->sent;
}

static double share(const struct pool *pool)
{
	return pool->sent ? (double)pool->lost / (double)pool->sent : 0;
}

/* Says so if nearly all losses are those of one source port of several. */
static const char *one_path(const struct losses *l, const struct pool *pool, char text[PATH_TEXT])
{
	text[0] = '\0';
	if (l->matrix->ports > 1 && pool->worst_sent && pool->lost > VERDICT_LOST &&
	    (double)pool->worst_lost >= ONE_PATH * (double)pool->lost)
		snprintf(
			text, PATH_TEXT,
			", nearly all with 1 of %u source ports, which loses %.1f %%: one of several paths drops",
			l->matrix->ports,
			100.0 * (double)pool->worst_lost / (double)pool->worst_sent);
	return text;
}

/* The whole network: by the median pair, or by one path that many pairs have in common. */
static int add_network(struct losses *l)
{
	unsigned n = l->matrix->hosts;
	char path[PATH_TEXT];
	struct pool pool = { 0 };

	for (unsigned i = 0; i < n; i++) {
		for (unsigned j = 0; j < n; j++)
			pool_add(l, &pool, i, j);
	}
	if (n < 3 || pool.pairs < 3 || 2 * pool.lossy <= pool.pairs)
		return 0;
	l->least = fmax(l->least, TIMES_USUAL * share(&pool));
	return verdict_add(
		l->verdict,
		(struct finding){ .kind = FINDING_LOSS,
				  .from = -1,
				  .to = -1,
				  .measured = share(&pool),
				  .expected = 0 },
		"the network drops %.2g %% of packets, between %u of %u pairs of hosts%s",
		100 * share(&pool), pool.lossy, pool.pairs, one_path(l, &pool, path));
}

static int add_host(struct losses *l, unsigned host, bool sends)
{
	struct pool pool = { 0 };
	char path[PATH_TEXT];

	for (unsigned j = 0; j < l->matrix->hosts; j++)
		pool_add(l, &pool, sends ? host : j, sends ? j : host);
	if (pool.pairs < 2 || 2 * pool.lossy <= pool.pairs)
		return 0;
	(sends ? l->sends : l->receives)[host] = true;
	return verdict_add(l->verdict,
			   (struct finding){ .kind = FINDING_HOST_LOSS,
					     .from = sends ? (int)host : -1,
					     .to = sends ? -1 : (int)host,
					     .measured = share(&pool),
					     .expected = 0 },
			   "%s%s%s drops %.2g %% of packets, %s %u of %u hosts%s",
			   sends ? "" : "* -> ", l->matrix->host[host].name, sends ? " -> *" : "",
			   100 * share(&pool), sends ? "to" : "from", pool.lossy, pool.pairs,
			   one_path(l, &pool, path));
}

static int add_pairs(struct losses *l)
{
	unsigned n = l->matrix->hosts;
	char path[PATH_TEXT];
	int rc = 0;

	for (unsigned i = 0; !rc && i < n; i++) {
		for (unsigned j = 0; !rc && j < n; j++) {
			struct pool pool = { 0 };

			if (!loses(l, i, j) || l->sends[i] || l->receives[j])
				continue;
			pool_add(l, &pool, i, j);
			rc = verdict_add(l->verdict,
					 (struct finding){ .kind = FINDING_PAIR_LOSS,
							   .from = (int)i,
							   .to = (int)j,
							   .measured = share(&pool),
							   .expected = 0 },
					 "%s -> %s drops %.2g %% of packets (%llu of %llu)%s",
					 l->matrix->host[i].name, l->matrix->host[j].name,
					 100 * share(&pool), (unsigned long long)pool.lost,
					 (unsigned long long)pool.sent, one_path(l, &pool, path));
		}
	}
	return rc;
}

int verdict_losses(const struct matrix *matrix, struct verdict *verdict)
{
	struct losses l = { .matrix = matrix, .verdict = verdict, .least = VERDICT_LOSS };
	int rc;

	l.sends = calloc(2 * (size_t)matrix->hosts, sizeof(*l.sends));
	if (!l.sends)
		return -ENOMEM;
	l.receives = l.sends + matrix->hosts;
	rc = add_network(&l);
	for (unsigned i = 0; !rc && i < matrix->hosts; i++) {
		rc = add_host(&l, i, true);
		if (!rc)
			rc = add_host(&l, i, false);
	}
	if (!rc)
		rc = add_pairs(&l);
	free(l.sends);
	return rc;
}

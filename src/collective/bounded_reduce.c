/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An owner reduces its shard, or its piece of one: the shares in the order of ranks, as GW_ALGORITHM_DIRECT does, so that a result without loss has the
 * same bits. Numbers that are missing are first replaced by something that the recovery names, or, where it counts, by zeros; then the
 * sum is divided by the part of the ranks whose number arrived.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coding/hadamard.h"
#include "collective/bounded.h"
#include "collective/reduce.h"

/* An owner's shard, while it is reduced. */
struct shard {
	struct bounded *run;
	const struct round *round;
	size_t count;
	uint64_t bytes;
	uint32_t unit;
	enum gw_type type;
	enum gw_reduction reduction;
	/* this rank's own share */
	uint8_t *own;
	/* what stands for a missing number; null: zeros */
	const uint8_t *substitute;
	/* memory of a substitute that had to be computed */
	uint8_t *computed;
	/* shares that came, with this rank's own */
	uint32_t shares;
};

static bool sums(const struct shard *shard)
{
	return shard->reduction == GW_SUM || shard->reduction == GW_MEAN;
}

static bool counts(const struct shard *shard)
{
	enum gw_recovery recovery = shard->run->attr.recovery;

	return sums(shard) && (recovery == GW_RECOVER_COUNT || recovery == GW_RECOVER_CODED);
}

static int find_substitute(struct shard *shard)
{
	const struct bounded *run = shard->run;

	if (run->attr.recovery == GW_RECOVER_KEEP || !sums(shard)) {
		shard->substitute = shard->own;
		return 0;
	}
	if (run->attr.recovery != GW_RECOVER_PREVIOUS)
		return 0;
	shard->substitute = shard->round->previous;
	if (shard->reduction == GW_MEAN)
		return 0;
	/* A member's part of an earlier sum. */
	shard->computed = malloc(shard->bytes);
	if (!shard->computed)
		return -ENOMEM;
	memcpy(shard->computed, shard->substitute, shard->bytes);
	reduce_scale(shard->type, shard->computed, shard->count, shard->round->previous_parts);
	shard->substitute = shard->computed;
	return 0;
}

/* The members of the round in order. */
static struct bounded_peer *member(const struct shard *shard, uint32_t index, uint32_t *rank)
{
	*rank = shard->round->first + index * shard->round->step;
	return &shard->run->peers[*rank];
}

static void fill_holes(const struct shard *shard, uint8_t *share, const struct hole_list *holes)
{
	for (uint32_t h = 0; h < holes->count; h++) {
		uint64_t from = holes->items[h].from / shard->unit * shard->unit;
		uint64_t to = (holes->items[h].to + shard->unit - 1) / shard->unit * shard->unit;

		if (shard->substitute)
			memcpy(share + from, shard->substitute + from, to - from);
		else
			memset(share + from, 0, to - from);
	}
}

static void add_share(struct shard *shard, const uint8_t *share, bool first)
{
	uint8_t *sum = shard->round->reduced;

	if (first)
		memcpy(sum, share, shard->bytes);
	else
		reduce_apply(shard->type, shard->reduction, sum, sum, share, shard->count);
}

static void add_all(struct shard *shard)
{
	bool first = true;

	for (uint32_t m = 0, r; m < shard->round->count; m++) {
		const struct bounded_peer *peer = member(shard, m, &r);
		const uint8_t *share = r == shard->run->comm->rank ? shard->own : peer->share;

		if (peer->share)
			fill_holes(shard, peer->share, &peer->holes);
		/* Of a minimum the own share is a part already. */
		if (!share && sums(shard))
			share = shard->substitute;
		if (!share)
			continue;
		add_share(shard, share, first);
		first = false;
	}
}

/* Divides numbers of which so many shares are in the sum. */
static void weigh(const struct shard *shard, size_t from, size_t to, uint32_t shares)
{
	uint8_t *values = coll_at(shard->round->reduced, from * shard->unit);
	uint32_t size = shard->round->count;

	if (shard->reduction == GW_MEAN)
		reduce_scale(shard->type, values, to - from, shares);
	else if (shares != size)
		reduce_divide(shard->type, values, to - from, (double)shares / (double)size);
}

/* Counts for each number the shares that it is the sum of. */
static int weigh_all(const struct shard *shard)
{
	uint16_t *missing = NULL;
	size_t from = 0;

	for (uint32_t m = 0, r; m < shard->round->count; m++) {
		const struct hole_list *holes = &member(shard, m, &r)->holes;

		if (holes->count && !missing)
			missing = calloc(shard->count, sizeof(*missing));
		if (holes->count && !missing)
			return -ENOMEM;
		for (uint32_t h = 0; h < holes->count; h++)
			for (uint64_t i = holes->items[h].from / shard->unit;
			     i * shard->unit < holes->items[h].to; i++)
				missing[i]++;
	}
	for (size_t i = 1; missing && i < shard->count; i++) {
		if (missing[i] == missing[from])
			continue;
		weigh(shard, from, i, shard->shares - missing[from]);
		from = i;
	}
	weigh(shard, from, shard->count, shard->shares - (missing ? missing[from] : 0));
	free(missing);
	return 0;
}

static int reduce_numbers(struct shard *shard)
{
	int error = find_substitute(shard);

	if (error)
		return error;
	add_all(shard);
	free(shard->computed);
	if (counts(shard))
		return weigh_all(shard);
	if (shard->reduction == GW_MEAN)
		reduce_scale(shard->type, shard->round->reduced, shard->count, shard->round->count);
	return 0;
}

/* Coefficients are weighed share by share and block by block: no number is counted by itself. A block of which nothing came counts
 * as a share that did not come. */
static int reduce_coefficients(struct shard *shard)
{
	static const struct hole_list none;
	struct bounded *run = shard->run;
	size_t blocks = hadamard_parts(shard->count, BOUNDED_BLOCK), from = 0;
	uint32_t *lost = calloc(blocks, sizeof(*lost));
	int error = lost ? spread_collect(run, shard->own, &none, shard->count,
					  shard->round->reduced, lost)
			 : -ENOMEM;

	for (uint32_t m = 0, r; m < shard->round->count && !error; m++) {
		const struct bounded_peer *peer = member(shard, m, &r);

		if (!peer->share)
			continue;
		/* The own share is in the sum: its memory takes the others, one after the other. */
		error = spread_collect(run, peer->share, &peer->holes, shard->count, shard->own,
				       lost);
		add_share(shard, shard->own, false);
	}
	for (size_t b = 0; b < blocks && !error; b++) {
		size_t to = hadamard_part_end(shard->count, BOUNDED_BLOCK, b);

		weigh(shard, from, to, shard->shares - lost[b]);
		from = to;
	}
	free(lost);
	if (!error)
		spread_decode(run, shard->round, shard->count);
	return error;
}

int bounded_reduce(struct bounded *run, const struct round *round)
{
	struct gw_coll *coll = run->coll;
	uint64_t from = layout_offset(&round->layout, round->part);
	struct shard shard = { .run = run,
			       .round = round,
			       .bytes = layout_bytes(&round->layout, round->part),
			       .unit = coll->task.unit,
			       .type = coll->type,
			       .reduction = coll->reduction,
			       .shares = 1 };

	if (!shard.bytes)
		return 0;
	shard.count = shard.bytes / shard.unit;
	shard.own = coll_at(bounded_spreads(run) ? round->packed : round->source, from);
	for (uint32_t m = 0, r; m < round->count; m++)
		shard.shares += member(&shard, m, &r)->share != NULL;
	return bounded_spreads(run) ? reduce_coefficients(&shard) : reduce_numbers(&shard);
}

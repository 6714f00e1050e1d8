/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded allreduce of many ranks, in rows and then columns of a grid. Rank r is in row r / columns, column r % columns. Each rank has
 * channels to its row and its column instead of to all ranks, and fewer senders at a time.
 *
 * Every column has a shard of the data, in an order drawn for each operation, which the ranks of a column that take part cut into
 * pieces. In the first round a rank sends each rank of its row the share of that one's shard, and reduces its own. In the second it
 * sends each rank of its column that one's piece of the reduced shard, and reduces its own piece. Both rounds are stage 1: they end
 * by a deadline, shares may have holes. Then pieces go to all ranks of the column, and from there shards to all ranks of the row; that
 * is exact, so that all ranks have the same bits.
 *
 * What is reduced in a row stands for all of its ranks, whether or not something is missing: a mean is the mean of the rows' means.
 *
 * A late rank leaves a gap in its row and its column. What its row has of its shard is left out of the result, since nobody in the row
 * reduces it: a late rank costs twice the data that it gives. The row gets that shard from the next rank of the column that is
 * there, and so does the late rank. Of every column one rank has to be there.
 */
#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "collective/bounded.h"

/* Ranks from which on there is a grid, and how many times as many columns as rows it has at most. */
#define GRID_RANKS 64
#define GRID_RATIO 4

uint32_t grid_rows(uint32_t ranks)
{
	uint32_t rows = 1;

	for (uint32_t r = 2; ranks >= GRID_RANKS && r * r <= ranks; r++)
		if (!(ranks % r))
			rows = r;
	return GRID_RATIO * rows >= ranks / rows ? rows : 1;
}

static uint32_t row_of(const struct bounded *run, uint32_t rank)
{
	return rank / run->columns;
}

static uint32_t column_of(const struct bounded *run, uint32_t rank)
{
	return rank % run->columns;
}

static bool same_row(const struct bounded *run, uint32_t peer)
{
	return row_of(run, peer) == row_of(run, run->comm->rank);
}

static bool same_column(const struct bounded *run, uint32_t peer)
{
	return column_of(run, peer) == column_of(run, run->comm->rank);
}

bool grid_complete(const struct bounded *run)
{
	uint32_t size = run->comm->size;

	for (uint32_t c = 0; c < run->columns; c++) {
		uint32_t r = c;

		while (r < size && !run->peers[r].present)
			r += run->columns;
		if (r >= size)
			return false;
	}
	return true;
}

/* The rank of a column that sends its shard to a row. */
static uint32_t server_of(const struct bounded *run, uint32_t row, uint32_t column)
{
	uint32_t r = row * run->columns + column;

	while (!run->peers[r].present)
		r = (r + run->columns) % run->comm->size;
	return r;
}

/* Puts numbers into a random order. */
static void shuffle(uint32_t *items, uint32_t count, uint64_t seed)
{
	struct rng rng;

	rng_seed(&rng, seed);
	for (uint32_t i = count; i > 1; i--) {
		uint32_t j = (uint32_t)rng_below(&rng, i), item = items[j];

		items[j] = items[i - 1];
		items[i - 1] = item;
	}
}

/* Who owns which shard, and in this rank's column which piece. Returns how many pieces there are. */
static uint32_t draw_owners(struct bounded *run)
{
	uint32_t size = run->comm->size, column = column_of(run, run->comm->rank), pieces = 0;

	for (uint32_t c = 0; c < run->columns; c++)
		run->owners[c] = c;
	shuffle(run->owners, run->columns, run->plan.seed);
	for (uint32_t s = 0; s < run->columns; s++)
		for (uint32_t r = run->owners[s]; r < size; r += run->columns) {
			run->peers[r].present = plan_present(&run->plan, r);
			run->peers[r].shard = s;
			run->peers[r].piece = UINT32_MAX;
		}
	for (uint32_t r = column; r < size; r += run->columns)
		if (run->peers[r].present)
			run->owners[pieces++] = r;
	shuffle(run->owners, pieces, run->plan.seed + 1 + column);
	for (uint32_t p = 0; p < pieces; p++)
		run->peers[run->owners[p]].piece = p;
	return pieces;
}

static void make_rounds(struct bounded *run)
{
	const struct gw_coll *coll = run->coll;
	enum place place = coll->task.in_place ? PLACE_RECV : PLACE_SEND;
	uint32_t self = run->comm->rank, pieces = draw_owners(run), granule = bounded_granule(run);
	uint32_t shard = run->peers[self].shard;
	uint64_t from, unit = coll->task.unit * granule;
	const uint8_t *previous = run->attr.previous;

	run->layout =
		(struct layout){ coll->task.elements / granule, (uint32_t)unit, run->columns, 1 };
	from = layout_offset(&run->layout, shard);
	run->rounds[0] = (struct round){ .first = row_of(run, self) * run->columns,
					 .step = 1,
					 .count = run->columns,
					 .layout = run->layout,
					 .part = shard,
					 .source = coll->base[place],
					 .source_mr = coll->mr[place],
					 .previous = previous ? previous + from : NULL,
					 .previous_parts = run->comm->size,
					 .seed = run->plan.seed };
	run->rounds[1] = (struct round){
		.first = column_of(run, self),
		.step = run->columns,
		.count = run->rows,
		.layout = { layout_bytes(&run->layout, shard) / unit, (uint32_t)unit,
			    pieces ? pieces : 1, 1 },
		.part = run->peers[self].piece,
		.previous_parts = run->rows,
		.seed = run->plan.seed + run->columns + (uint64_t)shard * run->rows,
	};
	if (previous && run->rounds[1].part != UINT32_MAX)
		run->rounds[1].previous =
			previous + from +
			layout_offset(&run->rounds[1].layout, run->rounds[1].part);
	bounded_limit(run, &run->rounds[0], 1, (uint32_t)((PPM + run->attr.floor_ppm) / 2));
	/* Shares of the columns leave when a row is over. */
	bounded_limit(run, &run->rounds[1], 2, (uint32_t)((PPM + run->attr.floor_ppm) / 2));
}

/* Takes memory of the track: the next that is free; null if there is none. */
static uint8_t *take(uint8_t *memory, uint64_t *at, uint64_t bytes)
{
	uint8_t *taken = memory ? memory + *at : NULL;

	*at += bounded_aligned(bytes);
	return taken;
}

/* Cuts memory into what goes to other ranks in the end. Returns how much that is; with a null `memory` nothing else. */
static uint64_t cut_results(struct bounded *run, uint8_t *memory)
{
	struct round *column = &run->rounds[1];
	uint64_t at = 0;

	run->summaries = take(memory, &at, (run->columns + run->rows) * run->summary_bytes);
	if (!run->peers[run->comm->rank].present)
		return at;
	column->reduced = take(memory, &at, layout_bytes(&column->layout, 0));
	run->shard = take(memory, &at, layout_bytes(&run->layout, 0));
	return at;
}

/* The same of what stage 1 needs. */
static uint64_t cut_memory(struct bounded *run, uint8_t *memory)
{
	struct round *row = &run->rounds[0], *column = &run->rounds[1];
	uint64_t shard = layout_bytes(&run->layout, 0), piece = layout_bytes(&column->layout, 0);
	uint64_t all = bounded_spreads(run) ? layout_offset(&run->layout, run->layout.chunks) : 0;
	uint32_t self = run->comm->rank;
	uint64_t at = 0;

	if (!run->peers[self].present)
		return at;
	row->reduced = take(memory, &at, shard);
	row->packed = take(memory, &at, all);
	column->packed = take(memory, &at, all ? shard : 0);
	for (uint32_t r = 0; r < run->comm->size; r++) {
		if (r == self || !run->peers[r].present)
			continue;
		if (same_row(run, r) && layout_bytes(&row->layout, row->part))
			run->peers[r].share = take(memory, &at, shard);
		if (same_column(run, r) && layout_bytes(&column->layout, column->part))
			run->peers[r].share = take(memory, &at, piece);
	}
	column->source = row->reduced;
	return at;
}

static struct summary *row_summary(const struct bounded *run, uint32_t row)
{
	return bounded_summary(run, run->columns + row);
}

/* Adds the receive of a share, and returns it; null: it is empty. */
static struct message *expect_share(struct bounded *run, uint32_t peer, uint32_t round)
{
	struct round *of = &run->rounds[round];
	struct message *share = message_add(run, peer, MESSAGE_SHARE, false, run->peers[peer].share,
					    layout_bytes(&of->layout, of->part), run->mr);

	of->shares_left += share != NULL;
	if (share)
		share->round = round;
	return share;
}

static void send_share(struct bounded *run, uint32_t peer, uint32_t round, uint32_t part)
{
	const struct round *of = &run->rounds[round];
	uint64_t from = layout_offset(&of->layout, part);
	bool spreads = bounded_spreads(run);
	struct message *share = message_add(
		run, peer, MESSAGE_SHARE, true, coll_at(spreads ? of->packed : of->source, from),
		layout_bytes(&of->layout, part), spreads ? run->mr : of->source_mr);

	if (share)
		share->round = round;
}

static void expect_result(struct bounded *run, uint32_t peer, struct summary *summary,
			  uint64_t from, uint64_t bytes)
{
	message_add(run, peer, MESSAGE_SUMMARY, false, summary, run->summary_bytes,
		    run->results_mr);
	message_add(run, peer, MESSAGE_RESULT, false, coll_at(run->coll->base[PLACE_RECV], from),
		    bytes, run->coll->mr[PLACE_RECV]);
}

/* What this rank and another tell each other, but for what has to be reduced first. */
static void exchange(struct bounded *run, uint32_t peer)
{
	const struct bounded_peer *other = &run->peers[peer];
	uint32_t self = run->comm->rank, shard = other->shard;
	bool both = run->peers[self].present && other->present;
	const struct layout *pieces = &run->rounds[1].layout;

	if (both && same_row(run, peer)) {
		struct message *share = other->share ? expect_share(run, peer, 0) : NULL;

		if (share)
			share->held = true;
		send_share(run, peer, 0, shard);
	}
	if (both && same_column(run, peer)) {
		if (other->share)
			expect_share(run, peer, 1);
		run->column_left += layout_bytes(pieces, other->piece) ? 2 : 1;
		expect_result(run, peer, row_summary(run, row_of(run, peer)),
			      layout_offset(&run->layout, shard) +
				      layout_offset(pieces, other->piece),
			      layout_bytes(pieces, other->piece));
	} else if (server_of(run, row_of(run, self), column_of(run, peer)) == peer) {
		expect_result(run, peer, bounded_summary(run, shard),
			      layout_offset(&run->layout, shard),
			      layout_bytes(&run->layout, shard));
	}
}

int grid_begin(struct bounded *run)
{
	struct track *track = &run->comm->tracks[coll_track(run->coll)];
	uint32_t size = run->comm->size, self = run->comm->rank;
	int error;

	make_rounds(run);
	error = track_reserve(run->comm, track, cut_memory(run, NULL));
	if (!error)
		error = keep_reserve(run, cut_results(run, NULL));
	if (error)
		return error;
	run->mr = track->mr;
	run->rounds[1].source_mr = track->mr;
	cut_memory(run, track->memory);
	cut_results(run, run->results_memory);
	if (bounded_spreads(run) && run->peers[self].present)
		spread_encode(run, &run->rounds[0], run->rounds[0].reduced);
	for (uint32_t i = 1; i < size; i++)
		exchange(run, (self + i) % size);
	return 0;
}

/* ---- from one round to the next -------------------------------------------------------------------------------- */

/* Bytes of what a row has of this rank's shard that did not reach the column. */
static uint64_t row_missing(const struct bounded *run, uint32_t row, uint64_t bytes)
{
	uint32_t column = column_of(run, run->comm->rank);
	uint32_t owner = row * run->columns + column;
	uint64_t missing = 0;

	if (!run->peers[owner].present)
		return bytes;
	for (uint32_t i = 0; i < run->rows; i++)
		if (i != row && run->peers[i * run->columns + column].present)
			missing += row_summary(run, i)->missing[owner];
	return missing;
}

/* The summary of this rank's shard from those of its column, the same at all of these. A number that is missing in both rounds is
 * counted twice. */
static void combine(struct bounded *run)
{
	uint32_t self = run->comm->rank, shard = run->peers[self].shard;
	struct summary *all = bounded_summary(run, shard);
	uint64_t bytes = layout_bytes(&run->layout, shard), missing = 0;

	memset(all, 0, run->summary_bytes);
	for (uint32_t i = 0; i < run->rows; i++) {
		const struct summary *row = row_summary(run, i);
		uint32_t first = i * run->columns, owner = first + column_of(run, self);
		uint64_t lost = row_missing(run, i, bytes);

		for (uint32_t r = first; r < first + run->columns; r++) {
			uint64_t own =
				r == owner || !run->peers[owner].present ? 0 : row->missing[r];

			all->missing[r] = own + lost < bytes ? own + lost : bytes;
			missing += all->missing[r];
		}
		if (run->peers[owner].present && row->end > all->end)
			all->end = row->end;
	}
	all->expected = bytes * (run->comm->size - 1);
	all->arrived = all->expected - missing;
	all->poor = all->arrived * PPM < all->expected * run->attr.floor_ppm;
}

static void send_result(struct bounded *run, uint32_t peer, struct summary *summary, uint8_t *addr,
			uint64_t bytes)
{
	message_add(run, peer, MESSAGE_SUMMARY, true, summary, run->summary_bytes, run->results_mr);
	message_add(run, peer, MESSAGE_RESULT, true, addr, bytes, run->results_mr);
	message_pump(run, peer);
}

/* This rank has all pieces of its shard, and sends it to the rows that get it from here. */
static void relay(struct bounded *run)
{
	uint32_t self = run->comm->rank, size = run->comm->size, shard = run->peers[self].shard;
	uint32_t column = column_of(run, self);
	uint64_t bytes = layout_bytes(&run->layout, shard);

	combine(run);
	if (bytes)
		memcpy(run->shard,
		       coll_at(run->coll->base[PLACE_RECV], layout_offset(&run->layout, shard)),
		       bytes);
	run->state = BOUNDED_REDUCED;
	for (uint32_t i = 1; i < size; i++) {
		uint32_t peer = (self + i) % size;
		bool has = run->peers[peer].present && same_column(run, peer);

		if (!has && server_of(run, row_of(run, peer), column) == self)
			send_result(run, peer, bounded_summary(run, shard), run->shard, bytes);
	}
}

/* The row is over: what it has of this rank's shard goes to the column. */
static void send_pieces(struct bounded *run)
{
	uint32_t self = run->comm->rank;
	struct round *column = &run->rounds[1];
	struct summary *summary = row_summary(run, row_of(run, self));
	int error;

	memset(summary, 0, run->summary_bytes);
	bounded_sum_up(run, &run->rounds[0], summary);
	plan_measure(run, summary->arrived);
	error = bounded_reduce(run, &run->rounds[0]);
	if (error) {
		bounded_fail(run, error);
		return;
	}
	/* The shard's place takes numbers later. */
	if (bounded_spreads(run))
		spread_encode(run, column, run->shard);
	for (uint32_t r = column->first; r < run->comm->size; r += run->columns) {
		if (r == self || !run->peers[r].present)
			continue;
		send_share(run, r, 1, run->peers[r].piece);
		message_pump(run, r);
	}
}

/* The column is over: this rank's piece of the result goes to the others of the column. */
static void send_result_pieces(struct bounded *run)
{
	uint32_t self = run->comm->rank, shard = run->peers[self].shard;
	struct round *column = &run->rounds[1];
	struct summary *summary = row_summary(run, row_of(run, self));
	uint64_t bytes = layout_bytes(&column->layout, column->part);
	uint64_t at =
		layout_offset(&run->layout, shard) + layout_offset(&column->layout, column->part);
	int error;

	run->state = BOUNDED_PIECES;
	run->report.gathered_ns = gw_now_ns(run->comm->office->ctx) - run->planned_ns;
	bounded_sum_up(run, column, summary);
	run->comm->bounded->timed_out = run->timed_out;
	error = bounded_reduce(run, column);
	if (error) {
		bounded_fail(run, error);
		return;
	}
	if (bytes)
		memcpy(coll_at(run->coll->base[PLACE_RECV], at), column->reduced, bytes);
	for (uint32_t r = column->first; r < run->comm->size; r += run->columns)
		if (r != self && run->peers[r].present)
			send_result(run, r, summary, column->reduced, bytes);
	if (!run->column_left)
		relay(run);
}

void grid_shares_over(struct bounded *run, uint32_t round)
{
	if (!run->peers[run->comm->rank].present) {
		run->state = BOUNDED_REDUCED;
		return;
	}
	if (!round)
		send_pieces(run);
	if (run->comm->status || run->state != BOUNDED_SHARING)
		return;
	/* Shares of the column may have come before those of the row. */
	if (run->rounds[0].over && !run->rounds[1].shares_left) {
		run->rounds[1].over = true;
		send_result_pieces(run);
	}
}

void grid_told(struct bounded *run, uint32_t peer)
{
	if (!run->peers[run->comm->rank].present || !run->peers[peer].present ||
	    !same_column(run, peer))
		return;
	if (!--run->column_left && run->state == BOUNDED_PIECES)
		relay(run);
}

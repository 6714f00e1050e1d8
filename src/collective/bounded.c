/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounded operations: through both stages to the report. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "collective/bounded.h"

/* Deadlines for which a share below its floor is repaired. */
#define REPAIR_DEADLINES 10

void bounded_start(struct gw_coll *coll)
{
	struct bounded *run = coll->bounded;

	run->start_ns = gw_now_ns(run->comm->office->ctx);
	plan_hail(run);
	bounded_check(run);
}

void bounded_kick(struct gw_comm *comm, uint32_t track, uint32_t peer)
{
	struct bounded *run = bounded_running(comm, track);

	if (run)
		message_pump(run, peer);
	else
		keep_pump(comm, track, peer);
}

/* ---- stage 1 ---------------------------------------------------------------------------------------------------- */

/* Who owns which shard of an allreduce: those who take part, in an order drawn for each operation, since an owner's share is never
 * lost. Returns how many shards there are. */
static uint32_t draw_owners(struct bounded *run)
{
	uint32_t count = 0;
	struct rng rng;

	for (uint32_t r = 0; r < run->comm->size; r++)
		if (run->peers[r].present)
			run->owners[count++] = r;
	rng_seed(&rng, run->plan.seed);
	for (uint32_t i = count; i > 1; i--) {
		uint32_t j = (uint32_t)rng_below(&rng, i), owner = run->owners[j];

		run->owners[j] = run->owners[i - 1];
		run->owners[i - 1] = owner;
	}
	for (uint32_t s = 0; s < count; s++)
		run->peers[run->owners[s]].shard = s;
	return count;
}

static void choose_owners(struct bounded *run)
{
	const struct task *task = &run->coll->task;
	uint32_t shards = task->size, granule;

	for (uint32_t r = 0; r < task->size; r++) {
		run->peers[r].present = plan_present(&run->plan, r);
		run->peers[r].shard = UINT32_MAX;
		if (task->operation == OPERATION_REDUCE_SCATTER ||
		    (task->operation == OPERATION_ALLGATHER && run->peers[r].present))
			run->peers[r].shard = r;
	}
	if (task->operation == OPERATION_ALLREDUCE)
		shards = draw_owners(run);
	if (task->operation == OPERATION_BROADCAST) {
		run->peers[task->root].shard = 0;
		shards = 1;
	}
	granule = bounded_granule(run);
	run->layout = (struct layout){ task->elements / granule, task->unit * granule, shards, 1 };
}

/* Takes memory: the track's for shares, and that of results. */
static int take_memory(struct bounded *run)
{
	struct track *track = &run->comm->tracks[coll_track(run->coll)];
	const struct bounded_peer *self = &run->peers[run->comm->rank];
	struct round *round = &run->rounds[0];
	/* The first shard is as long as any. */
	uint64_t shard = bounded_aligned(layout_bytes(&run->layout, 0)), bytes;
	uint64_t packed = bounded_spreads(run)
				  ? bounded_aligned(layout_offset(&run->layout, run->layout.chunks))
				  : 0;
	bool shares = !bounded_gathers(run) && self->present && self->shard != UINT32_MAX &&
		      layout_bytes(&run->layout, self->shard);
	uint8_t *at;
	int error;

	bytes = packed;
	for (uint32_t r = 0; shares && r < run->comm->size; r++)
		bytes += run->peers[r].present && r != run->comm->rank ? shard : 0;
	error = track_reserve(run->comm, track, bytes);
	if (!error)
		error = keep_reserve(run, shard + run->layout.chunks * run->summary_bytes);
	if (error)
		return error;
	run->mr = track->mr;
	round->reduced = run->results_memory;
	run->summaries = coll_at(round->reduced, shard);
	round->packed = track->memory;
	at = coll_at(track->memory, packed);
	for (uint32_t r = 0; shares && r < run->comm->size; r++) {
		if (!run->peers[r].present || r == run->comm->rank)
			continue;
		run->peers[r].share = at;
		at += shard;
	}
	return 0;
}

/* The one round of all ranks. */
static void make_round(struct bounded *run)
{
	const struct gw_coll *coll = run->coll;
	enum place place = coll->task.in_place ? PLACE_RECV : PLACE_SEND;
	struct round *round = &run->rounds[0];

	*round = (struct round){ .step = 1,
				 .count = run->comm->size,
				 .layout = run->layout,
				 .part = run->peers[run->comm->rank].shard,
				 .source = coll->base[place],
				 .source_mr = coll->mr[place],
				 .previous = run->attr.previous,
				 .previous_parts = run->comm->size,
				 .seed = run->plan.seed };
	/* Of a reduce-scatter the caller has this rank's block only. */
	if (round->previous && coll->task.operation == OPERATION_ALLREDUCE &&
	    round->part != UINT32_MAX)
		round->previous += layout_offset(&run->layout, round->part);
}

/* This rank sends an owner its share, and gets the result. */
static void exchange(struct bounded *run, uint32_t peer)
{
	struct gw_coll *coll = run->coll;
	struct round *round = &run->rounds[0];
	uint32_t self = run->comm->rank, shard = run->peers[peer].shard;
	bool takes_part =
		!bounded_gathers(run) && run->peers[self].present && run->peers[peer].present;
	bool spreads = bounded_spreads(run);
	struct message *share;

	if (takes_part && run->peers[peer].share) {
		share = message_add(run, peer, MESSAGE_SHARE, false, run->peers[peer].share,
				    layout_bytes(&run->layout, run->peers[self].shard), run->mr);
		if (share)
			share->held = true;
		round->shares_left += share != NULL;
	}
	if (shard == UINT32_MAX)
		return;
	if (takes_part)
		message_add(run, peer, MESSAGE_SHARE, true,
			    coll_at(spreads ? round->packed : round->source,
				    layout_offset(&run->layout, shard)),
			    layout_bytes(&run->layout, shard),
			    spreads ? run->mr : round->source_mr);
	if (bounded_scatters(run))
		return;
	if (!bounded_gathers(run))
		message_add(run, peer, MESSAGE_SUMMARY, false, bounded_summary(run, shard),
			    run->summary_bytes, run->results_mr);
	message_add(run, peer, MESSAGE_RESULT, false,
		    coll_at(coll->base[PLACE_RECV], layout_offset(&run->layout, shard)),
		    layout_bytes(&run->layout, shard), coll->mr[PLACE_RECV]);
}

void bounded_fail(struct bounded *run, int error)
{
	comm_fail(run->comm, true, error, "rank %u could not go on with bounded %s number %u: %s",
		  run->comm->rank, operation_name(run->coll->task.operation), run->coll->number,
		  strerror(-error));
}

void bounded_limit(struct bounded *run, struct round *round, uint32_t deadlines, uint32_t floor_ppm)
{
	uint64_t limit = deadlines * run->plan.deadline_ns;
	bool repairs = run->attr.flags & GW_BOUNDED_REPAIR;

	round->deadline_ns = run->planned_ns + (repairs ? REPAIR_DEADLINES * limit : limit);
	round->options = (struct gw_bounded_options){ .deadline_ns = limit,
						      .floor_ppm = repairs ? floor_ppm : 0,
						      .ceiling_ppm = PPM,
						      .flags = GW_BOUNDED_KEEP };
}

/* Shares go out, and then results. */
static void exchange_shares(struct bounded *run)
{
	uint64_t shard = layout_bytes(&run->layout, 0);
	uint32_t peers = run->layout.chunks - 1;

	if (run->peers[run->comm->rank].present)
		limits_begin(run->coll, &(struct flow){ .peers = peers,
							.bytes = shard,
							.meanwhile = peers * shard,
							.total = 2 * shard * run->layout.chunks });
}

static int begin(struct bounded *run)
{
	uint32_t size = run->comm->size, self = run->comm->rank;
	int error;

	choose_owners(run);
	make_round(run);
	error = take_memory(run);
	if (error)
		return error;
	if (bounded_spreads(run))
		spread_encode(run, &run->rounds[0], run->rounds[0].reduced);
	bounded_limit(run, &run->rounds[0], 1, run->attr.floor_ppm);
	exchange_shares(run);
	for (uint32_t i = 1; i < size; i++)
		exchange(run, (self + i) % size);
	return 0;
}

void bounded_follow(struct bounded *run)
{
	uint32_t size = run->comm->size, self = run->comm->rank;
	int error;

	run->state = BOUNDED_SHARING;
	run->planned_ns = gw_now_ns(run->comm->office->ctx);
	run->summary_bytes =
		bounded_aligned(sizeof(struct summary) + run->comm->size * sizeof(uint64_t));
	plan_remember(run);
	error = bounded_in_grid(run) ? grid_begin(run) : begin(run);
	if (error) {
		bounded_fail(run, error);
		return;
	}
	run->wake_ns = run->rounds[0].deadline_ns;
	message_let_share(run);
	for (uint32_t i = 1; i < size; i++)
		message_pump(run, (self + i) % size);
	if (!run->rounds[0].shares_left && !run->rounds[0].over)
		bounded_shares_over(run, 0);
}

/* ---- stage 2 ---------------------------------------------------------------------------------------------------- */

void bounded_sum_up(struct bounded *run, const struct round *round, struct summary *summary)
{
	uint64_t bytes = layout_bytes(&round->layout, round->part), missing = 0;

	for (uint32_t m = 0; m < round->count; m++) {
		uint32_t r = round->first + m * round->step;

		if (r == run->comm->rank)
			continue;
		summary->missing[r] =
			run->peers[r].share ? holes_bytes(&run->peers[r].holes) : bytes;
		summary->expected += bytes;
		missing += summary->missing[r];
	}
	summary->arrived = summary->expected - missing;
	if (missing)
		summary->end = run->timed_out ? GW_BOUNDED_END_DEADLINE : GW_BOUNDED_END_LOST;
}

/* What came, and what did not, of the shares that this owner expected. */
static void sum_up(struct bounded *run, struct summary *summary)
{
	memset(summary, 0, run->summary_bytes);
	bounded_sum_up(run, &run->rounds[0], summary);
	summary->poor = summary->arrived * PPM < summary->expected * run->attr.floor_ppm;
	if (run->peers[run->comm->rank].present)
		plan_measure(run, summary->arrived);
}

/* Makes this rank's result. */
static int make_result(struct bounded *run, uint32_t shard)
{
	const struct round *round = &run->rounds[0];
	uint64_t bytes = layout_bytes(&run->layout, shard);

	if (!bounded_gathers(run)) {
		sum_up(run, bounded_summary(run, shard));
		return bounded_reduce(run, round);
	}
	if (bytes)
		memcpy(round->reduced, coll_at(round->source, layout_offset(&run->layout, shard)),
		       bytes);
	return 0;
}

static void shares_over(struct bounded *run)
{
	uint8_t *reduced = run->rounds[0].reduced;
	struct gw_coll *coll = run->coll;
	uint32_t size = run->comm->size, self = run->comm->rank, shard = run->peers[self].shard;
	uint64_t bytes;
	int error;

	run->state = BOUNDED_REDUCED;
	run->report.gathered_ns = gw_now_ns(run->comm->office->ctx) - run->planned_ns;
	if (shard == UINT32_MAX)
		return;
	bytes = layout_bytes(&run->layout, shard);
	error = make_result(run, shard);
	if (error) {
		bounded_fail(run, error);
		return;
	}
	if (bytes)
		memcpy(coll_at(coll->base[PLACE_RECV], layout_offset(&run->layout, shard)), reduced,
		       bytes);
	for (uint32_t i = 1; i < size && !bounded_scatters(run); i++) {
		uint32_t peer = (self + i) % size;

		if (!bounded_gathers(run))
			message_add(run, peer, MESSAGE_SUMMARY, true, bounded_summary(run, shard),
				    run->summary_bytes, run->results_mr);
		message_add(run, peer, MESSAGE_RESULT, true, reduced, bytes, run->results_mr);
		message_pump(run, peer);
	}
}

void bounded_shares_over(struct bounded *run, uint32_t round)
{
	run->rounds[round].over = true;
	if (bounded_in_grid(run))
		grid_shares_over(run, round);
	else
		shares_over(run);
}

/* The blocks of late ranks, which nobody sends. */
static void fill_late(struct bounded *run)
{
	for (uint32_t r = 0; r < run->layout.chunks; r++) {
		uint64_t from = layout_offset(&run->layout, r),
			 bytes = layout_bytes(&run->layout, r);
		uint8_t *to = coll_at(run->coll->base[PLACE_RECV], from);

		if (run->peers[r].present || !bytes)
			continue;
		if (run->attr.recovery == GW_RECOVER_PREVIOUS)
			memcpy(to, (const uint8_t *)run->attr.previous + from, bytes);
		else
			memset(to, 0, bytes);
	}
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

static void tell(struct bounded *run)
{
	struct bounded_track *track = &run->comm->bounded->tracks[coll_track(run->coll)];
	struct gw_coll *coll = run->coll;

	run->state = BOUNDED_TOLD;
	run->told_ns = gw_now_ns(run->comm->office->ctx);
	if (coll->task.operation == OPERATION_ALLGATHER)
		fill_late(run);
	if (bounded_gathers(run) && run->peers[run->comm->rank].present)
		plan_measure(run, plan_expected(run, run->comm->size));
	if (!bounded_scatters(run))
		track->digest = report_digest(track->digest, coll->base[PLACE_RECV],
					      layout_offset(&run->layout, run->layout.chunks));
	coll_tell(coll, report_make(run));
}

/* Has tracks go on that wait for late ranks only. */
static void leave_tracks(struct gw_comm *comm)
{
	for (uint32_t t = 0; t < comm->track_count; t++) {
		struct bounded *run = bounded_running(comm, t);

		if (run && run->state == BOUNDED_TOLD && keep_leave_track(run))
			coll_start(comm, t);
	}
}

void bounded_check(struct bounded *run)
{
	struct gw_comm *comm = run->comm;

	if (comm->status)
		return;
	if (run->state == BOUNDED_MEETING && !plan_decide(run))
		return;
	if (run->state == BOUNDED_REDUCED && !run->waits && !comm->status)
		tell(run);
	if (run->state != BOUNDED_TOLD || comm->status)
		return;
	if (!run->open) {
		keep_give_back(run);
		coll_end(run->coll, run->coll->result.status);
	}
	leave_tracks(comm);
}

struct bounded *bounded_running(const struct gw_comm *comm, uint32_t track)
{
	struct gw_coll *coll;

	if (list_empty(&comm->tracks[track].colls))
		return NULL;
	coll = container_of(comm->tracks[track].colls.next, struct gw_coll, node);
	return coll->started ? coll->bounded : NULL;
}

uint64_t bounded_deadline_ns(const struct gw_comm *comm)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t t = 0; t < comm->track_count && comm->bounded && !comm->status; t++) {
		const struct bounded *run = bounded_running(comm, t);

		if (run && run->state <= BOUNDED_SHARING && run->wake_ns < first)
			first = run->wake_ns;
	}
	return first;
}

/* The deadline of a round has passed. */
static void pass_deadline(struct bounded *run)
{
	uint32_t round = run->rounds_over++;

	run->wake_ns = bounded_in_grid(run) && !round ? run->rounds[1].deadline_ns : UINT64_MAX;
	message_abandon_shares(run, round);
}

int bounded_turn(struct gw_comm *comm)
{
	uint64_t now = gw_now_ns(comm->office->ctx);
	int count = 0;

	for (uint32_t t = 0; t < comm->track_count && !comm->status; t++) {
		struct bounded *run = bounded_running(comm, t);

		if (!run || run->state > BOUNDED_SHARING || now < run->wake_ns)
			continue;
		if (run->state == BOUNDED_SHARING)
			pass_deadline(run);
		bounded_check(run);
		count++;
	}
	return count;
}

int bounded_explain(const struct gw_coll *coll, char *text, size_t size)
{
	static const char *const states[] = {
		"waits for ranks to come, or for the coordinator's plan",
		"waits for shares",
		"waits for the pieces of its column's shard",
		"waits for results of other owners",
		"has its result, and ranks that are late have not",
	};
	const struct bounded *run = coll->bounded;

	return snprintf(text, size, "%s; %u messages are open", states[run->state], run->open);
}

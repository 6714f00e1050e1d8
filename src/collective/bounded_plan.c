/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan of a bounded operation: who takes part, for how long, and what the ranks tell each other for the next one.
 *
 * Deadlines follow what stage 1 took the owners in earlier operations of about the same size, for each byte that came (pace.c). Every
 * hail carries its sender's figure and the coordinator takes the median, so that neither a slow rank nor a fast one determines it.
 * As long as fewer than half of the ranks have four measurements, the deadline is the communicator's patience with a silent rank, and
 * the coordinator waits for all ranks.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rng.h"
#include "collective/bounded.h"

/* A deadline beside what gw_pace_timeout_ns() says, which is a quarter more than the median: twice the median in all. */
#define MARGIN 1.6
/* Least deadline that is not the caller's: scheduling on a busy host takes as long. */
#define DEADLINE_LEAST UINT64_C(1000000)
/* Least time that a late rank is waited for where stage 1 may take as long, and least round trips: a lost packet is repeated. */
#define LATE_LEAST UINT64_C(5000000)
#define LATE_TRIPS 4
/* Senders at a time at first: more at once overrun the queue in front of the owner. */
#define INCAST_FIRST 8
/* Times the spread of most ranks that a late one is waited for. */
#define SPREADS 4
/* Weight of an operation to which a rank was late, as a divisor, and operations after which it is forgotten. */
#define LATE_GAIN   8
#define LATE_MEMORY 256
/* Operations after which a coordinator hands over in any case. */
#define TURN 8
/* What of that a rank has that is late to a tenth of the operations. */
#define LATE_OFTEN (UINT16_MAX / 4 * 3)

static struct bounded_memory *memory_of(const struct bounded *run)
{
	return run->comm->bounded;
}

static struct bounded_track *track_of(const struct bounded *run)
{
	return &run->comm->bounded->tracks[coll_track(run->coll)];
}

bool plan_present(const struct plan *plan, uint32_t rank)
{
	return plan->present[rank / 64] >> rank % 64 & 1;
}

bool plan_is_sound(const struct bounded *run)
{
	const struct plan *plan = &run->plan;
	uint32_t present = 0;

	for (uint32_t r = 0; r < run->comm->size; r++)
		present += plan_present(plan, r);
	return present && plan->coordinator < run->comm->size;
}

static struct gw_pace *pace_of(const struct bounded *run)
{
	uint64_t bytes = run->coll->task.elements * run->coll->task.unit;

	return &memory_of(run)->pace[bounded_gathers(run)][bytes ? 63 - __builtin_clzll(bytes) : 0];
}

static size_t plan_bytes(const struct bounded *run)
{
	return offsetof(struct plan, present) + (run->comm->size + 63) / 64 * sizeof(uint64_t);
}

uint64_t plan_expected(const struct bounded *run, uint32_t ranks)
{
	const struct task *task = &run->coll->task;
	uint32_t shards = task->operation == OPERATION_ALLREDUCE ? ranks : task->size;
	uint64_t granule = bounded_granule(run);

	if (bounded_gathers(run))
		return task->elements * task->unit;
	/* Of the first round of a grid, which takes longest. */
	if (bounded_in_grid(run))
		shards = ranks = run->columns;
	return (task->elements / granule + shards - 1) / shards * granule * task->unit *
	       (ranks - 1);
}

/* The deadline that follows from paces; 0: not enough is known. */
static uint64_t deadline_for(const struct bounded *run, const struct gw_pace *paces, uint32_t count,
			     uint32_t ranks)
{
	uint64_t known = gw_pace_timeout_ns(paces, count, plan_expected(run, ranks));

	if (run->attr.deadline_ns)
		return run->attr.deadline_ns;
	return known ? (uint64_t)((double)known * MARGIN) + DEADLINE_LEAST : 0;
}

/*
 * How long ranks are waited for that have not come to an operation before this one: they have results to get and to compute with
 * before they come. They catch up without help if they are faster than the others, as they wait for nobody. If they are not, they
 * come nearer only while the others wait (bounded_keep.c says for how long that is worth it). When as many operations are kept for
 * them as may be, the others wait for all of their next delay. So once half as many are, they are waited for, the longer the nearer
 * that is, at last half as long as from one operation to the next.
 */
static uint64_t catch_up(const struct bounded *run)
{
	const struct bounded_memory *memory = memory_of(run);
	double over = 2 * keep_filled(run->comm) - 1;
	uint64_t wait = over > 0 ? (uint64_t)((double)memory->period_ns * over * over / 2) : 0;

	return wait > memory->catch_up_ns ? wait : memory->catch_up_ns;
}

/*
 * How long a late rank is waited for once half of the ranks are there; 0: for ever. Without one of N ranks the result has an Nth less
 * data, so that it is worth an Nth of the time of an operation to wait for it. Ranks that are not late differ too: four times the spread
 * of most of them is waited.
 */
static uint64_t patience(const struct bounded *run)
{
	uint64_t deadline = deadline_for(run, pace_of(run), 1, run->comm->size), wait;

	if (!deadline || run->attr.deadline_ns)
		return run->attr.flags & GW_BOUNDED_REPAIR ? 10 * deadline : deadline;
	wait = deadline / run->comm->size;
	if (wait < SPREADS * memory_of(run)->spread_ns)
		wait = SPREADS * memory_of(run)->spread_ns;
	if (wait < LATE_LEAST)
		wait = LATE_LEAST;
	if (wait > deadline)
		wait = deadline;
	/* A hail that was lost comes after a probe timeout, however little stage 1 takes on a long path. */
	if (wait < LATE_TRIPS * run->comm->network.rtt_ns)
		wait = LATE_TRIPS * run->comm->network.rtt_ns;
	return run->attr.flags & GW_BOUNDED_REPAIR ? 10 * wait : wait;
}

/* Notes the time from the first hail until three quarters of the ranks are there, or until the coordinator does not wait for so
 * many. */
static void note_spread(struct bounded *run, bool decided)
{
	uint64_t now = gw_now_ns(run->comm->office->ctx), spread;
	uint64_t *smoothed = &memory_of(run)->spread_ns;

	if (run->here == 1 && !decided)
		run->first_hail_ns = now;
	if (!run->here || run->spread_noted ||
	    (4 * (run->here + 1) < 3 * run->comm->size && !decided))
		return;
	run->spread_noted = true;
	spread = now - run->first_hail_ns;
	*smoothed = *smoothed ? (7 * *smoothed + spread) / 8 : spread;
}

/* Notes the time since the last operation began. A pause between two counts as twice the usual time at most. */
static void note_period(struct bounded *run)
{
	struct bounded_memory *memory = memory_of(run);
	uint64_t gap = run->start_ns - memory->last_start_ns, usual = memory->period_ns;

	if (memory->last_start_ns)
		memory->period_ns =
			usual ? (7 * usual + (gap < 2 * usual ? gap : 2 * usual)) / 8 : gap;
	memory->last_start_ns = run->start_ns;
}

void plan_hail(struct bounded *run)
{
	const struct task *task = &run->coll->task;
	const struct gw_pace *pace = pace_of(run);
	uint32_t coordinator = track_of(run)->coordinator;

	note_period(run);
	run->hail = (struct hail){
		.number = run->coll->number,
		.elements = task->elements,
		.what = { (uint8_t)task->operation, (uint8_t)run->coll->type,
			  (uint8_t)run->coll->reduction,
			  (uint8_t)((uint32_t)run->attr.recovery | run->attr.flags << 4) },
		.root = task->root,
		.floor_ppm = run->attr.floor_ppm,
		.rows = run->rows,
		.digest = track_of(run)->digest,
		.waited_ns = track_of(run)->waited_ns,
		.ns_per_byte = pace->ns_per_byte,
		.measured = pace->messages,
		.timed_out = memory_of(run)->timed_out,
	};
	run->peers[run->comm->rank].present = true;
	run->wake_ns = UINT64_MAX;
	if (run->comm->rank != coordinator) {
		message_add(run, coordinator, MESSAGE_HAIL, true, &run->hail, sizeof(run->hail),
			    NULL);
		message_add(run, coordinator, MESSAGE_PLAN, false, &run->plan, plan_bytes(run),
			    NULL);
		message_pump(run, coordinator);
		return;
	}
	run->hails[coordinator] = run->hail;
	for (uint32_t r = 0; r < run->comm->size; r++) {
		if (r == coordinator)
			continue;
		message_add(run, r, MESSAGE_HAIL, false, &run->hails[r], sizeof(run->hail), NULL);
		message_pump(run, r);
	}
}

void plan_hailed(struct bounded *run, uint32_t peer)
{
	const struct hail *hail = &run->hails[peer];

	if (run->state != BOUNDED_MEETING)
		return;
	if (hail->number != run->hail.number || hail->elements != run->hail.elements ||
	    memcmp(hail->what, run->hail.what, sizeof(hail->what)) != 0 ||
	    hail->root != run->hail.root || hail->floor_ppm != run->hail.floor_ppm ||
	    hail->rows != run->hail.rows) {
		comm_fail(run->comm, true, -EPROTO,
			  "rank %u and rank %u disagree about bounded operation number %u: "
			  "do all ranks call the same operations?",
			  peer, run->comm->rank, run->coll->number);
		return;
	}
	run->peers[peer].present = true;
	run->here++;
	note_spread(run, false);
}

/* Whether the coordinator need not wait any longer. */
static bool waited_enough(struct bounded *run)
{
	uint64_t now = gw_now_ns(run->comm->office->ctx), usual = patience(run), wait = 0;
	/* Half of the ranks, as one of two, do not leave the others behind: results without these would be worth little. */
	bool most = 2 * (run->here + 1) > run->comm->size;

	if (run->here + 1 == run->comm->size)
		return true;
	if (2 * (run->here + 1) < run->comm->size || !usual)
		return false;
	if (run->coll->task.operation == OPERATION_BROADCAST &&
	    !run->peers[run->coll->task.root].present)
		return false;
	if (bounded_in_grid(run) && !grid_complete(run))
		return false;
	if (!run->enough_ns)
		run->enough_ns = now;
	for (uint32_t r = 0; r < run->comm->size; r++) {
		uint64_t mine;

		if (run->peers[r].present)
			continue;
		mine = most && keep_is_behind(run->comm, r) ? catch_up(run) : usual;
		if (wait < mine)
			wait = mine;
	}
	run->wake_ns = run->enough_ns + wait;
	return now >= run->wake_ns;
}

/* Fewer senders at a time after a deadline cut one off; one more after an operation without that. */
static uint32_t incast_for(const struct bounded *run)
{
	uint32_t last = memory_of(run)->incast,
		 most = run->comm->size > 1 ? run->comm->size - 1 : 1;
	bool timed_out = false;

	for (uint32_t r = 0; r < run->comm->size; r++)
		timed_out = timed_out || (run->peers[r].present && run->hails[r].timed_out);
	if (!last)
		return most < INCAST_FIRST ? most : INCAST_FIRST;
	if (timed_out)
		return last > 1 ? last / 2 : 1;
	return last < most ? last + 1 : most;
}

/* Whether a rank is the better coordinator: one that was not late often of late, or of two such the one that had to wait longer. Of
 * ranks that are late now and then none is preferred: a coordinator is never late, and its data would count for more. */
static bool better(const struct bounded *run, uint32_t rank, uint32_t than)
{
	const uint16_t *late = memory_of(run)->late;
	bool often = late[rank] > LATE_OFTEN, than_often = late[than] > LATE_OFTEN;

	return often != than_often ? than_often
				   : run->hails[rank].waited_ns > run->hails[than].waited_ns;
}

/* Whether the coordinator hands over because its turn is over. */
static bool turn_is_over(const struct bounded *run)
{
	return run->coll->number / run->comm->track_count % TURN == TURN - 1;
}

/*
 * A coordinator for which all others had to wait, for longer than a late rank is waited for, hands over. So does every one in its
 * turn, to the next rank: a coordinator is never late, and its data would count for more in the long run.
 */
static uint32_t next_coordinator(const struct bounded *run)
{
	uint64_t least = UINT64_MAX, wait = patience(run);
	uint32_t self = run->comm->rank, first = self;

	if (turn_is_over(run)) {
		for (uint32_t i = 1; i < run->comm->size; i++) {
			uint32_t r = (self + i) % run->comm->size;

			if (run->peers[r].present && memory_of(run)->late[r] <= LATE_OFTEN)
				return r;
		}
	}

	for (uint32_t r = 0; r < run->comm->size; r++) {
		if (!run->peers[r].present || r == self)
			continue;
		if (first == self || better(run, r, first))
			first = r;
		if (run->hails[r].waited_ns < least)
			least = run->hails[r].waited_ns;
	}
	return wait && first != self && least > run->hail.waited_ns + wait ? first : self;
}

static void make_plan(struct bounded *run, struct gw_pace *paces)
{
	struct plan *plan = &run->plan;
	uint32_t count = 0;
	struct rng rng;

	for (uint32_t r = 0; r < run->comm->size; r++) {
		if (!run->peers[r].present)
			continue;
		plan->present[r / 64] |= UINT64_C(1) << r % 64;
		paces[count++] = (struct gw_pace){ .ns_per_byte = run->hails[r].ns_per_byte,
						   .messages = run->hails[r].measured };
		plan->diverged += run->hails[r].digest != run->hail.digest;
	}
	plan->deadline_ns = deadline_for(run, paces, count, count);
	if (!plan->deadline_ns)
		plan->deadline_ns = run->comm->channel.peer_timeout_ns;
	rng_seed(&rng, run->comm->id ^ (uint64_t)run->coll->number << 20);
	plan->seed = rng_u64(&rng);
	plan->coordinator = next_coordinator(run);
	plan->incast = incast_for(run);
}

bool plan_decide(struct bounded *run)
{
	uint32_t size = run->comm->size;
	struct gw_pace *paces;

	if (run->comm->rank != track_of(run)->coordinator || !waited_enough(run))
		return false;
	paces = calloc(size, sizeof(*paces));
	if (!paces) {
		comm_fail(run->comm, true, -ENOMEM, "rank %u has no memory left", run->comm->rank);
		return false;
	}
	note_spread(run, true);
	make_plan(run, paces);
	free(paces);
	for (uint32_t r = 0; r < size; r++) {
		if (r == run->comm->rank)
			continue;
		message_add(run, r, MESSAGE_PLAN, true, &run->plan, plan_bytes(run), NULL);
		message_pump(run, r);
	}
	bounded_follow(run);
	return true;
}

/* Notes who was late: whoever takes no part, and a coordinator that hands over before its turn is over. */
static void note_late(struct bounded *run, uint32_t coordinator)
{
	uint16_t *late = memory_of(run)->late;

	for (uint32_t r = 0; r < run->comm->size; r++) {
		bool was = !plan_present(&run->plan, r) ||
			   (r == coordinator && run->plan.coordinator != r && !turn_is_over(run));

		late[r] = (uint16_t)(was ? late[r] + (UINT16_MAX - late[r]) / LATE_GAIN
					 : late[r] - late[r] / LATE_MEMORY);
	}
}

void plan_remember(struct bounded *run)
{
	struct bounded_track *track = track_of(run);

	note_late(run, track->coordinator);
	track->coordinator = run->plan.coordinator;
	track->waited_ns = run->planned_ns - run->start_ns;
	memory_of(run)->incast = run->plan.incast;
	if (run->plan.diverged)
		log_warn(
			"bounded operation %u: the earlier results of %u ranks differ from those of others",
			run->coll->number, run->plan.diverged);
}

void plan_measure(struct bounded *run, uint64_t arrived)
{
	uint64_t now = gw_now_ns(run->comm->office->ctx);

	memory_of(run)->timed_out = run->timed_out;
	gw_pace_add(pace_of(run), arrived, now - run->planned_ns);
}

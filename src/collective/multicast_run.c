/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds of a multicast operation: who is ready, what a round sends, who lacks what. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collective/multicast.h"

/* Markers that end a round. */
#define MARKERS 3
/* A receiver fetches what it lacks if that is more than a twentieth, and twice what others lack, after so many rounds; or if so
 * many brought it nothing. */
#define FETCH_ROUNDS  2
#define FETCH_PART    20
#define BARREN_ROUNDS 2
/* Time for which packets of a round may come after its END, where the round trip is not known. */
#define GRACE_NS     UINT64_C(1000000)
#define GRACE_MIN_NS UINT64_C(50000)
/* Part by which the time shrinks, each round, for which packets are waited for that a marker may have overtaken. */
#define SLACK_DECAY 8

static struct gw_comm *comm_of(const struct multicast *run)
{
	return run->coll->comm;
}

static struct multicast_group *group_of(const struct multicast *run)
{
	return run->coll->comm->multicast;
}

static bool gathers(const struct multicast *run)
{
	return run->coll->task.operation == OPERATION_ALLGATHER;
}

struct block *run_own(const struct multicast *run)
{
	if (gathers(run))
		return &run->blocks[comm_of(run)->rank];
	return run->place == 0 ? &run->blocks[0] : NULL;
}

static bool all_ready(const struct multicast *run)
{
	for (uint32_t i = 0; i < run->child_count; i++)
		if (!run->children[i]->ready)
			return false;
	return true;
}

/* A child that said in advance that it is done with the next round still waits for the END of that. */
static bool all_done(const struct multicast *run)
{
	for (uint32_t i = 0; i < run->child_count; i++)
		if (!run->children[i]->done || run->children[i]->done_round > run->round)
			return false;
	return true;
}

bool run_all_reported(const struct multicast *run)
{
	for (uint32_t i = 0; i < run->child_count; i++)
		if (!run->children[i]->done && run->children[i]->reported <= run->round)
			return false;
	return true;
}

/* Packets of all groups that were sent. */
static uint64_t packets_sent(const struct multicast *run)
{
	const struct block *block = &run->blocks[0];

	if (gathers(run))
		return (uint64_t)(run->block_count - 1) * block->packets;
	return run->limit < run->groups ? (uint64_t)run->limit * BLOCK_GROUP : block->packets;
}

/* Packets of groups that were sent which this rank lacks. */
static uint32_t lacking(const struct multicast *run)
{
	uint64_t all = 0;

	if (!gathers(run))
		for (uint32_t g = 0; g < run->limit; g++)
			all += run->blocks[0].deficit[g];
	else
		for (uint32_t b = 0; b < run->block_count; b++)
			all += run->blocks[b].lacking;
	return all < UINT32_MAX ? (uint32_t)all : UINT32_MAX;
}

static bool is_whole(const struct multicast *run)
{
	for (uint32_t b = 0; b < run->block_count; b++)
		if (run->blocks[b].groups_left)
			return false;
	return true;
}

void run_relay(struct multicast *run, const struct note *note)
{
	for (uint32_t i = 0; i < run->child_count; i++) {
		struct partner *child = run->children[i];

		if (!child->done || child->done_round >= note->round)
			note_send(child, note);
	}
}

/* ---- the beginning ---------------------------------------------------------------------------------------------- */

static int make_blocks(struct multicast *run)
{
	const struct gw_coll *coll = run->coll;
	const struct task *task = &coll->task;
	uint32_t payload = group_of(run)->payload, own = comm_of(run)->rank;
	uint8_t *recv = coll->base[PLACE_RECV], *send = coll->base[PLACE_SEND];

	run->blocks = calloc(run->block_count, sizeof(*run->blocks));
	if (!run->blocks)
		return -ENOMEM;
	for (uint32_t b = 0; b < run->block_count; b++) {
		bool sends = gathers(run) ? b == own : run->place == 0;
		uint8_t *at = sends && !gathers(run) && !task->in_place ? send : recv;
		int error = block_init(&run->blocks[b], at + b * run->block_bytes, run->block_bytes,
				       payload, sends);

		if (error)
			return error;
	}
	run->block_groups = run->blocks[0].groups;
	run->groups = run->block_groups * run->block_count;
	run->span = (run->groups + NOTE_ENTRIES - 1) / NOTE_ENTRIES;
	run->repair = calloc(run->block_groups, 1);
	if (!run->repair)
		return -ENOMEM;
	if (gathers(run) && !task->in_place)
		memcpy(recv + own * run->block_bytes, send + own * run->block_bytes,
		       run->block_bytes);
	else if (run->place == 0 && !task->in_place && recv)
		memcpy(recv, send, run->block_bytes);
	return 0;
}

static void begin_round(struct multicast *run)
{
	run->end_seen = false;
	run->marker_seen = false;
	run->own_ready = false;
	run->report_ns = UINT64_MAX;
	run->first_ns = 0;
	run->last_ns = 0;
	run->heard = false;
	run->gathered = (struct note){ .kind = NOTE_REPORT, .number = run->coll->number };
}

/* Begins a round of a broadcast: as much new data as the window takes. */
static void begin_pass(struct multicast *run)
{
	const struct multicast_rate *rate = &group_of(run)->rate;
	const struct block *block = &run->blocks[0];
	uint32_t window = rate->window / BLOCK_GROUP * BLOCK_GROUP;
	uint32_t left = block->packets - run->next_packet;

	run->end_packet = run->next_packet + (left < window ? left : window);
	run->limit = (run->end_packet + BLOCK_GROUP - 1) / BLOCK_GROUP;
	run->pass = (struct multicast_pass){ .packets = run->end_packet - run->next_packet };
	run->markers = MARKERS;
	tx_begin(run, rate->rate_bps);
}

static void check_ready(struct multicast *run)
{
	struct note note = { .kind = NOTE_READY,
			     .number = run->coll->number,
			     .value = run->block_bytes };

	if (run->ready_sent || !all_ready(run))
		return;
	run->ready_sent = true;
	if (run->parent)
		note_send(run->parent, &note);
	else if (gathers(run))
		gather_children_ready(run);
	else
		begin_pass(run);
}

void run_begin(struct multicast *run)
{
	int error = make_blocks(run);

	run->started = true;
	if (error) {
		comm_fail(comm_of(run), true, error, "rank %u has no memory for %s number %u",
			  comm_of(run)->rank, operation_name(run->coll->task.operation),
			  run->coll->number);
		return;
	}
	begin_round(run);
	list_add_tail(&group_of(run)->runs, &run->node);
	for (uint32_t i = 0; i < run->child_count; i++)
		note_expect(run->children[i]);
	if (run->parent)
		note_expect(run->parent);
	check_ready(run);
}

/* ---- reports ---------------------------------------------------------------------------------------------------- */

struct block *run_group(struct multicast *run, uint32_t group, uint32_t *within)
{
	*within = group % run->block_groups;
	return &run->blocks[group / run->block_groups];
}

/* Adds what this rank lacks to what its children reported. */
void run_add_own(struct multicast *run, struct note *note)
{
	uint32_t limit = gathers(run) ? run->groups : run->limit, lacks = lacking(run);
	uint16_t entries = (uint16_t)((limit + run->span - 1) / run->span);

	if (entries > note->entries)
		note->entries = entries;
	note->count++;
	note->sum += lacks;
	if (lacks > note->worst)
		note->worst = lacks;
	if (run->last_ns - run->first_ns > note->seen_ns)
		note->seen_ns = run->last_ns - run->first_ns;
	for (uint32_t g = 0; g < limit; g++) {
		uint32_t within;
		uint8_t deficit = run_group(run, g, &within)->deficit[within];

		if (deficit > note->vector[g / run->span])
			note->vector[g / run->span] = deficit;
	}
}

/* Whether multicast serves this rank so badly that it had better fetch: it lacked much more than others by its last report, or
 * it hears nothing at all. */
static bool badly_served(struct multicast *run)
{
	uint64_t others = run->others_count ? run->others_sum / run->others_count : 0;

	if (gathers(run) || !lacking(run))
		return false;
	run->barren = run->heard ? 0 : run->barren + 1;
	if (run->barren >= BARREN_ROUNDS)
		return true;
	return run->end_seen && run->round >= FETCH_ROUNDS &&
	       (uint64_t)run->own_lacking * FETCH_PART > run->own_packets &&
	       run->own_lacking > 2 * others;
}

void run_next_round(struct multicast *run)
{
	run->round++;
	begin_round(run);
	/* Whoever is whole waits for its children only. */
	run->own_ready = !gathers(run) && is_whole(run);
}

/* Reports to the parent when this rank and all below it can. */
static void check_report(struct multicast *run)
{
	struct note *note = &run->gathered;

	if (!run->parent || run->done || !run->own_ready || !run_all_reported(run))
		return;
	note->round = run->round;
	if (!run->fetching && badly_served(run))
		run->fetching = true;
	run->own_lacking = run->fetching ? 0 : lacking(run);
	run->own_packets = packets_sent(run);
	if (!run->fetching)
		run_add_own(run, note);
	if (!gathers(run) && all_done(run) &&
	    (is_whole(run) || (run->fetching && run->limit == run->groups))) {
		note->flags = NOTE_DONE | (is_whole(run) ? 0 : NOTE_FETCH);
		note->entries = 0;
		run->done = true;
	}
	note_send(run->parent, note);
	if (run->done)
		return;
	note_expect(run->parent);
	run_next_round(run);
	check_report(run);
}

/* A pass is over, and all have reported it: the root sends what is missing, and more. */
static void check_round(struct multicast *run)
{
	struct multicast_group *group = group_of(run);
	const struct note *note = &run->gathered;
	uint32_t fresh = run->pass.packets;

	if (run->parent || gathers(run) || run->sending || !run->end_seen ||
	    !run_all_reported(run) || all_done(run))
		return;
	run->pass.seen_ns = note->seen_ns;
	run->pass.missed = note->worst < fresh ? note->worst : fresh;
	multicast_rate_learn(&group->rate, &run->pass);
	run->others_sum = note->sum;
	run->others_count = note->count;
	for (uint32_t g = 0; g < run->limit; g++) {
		uint32_t entry = g / run->span;
		uint32_t rows = entry < note->entries
					? multicast_rows(&group->rate, note->vector[entry])
					: 0;

		run->repair[g] = (uint8_t)(rows < UINT8_MAX ? rows : UINT8_MAX);
	}
	run_next_round(run);
	begin_pass(run);
}

void run_own_ready(struct multicast *run)
{
	if (!run->own_ready) {
		run->own_ready = true;
		run->report_ns = UINT64_MAX;
	}
	check_report(run);
	if (gathers(run))
		gather_reported(run);
}

void run_timer(struct multicast *run, uint64_t now)
{
	if (now >= run->report_ns)
		run_own_ready(run);
}

void run_pass_sent(struct multicast *run, uint64_t now)
{
	struct note note = { .kind = NOTE_END,
			     .number = run->coll->number,
			     .round = run->round,
			     .limit = run->limit,
			     .sum = run->others_sum,
			     .count = run->others_count };

	run->pass.sent_ns = now - run->pass_began_ns;
	if (gathers(run)) {
		gather_sent(run);
		return;
	}
	run->end_seen = true;
	run_relay(run, &note);
	check_round(run);
}

/* ---- the last line: groups on the channel ---------------------------------------------------------------------- */

static void serve_fetches(struct multicast *run)
{
	for (uint32_t i = 0; i < run->child_count; i++)
		if (run->children[i]->fetch && !run->children[i]->fetching)
			fetch_begin(run->children[i]);
}

/* Both ends fetch the groups that the entries stand for. */
static bool mark_groups(struct multicast *run, struct partner *partner, const struct note *note)
{
	partner->fetch = calloc(run->groups, 1);
	if (!partner->fetch) {
		comm_fail(comm_of(run), true, -ENOMEM, "rank %u has no memory to fetch",
			  comm_of(run)->rank);
		return false;
	}
	for (uint32_t g = 0; g < run->groups; g++)
		partner->fetch[g] = g / run->span < note->entries && note->vector[g / run->span];
	return true;
}

/* Asks the parent for what is missing, when no other note of it can come. */
static void check_want(struct multicast *run)
{
	struct partner *parent = run->parent;
	struct note note = { .kind = NOTE_WANT, .number = run->coll->number };

	if (!run->done || !run->fetching || run->closed || parent->expect)
		return;
	run->closed = true;
	run_add_own(run, &note);
	note_send(parent, &note);
	if (mark_groups(run, parent, &note))
		fetch_begin(parent);
}

void run_fetched(struct multicast *run, uint32_t group)
{
	group_of(run)->fetched++;
	if (run->blocks[0].deficit[group])
		block_fill(&run->blocks[0], group);
	if (is_whole(run))
		serve_fetches(run);
}

/* ---- notes and packets ------------------------------------------------------------------------------------------ */

static void child_reported(struct multicast *run, struct partner *child, const struct note *note)
{
	struct note *all = &run->gathered;

	child->reported = note->round + 1;
	if (note->flags & NOTE_DONE) {
		child->done = true;
		child->done_round = note->round;
		if (note->flags & NOTE_FETCH)
			note_expect(child);
	} else if (!gathers(run)) {
		note_expect(child);
	}
	/* A rank that is done may say so before the round has begun here. */
	if (note->round != run->round)
		return;
	if (note->entries > all->entries)
		all->entries = note->entries;
	for (uint32_t e = 0; e < note->entries; e++)
		if (note->vector[e] > all->vector[e])
			all->vector[e] = note->vector[e];
	all->sum += note->sum;
	all->count += note->count;
	if (note->worst > all->worst)
		all->worst = note->worst;
	if (note->seen_ns > all->seen_ns)
		all->seen_ns = note->seen_ns;
}

static uint64_t grace_ns(struct multicast *run)
{
	struct comm_link *link = comm_of(run)
					 ->tracks[run->coll->number % comm_of(run)->track_count]
					 .links[run->parent->rank];
	struct gw_channel_stats stats = { .rtt_ns = 0 };
	uint64_t grace;

	if (link && link->connected)
		gw_channel_stats(link->channel, &stats);
	grace = stats.rtt_ns ? stats.rtt_ns / 2 : GRACE_NS;
	return grace > GRACE_MIN_NS ? grace : GRACE_MIN_NS;
}

static void report_at(struct multicast *run, uint64_t at, uint64_t now)
{
	if (at < run->report_ns)
		run->report_ns = at;
	run_timer(run, now);
}

static void round_ended(struct multicast *run, const struct note *note, uint64_t now)
{
	run_relay(run, note);
	run->others_sum = note->sum > run->own_lacking ? note->sum - run->own_lacking : 0;
	run->others_count = note->count ? note->count - 1 : 0;
	if (note->round != run->round || run->done)
		return;
	run->end_seen = true;
	run->limit = note->limit;
	if (!run->marker_seen)
		report_at(run, is_whole(run) || run->fetching ? now : now + grace_ns(run), now);
}

static void child_ready(struct multicast *run, struct partner *child, const struct note *note)
{
	if (note->value != run->block_bytes) {
		comm_fail(comm_of(run), true, -EPROTO,
			  "rank %u gives %llu bytes where rank %u gives %llu in %s number %u",
			  child->rank, (unsigned long long)note->value, comm_of(run)->rank,
			  (unsigned long long)run->block_bytes,
			  operation_name(run->coll->task.operation), run->coll->number);
		return;
	}
	child->ready = true;
	if (!gathers(run))
		note_expect(child);
	check_ready(run);
}

static void child_wants(struct multicast *run, struct partner *child, const struct note *note)
{
	if (mark_groups(run, child, note) && is_whole(run))
		fetch_begin(child);
}

void run_note(struct multicast *run, struct partner *from, const struct note *note, uint64_t now)
{
	switch (note->kind) {
	case NOTE_READY:
		child_ready(run, from, note);
		break;
	case NOTE_REPORT:
		child_reported(run, from, note);
		check_report(run);
		if (gathers(run))
			gather_reported(run);
		else
			check_round(run);
		break;
	case NOTE_END:
		if (gathers(run))
			gather_note(run, from, note);
		else
			round_ended(run, note, now);
		break;
	case NOTE_WANT:
		child_wants(run, from, note);
		break;
	case NOTE_PLAN:
	case NOTE_TURN:
	case NOTE_SENT:
		gather_note(run, from, note);
		break;
	default:
		join_note(run, from, note, now);
		break;
	}
	tx_arm(group_of(run), now);
}

/* Packets that come after the marker of their round were overtaken by it: the next reports wait for such. */
static void learn_slack(struct multicast *run, uint64_t now)
{
	struct multicast_group *group = group_of(run);
	uint64_t late = now - run->marker_ns;

	if (run->marker_ns && late > group->slack_ns)
		group->slack_ns = late;
}

void run_symbol(struct multicast *run, uint32_t rank, uint8_t round, uint32_t index,
		const uint8_t *data, uint32_t length, uint64_t now)
{
	struct block *block = &run->blocks[gathers(run) ? rank : 0];
	enum block_taken taken;

	if (run->closed || block == run_own(run) ||
	    (!gathers(run) && rank != run->coll->task.root)) {
		group_of(run)->dropped++;
		return;
	}
	taken = block_put(block, &group_of(run)->coder, index >> 8, index & 255, data, length);
	if (taken == BLOCK_BAD) {
		group_of(run)->dropped++;
		return;
	}
	run->heard = true;
	if (round == (uint8_t)run->round) {
		if (!run->first_ns)
			run->first_ns = now;
		run->last_ns = now;
	}
	if (taken == BLOCK_KNOWN)
		return;
	if (round != (uint8_t)run->round || run->marker_seen)
		learn_slack(run, now);
	if (taken != BLOCK_WHOLE || !is_whole(run) || gathers(run))
		return;
	run->limit = run->groups;
	serve_fetches(run);
	run_own_ready(run);
}

void run_marker(struct multicast *run, uint32_t rank, uint32_t round, uint32_t limit, uint64_t now)
{
	struct multicast_group *group = group_of(run);
	uint64_t wait;

	if (run->done || gathers(run) || !run->parent || rank != run->coll->task.root ||
	    round != (uint8_t)run->round || limit > run->groups || run->marker_seen)
		return;
	run->heard = true;
	run->marker_seen = true;
	run->marker_ns = now;
	run->limit = limit;
	wait = grace_ns(run);
	if (wait > group->slack_ns)
		wait = group->slack_ns;
	group->slack_ns -= group->slack_ns / SLACK_DECAY;
	report_at(run, lacking(run) && !run->fetching ? now + wait : now, now);
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

static bool over(const struct multicast *run)
{
	if (run->open || run->sending)
		return false;
	for (uint32_t i = 0; i < run->partner_count; i++) {
		const struct partner *partner = run->partners[i];

		if (partner->expect || !list_empty(&partner->outbox) ||
		    (partner->fetch && partner->fetch_next < run->groups))
			return false;
	}
	if (run->given_up || gathers(run))
		return run->given_up || run->done;
	return is_whole(run) && all_done(run) && (run->done || !run->parent);
}

void run_settle(struct multicast *run)
{
	struct gw_coll *coll = run->coll;

	if (coll->comm->status)
		return;
	if (group_of(run)->verdict_due) {
		group_of(run)->verdict_due = false;
		multicast_go_on(coll->comm);
		return;
	}
	if (!run->started)
		return;
	check_want(run);
	if (!over(run))
		return;
	group_of(run)->rounds += run->round + 1;
	if (run->given_up) {
		group_of(run)->given_up += group_of(run)->state == MULTICAST_WORKS;
		coll_fall_back(coll);
		return;
	}
	group_of(run)->ended++;
	coll_end(coll, 0);
}

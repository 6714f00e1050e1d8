/* SPDX-License-Identifier: BSD-3-Clause */
/* What arrives in a multicast operation, and what a rank reports to its parent. */
#include <errno.h>

#include "collective/multicast.h"

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

/* A child that said in advance that it is done with the next round still waits for the END of that. */
bool run_all_done(const struct multicast *run)
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

bool run_is_whole(const struct multicast *run)
{
	for (uint32_t b = 0; b < run->block_count; b++)
		if (run->blocks[b].groups_left)
			return false;
	return true;
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

/* Reports to the parent when this rank and all below it can. */
void run_check_report(struct multicast *run)
{
	struct note *note = &run->gathered;

	if (!run->parent || run->done || !run->own_ready || !run_all_reported(run))
		return;
	note->round = run->round;
	run->fetching = !run_is_whole(run) && (run->fetching || badly_served(run));
	run->own_lacking = run->fetching ? 0 : lacking(run);
	run->own_packets = packets_sent(run);
	if (!run->fetching)
		run_add_own(run, note);
	if (!gathers(run) && run_all_done(run) &&
	    (run_is_whole(run) || (run->fetching && run->limit == run->groups))) {
		note->flags = NOTE_DONE | (run_is_whole(run) ? 0 : NOTE_FETCH);
		note->entries = 0;
		run->done = true;
	}
	note_send(run->parent, note);
	if (run->done)
		return;
	note_expect(run->parent);
	run_next_round(run);
	run_check_report(run);
}

void run_own_ready(struct multicast *run)
{
	/* A marker that comes while this rank waits for its children sets the time again. */
	run->report_ns = UINT64_MAX;
	run->own_ready = true;
	run_check_report(run);
	if (gathers(run))
		gather_reported(run);
}

void run_timer(struct multicast *run, uint64_t now)
{
	if (now >= run->report_ns)
		run_own_ready(run);
}

void report_of_child(struct multicast *run, struct partner *child, const struct note *note)
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

void report_round_ended(struct multicast *run, const struct note *note, uint64_t now)
{
	if (note->limit > run->groups) {
		comm_fail(comm_of(run), true, -EPROTO,
			  "rank %u was told of %u groups of %u in broadcast number %u",
			  comm_of(run)->rank, note->limit, run->groups, run->coll->number);
		return;
	}
	run_relay(run, note);
	run->others_sum = note->sum > run->own_lacking ? note->sum - run->own_lacking : 0;
	run->others_count = note->count ? note->count - 1 : 0;
	if (note->round != run->round || run->done)
		return;
	run->end_seen = true;
	run->limit = note->limit;
	if (!run->marker_seen)
		report_at(run, run_is_whole(run) || run->fetching ? now : now + grace_ns(run), now);
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
	if (taken != BLOCK_WHOLE || !run_is_whole(run) || gathers(run))
		return;
	run->limit = run->groups;
	fetch_serve(run);
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

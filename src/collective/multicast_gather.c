/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allgather by multicast. Each rank multicasts its block once. Chains of turns keep the receivers from being overrun: rank r
 * begins when rank r - M has ended, so that M ranks send at a time, each at an M-th of the rate. Then rank 0 gathers what anyone
 * lacks, and tells all ranks, each of which sends parity for its own block; until nobody lacks anything.
 */
#include <string.h>

#include "collective/multicast.h"

/* Chains, at most, and bytes from which a block is long enough to hide the hand-over between two ranks. */
#define CHAINS_MAX 16
#define CHAINS_MIN 2
/* Rounds without progress after which another algorithm takes over. */
#define BARREN_ROUNDS 8

/* So many that a turn takes longer than handing it on. */
static uint32_t chains_for(const struct multicast *run)
{
	struct gw_channel_stats stats = { .rtt_ns = 0 };
	struct partner *next = run->child_count ? run->children[0] : NULL;
	struct comm_link *link =
		next ? comm_of(run)
				->tracks[run->coll->number % comm_of(run)->track_count]
				.links[next->rank]
		     : NULL;
	uint64_t turn_ns, chains;

	if (link && link->connected)
		gw_channel_stats(link->channel, &stats);
	turn_ns = run->block_bytes * 8 * 1000 / (group_of(run)->rate.rate_bps / 1000000 + 1);
	chains = CHAINS_MIN + stats.rtt_ns / (turn_ns + 1);
	if (chains > CHAINS_MAX)
		chains = CHAINS_MAX;
	return (uint32_t)(chains < run->block_count ? chains : run->block_count);
}

static bool needs(const struct multicast *run, const struct note *note, uint32_t group)
{
	uint32_t entry = group / run->span;

	return entry < note->entries && note->vector[entry];
}

/* Ranks that have something to repair. */
static uint32_t menders(const struct multicast *run, const struct note *note)
{
	uint32_t count = 0;

	for (uint32_t b = 0; b < run->block_count; b++)
		for (uint32_t g = 0; g < run->block_groups; g++)
			if (needs(run, note, b * run->block_groups + g)) {
				count++;
				break;
			}
	return count ? count : 1;
}

static void send_block(struct multicast *run)
{
	if (!run->planned || !run->turn || run->round || run->next_packet)
		return;
	run->end_packet = run_own(run)->packets;
	tx_begin(run, run->plan_rate / run->chains);
}

static void send_repairs(struct multicast *run, const struct note *note)
{
	uint32_t first = comm_of(run)->rank * run->block_groups;
	bool any = false;

	for (uint32_t g = 0; g < run->block_groups; g++) {
		uint32_t entry = (first + g) / run->span;
		uint32_t rows = entry < note->entries
					? multicast_rows(&group_of(run)->rate, note->vector[entry])
					: 0;

		run->repair[g] = (uint8_t)(rows < UINT8_MAX ? rows : UINT8_MAX);
		any |= rows > 0;
	}
	if (any)
		tx_begin(run, run->plan_rate / menders(run, note));
	else
		gather_sent(run);
}

/* The ranks before and after this one in its chain. */
static void find_neighbours(struct multicast *run)
{
	uint32_t rank = comm_of(run)->rank;

	if (rank + run->chains < run->block_count)
		run->after = partner_with(run, rank + run->chains);
	if (rank < run->chains) {
		run->turn = true;
		return;
	}
	run->before = partner_with(run, rank - run->chains);
	if (run->before)
		note_expect(run->before);
}

static void planned(struct multicast *run, const struct note *note)
{
	run_relay(run, note);
	if (note->flags & NOTE_OVER) {
		run->done = true;
		run->given_up = note->flags & NOTE_GIVE_UP;
		return;
	}
	run->sent = false;
	run->plan_rate = note->value;
	run->chains = note->limit ? note->limit : 1;
	/* What rank 0 knows of losses is the same for all. */
	group_of(run)->rate.loss = (double)note->worst / 1e6;
	for (uint32_t i = 0; i < run->child_count; i++) {
		run->children[i]->sent = false;
		note_expect(run->children[i]);
	}
	if (run->parent)
		note_expect(run->parent);
	if (note->round) {
		send_repairs(run, note);
		return;
	}
	run->planned = true;
	find_neighbours(run);
	send_block(run);
}

static void make_plan(struct multicast *run, struct note *note)
{
	const struct multicast_rate *rate = &group_of(run)->rate;

	note->kind = NOTE_PLAN;
	note->number = run->coll->number;
	note->round = run->round;
	note->value = rate->rate_bps;
	note->limit = run->chains;
	note->worst = (uint32_t)(rate->loss * 1e6);
	planned(run, note);
}

void gather_children_ready(struct multicast *run)
{
	struct note note = { .kind = NOTE_PLAN };

	run->chains = chains_for(run);
	make_plan(run, &note);
}

static void check_sent(struct multicast *run)
{
	struct note note = { .kind = NOTE_SENT, .number = run->coll->number, .round = run->round };

	if (!run->sent || run->end_seen)
		return;
	for (uint32_t i = 0; i < run->child_count; i++)
		if (!run->children[i]->sent)
			return;
	if (run->parent) {
		run->end_seen = true; /* as far as this rank goes */
		note_send(run->parent, &note);
		return;
	}
	note.kind = NOTE_END;
	run->end_seen = true;
	run_relay(run, &note);
	run_own_ready(run);
}

void gather_sent(struct multicast *run)
{
	struct note note = { .kind = NOTE_TURN, .number = run->coll->number };

	run->sent = true;
	if (!run->round && run->after)
		note_send(run->after, &note);
	check_sent(run);
}

static bool anything(const struct note *note)
{
	for (uint32_t e = 0; e < note->entries; e++)
		if (note->vector[e])
			return true;
	return false;
}

void gather_reported(struct multicast *run)
{
	struct note note;

	if (run->parent || !run->own_ready || !run_all_reported(run))
		return;
	note = run->gathered;
	run_add_own(run, &note);
	if (!run->round) {
		struct multicast_pass pass = {
			.bytes = run->block_bytes * run->block_count,
			.packets = (run->block_count - 1) * run->blocks[0].packets,
			.sent_ns = note.seen_ns,
			.seen_ns = note.seen_ns,
			.missed = note.worst,
		};

		multicast_rate_learn(&group_of(run)->rate, &pass);
		run->plan_lacking = UINT64_MAX;
	}
	run->plan_barren =
		note.sum >= run->plan_lacking - run->plan_lacking / 8 ? run->plan_barren + 1 : 0;
	run->plan_lacking = note.sum;
	note.flags = !anything(&note)			 ? NOTE_OVER
		     : run->plan_barren >= BARREN_ROUNDS ? NOTE_OVER | NOTE_GIVE_UP
							 : 0;
	run_next_round(run);
	make_plan(run, &note);
}

void gather_note(struct multicast *run, struct partner *from, const struct note *note)
{
	switch (note->kind) {
	case NOTE_PLAN:
		planned(run, note);
		break;
	case NOTE_TURN:
		run->turn = true;
		send_block(run);
		break;
	case NOTE_SENT:
		from->sent = true;
		note_expect(from);
		check_sent(run);
		break;
	default: /* END */
		run_relay(run, note);
		run_own_ready(run);
		break;
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast operations from their beginning to their end: who is ready, what a round sends. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collective/multicast.h"

/* Markers that end a round. */
#define MARKERS 3

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

void run_relay(struct multicast *run, const struct note *note)
{
	for (uint32_t i = 0; i < run->child_count; i++) {
		struct partner *child = run->children[i];

		if (!child->done || child->done_round >= note->round)
			note_send(child, note);
	}
}

static int make_blocks(struct multicast *run)
{
	const struct gw_coll *coll = run->coll;
	const struct task *task = &coll->task;
	uint32_t payload = group_of(run)->payload, own = comm_of(run)->rank;
	uint8_t *recv = coll->base[PLACE_RECV], *send = coll->base[PLACE_SEND];
	uint64_t stride = coll->stride ? coll->stride : run->block_bytes;

	run->blocks = calloc(run->block_count, sizeof(*run->blocks));
	if (!run->blocks)
		return -ENOMEM;
	for (uint32_t b = 0; b < run->block_count; b++) {
		bool sends = gathers(run) ? b == own : run->place == 0;
		uint8_t *at = sends && !gathers(run) && !task->in_place ? send : recv;
		int error = block_init(&run->blocks[b], coll_at(at, b * stride), run->block_bytes,
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
	if (run->block_bytes && gathers(run) && !task->in_place)
		memcpy(coll_at(recv, own * stride), coll_at(send, own * stride), run->block_bytes);
	else if (run->block_bytes && run->place == 0 && !task->in_place && recv)
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

struct block *run_group(struct multicast *run, uint32_t group, uint32_t *within)
{
	*within = group % run->block_groups;
	return &run->blocks[group / run->block_groups];
}

void run_next_round(struct multicast *run)
{
	run->round++;
	begin_round(run);
	/* Whoever is whole waits for its children only. */
	run->own_ready = !gathers(run) && run_is_whole(run);
}

/* A pass is over, and all have reported it: the root sends what is missing, and more. */
static void check_round(struct multicast *run)
{
	struct multicast_group *group = group_of(run);
	const struct note *note = &run->gathered;
	uint32_t fresh = run->pass.packets;

	if (run->parent || gathers(run) || run->sending || !run->end_seen ||
	    !run_all_reported(run) || run_all_done(run))
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

void run_note(struct multicast *run, struct partner *from, const struct note *note, uint64_t now)
{
	switch (note->kind) {
	case NOTE_READY:
		child_ready(run, from, note);
		break;
	case NOTE_REPORT:
		report_of_child(run, from, note);
		run_check_report(run);
		if (gathers(run))
			gather_reported(run);
		else
			check_round(run);
		break;
	case NOTE_END:
		if (gathers(run))
			gather_note(run, from, note);
		else
			report_round_ended(run, note, now);
		break;
	case NOTE_WANT:
		fetch_wanted(run, from, note);
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
	return run_is_whole(run) && run_all_done(run) && (run->done || !run->parent);
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
	fetch_check(run);
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

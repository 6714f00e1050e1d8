/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sample.c: simulates the process from a seed. The sender has one wire: a repair that is due goes first, then the next new
 * unit; otherwise it waits for the next repair. Units up to the next loss are sent in one step, so that the cost of a
 * message is proportional to its losses.
 *
 * Repairs wait in queues, one for each kind of delay. Each delay is constant, so every repair that enters a queue is due
 * after all others in it, and nothing needs sorting.
 *
 * If all parity follows all data, the groups of lost data units are noted first; then parity is sent block by block, and
 * only blocks that lost data are simulated unit by unit.
 */
#include "plan/process.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Repairs due within this many unit times of each other were requested in one datagram. */
#define TOGETHER_UNITS 1.5

struct repair {
	double due_ns;
	/* units to send */
	uint32_t units;
	/* repair round, from 0 */
	uint32_t round;
	/* a repair of these units was sent before */
	bool sent;
};

enum delay { DELAY_FIRST, DELAY_TAIL, DELAY_AGAIN, DELAY_UNHEARD, DELAY_LATER, DELAYS };

/* Repairs that wait, in the order in which they are due. */
struct queue {
	struct repair *repairs;
	/* index of the first that waits, and of the first free entry */
	size_t head;
	size_t count;
	size_t capacity;
};

/* Groups that lost data, once for each loss, in ascending order. */
struct notes {
	uint64_t *groups;
	size_t count;
	/* index of the first whose parity was not sent yet */
	size_t next;
	size_t capacity;
};

struct run {
	const struct process *process;
	struct loss_stream losses;
	struct queue queues[DELAYS];
	/* time at which the wire is free */
	double now_ns;
	/* time at which the last useful unit had left */
	double over_ns;
	/* new units sent */
	uint64_t sent;
	/* the current block: number of its first unit, units and groups in it */
	uint64_t block_first;
	uint64_t block_units;
	unsigned block_groups;
	/* a group of the current block lost more than it can spare */
	bool hurt;
	/* groups of the message that lost more than they can spare */
	uint64_t failed;
	/* losses of each group of the block */
	uint16_t *lost;
	struct notes notes;
	/* draws the losses of control datagrams */
	struct rng control;
	/* due time of the latest repair, and whether its request arrived */
	double asked_ns;
	bool heard;
	/* due time of the latest first repair */
	double repaired_ns;
	/* -ENOMEM if an allocation failed */
	int error;
};

static void push(struct run *run, enum delay delay, const struct repair *repair)
{
	struct queue *queue = &run->queues[delay];

	if (queue->head == queue->count)
		queue->head = queue->count = 0;
	if (queue->count == queue->capacity) {
		size_t capacity = queue->capacity ? 2 * queue->capacity : 64;
		struct repair *more = realloc(queue->repairs, capacity * sizeof(*more));

		if (!more) {
			run->error = -ENOMEM;
			return;
		}
		queue->repairs = more;
		queue->capacity = capacity;
	}
	queue->repairs[queue->count++] = *repair;
}

/* Returns the queue with the repair that is due first, or NULL. */
static struct queue *earliest(struct run *run)
{
	struct queue *found = NULL;

	for (unsigned i = 0; i < DELAYS; i++) {
		struct queue *queue = &run->queues[i];

		if (queue->head < queue->count &&
		    (!found ||
		     queue->repairs[queue->head].due_ns < found->repairs[found->head].due_ns))
			found = queue;
	}
	return found;
}

/* Makes the block of the next new unit the current one. */
static void open_block(struct run *run)
{
	const struct process *p = run->process;
	uint64_t full = p->groups * p->size, block = (uint64_t)p->spread * p->size;

	run->hurt = false;
	if (run->sent >= full) {
		run->block_first = full;
		run->block_groups = p->last_groups;
		run->block_units = (uint64_t)p->last_groups * p->last_size;
	} else {
		uint64_t left;

		run->block_first = run->sent / block * block;
		left = full - run->block_first;
		run->block_units = left < block ? left : block;
		run->block_groups = (unsigned)(run->block_units / p->size);
	}
	memset(run->lost, 0, run->block_groups * sizeof(run->lost[0]));
}

/* Schedules repairs for the groups of the block that lost more than they can spare. */
static void close_block(struct run *run)
{
	const struct process *p = run->process;
	bool tail = p->tail > 0 && run->block_first + p->tail >= p->units;

	for (unsigned i = 0; i < run->block_groups; i++) {
		if (run->lost[i] <= p->spare)
			continue;
		run->failed++;
		if (!p->fallback) {
			double after_ns = p->tail_waits ? run->repaired_ns : run->now_ns;
			struct repair repair = { .units = run->lost[i] - p->spare };

			repair.due_ns = tail ? fmax(run->now_ns, after_ns) + p->tail_ns
					     : run->now_ns + p->first_ns;
			push(run, tail ? DELAY_TAIL : DELAY_FIRST, &repair);
		}
		if (!tail)
			run->repaired_ns = run->now_ns + p->first_ns;
	}
	run->hurt = false;
}

/* Reduces `units` to those that leave before the first repair in the queue is due, at least one. */
static uint64_t units_before(const struct run *run, const struct queue *queue, uint64_t units)
{
	double free_units;

	if (!queue)
		return units;
	free_units =
		ceil((queue->repairs[queue->head].due_ns - run->now_ns) / run->process->unit_ns);
	return free_units < (double)units ? (uint64_t)fmax(free_units, 1) : units;
}

/* Sends new units up to the next event: a loss, a repair that is due, or the end of a block that needs repairs. */
static void send_fresh(struct run *run, const struct queue *queue)
{
	const struct process *p = run->process;
	uint64_t units = p->units - run->sent, block_end = run->block_first + run->block_units;
	uint64_t group;

	if (run->losses.arriving < units)
		units = run->losses.arriving;
	if (run->hurt && block_end - run->sent < units)
		units = block_end - run->sent;
	units = units_before(run, queue, units);
	if (units > 0) {
		run->losses.arriving -= units;
		run->sent += units;
		run->now_ns += (double)units * p->unit_ns;
	} else {
		if (run->sent >= block_end)
			open_block(run);
		loss_stream_next(&run->losses);
		group = (run->sent - run->block_first) % run->block_groups;
		run->hurt |= ++run->lost[group] > p->spare;
		run->sent++;
		run->now_ns += p->unit_ns;
	}
	run->over_ns = run->now_ns;
	if (run->hurt && run->sent >= run->block_first + run->block_units)
		close_block(run);
}

/* Returns the number of the group that a data unit belongs to. */
static uint64_t group_of(const struct process *p, uint64_t unit)
{
	uint64_t block = (uint64_t)p->spread * p->group_data, full = p->groups * p->group_data;
	uint64_t first, left;

	if (unit >= full)
		return p->groups + (unit - full) % p->last_groups;
	first = unit / block * block;
	left = full - first;
	return first / p->group_data +
	       (unit - first) % (left < block ? left / p->group_data : p->spread);
}

/* Notes a lost data unit of the group. */
static void note(struct run *run, uint64_t group)
{
	struct notes *notes = &run->notes;

	if (notes->count == notes->capacity) {
		size_t capacity = notes->capacity ? 2 * notes->capacity : 64;
		uint64_t *more = realloc(notes->groups, capacity * sizeof(*more));

		if (!more) {
			run->error = -ENOMEM;
			return;
		}
		notes->groups = more;
		notes->capacity = capacity;
	}
	notes->groups[notes->count++] = group;
}

/* Sends all data and notes its losses. */
static void send_data(struct run *run)
{
	const struct process *p = run->process;

	run->notes.count = run->notes.next = 0;
	while (run->sent < p->lead && !run->error) {
		uint64_t units = p->lead - run->sent;

		if (run->losses.arriving < units)
			units = run->losses.arriving;
		run->losses.arriving -= units;
		run->sent += units;
		if (run->sent < p->lead) {
			loss_stream_next(&run->losses);
			note(run, group_of(p, run->sent++));
		}
	}
	run->now_ns = run->over_ns = (double)p->lead * p->unit_ns;
}

/* Sends the parity of blocks that lost no data, up to the block of group `first` or to a repair that is due. Returns true if
 * it got to that block. */
static bool skip_parity(struct run *run, const struct queue *queue, uint64_t first)
{
	const struct process *p = run->process;
	uint64_t units = units_before(run, queue, p->lead + first * p->turn - run->sent);

	run->sent += units;
	run->now_ns += (double)units * p->unit_ns;
	while (units > 0) {
		uint64_t step = run->losses.arriving < units ? run->losses.arriving : units;

		run->losses.arriving -= step;
		units -= step;
		if (units > 0) {
			loss_stream_next(&run->losses);
			units--;
		}
	}
	return run->sent == p->lead + first * p->turn;
}

/* Sends the parity of the next block that lost data, unless a repair is due before. */
static void send_parity(struct run *run, const struct queue *queue)
{
	const struct process *p = run->process;
	struct notes *notes = &run->notes;
	uint64_t group = notes->groups[notes->next];
	uint64_t first = group < p->groups ? group / p->spread * p->spread : p->groups;
	uint64_t all = group < p->groups ? p->groups - first : p->last_groups;

	if (!skip_parity(run, queue, first))
		return;
	run->block_groups = (unsigned)(all < p->spread || group >= p->groups ? all : p->spread);
	memset(run->lost, 0, run->block_groups * sizeof(run->lost[0]));
	for (; notes->next < notes->count && notes->groups[notes->next] < first + run->block_groups;
	     notes->next++)
		run->lost[notes->groups[notes->next] - first]++;
	for (unsigned row = 0; row < p->turn; row++)
		for (unsigned i = 0; i < run->block_groups; i++)
			run->lost[i] += loss_stream_next(&run->losses);
	run->sent += (uint64_t)p->turn * run->block_groups;
	run->now_ns += (double)p->turn * run->block_groups * p->unit_ns;
	run->over_ns = run->now_ns;
	/* No group is in the tail: parity that lands later proves the losses. */
	run->block_first = run->sent;
	close_block(run);
}

/* Returns whether the request for a repair arrived. Repairs that are due together were requested in one datagram. */
static bool request_heard(struct run *run, double due_ns)
{
	const struct process *p = run->process;

	if (fabs(due_ns - run->asked_ns) > TOGETHER_UNITS * p->unit_ns)
		run->heard = !rng_chance(&run->control, p->request_loss);
	run->asked_ns = due_ns;
	return run->heard;
}

/* Schedules the next repair round for units that are still missing after a round that ended at at_ns. */
static void push_again(struct run *run, const struct repair *repair, double at_ns, uint32_t units,
		       bool heard)
{
	const struct process *p = run->process;
	enum delay delay = heard ? DELAY_AGAIN : DELAY_UNHEARD;
	struct repair next = { .units = units,
			       .round = repair->round + 1,
			       .sent = repair->sent || heard };

	if (repair->round > 0)
		delay = DELAY_LATER;
	next.due_ns = at_ns + (delay == DELAY_LATER ? p->later_ns
			       : heard		    ? p->again_ns
						    : p->unheard_ns);
	push(run, delay, &next);
}

static void send_repair(struct run *run, struct queue *queue)
{
	const struct process *p = run->process;
	struct repair repair = queue->repairs[queue->head++];
	uint32_t lost = 0;

	if (run->now_ns < repair.due_ns)
		run->now_ns = repair.due_ns;
	/* For the tail, the probe that asks about it may be lost too. */
	if ((queue == &run->queues[DELAY_TAIL] && rng_chance(&run->control, p->tail_loss)) ||
	    !request_heard(run, repair.due_ns)) {
		push_again(run, &repair, run->now_ns + repair.units * p->unit_ns, repair.units,
			   false);
		return;
	}
	for (uint32_t i = 0; i < repair.units; i++)
		lost += loss_stream_next(&run->losses) &&
			(!repair.sent || !rng_chance(&run->control, p->twice) ||
			 loss_stream_next(&run->losses));
	run->now_ns += repair.units * p->unit_ns;
	if (lost > 0)
		push_again(run, &repair, run->now_ns, lost, true);
	else
		run->over_ns = run->now_ns;
}

/* Simulates one message; returns when its last useful unit has left. */
static double play(struct run *run, const struct process *process)
{
	run->process = process;
	run->now_ns = run->over_ns = 0;
	run->asked_ns = run->repaired_ns = -INFINITY;
	run->sent = run->failed = 0;
	run->block_units = 0;
	run->block_first = 0;
	run->hurt = false;
	for (unsigned i = 0; i < DELAYS; i++)
		run->queues[i].head = run->queues[i].count = 0;
	if (process->lead)
		send_data(run);
	while (!run->error) {
		struct queue *queue = earliest(run);

		if (process->lead) {
			bool hurt = run->notes.next < run->notes.count;

			if (queue && (!hurt || queue->repairs[queue->head].due_ns <= run->now_ns))
				send_repair(run, queue);
			else if (hurt)
				send_parity(run, queue);
			else
				break;
			continue;
		}
		if (queue && (run->sent == process->units ||
			      queue->repairs[queue->head].due_ns <= run->now_ns))
			send_repair(run, queue);
		else if (run->sent < process->units)
			send_fresh(run, queue);
		else
			break;
	}
	return run->over_ns;
}

/* Draws how long after its first attempt an announcement or a result arrives. */
static double told_ns(struct run *run, double again_ns, bool result)
{
	const struct process *p = run->process;
	unsigned tries = 0;

	while (rng_chance(&run->control, result ? process_result_loss(p, tries) : p->control_loss))
		tries++;
	return process_told_ns(p, again_ns, tries);
}

int process_sample(const struct process *process, uint64_t seed, unsigned samples, double *times,
		   uint64_t *repaired)
{
	struct run run = { .process = process };
	unsigned most =
		process->spread > process->last_groups ? process->spread : process->last_groups;

	run.lost = calloc(most, sizeof(run.lost[0]));
	if (!run.lost)
		return -ENOMEM;
	loss_stream_start(&run.losses, &process->loss, seed);
	run.control = rng_split(&run.losses.rng);
	*repaired = 0;
	for (unsigned i = 0; i < samples && !run.error; i++) {
		loss_stream_renew(&run.losses);
		times[i] = fmax(play(&run, process), told_ns(&run, process->announce_ns, false)) +
			   process->end_ns + told_ns(&run, process->result_ns, true);
		*repaired += run.failed > 0;
		if (process->fallback && run.failed > 0) {
			struct process again =
				process_of_fallback(process, run.failed * process->group_data);

			times[i] += process->fallback_ns + play(&run, &again);
		}
	}
	for (unsigned i = 0; i < DELAYS; i++)
		free(run.queues[i].repairs);
	free(run.lost);
	free(run.notes.groups);
	return run.error;
}

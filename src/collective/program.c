/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of steps, and which of them wait for which. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collective/program.h"

/* Start of part `index` when `total` is cut into `parts` that differ by one at most. */
static uint64_t share_start(uint64_t total, uint32_t parts, uint32_t index)
{
	uint64_t longer = total % parts;

	return index * (total / parts) + (index < longer ? index : longer);
}

uint64_t layout_offset(const struct layout *layout, uint32_t cell)
{
	uint32_t chunk = cell / layout->segments;
	uint64_t start = share_start(layout->elements, layout->chunks, chunk);

	if (cell % layout->segments) {
		uint64_t end = share_start(layout->elements, layout->chunks, chunk + 1);

		start += share_start(end - start, layout->segments, cell % layout->segments);
	}
	return start * layout->unit;
}

/* Adds an item and returns its index, or STEP_NONE. */
static uint32_t grow_add(struct program *program, struct grow *grow, const void *item, size_t size)
{
	if (grow->count == grow->room) {
		uint32_t room = grow->room ? 2 * grow->room : 64;
		void *items = room < STEP_NONE / 2 ? reallocarray(grow->items, room, size) : NULL;

		if (!items) {
			program->error = -ENOMEM;
			return STEP_NONE;
		}
		grow->items = items;
		grow->room = room;
	}
	memcpy((char *)grow->items + grow->count * size, item, size);
	return grow->count++;
}

static void forget_cells(struct program *program)
{
	for (int i = 0; i < PLACE_COUNT; i++) {
		free(program->cells[i]);
		program->cells[i] = NULL;
	}
	free(program->readers.items);
	program->readers = (struct grow){ 0 };
}

void program_free(struct program *program)
{
	forget_cells(program);
	free(program->steps.items);
	free(program->edges.items);
	*program = (struct program){ 0 };
}

int program_init(struct program *program, const struct layout *layout, uint32_t slots,
		 bool in_place)
{
	*program = (struct program){ .layout = *layout, .slots = slots };
	for (int i = 0; i < PLACE_COUNT; i++) {
		uint32_t count = i == PLACE_SLOT ? slots : layout_cells(layout);

		program->alias[i] = i == PLACE_SEND && in_place ? PLACE_RECV : (enum place)i;
		program->cells[i] = calloc(count + 1, sizeof(struct cell));
		if (!program->cells[i]) {
			program_free(program);
			return -ENOMEM;
		}
		memset(program->cells[i], 0xff, (count + 1) * sizeof(struct cell));
	}
	return 0;
}

void program_after(struct program *program, uint32_t step, uint32_t before)
{
	struct step *steps = program_steps(program);
	struct edge edge;
	uint32_t index;

	if (step == STEP_NONE || before == STEP_NONE || step == before)
		return;
	edge = (struct edge){ step, steps[before].edges };
	index = grow_add(program, &program->edges, &edge, sizeof(edge));
	if (index == STEP_NONE)
		return;
	steps[before].edges = index;
	steps[step].waits++;
}

static struct cell *cell_at(struct program *program, struct spot where, uint32_t index)
{
	return &program->cells[where.place][where.first + index];
}

static void reads(struct program *program, uint32_t step, struct spot where)
{
	for (uint32_t i = 0; i < where.cells; i++) {
		struct cell *cell = cell_at(program, where, i);
		struct reader reader = { step, cell->readers };
		uint32_t index = grow_add(program, &program->readers, &reader, sizeof(reader));

		program_after(program, step, cell->writer);
		if (index != STEP_NONE)
			cell->readers = index;
	}
}

static void writes(struct program *program, uint32_t step, struct spot where)
{
	const struct reader *readers = program->readers.items;

	for (uint32_t i = 0; i < where.cells; i++) {
		struct cell *cell = cell_at(program, where, i);

		if (cell->readers == STEP_NONE)
			program_after(program, step, cell->writer);
		for (uint32_t r = cell->readers; r != STEP_NONE; r = readers[r].next)
			program_after(program, step, readers[r].step);
		*cell = (struct cell){ step, STEP_NONE };
	}
}

static uint64_t spot_bytes(const struct program *program, struct spot where)
{
	return layout_offset(&program->layout, where.first + where.cells) -
	       layout_offset(&program->layout, where.first);
}

static uint32_t add(struct program *program, enum step_kind kind, uint32_t peer, struct spot to,
		    struct spot from, struct spot with, uint64_t bytes)
{
	struct step step = {
		.kind = kind, .peer = peer, .bytes = bytes, .edges = STEP_NONE, .next = STEP_NONE
	};
	uint32_t index;

	if (!bytes || program->error)
		return STEP_NONE;
	to.place = program->alias[to.place];
	from.place = program->alias[from.place];
	with.place = program->alias[with.place];
	step.to = to;
	step.from = from;
	step.with = with;
	index = grow_add(program, &program->steps, &step, sizeof(step));
	if (index == STEP_NONE)
		return STEP_NONE;
	reads(program, index, from);
	reads(program, index, with);
	writes(program, index, to);
	if ((to.place == PLACE_SLOT && to.cells) && bytes > program->slot_bytes)
		program->slot_bytes = bytes;
	if ((to.place == PLACE_WORK && to.cells) || (from.place == PLACE_WORK && from.cells))
		program->work = true;
	return index;
}

static const struct spot nowhere = { PLACE_RECV, 0, 0 };

uint32_t program_send_as(struct program *program, uint32_t peer, struct spot from, struct spot like)
{
	return add(program, STEP_SEND, peer, nowhere, from, nowhere, spot_bytes(program, like));
}

uint32_t program_send(struct program *program, uint32_t peer, struct spot from)
{
	return program_send_as(program, peer, from, from);
}

uint32_t program_recv_as(struct program *program, uint32_t peer, struct spot to, struct spot like)
{
	return add(program, STEP_RECV, peer, to, nowhere, nowhere, spot_bytes(program, like));
}

uint32_t program_recv(struct program *program, uint32_t peer, struct spot to)
{
	return program_recv_as(program, peer, to, to);
}

uint32_t program_reduce_as(struct program *program, struct spot to, struct spot from,
			   struct spot with, struct spot like)
{
	return add(program, STEP_REDUCE, 0, to, from, with, spot_bytes(program, like));
}

uint32_t program_copy(struct program *program, struct spot to, struct spot from)
{
	if (program->alias[to.place] == program->alias[from.place] && to.first == from.first)
		return STEP_NONE;
	return add(program, STEP_COPY, 0, to, from, nowhere, spot_bytes(program, to));
}

uint32_t program_scale(struct program *program, struct spot to)
{
	return add(program, STEP_SCALE, 0, to, nowhere, nowhere, spot_bytes(program, to));
}

int program_seal(struct program *program)
{
	forget_cells(program);
	return program->error;
}

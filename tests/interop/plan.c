/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plan is an array of steps in sending order. Lengths cover every pad count, both sides of small
 * powers of two, and the path MTU itself; offsets leave gaps of changing width, so that a write which
 * is a byte too long or too early spoils a gap, and addresses are of every alignment.
 */
#include "plan.h"

#include <assert.h>
#include <string.h>

#define GUARD_BYTE 0xee
/* The widest gap between two writes. */
#define GAP_MAX 13

static const uint32_t small_lengths[] = {
	1, 2, 3, 4, 5, 7, 8, 31, 64, 65, 255, 256, 510, 777, 1000
};

#define SMALL_COUNT (sizeof(small_lengths) / sizeof(small_lengths[0]))
/* Path MTU less 5, 3, 2, 1 and 0. */
#define LARGE_COUNT 5

static const enum plan_fault faults[] = { FAULT_ICRC, FAULT_KEY, FAULT_QPN };

#define FAULT_COUNT (sizeof(faults) / sizeof(faults[0]))

size_t plan_memory_size(uint32_t path_mtu)
{
	return PLAN_MAX * (size_t)(path_mtu + GAP_MAX);
}

static uint32_t length_of(size_t i, uint32_t path_mtu)
{
	static const uint32_t below[LARGE_COUNT] = { 5, 3, 2, 1, 0 };

	return i < SMALL_COUNT ? small_lengths[i] : path_mtu - below[i - SMALL_COUNT];
}

static struct plan_step *append(struct plan_step *steps, size_t *count, uint32_t length)
{
	struct plan_step *step = &steps[*count];

	assert(*count < PLAN_MAX);
	*step = (struct plan_step){ .length = length };
	++*count;
	return step;
}

/* One sound step of each length; towards the kernel, one fault of each kind in between. */
static size_t base_plan(enum plan_direction direction, uint32_t path_mtu, struct plan_step *steps)
{
	size_t count = 0;

	for (size_t i = 0; i < SMALL_COUNT + LARGE_COUNT; i++) {
		struct plan_step *step = append(steps, &count, length_of(i, path_mtu));

		if (direction != PLAN_TO_KERNEL)
			continue;
		step->congested = i % 5 == 2;
		if (i % 5 == 4 && i / 5 < FAULT_COUNT)
			append(steps, &count, 40 + (uint32_t)i)->fault = faults[i / 5];
	}
	return count;
}

/* Every byte of an immediate differs from the others, so that a wrong byte order shows. */
static uint32_t imm_of(enum plan_direction direction, uint32_t kind, size_t i)
{
	return (uint32_t)direction << 24 | kind << 16 | 0x7700 | (uint32_t)i;
}

size_t plan_writes(enum plan_direction direction, uint32_t path_mtu, struct plan_step *steps)
{
	size_t count = base_plan(direction, path_mtu, steps);
	size_t offset = 0;

	if (direction == PLAN_TO_KERNEL)
		for (size_t i = 0; i < PLAN_BATCH; i++)
			append(steps, &count, path_mtu - 3)->batched = true;
	append(steps, &count, 64);

	for (size_t i = 0; i < count; i++) {
		offset += 1 + i * 5 % GAP_MAX;
		steps[i].has_imm = true;
		steps[i].imm = imm_of(direction, 0x0c, i);
		steps[i].offset = offset;
		offset += steps[i].length;
	}
	return count;
}

size_t plan_datagrams(enum plan_direction direction, uint32_t path_mtu, struct plan_step *steps)
{
	size_t count = base_plan(direction, path_mtu, steps);

	append(steps, &count, 64);
	for (size_t i = 0; i < count; i++) {
		steps[i].has_imm = i % 2 == 1;
		steps[i].imm = imm_of(direction, 0x0d, i);
	}
	return count;
}

size_t plan_count_sound(const struct plan_step *steps, size_t count)
{
	size_t sound = 0;

	for (size_t i = 0; i < count; i++)
		sound += steps[i].fault == FAULT_NONE;
	return sound;
}

/* A small generator seeded with the immediate, which is different in every step. */
static uint8_t next_byte(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return (uint8_t)(*state >> 24);
}

void plan_fill(const struct plan_step *step, uint8_t *out)
{
	uint32_t state = step->imm;

	for (uint32_t i = 0; i < step->length; i++)
		out[i] = next_byte(&state);
}

bool plan_matches(const struct plan_step *step, const uint8_t *data)
{
	uint32_t state = step->imm;

	for (uint32_t i = 0; i < step->length; i++)
		if (data[i] != next_byte(&state))
			return false;
	return true;
}

void plan_memory_before(uint8_t *memory, size_t size)
{
	memset(memory, GUARD_BYTE, size);
}

void plan_memory_after(const struct plan_step *steps, size_t count, uint8_t *memory, size_t size)
{
	plan_memory_before(memory, size);
	for (size_t i = 0; i < count; i++) {
		assert(steps[i].offset + steps[i].length <= size);
		if (steps[i].fault == FAULT_NONE)
			plan_fill(&steps[i], memory + steps[i].offset);
	}
}

bool plan_untouched(const struct plan_step *step, const uint8_t *memory)
{
	for (uint32_t i = 0; i < step->length; i++)
		if (memory[step->offset + i] != GUARD_BYTE)
			return false;
	return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arena.h: allocates blocks of any size from one region whose size is fixed at the start.
 *
 * Posted receives need bitmaps from tens of bytes to megabytes, and may not call malloc. A buddy
 * allocator takes logarithmic time and merges freed neighbours at once, so the region does not stay
 * fragmented. Sizes round up to a power of two, which most bitmaps are.
 */
#ifndef GODWIT_BASE_ARENA_H
#define GODWIT_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

/* Bytes in the smallest block, and the alignment of every block. */
#define ARENA_SMALLEST_BLOCK 64

struct arena {
	/* the region that blocks are taken from */
	unsigned char *memory;
	/* the buddy tree, one byte for each node; see arena.c */
	uint8_t *lack;
	/* the region holds 2^order smallest blocks */
	unsigned int order;
	/* bytes in allocated blocks, after rounding up */
	size_t used;
};

/*
 * Reserves `total` bytes, rounded up to a power of two. Returns 0, -EINVAL if total is 0, or -ENOMEM.
 * Pages that are never allocated cost address space only.
 */
int arena_init(struct arena *arena, size_t total);

/* Frees the region and every block in it. Does nothing on a zeroed or destroyed arena. */
void arena_destroy(struct arena *arena);

/* Returns `size` zeroed bytes, or NULL when no free block is large enough. Size 0 takes the smallest
 * block. */
void *arena_get(struct arena *arena, size_t size);

/* Frees a block; `size` is the size that arena_get() was called with. */
void arena_put(struct arena *arena, void *block, size_t size);

/* Bytes in all blocks, allocated or not. */
static inline size_t arena_size(const struct arena *arena)
{
	return (size_t)ARENA_SMALLEST_BLOCK << arena->order;
}

/* Bytes in allocated blocks, after rounding up: tests check that it returns to where it began. */
static inline size_t arena_used(const struct arena *arena)
{
	return arena->used;
}

#endif

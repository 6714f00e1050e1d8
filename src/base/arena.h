/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of varying size out of one region whose size is fixed at the start.
 *
 * Posted receives need bitmaps from tens of bytes to megabytes, and may not call malloc. A buddy
 * system answers in logarithmic time and merges freed neighbours at once, so that a region that is
 * empty again is whole again. Sizes round up to a power of two, which is what bitmaps mostly are.
 */
#ifndef GODWIT_BASE_ARENA_H
#define GODWIT_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#define ARENA_SMALLEST_BLOCK 64 /* also the alignment of every block */

struct arena {
	unsigned char *memory;
	uint8_t *lack;	    /* a byte a tree node; arena.c explains */
	unsigned int order; /* the region holds 2^order smallest blocks */
	size_t used;
};

/*
 * Reserves `total` bytes, rounded up to a power of two. -EINVAL if total is 0, -ENOMEM. Memory that
 * is never handed out costs address space only.
 */
int arena_init(struct arena *arena, size_t total);

/* Every block goes. Harmless on an arena that is zeroed or already destroyed. */
void arena_destroy(struct arena *arena);

/* `size` zeroed bytes, or NULL when no free block is large enough. Size 0 takes one smallest. */
void *arena_get(struct arena *arena, size_t size);

/* Takes back a block; `size` is the size it was got with. */
void arena_put(struct arena *arena, void *block, size_t size);

/* Bytes in blocks handed out, rounding included. */
static inline size_t arena_used(const struct arena *arena)
{
	return arena->used;
}

#endif

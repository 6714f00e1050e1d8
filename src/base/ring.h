/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.h: the index arithmetic of a bounded FIFO. The entries are an array of the owner's type beside
 * it:
 *
 *	struct ring ring;
 *	struct event events[64];
 *
 *	if (!ring_full(&ring))
 *		events[ring_push_index(&ring)] = event;
 *
 * Head and tail only count up and are masked when they are used as an index, so that all `capacity`
 * entries are usable and a full ring differs from an empty one. Both wrap at 2^32; their difference
 * stays right.
 */
#ifndef GODWIT_BASE_RING_H
#define GODWIT_BASE_RING_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

struct ring {
	/* entries removed so far */
	uint32_t head;
	/* entries added so far */
	uint32_t tail;
	/* capacity - 1 */
	uint32_t mask;
};

/* The capacity is a power of two, from 1 to 2^31. */
static inline void ring_init(struct ring *ring, uint32_t capacity)
{
	assert(capacity != 0 && (capacity & (capacity - 1)) == 0);
	ring->head = 0;
	ring->tail = 0;
	ring->mask = capacity - 1;
}

static inline uint32_t ring_count(const struct ring *ring)
{
	return ring->tail - ring->head;
}

static inline bool ring_empty(const struct ring *ring)
{
	return ring->head == ring->tail;
}

static inline bool ring_full(const struct ring *ring)
{
	return ring_count(ring) > ring->mask;
}

/* Adds an entry and returns its index; the ring must not be full. */
static inline uint32_t ring_push_index(struct ring *ring)
{
	assert(!ring_full(ring));
	return ring->tail++ & ring->mask;
}

/* Returns the index of the oldest entry; the ring must not be empty. */
static inline uint32_t ring_peek_index(const struct ring *ring)
{
	assert(!ring_empty(ring));
	return ring->head & ring->mask;
}

/* Removes the oldest entry and returns its index: read it before the next push. */
static inline uint32_t ring_pop_index(struct ring *ring)
{
	assert(!ring_empty(ring));
	return ring->head++ & ring->mask;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index arithmetic of a bounded FIFO; the storage is a typed array that the owner keeps beside
 *it:
 *
 *	struct ring ring;
 *	struct event events[64];
 *
 *	if (!ring_full(&ring))
 *		events[ring_push_index(&ring)] = event;
 *
 * Head and tail count up for ever and are masked only when they become an index, so all `capacity`
 * places are usable and full differs from empty. The counters may wrap: their difference stays
 *right.
 */
#ifndef GODWIT_BASE_RING_H
#define GODWIT_BASE_RING_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

struct ring {
	uint32_t head; /* taken out so far */
	uint32_t tail; /* put in so far */
	uint32_t mask; /* capacity - 1 */
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

/* Takes the next free place; the ring must not be full. */
static inline uint32_t ring_push_index(struct ring *ring)
{
	assert(!ring_full(ring));
	return ring->tail++ & ring->mask;
}

/* The place of the oldest entry, which stays; the ring must not be empty. */
static inline uint32_t ring_peek_index(const struct ring *ring)
{
	assert(!ring_empty(ring));
	return ring->head & ring->mask;
}

/* The place of the oldest entry, which leaves: read it before the next push. */
static inline uint32_t ring_pop_index(struct ring *ring)
{
	assert(!ring_empty(ring));
	return ring->head++ & ring->mask;
}

#endif

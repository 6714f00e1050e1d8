/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.h: a fixed number of objects of one size, taken and returned in constant time, allocated once.
 *
 * The pool knows which of its objects are in use (live), so that a handle from a caller or from the
 * network can be checked before it is dereferenced.
 */
#ifndef GODWIT_BASE_POOL_H
#define GODWIT_BASE_POOL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bitmap.h"

/* Bytes in a cache line: two objects never share one. */
#define POOL_ALIGNMENT 64

struct pool {
	/* the one block of memory that holds everything below */
	void *allocation;
	/* bytes of `allocation` if it was mapped, 0 if it is from malloc() */
	size_t mapped;
	unsigned char *objects;
	/* one bit for each object: set while it is in use */
	uint64_t *live;
	/* for each object in the free list, the index of the next one */
	uint32_t *next;
	/* bytes from one object to the next */
	size_t stride;
	/* 2^32 divided by the stride in cache lines, rounded up */
	uint64_t inverse;
	/* objects in the pool */
	uint32_t count;
	/* objects in use */
	uint32_t used;
	/* index of the first object that was never used; all later ones were not either */
	uint32_t fresh;
	/* index of the first object in the free list */
	uint32_t free;
};

/* Returns 0, -EINVAL if count or size is 0, or -ENOMEM. Touches none of the objects' memory. */
int pool_init(struct pool *pool, size_t object_size, uint32_t count);

/* Frees all objects, live or not. Does nothing on a zeroed or destroyed pool. */
void pool_destroy(struct pool *pool);

/* Returns a zeroed object, aligned to POOL_ALIGNMENT; NULL when all are in use. */
void *pool_get(struct pool *pool);

/* Returns a live object to the pool. pool_get() reuses the last one returned first, because it is
 * likely still in the cache. */
void pool_put(struct pool *pool, void *object);

/* Divides an offset within the pool by the stride, without a division, of which a packet's way would have dozens. It is exact
 * where the offset is a multiple: the product is then too large by less than offset / 2^32 lines, which is less than 1. */
static inline uint64_t pool_index_at(const struct pool *pool, uint64_t offset)
{
	return offset / POOL_ALIGNMENT * pool->inverse >> 32;
}

/* True if the pointer is the start of a live object of this pool. Any pointer may be passed. A small message asks this some
 * seventy times, so that it is inline. */
static inline bool pool_owns_live(const struct pool *pool, const void *pointer)
{
	/* As integers, because subtracting unrelated pointers is undefined. A pointer below the
	 * pool wraps to a large offset. */
	uintptr_t offset = (uintptr_t)pointer - (uintptr_t)pool->objects;
	uint64_t index;

	if (offset >= pool->stride * pool->count)
		return false;
	index = pool_index_at(pool, offset);
	return index * pool->stride == offset && bitmap_test(pool->live, index);
}

/* Convert between an object, live or not, and its index from 0 to count - 1, which never changes. */
uint32_t pool_index(const struct pool *pool, const void *object);

static inline void *pool_at(const struct pool *pool, uint32_t index)
{
	assert(index < pool->count);
	return pool->objects + index * pool->stride;
}

static inline uint32_t pool_used(const struct pool *pool)
{
	return pool->used;
}

#endif

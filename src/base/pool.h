/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fixed number of equal objects, got and put back in constant time and never allocated again.
 *
 * The pool knows which of its objects are live, so a handle that came back from a caller or from
 * the network can be checked before it is followed.
 */
#ifndef GODWIT_BASE_POOL_H
#define GODWIT_BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POOL_ALIGNMENT 64 /* a cache line: neighbours never share one */

struct pool {
	void *allocation;
	unsigned char *objects;
	uint64_t *live; /* a bit an object */
	uint32_t *next; /* the free list, by index */
	size_t stride;
	uint32_t count;
	uint32_t used;
	uint32_t fresh; /* objects from here on were never handed out */
	uint32_t free;	/* head of the free list */
};

/* -EINVAL for an empty pool or empty objects, -ENOMEM. Memory is first touched when first used. */
int pool_init(struct pool *pool, size_t object_size, uint32_t count);

/* Every object goes, live or not. Harmless on a pool that is zeroed or already destroyed. */
void pool_destroy(struct pool *pool);

/* A zeroed object, aligned to POOL_ALIGNMENT; NULL when all are in use. */
void *pool_get(struct pool *pool);

/* The object must be a live one of this pool. The most recently put is the next to be got: it is
 * warm. */
void pool_put(struct pool *pool, void *object);

/* True if the pointer is exactly a live object of this pool. Any pointer may be asked about. */
bool pool_owns_live(const struct pool *pool, const void *pointer);

/* Objects have indices from 0 to count - 1, the same for the life of the pool, live or not. */
uint32_t pool_index(const struct pool *pool, const void *object);
void *pool_at(const struct pool *pool, uint32_t index);

static inline uint32_t pool_used(const struct pool *pool)
{
	return pool->used;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.c: one allocation holds, in this order, one bit for each object (live or not), one index for
 * each object (the free list), and the objects, at multiples of a cache line.
 *
 * The free list is a stack in the index array and not in the objects, so that a write to a freed
 * object cannot corrupt it. Objects that were never used are not in the list; they are all those from
 * index `fresh` on. So creating a pool touches none of their memory: only the bits are cleared.
 */
#include "base/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NO_INDEX UINT32_MAX
/* Bytes from which on a pool is mapped. malloc() would map it too, but then AddressSanitizer marks the whole of it when it is
 * freed, and MALLOC_PERTURB_ writes to it: 60 ms for the payloads of a simulated network, the only pool of this size. */
#define MAPPED_LEAST ((size_t)16 << 20)

static size_t round_up(size_t size)
{
	return (size + POOL_ALIGNMENT - 1) & ~(size_t)(POOL_ALIGNMENT - 1);
}

/* Returns `size` bytes, of which none was touched; NULL if there is no memory. */
static void *allocate(size_t size)
{
	void *memory;

	if (size < MAPPED_LEAST)
		return malloc(size);
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

int pool_init(struct pool *pool, size_t object_size, uint32_t count)
{
	size_t live_size, next_size, objects_size, total;
	size_t stride = round_up(object_size);
	unsigned char *start;
	void *allocation;

	if (object_size == 0 || count == 0)
		return -EINVAL;
	live_size = round_up(bitmap_words(count) * sizeof(uint64_t));
	next_size = round_up(count * sizeof(uint32_t));
	if (stride < object_size || __builtin_mul_overflow(stride, count, &objects_size) ||
	    objects_size / POOL_ALIGNMENT > UINT32_MAX ||
	    __builtin_add_overflow(objects_size, live_size + next_size + POOL_ALIGNMENT, &total))
		return -ENOMEM;
	allocation = allocate(total);
	if (!allocation)
		return -ENOMEM;

	start = (unsigned char *)allocation;
	start += -(uintptr_t)start & (POOL_ALIGNMENT - 1);
	memset(start, 0, live_size);
	*pool = (struct pool){
		.allocation = allocation,
		.mapped = total < MAPPED_LEAST ? 0 : total,
		.live = (uint64_t *)start,
		.next = (uint32_t *)(start + live_size),
		.objects = start + live_size + next_size,
		.stride = stride,
		.inverse = ((UINT64_C(1) << 32) + stride / POOL_ALIGNMENT - 1) /
			   (stride / POOL_ALIGNMENT),
		.count = count,
		.free = NO_INDEX,
	};
	return 0;
}

void pool_destroy(struct pool *pool)
{
	if (pool->mapped)
		munmap(pool->allocation, pool->mapped);
	else
		free(pool->allocation);
	*pool = (struct pool){ .free = NO_INDEX };
}

void *pool_get(struct pool *pool)
{
	uint32_t index = pool->free;
	void *object;

	if (pool->used == pool->count)
		return NULL;
	if (index != NO_INDEX)
		pool->free = pool->next[index];
	else
		index = pool->fresh++;
	pool->used++;
	bitmap_set(pool->live, index);
	object = pool_at(pool, index);
	return memset(object, 0, pool->stride);
}

void pool_put(struct pool *pool, void *object)
{
	uint32_t index;

	assert(pool_owns_live(pool, object));
	index = pool_index(pool, object);
	bitmap_clear(pool->live, index);
	pool->next[index] = pool->free;
	pool->free = index;
	pool->used--;
}

uint32_t pool_index(const struct pool *pool, const void *object)
{
	size_t offset = (size_t)((const unsigned char *)object - pool->objects);
	uint64_t index = pool_index_at(pool, offset);

	assert(offset < pool->stride * pool->count && index * pool->stride == offset);
	return (uint32_t)index;
}

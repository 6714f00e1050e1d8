/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arena.c: a binary buddy allocator. Its state is one complete binary tree, kept outside the memory it
 * manages: an overrun of a block damages data, not the allocator.
 *
 * Node 1 is the whole region, nodes 2n and 2n + 1 are the halves of node n, the leaves are blocks
 * of 64 bytes. A node of order k (2^k leaves under it) stores in lack[] how much smaller its largest
 * free block is than the node itself: 0 if all of it is free, j if the largest free block under it has
 * order k - j, k + 1 if there is none. Two things follow. A tree of zeros is an empty arena, so tree
 * pages are touched only where blocks are allocated. And a node follows from its two children: 0 if
 * both are 0, otherwise 1 + the smaller. Merging buddies is this rule alone.
 *
 * Invariant: under a node that is free or allocated as one block, every node stores 0.
 */
#include "base/arena.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

/* The largest order whose memory and tree together fit a size_t. */
#define LARGEST_ORDER (sizeof(size_t) * 8 - 1 - 6)

static size_t order_size(unsigned int order)
{
	return (size_t)ARENA_SMALLEST_BLOCK << order;
}

/* Order of the smallest block that holds `size` bytes; LARGEST_ORDER + 1 if there is none. */
static unsigned int order_for(size_t size)
{
	unsigned int order = 0;

	while (order <= LARGEST_ORDER && order_size(order) < size)
		order++;
	return order;
}

/* Bytes of the tree: one for each node (node 0 is unused), and enough to keep the memory behind it
 * aligned. */
static size_t tree_size(unsigned int order)
{
	size_t nodes = (size_t)2 << order;

	return nodes > ARENA_SMALLEST_BLOCK ? nodes : ARENA_SMALLEST_BLOCK;
}

int arena_init(struct arena *arena, size_t total)
{
	unsigned int order = order_for(total);
	unsigned char *mapping;

	if (total == 0)
		return -EINVAL;
	if (order > LARGEST_ORDER)
		return -ENOMEM;
	/* The tree is below the memory, because overruns run upwards. */
	mapping = mmap(NULL, tree_size(order) + order_size(order), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mapping == MAP_FAILED)
		return -ENOMEM;
	*arena = (struct arena){
		.memory = mapping + tree_size(order),
		.lack = mapping,
		.order = order,
	};
	return 0;
}

void arena_destroy(struct arena *arena)
{
	if (arena->lack)
		munmap(arena->lack, tree_size(arena->order) + order_size(arena->order));
	*arena = (struct arena){ 0 };
}

/* True if a free block of `order` lies under the node. */
static bool fits(const struct arena *arena, size_t node, unsigned int node_order,
		 unsigned int order)
{
	return arena->lack[node] + order <= node_order;
}

/* Recomputes every node between this one and the root from its children. */
static void update_ancestors(struct arena *arena, size_t node)
{
	for (node /= 2; node >= 1; node /= 2) {
		uint8_t left = arena->lack[2 * node];
		uint8_t right = arena->lack[2 * node + 1];
		uint8_t least = left < right ? left : right;

		arena->lack[node] = (left | right) == 0 ? 0 : (uint8_t)(least + 1);
	}
}

void *arena_get(struct arena *arena, size_t size)
{
	unsigned int order = order_for(size);
	unsigned int level = arena->order;
	size_t node = 1;
	size_t offset;

	if (order > arena->order || !fits(arena, node, level, order))
		return NULL;
	while (level > order) {
		size_t left = 2 * node;
		size_t right = left + 1;

		level--;
		/* Choose the half with the smaller largest free block, to keep large blocks
		 * whole; if they are equal, the left half, to keep memory dense. */
		if (!fits(arena, left, level, order))
			node = right;
		else if (fits(arena, right, level, order) && arena->lack[right] > arena->lack[left])
			node = right;
		else
			node = left;
	}
	assert(arena->lack[node] == 0);
	arena->lack[node] = (uint8_t)(order + 1);
	update_ancestors(arena, node);
	arena->used += order_size(order);

	offset = (node - ((size_t)1 << (arena->order - order))) * order_size(order);
	return memset(arena->memory + offset, 0, size);
}

void arena_put(struct arena *arena, void *block, size_t size)
{
	size_t offset = (size_t)((unsigned char *)block - arena->memory);
	unsigned int order = order_for(size);
	size_t node;

	assert(order <= arena->order && offset < order_size(arena->order));
	assert(offset % order_size(order) == 0);
	node = ((size_t)1 << (arena->order - order)) + offset / order_size(order);
	/* The node is full, and its children are free: this block itself was allocated. */
	assert(arena->lack[node] == order + 1);
	assert(order == 0 || (arena->lack[2 * node] | arena->lack[2 * node + 1]) == 0);
	arena->lack[node] = 0;
	update_ancestors(arena, node);
	arena->used -= order_size(order);
}

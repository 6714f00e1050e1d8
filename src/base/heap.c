/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A 4-ary min-heap over an array of pointers; each node knows its place, so that any timer can be
 * moved or cancelled in logarithmic time.
 *
 * The children of index i are 4i + 1 to 4i + 4. Timers are mostly re-armed to later and cancelled,
 * so many sink and few reach the top: four children halve the depth, and the pointers to them share
 * a cache line or two.
 */
#include "base/heap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define CHILDREN 4

void heap_init(struct heap *heap)
{
	*heap = (struct heap){ 0 };
}

void heap_destroy(struct heap *heap)
{
	free(heap->nodes);
	heap_init(heap);
}

int heap_reserve(struct heap *heap, size_t capacity)
{
	struct heap_node **nodes;

	if (capacity <= heap->capacity)
		return 0;
	if (capacity > SIZE_MAX / sizeof(struct heap_node *))
		return -ENOMEM;
	nodes = realloc(heap->nodes, capacity * sizeof(struct heap_node *));
	if (!nodes)
		return -ENOMEM;
	heap->nodes = nodes;
	heap->capacity = capacity;
	return 0;
}

static bool before(const struct heap_node *a, const struct heap_node *b)
{
	if (a->key != b->key)
		return a->key < b->key;
	return a->sequence < b->sequence;
}

static void place(struct heap *heap, struct heap_node *node, size_t index)
{
	heap->nodes[index] = node;
	node->place = index + 1;
}

/* Both move the gap at `index` to where the node belongs, and put the node there. */
static void rise(struct heap *heap, struct heap_node *node, size_t index)
{
	while (index > 0) {
		size_t parent = (index - 1) / CHILDREN;

		if (!before(node, heap->nodes[parent]))
			break;
		place(heap, heap->nodes[parent], index);
		index = parent;
	}
	place(heap, node, index);
}

static void sink(struct heap *heap, struct heap_node *node, size_t index)
{
	for (;;) {
		size_t child = CHILDREN * index + 1;
		size_t end = child + CHILDREN < heap->count ? child + CHILDREN : heap->count;
		size_t least = child;

		if (child >= heap->count)
			break;
		while (++child < end) {
			if (before(heap->nodes[child], heap->nodes[least]))
				least = child;
		}
		if (!before(heap->nodes[least], node))
			break;
		place(heap, heap->nodes[least], index);
		index = least;
	}
	place(heap, node, index);
}

void heap_insert(struct heap *heap, struct heap_node *node, uint64_t key)
{
	assert(!heap_contains(node));
	assert(heap->count < heap->capacity);
	node->key = key;
	node->sequence = heap->sequence++;
	rise(heap, node, heap->count++);
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
	struct heap_node *last;
	size_t index;

	if (!heap_contains(node))
		return;
	index = node->place - 1;
	assert(index < heap->count && heap->nodes[index] == node);
	node->place = 0;
	last = heap->nodes[--heap->count];
	if (last == node)
		return;
	/* The last node comes from another branch: it may belong above the gap as well as below. */
	if (before(last, node))
		rise(heap, last, index);
	else
		sink(heap, last, index);
}

void heap_update(struct heap *heap, struct heap_node *node, uint64_t key)
{
	heap_remove(heap, node);
	heap_insert(heap, node, key);
}

struct heap_node *heap_min(const struct heap *heap)
{
	return heap->count ? heap->nodes[0] : NULL;
}

struct heap_node *heap_pop(struct heap *heap)
{
	struct heap_node *node = heap_min(heap);

	if (node)
		heap_remove(heap, node);
	return node;
}

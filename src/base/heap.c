/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap.c: a 4-ary min-heap in an array. Each node stores its index, so that any timer can be moved or
 * cancelled in logarithmic time.
 *
 * The children of index i are 4i + 1 to 4i + 4. Most timers are moved to a later time or cancelled
 * and never reach the top. Four children instead of two halve the depth, and their entries share one
 * or two cache lines.
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
	free(heap->entries);
	heap_init(heap);
}

int heap_reserve(struct heap *heap, size_t capacity)
{
	struct heap_entry *entries;

	if (capacity <= heap->capacity)
		return 0;
	if (capacity > SIZE_MAX / sizeof(*entries))
		return -ENOMEM;
	entries = realloc(heap->entries, capacity * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	heap->entries = entries;
	heap->capacity = capacity;
	return 0;
}

static bool before(const struct heap_entry *a, const struct heap_entry *b)
{
	if (a->key != b->key)
		return a->key < b->key;
	return a->sequence < b->sequence;
}

static void place(struct heap *heap, const struct heap_entry *entry, size_t index)
{
	heap->entries[index] = *entry;
	entry->node->place = index + 1;
}

/* Moves entries that come later down from `index` on, then puts the entry into the gap. */
static void rise(struct heap *heap, const struct heap_entry *entry, size_t index)
{
	while (index > 0) {
		size_t parent = (index - 1) / CHILDREN;

		if (!before(entry, &heap->entries[parent]))
			break;
		place(heap, &heap->entries[parent], index);
		index = parent;
	}
	place(heap, entry, index);
}

/* Moves entries that come earlier up from `index` on, then puts the entry into the gap. */
static void sink(struct heap *heap, const struct heap_entry *entry, size_t index)
{
	for (;;) {
		size_t child = CHILDREN * index + 1;
		size_t end = child + CHILDREN < heap->count ? child + CHILDREN : heap->count;
		size_t least = child;

		if (child >= heap->count)
			break;
		while (++child < end) {
			if (before(&heap->entries[child], &heap->entries[least]))
				least = child;
		}
		if (!before(&heap->entries[least], entry))
			break;
		place(heap, &heap->entries[least], index);
		index = least;
	}
	place(heap, entry, index);
}

void heap_insert(struct heap *heap, struct heap_node *node, uint64_t key)
{
	struct heap_entry entry = { key, heap->sequence++, node };

	assert(!heap_contains(node));
	assert(heap->count < heap->capacity);
	node->key = key;
	rise(heap, &entry, heap->count++);
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
	struct heap_entry last, gone;
	size_t index;

	if (!heap_contains(node))
		return;
	index = node->place - 1;
	assert(index < heap->count && heap->entries[index].node == node);
	node->place = 0;
	gone = heap->entries[index];
	last = heap->entries[--heap->count];
	if (last.node == node)
		return;
	/* The last node comes from another branch, so it may belong above the gap or below it. */
	if (before(&last, &gone))
		rise(heap, &last, index);
	else
		sink(heap, &last, index);
}

void heap_update(struct heap *heap, struct heap_node *node, uint64_t key)
{
	struct heap_entry entry = { key, heap->sequence, node };
	size_t index = node->place - 1;
	bool later;

	if (!heap_contains(node)) {
		heap_insert(heap, node, key);
		return;
	}
	heap->sequence++;
	later = !before(&entry, &heap->entries[index]);
	node->key = key;
	if (later)
		sink(heap, &entry, index);
	else
		rise(heap, &entry, index);
}

struct heap_node *heap_pop(struct heap *heap)
{
	struct heap_node *node = heap_min(heap);

	if (node)
		heap_remove(heap, node);
	return node;
}

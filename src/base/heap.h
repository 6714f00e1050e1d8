/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap.h: a priority queue of timers: the smallest key first, equal keys in the order of insertion.
 * The second rule makes runs repeat exactly, which the simulator relies on.
 *
 * A node is a member of the object it belongs to. A zeroed node is in no heap. heap_reserve()
 * allocates beforehand, so that arming a timer can neither allocate nor fail.
 */
#ifndef GODWIT_BASE_HEAP_H
#define GODWIT_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
	/* a timer's deadline, in ns */
	uint64_t key;
	/* index in the heap's array + 1; 0 while in no heap */
	size_t place;
};

/* An element of the array. It repeats the key, so that a comparison does not have to load the node. */
struct heap_entry {
	uint64_t key;
	/* insertion number; of two equal keys the lower one comes first */
	uint64_t sequence;
	struct heap_node *node;
};

struct heap {
	struct heap_entry *entries;
	/* entries in use */
	size_t count;
	/* entries allocated */
	size_t capacity;
	/* next insertion number */
	uint64_t sequence;
};

void heap_init(struct heap *heap);

/* Frees the array. Nodes still in it are not accessed, because their objects may be freed already. */
void heap_destroy(struct heap *heap);

/* Allocates room for `capacity` nodes in all; never shrinks. Returns 0, or -ENOMEM with the heap
 * unchanged. */
int heap_reserve(struct heap *heap, size_t capacity);

/* Inserts a node. It must be in no heap, and there must be room for it. */
void heap_insert(struct heap *heap, struct heap_node *node, uint64_t key);

/* Removes a node. Does nothing if it is in no heap. */
void heap_remove(struct heap *heap, struct heap_node *node);

/* Inserts the node with this key, after removing it if it was in the heap. It comes last among equal
 * keys. */
void heap_update(struct heap *heap, struct heap_node *node, uint64_t key);

/* Return the node with the smallest key, or NULL if the heap is empty; heap_pop() also removes it. */
static inline struct heap_node *heap_min(const struct heap *heap)
{
	return heap->count ? heap->entries[0].node : NULL;
}

struct heap_node *heap_pop(struct heap *heap);

static inline bool heap_contains(const struct heap_node *node)
{
	return node->place != 0;
}

static inline size_t heap_count(const struct heap *heap)
{
	return heap->count;
}

static inline size_t heap_capacity(const struct heap *heap)
{
	return heap->capacity;
}

#endif

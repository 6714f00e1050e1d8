/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A priority queue of timers: the smallest key first, equal keys in the order they were put in.
 * That second rule makes a run repeat exactly, which the simulator relies on.
 *
 * Nodes live inside the objects they belong to. A zeroed node is in no heap. Room is made
 * beforehand by heap_reserve, so that arming a timer can neither allocate nor fail.
 */
#ifndef GODWIT_BASE_HEAP_H
#define GODWIT_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
	uint64_t key;
	size_t place; /* index in the array + 1; 0 while in no heap */
};

/* The key beside the pointer: comparing nodes must not fetch them. */
struct heap_entry {
	uint64_t key;
	uint64_t sequence; /* of its insertion: the earlier of two equal keys wins */
	struct heap_node *node;
};

struct heap {
	struct heap_entry *entries;
	size_t count;
	size_t capacity;
	uint64_t sequence;
};

void heap_init(struct heap *heap);

/* Frees the array. Nodes still in it are not touched, for their objects may be gone already. */
void heap_destroy(struct heap *heap);

/* Makes room for `capacity` nodes in all; never shrinks. -ENOMEM leaves the heap as it was. */
int heap_reserve(struct heap *heap, size_t capacity);

/* The node must be in no heap, and there must be room for it. */
void heap_insert(struct heap *heap, struct heap_node *node, uint64_t key);

/* Does nothing if the node is in no heap. */
void heap_remove(struct heap *heap, struct heap_node *node);

/* Removes the node if it is in the heap and inserts it with this key: last among its equals. */
void heap_update(struct heap *heap, struct heap_node *node, uint64_t key);

/* The node to come out next, which stays, or comes out. NULL if the heap is empty. */
struct heap_node *heap_min(const struct heap *heap);
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store.h: memory for packets on their way. A buffer holds a packet as it was read; there are two sizes, for a plain packet
 * and for a super-packet. A piece is a single packet in a buffer, as the links see it. Both come from free lists that grow
 * block by block up to a limit, so that any bandwidth-delay product fits without being allocated at the start.
 */
#ifndef LAB_STORE_H
#define LAB_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "packet.h"

struct buffer {
	struct packet packet;
	/* next buffer in a free list */
	struct buffer *next;
	/* from packet_destination() */
	int destination;
	/* path between uplink and downlink */
	unsigned path;
	/* pieces that point to this buffer */
	unsigned references;
	/* it has room for a super-packet */
	bool large;
	uint8_t data[];
};

struct piece {
	/* in the heap of its link, if it overtakes others */
	struct heap_node node;
	/* next piece in the list of its link, or in the free list */
	struct piece *next;
	/* time at which it leaves its link */
	uint64_t at_ns;
	struct buffer *buffer;
	/* segment of the buffer's packet */
	uint16_t index;
	/* it carries a CE mark */
	bool congested;
};

struct store {
	/* bytes of data in a small buffer */
	uint32_t small_size;
	/* bytes allocated, and their limit */
	uint64_t bytes;
	uint64_t limit;
	/* free lists */
	struct buffer *small;
	struct buffer *large;
	struct piece *pieces;
	/* all blocks allocated */
	struct store_block *blocks;
};

void store_init(struct store *store, uint32_t small_size, uint64_t limit);
void store_destroy(struct store *store);

/* Returns a buffer for `length` bytes, without references; NULL when the limit is reached. */
struct buffer *store_buffer(struct store *store, uint32_t length);

/* Frees a buffer without references. */
void store_release(struct store *store, struct buffer *buffer);

/* Returns a piece for segment `index`, which holds a reference to the buffer; NULL when the limit is reached. */
struct piece *store_piece(struct store *store, struct buffer *buffer, unsigned index);

/* Frees a piece, and its buffer if that was the last reference. */
void store_drop(struct store *store, struct piece *piece);

#endif

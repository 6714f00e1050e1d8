/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store.h: memory for what is on its way. Buffers hold packets as they were read, in two sizes: a plain packet and a
 * super-packet. Pieces are the single packets in them that the links see. All come from free lists that grow by a
 * block at a time and up to a limit: a bandwidth-delay product of any size fits without being reserved from the start.
 */
#ifndef LAB_STORE_H
#define LAB_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "packet.h"

struct buffer {
	struct packet packet;
	struct buffer *next; /* in a free list */
	int destination;     /* as packet_destination() says */
	unsigned path;	     /* through the middle */
	unsigned references; /* pieces that point here */
	bool large;
	uint8_t data[];
};

struct piece {
	struct heap_node node; /* when it overtakes others */
	struct piece *next;
	uint64_t at_ns; /* when it leaves its link */
	struct buffer *buffer;
	uint16_t index; /* which segment */
	bool congested; /* carries a mark */
};

struct store {
	uint32_t small_size;
	uint64_t bytes;
	uint64_t limit;
	struct buffer *small;
	struct buffer *large;
	struct piece *pieces;
	struct store_block *blocks;
};

void store_init(struct store *store, uint32_t small_size, uint64_t limit);
void store_destroy(struct store *store);

/* Room for `length` bytes, with no references. NULL when the limit is reached. */
struct buffer *store_buffer(struct store *store, uint32_t length);

/* A buffer without references goes back. */
void store_release(struct store *store, struct buffer *buffer);

/* A piece of the buffer, which then holds a reference to it. NULL when the limit is reached. */
struct piece *store_piece(struct store *store, struct buffer *buffer, unsigned index);

/* Takes its reference back, and the buffer with the last of them. */
void store_drop(struct store *store, struct piece *piece);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* store.c: free lists over blocks from malloc. What was freed last is reused first, because it is likely in the cache. */
#include "store.h"

#include <assert.h>
#include <stdlib.h>

#define BLOCK_BYTES (UINT32_C(1) << 20)
#define ALIGNMENT   64

struct store_block {
	struct store_block *next;
};

void store_init(struct store *store, uint32_t small_size, uint64_t limit)
{
	*store = (struct store){ .small_size = small_size, .limit = limit };
}

void store_destroy(struct store *store)
{
	while (store->blocks) {
		struct store_block *block = store->blocks;

		store->blocks = block->next;
		free(block);
	}
}

static uint32_t aligned(size_t size)
{
	return (uint32_t)((size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1));
}

/* Allocates a block; returns the start of its objects, ALIGNMENT bytes into it, or NULL at the limit. */
static uint8_t *grow(struct store *store)
{
	struct store_block *block;

	if (store->bytes + BLOCK_BYTES > store->limit)
		return NULL;
	block = aligned_alloc(ALIGNMENT, BLOCK_BYTES);
	if (!block)
		return NULL;
	store->bytes += BLOCK_BYTES;
	block->next = store->blocks;
	store->blocks = block;
	return (uint8_t *)block + ALIGNMENT;
}

struct buffer *store_buffer(struct store *store, uint32_t length)
{
	bool large = length > store->small_size;
	struct buffer **list = large ? &store->large : &store->small, *buffer;

	if (!*list) {
		uint32_t size = aligned(sizeof(struct buffer) +
					(large ? PACKET_SIZE_MAX : store->small_size));
		uint8_t *block = grow(store);

		for (uint32_t at = 0; block && at + size <= BLOCK_BYTES - ALIGNMENT; at += size) {
			buffer = (struct buffer *)(block + at);
			buffer->large = large;
			buffer->next = *list;
			*list = buffer;
		}
	}
	buffer = *list;
	if (!buffer)
		return NULL;
	*list = buffer->next;
	buffer->references = 0;
	return buffer;
}

void store_release(struct store *store, struct buffer *buffer)
{
	struct buffer **list = buffer->large ? &store->large : &store->small;

	assert(buffer->references == 0);
	buffer->next = *list;
	*list = buffer;
}

struct piece *store_piece(struct store *store, struct buffer *buffer, unsigned index)
{
	struct piece *piece;

	if (!store->pieces) {
		uint32_t size = aligned(sizeof(struct piece));
		uint8_t *block = grow(store);

		for (uint32_t at = 0; block && at + size <= BLOCK_BYTES - ALIGNMENT; at += size) {
			piece = (struct piece *)(block + at);
			piece->next = store->pieces;
			store->pieces = piece;
		}
	}
	piece = store->pieces;
	if (!piece)
		return NULL;
	store->pieces = piece->next;
	*piece = (struct piece){ .buffer = buffer, .index = (uint16_t)index };
	buffer->references++;
	return piece;
}

void store_drop(struct store *store, struct piece *piece)
{
	struct buffer *buffer = piece->buffer;

	if (--buffer->references == 0)
		store_release(store, buffer);
	piece->next = store->pieces;
	store->pieces = piece;
}

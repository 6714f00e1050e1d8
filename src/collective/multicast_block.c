/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets, groups and parity of what is multicast. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collective/multicast_block.h"

/* In `held`: nothing, the packet itself, or this plus the number of a parity row. */
#define HELD_NONE 0
#define HELD_DATA 1
#define HELD_ROW  2

/* Rows with tables: more of them are seldom asked of one group at once. */
#define ROWS_READY 8

int coder_open(struct coder *coder, uint32_t payload)
{
	int error = rs_create(BLOCK_GROUP, ROWS_READY, &coder->rs);

	if (error)
		return error;
	coder->payload = payload;
	coder->rows = malloc((size_t)BLOCK_ROWS * payload);
	if (!coder->rows) {
		rs_destroy(coder->rs);
		coder->rs = NULL;
		return -ENOMEM;
	}
	return 0;
}

void coder_close(struct coder *coder)
{
	if (coder->rs)
		rs_destroy(coder->rs);
	free(coder->rows);
	*coder = (struct coder){ .rs = NULL };
}

uint32_t block_group_packets(const struct block *block, uint32_t group)
{
	uint32_t first = group * BLOCK_GROUP;

	return block->packets - first < BLOCK_GROUP ? block->packets - first : BLOCK_GROUP;
}

uint64_t block_offset(const struct block *block, uint32_t group)
{
	return group < block->groups ? (uint64_t)group * BLOCK_GROUP * block->payload
				     : block->bytes;
}

static uint32_t packet_bytes(const struct block *block, uint32_t packet)
{
	uint64_t left = block->bytes - (uint64_t)packet * block->payload;

	return left < block->payload ? (uint32_t)left : block->payload;
}

uint32_t block_symbol_bytes(const struct block *block, uint32_t group, uint32_t symbol)
{
	/* Rows are as long as the longest packet of their group. */
	return packet_bytes(block, group * BLOCK_GROUP + (symbol < BLOCK_GROUP ? symbol : 0));
}

int block_init(struct block *block, void *data, uint64_t bytes, uint32_t payload, bool sends)
{
	uint32_t packets = (uint32_t)((bytes + payload - 1) / payload);
	uint32_t groups = (packets + BLOCK_GROUP - 1) / BLOCK_GROUP;

	*block = (struct block){ .data = data,
				 .bytes = bytes,
				 .payload = payload,
				 .packets = packets,
				 .groups = groups,
				 .groups_left = sends ? 0 : groups,
				 .lacking = sends ? 0 : packets };
	if (sends) {
		block->repairs = calloc(groups + 1, sizeof(*block->repairs));
		block->deficit = calloc(groups + 1, 1);
		return block->repairs && block->deficit ? 0 : -ENOMEM;
	}
	block->held = calloc(packets + 1, 1);
	block->deficit = malloc(groups + 1);
	block->tail = malloc(payload);
	if (!block->held || !block->deficit || !block->tail)
		return -ENOMEM;
	for (uint32_t g = 0; g < groups; g++)
		block->deficit[g] = (uint8_t)block_group_packets(block, g);
	return 0;
}

void block_free(struct block *block)
{
	free(block->held);
	free(block->deficit);
	free(block->tail);
	free(block->repairs);
	*block = (struct block){ .data = NULL };
}

static uint8_t *packet_at(const struct block *block, uint32_t packet)
{
	return block->data + (uint64_t)packet * block->payload;
}

/* Where a row is kept that stands in for a packet. */
static uint8_t *room_at(const struct block *block, uint32_t group, uint32_t index)
{
	uint32_t packet = group * BLOCK_GROUP + index;

	return packet_bytes(block, packet) < block_symbol_bytes(block, group, BLOCK_GROUP)
		       ? block->tail
		       : packet_at(block, packet);
}

static struct coding_group coding(const struct block *block, uint32_t group)
{
	uint32_t count = block_group_packets(block, group);

	return (struct coding_group){ .count = count,
				      .length = block_symbol_bytes(block, group, BLOCK_GROUP),
				      .last = block_symbol_bytes(block, group, count - 1) };
}

static void decode(struct block *block, struct coder *coder, uint32_t group)
{
	struct coding_group shape = coding(block, group);
	uint8_t *held = block->held + (size_t)group * BLOCK_GROUP;
	uint8_t erased[BLOCK_GROUP], rows[BLOCK_GROUP];
	const void *parity[BLOCK_GROUP];
	void *data[BLOCK_GROUP];
	unsigned erasures = 0;

	for (unsigned i = 0; i < shape.count; i++) {
		data[i] = packet_at(block, group * BLOCK_GROUP + i);
		if (held[i] == HELD_DATA)
			continue;
		erased[erasures] = (uint8_t)i;
		rows[erasures] = (uint8_t)(held[i] - HELD_ROW);
		parity[erasures] = memcpy(coder->rows + (size_t)erasures * block->payload,
					  room_at(block, group, i), shape.length);
		erasures++;
	}
	if (erasures)
		rs_decode(coder->rs, &shape, data, erased, erasures, rows, parity);
}

static uint32_t find(const uint8_t *held, uint32_t count, uint8_t what)
{
	const uint8_t *at = memchr(held, what, count);

	return at ? (uint32_t)(at - held) : count;
}

void block_fill(struct block *block, uint32_t group)
{
	block->lacking -= block->deficit[group];
	block->deficit[group] = 0;
	memset(block->held + (size_t)group * BLOCK_GROUP, HELD_DATA,
	       block_group_packets(block, group));
	block->groups_left--;
}

enum block_taken block_put(struct block *block, struct coder *coder, uint32_t group,
			   uint32_t symbol, const void *bytes, uint32_t length)
{
	uint32_t count, place;
	uint8_t *held, what;

	if (group >= block->groups || symbol >= BLOCK_GROUP + BLOCK_ROWS)
		return BLOCK_BAD;
	count = block_group_packets(block, group);
	if ((symbol < BLOCK_GROUP && symbol >= count) ||
	    length != block_symbol_bytes(block, group, symbol))
		return BLOCK_BAD;
	if (!block->deficit[group])
		return BLOCK_KNOWN;
	held = block->held + (size_t)group * BLOCK_GROUP;
	what = symbol < BLOCK_GROUP ? HELD_DATA : (uint8_t)(HELD_ROW + symbol - BLOCK_GROUP);
	if (symbol < BLOCK_GROUP ? held[symbol] == HELD_DATA : find(held, count, what) < count)
		return BLOCK_KNOWN;
	/* There is a hole, as the group lacks something. */
	place = find(held, count, HELD_NONE);
	if (symbol < BLOCK_GROUP) {
		if (held[symbol] != HELD_NONE) {
			/* A row is in the packet's place: it moves. */
			memcpy(room_at(block, group, place), room_at(block, group, symbol),
			       block_symbol_bytes(block, group, BLOCK_GROUP));
			held[place] = held[symbol];
		}
		held[symbol] = HELD_DATA;
		memcpy(packet_at(block, group * BLOCK_GROUP + symbol), bytes, length);
	} else {
		held[place] = what;
		memcpy(room_at(block, group, place), bytes, length);
	}
	block->lacking--;
	if (--block->deficit[group])
		return BLOCK_TAKEN;
	decode(block, coder, group);
	block->groups_left--;
	return BLOCK_WHOLE;
}

uint32_t block_repair(struct block *block, uint32_t group)
{
	uint32_t count = block_group_packets(block, group);
	uint32_t step = block->repairs[group]++ % (BLOCK_ROWS + count);

	return step < BLOCK_ROWS ? BLOCK_GROUP + step : step - BLOCK_ROWS;
}

void block_symbol(const struct block *block, struct coder *coder, uint32_t group, uint32_t symbol,
		  void *out)
{
	struct coding_group shape = coding(block, group);
	const void *data[BLOCK_GROUP];

	if (symbol < BLOCK_GROUP) {
		memcpy(out, packet_at(block, group * BLOCK_GROUP + symbol),
		       block_symbol_bytes(block, group, symbol));
		return;
	}
	for (unsigned i = 0; i < shape.count; i++)
		data[i] = packet_at(block, group * BLOCK_GROUP + i);
	rs_encode(coder->rs, &shape, data, symbol - BLOCK_GROUP, 1, &out);
}

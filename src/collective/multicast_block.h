/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * multicast_block.h: the data that one rank multicasts, as packets in coded groups, at its sender and at its receivers. Pure
 * functions on memory.
 *
 * A block is cut into packets, and these into groups of 128. Symbol s of a group is its data packet s, or parity row s - 128.
 * Any as many symbols as the group has data packets give the data, so that one parity packet mends different holes at
 * different receivers. A receiver keeps a parity row where a packet is missing in the caller's own buffer: a group never needs
 * more rows than it has holes, and no memory is set aside for parity. When rows and packets suffice, the rows are copied out
 * and decoded.
 */
#ifndef COLLECTIVE_MULTICAST_BLOCK_H
#define COLLECTIVE_MULTICAST_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "coding/reed_solomon.h"

/* Data packets of a group, and parity rows that it can have. */
#define BLOCK_GROUP 128
#define BLOCK_ROWS  127

/* What is needed to code, shared by all blocks of one packet size. */
struct coder {
	struct rs *rs;
	/* room for the rows of one group */
	uint8_t *rows;
	uint32_t payload;
};

int coder_open(struct coder *coder, uint32_t payload);
void coder_close(struct coder *coder);

struct block {
	uint8_t *data;
	uint64_t bytes;
	/* bytes of data in each packet but the last */
	uint32_t payload;
	uint32_t packets;
	uint32_t groups;
	/* groups that are not whole, and symbols that all of them together lack */
	uint32_t groups_left;
	uint32_t lacking;
	/* for each packet what is in its place: nothing, itself, or a parity row */
	uint8_t *held;
	/* for each group the symbols that it lacks */
	uint8_t *deficit;
	/* parity row kept for the last packet, whose place is too short */
	uint8_t *tail;
	/* for each group the repair symbols that were sent; at the sender only */
	uint32_t *repairs;
};

enum block_taken {
	/* not a symbol of this block, or one of the wrong length */
	BLOCK_BAD,
	/* had it, or can do without it */
	BLOCK_KNOWN,
	BLOCK_TAKEN,
	/* taken, and its group is whole */
	BLOCK_WHOLE,
};

/* Prepares a block that has everything (`sends`), or nothing. -ENOMEM */
int block_init(struct block *block, void *data, uint64_t bytes, uint32_t payload, bool sends);
void block_free(struct block *block);

/* Packets of a group, and bytes of a symbol. */
uint32_t block_group_packets(const struct block *block, uint32_t group);
uint32_t block_symbol_bytes(const struct block *block, uint32_t group, uint32_t symbol);
/* Place of a group in the data: its bytes are those up to the next group's place. */
uint64_t block_offset(const struct block *block, uint32_t group);

/* Takes a symbol that arrived. */
enum block_taken block_put(struct block *block, struct coder *coder, uint32_t group,
			   uint32_t symbol, const void *bytes, uint32_t length);
/* The whole group came by another way. */
void block_fill(struct block *block, uint32_t group);

/* Symbol to send next when a group is to be repaired: fresh rows, then the data again, then the rows again. */
uint32_t block_repair(struct block *block, uint32_t group);

/* Writes a symbol to be sent. */
void block_symbol(const struct block *block, struct coder *coder, uint32_t group, uint32_t symbol,
		  void *out);

#endif

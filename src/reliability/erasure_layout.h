/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * erasure_layout.h: which packets belong together, and where their parity goes.
 *
 * Groups are dealt out in stripes of `depth`: packet o of a stripe belongs to group o mod depth, so that a burst of losses
 * is shared out evenly. A stripe's parity follows stripe by stripe, row by row, in the order in which it is sent; rows that
 * were asked for later come behind all of that. The last stripe is dealt to as many groups as it needs.
 */
#ifndef RELIABILITY_ERASURE_LAYOUT_H
#define RELIABILITY_ERASURE_LAYOUT_H

#include "coding/group.h"

struct erasure_layout {
	/* bytes of the message */
	uint64_t length;
	uint32_t payload;
	uint32_t packets;
	uint32_t groups;
	uint32_t stripes;
	uint32_t k;
	uint32_t m;
	uint32_t rows;
	uint32_t depth;
	/* enum gw_code */
	uint32_t code;
};

/* k, m, rows and depth are set; the rest follows. */
void layout_cut(struct erasure_layout *layout, uint64_t length, uint32_t payload);

/* Groups of a stripe, and the first of them. */
uint32_t layout_width(const struct erasure_layout *layout, uint32_t stripe);

/* A group's shape, and the packet that is its data symbol i. */
void layout_group(const struct erasure_layout *layout, uint32_t group, struct coding_group *out);
uint32_t layout_data(const struct erasure_layout *layout, uint32_t group, uint32_t i);

/* The packet of the parity message that is row r of a group. */
uint32_t layout_parity(const struct erasure_layout *layout, uint32_t group, uint32_t row);

/* How long the parity message must be, whatever size up to `payload` packets turn out to have. */
uint64_t layout_parity_bytes(uint64_t length, uint32_t payload, uint32_t k, uint32_t rows);

/* The most rows whose parity message is no longer than `bytes`. */
uint64_t layout_rows_within(uint64_t bytes, uint64_t length, uint32_t payload, uint32_t k);

#endif

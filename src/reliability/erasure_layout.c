/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups and stripes: arithmetic only. */
#include "erasure_layout.h"

void layout_cut(struct erasure_layout *layout, uint64_t length, uint32_t payload)
{
	layout->length = length;
	layout->payload = payload;
	layout->packets = (uint32_t)((length + payload - 1) / payload);
	layout->groups = (layout->packets + layout->k - 1) / layout->k;
	layout->stripes = (layout->groups + layout->depth - 1) / layout->depth;
}

uint32_t layout_width(const struct erasure_layout *layout, uint32_t stripe)
{
	uint32_t left = layout->groups - stripe * layout->depth;

	return left < layout->depth ? left : layout->depth;
}

/* The packets of the stripe that a group is in. */
static uint32_t stripe_packets(const struct erasure_layout *layout, uint32_t stripe)
{
	uint32_t all = layout->depth * layout->k;
	uint32_t left = layout->packets - stripe * all;

	return left < all ? left : all;
}

uint32_t layout_data(const struct erasure_layout *layout, uint32_t group, uint32_t i)
{
	uint32_t stripe = group / layout->depth;

	return stripe * layout->depth * layout->k + i * layout_width(layout, stripe) +
	       group % layout->depth;
}

void layout_group(const struct erasure_layout *layout, uint32_t group, struct coding_group *out)
{
	uint32_t stripe = group / layout->depth;
	uint32_t width = layout_width(layout, stripe);

	out->count = (stripe_packets(layout, stripe) - group % layout->depth + width - 1) / width;
	out->length = layout->payload;
	out->last = layout->payload;
	if (layout_data(layout, group, out->count - 1) == layout->packets - 1)
		out->last = layout->length - (uint64_t)(layout->packets - 1) * layout->payload;
}

uint32_t layout_parity(const struct erasure_layout *layout, uint32_t group, uint32_t row)
{
	uint32_t stripe = group / layout->depth;

	if (row >= layout->m)
		return layout->groups * row + group;
	return stripe * layout->depth * layout->m + row * layout_width(layout, stripe) +
	       group % layout->depth;
}

/* Bytes of one row of every group. Smaller packets make more groups, and the last one is rounded up: two packets more a row
 * cover both. */
static uint64_t row_bytes(uint64_t length, uint32_t payload, uint32_t k)
{
	return length / k + 2 * (uint64_t)payload + 1;
}

uint64_t layout_parity_bytes(uint64_t length, uint32_t payload, uint32_t k, uint32_t rows)
{
	return row_bytes(length, payload, k) * rows;
}

uint64_t layout_rows_within(uint64_t bytes, uint64_t length, uint32_t payload, uint32_t k)
{
	return bytes / row_bytes(length, payload, k);
}

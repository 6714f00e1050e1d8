/* SPDX-License-Identifier: BSD-3-Clause */
/* Shares as coefficients of a randomised Hadamard transform, in an order in which a packet takes a little of many blocks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coding/hadamard.h"
#include "collective/bounded.h"
#include "collective/reduce.h"

#define INTERLEAVE 64
/* Bytes of the smallest packets that are common. */
#define PACKET_BYTES 1024

static enum hadamard_type type_of(const struct bounded *run)
{
	return run->coll->type == GW_FLOAT32 ? HADAMARD_FLOAT32 : HADAMARD_BFLOAT16;
}

void spread_layout(const struct bounded *run, size_t count, struct stride *out)
{
	stride_init(out, count, run->coll->task.unit, BOUNDED_BLOCK, INTERLEAVE, PACKET_BYTES);
}

void spread_encode(const struct bounded *run, const struct round *round, uint8_t *scratch)
{
	uint32_t unit = run->coll->task.unit;

	for (uint32_t p = 0; p < round->layout.chunks; p++) {
		uint64_t from = layout_offset(&round->layout, p);
		size_t bytes = layout_bytes(&round->layout, p);
		struct stride stride;

		if (!bytes)
			continue;
		spread_layout(run, bytes / unit, &stride);
		if (run->attr.flags & GW_BOUNDED_TRANSFORMED) {
			stride_spread(&stride, coll_at(round->source, from), round->packed + from);
			continue;
		}
		memcpy(scratch, coll_at(round->source, from), bytes);
		hadamard_encode(type_of(run), scratch, bytes / unit, BOUNDED_BLOCK,
				round->seed + p);
		stride_spread(&stride, scratch, round->packed + from);
	}
}

/* Elements that a hole touches. */
static struct hole elements_of(const struct hole *hole, uint32_t unit)
{
	return (struct hole){ hole->from / unit, (hole->to + unit - 1) / unit };
}

/* Divides each block by the part of it that arrived. */
static int weigh(const struct bounded *run, const struct stride *stride,
		 const struct hole_list *holes, uint8_t *values, uint32_t *lost)
{
	uint32_t unit = run->coll->task.unit, *missing = calloc(stride->blocks, sizeof(*missing));
	size_t from = 0;

	if (!missing)
		return -ENOMEM;
	for (uint32_t h = 0; h < holes->count; h++) {
		struct hole hole = elements_of(&holes->items[h], unit);

		stride_count(stride, hole.from, hole.to, missing);
	}
	for (size_t b = 0; b < stride->blocks; b++) {
		size_t to = hadamard_part_end(stride->count, BOUNDED_BLOCK, b);

		if (missing[b] == to - from)
			lost[b]++;
		else if (missing[b])
			reduce_divide(run->coll->type, values + from * unit, to - from,
				      (double)(to - from - missing[b]) / (double)(to - from));
		from = to;
	}
	free(missing);
	return 0;
}

int spread_collect(const struct bounded *run, uint8_t *packets, const struct hole_list *holes,
		   size_t count, uint8_t *out, uint32_t *lost)
{
	uint32_t unit = run->coll->task.unit;
	struct stride stride;

	for (uint32_t h = 0; h < holes->count; h++) {
		struct hole hole = elements_of(&holes->items[h], unit);

		memset(packets + hole.from * unit, 0, (hole.to - hole.from) * unit);
	}
	spread_layout(run, count, &stride);
	stride_gather(&stride, packets, out);
	return holes->count ? weigh(run, &stride, holes, out, lost) : 0;
}

void spread_decode(const struct bounded *run, const struct round *round, size_t count)
{
	if (!(run->attr.flags & GW_BOUNDED_TRANSFORMED))
		hadamard_decode(type_of(run), round->reduced, count, BOUNDED_BLOCK,
				round->seed + round->part);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which bytes of a share did not arrive. Parts of a message report theirs in any order; at the end the list is sorted and without
 * overlaps. Memory is allocated when a part ends; where there is none the whole share counts as missing.
 */
#include <stdlib.h>

#include "collective/bounded.h"

static void add(struct hole_list *holes, uint64_t from, uint64_t to)
{
	struct hole *items = holes->items;
	uint32_t room = 2 * holes->room;

	if (from >= to)
		return;
	if (!items) {
		holes->items = &holes->first;
		holes->room = 1;
	} else if (items[holes->count - 1].to == from) {
		items[holes->count - 1].to = to;
		return;
	} else if (holes->count == holes->room) {
		items = reallocarray(items == &holes->first ? NULL : items, room, sizeof(*items));
		if (!items) {
			holes->items[0] = (struct hole){ 0, UINT64_MAX };
			return;
		}
		if (holes->items == &holes->first)
			items[0] = holes->first;
		holes->items = items;
		holes->room = room;
	}
	holes->items[holes->count++] = (struct hole){ from, to };
}

void holes_part(struct hole_list *holes, const struct gw_recv *recv, uint64_t offset,
		uint64_t length)
{
	struct gw_recv_status status = { 0 };
	struct gw_run run;

	if (holes->covered_from == holes->covered_to) {
		holes->covered_from = offset;
		holes->covered_to = offset + length;
	}
	if (offset < holes->covered_from)
		holes->covered_from = offset;
	if (offset + length > holes->covered_to)
		holes->covered_to = offset + length;
	if (!recv)
		return;
	if (gw_recv_status(recv, &status) || !status.payload) {
		add(holes, offset, offset + length);
		return;
	}
	for (uint32_t from = 0; gw_recv_next_hole(recv, from, UINT32_MAX, &run) == 1;
	     from = run.first + run.count) {
		uint64_t first = (uint64_t)run.first * status.payload;
		uint64_t end = first + (uint64_t)run.count * status.payload;

		if (first >= length)
			break;
		add(holes, offset + first, offset + (end < length ? end : length));
	}
}

static int compare(const void *a, const void *b)
{
	const struct hole *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

void holes_settle(struct hole_list *holes, uint64_t length, bool failed)
{
	uint32_t kept = 0;

	if (failed) {
		add(holes, 0, holes->covered_from);
		add(holes, holes->covered_to, length);
	}
	if (!holes->count)
		return;
	qsort(holes->items, holes->count, sizeof(*holes->items), compare);
	for (uint32_t i = 1; i < holes->count; i++) {
		struct hole *last = &holes->items[kept], *hole = &holes->items[i];

		if (hole->from > last->to)
			holes->items[++kept] = *hole;
		else if (hole->to > last->to)
			last->to = hole->to;
	}
	holes->count = kept + 1;
	if (holes->items[kept].to > length)
		holes->items[kept].to = length;
}

uint64_t holes_bytes(const struct hole_list *holes)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < holes->count; i++)
		bytes += holes->items[i].to - holes->items[i].from;
	return bytes;
}

void holes_free(struct hole_list *holes)
{
	if (holes->items != &holes->first)
		free(holes->items);
	*holes = (struct hole_list){ 0 };
}

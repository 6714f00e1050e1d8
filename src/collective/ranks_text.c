/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective/ranks_text.h"

#include <stdio.h>

/* Ranks or ranges that are named before "more" takes the rest. */
#define ITEMS_MAX 8
/* Consecutive ranks from which on they are written as a range. */
#define RANGE_MIN 3

struct range {
	uint32_t first;
	uint32_t last;
};

/* Collects the first ranges, short ones rank by rank. *total counts all ranks of the set. */
static unsigned collect(bool (*in)(const void *set, uint32_t rank), const void *set, uint32_t size,
			struct range out[ITEMS_MAX], uint32_t *total)
{
	unsigned count = 0;

	*total = 0;
	for (uint32_t rank = 0; rank < size; rank++) {
		uint32_t first = rank;

		if (!in(set, rank))
			continue;
		while (rank + 1 < size && in(set, rank + 1))
			rank++;
		*total += rank - first + 1;
		if (rank - first + 1 >= RANGE_MIN && count < ITEMS_MAX)
			out[count++] = (struct range){ first, rank };
		else
			for (uint32_t r = first; r <= rank && count < ITEMS_MAX; r++)
				out[count++] = (struct range){ r, r };
	}
	return count;
}

uint32_t ranks_text(bool (*in)(const void *set, uint32_t rank), const void *set, uint32_t size,
		    char out[RANKS_TEXT])
{
	struct range items[ITEMS_MAX];
	uint32_t total, named = 0;
	unsigned count = collect(in, set, size, items, &total);
	int used = snprintf(out, RANKS_TEXT,
			    total == 0	 ? "no rank"
			    : total == 1 ? "rank"
					 : "ranks");

	for (unsigned i = 0; i < count; i++)
		named += items[i].last - items[i].first + 1;
	for (unsigned i = 0; i < count; i++) {
		const char *before = i == 0				? " "
				     : i + 1 == count && named == total ? " and "
									: ", ";
		size_t left = RANKS_TEXT - (size_t)used;

		if (items[i].first == items[i].last)
			used += snprintf(out + used, left, "%s%u", before, items[i].first);
		else
			used += snprintf(out + used, left, "%s%u to %u", before, items[i].first,
					 items[i].last);
	}
	if (named < total)
		snprintf(out + used, RANKS_TEXT - (size_t)used, " and %u more", total - named);
	return total;
}

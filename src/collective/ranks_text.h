/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks_text.h: a set of ranks in words. */
#ifndef COLLECTIVE_RANKS_TEXT_H
#define COLLECTIVE_RANKS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough for any set. */
#define RANKS_TEXT 256

/*
 * Writes the ranks below `size` for which `in` is true: "rank 3", "ranks 3, 5 and 7", "ranks 1 to 8 and 12", with "and 40 more"
 * where the list is long. Returns their number; "no rank" if that is 0.
 */
uint32_t ranks_text(bool (*in)(const void *set, uint32_t rank), const void *set, uint32_t size,
		    char out[RANKS_TEXT]);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * delay.h: what is under way on one link, by the time it comes out. Nearly all comes out in the order it went in, so it
 * stands in a list; only what overtakes (jitter, or the one behind a packet held back) goes into a heap. The next to
 * come out is the earlier of the two heads.
 */
#ifndef LAB_DELAY_H
#define LAB_DELAY_H

#include "store.h"

struct delay {
	struct piece *head;
	struct piece *tail;
	struct heap early; /* those that leave before the tail of the list */
};

void delay_init(struct delay *delay);
void delay_destroy(struct delay *delay);

/* By piece->at_ns. -ENOMEM if it would have to overtake and there is no room for that. */
int delay_put(struct delay *delay, struct piece *piece);

/* The next to come out, which stays or goes. NULL if none. Of equal times the list's goes first. */
struct piece *delay_peek(const struct delay *delay);
struct piece *delay_take(struct delay *delay);

#endif

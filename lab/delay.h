/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * delay.h: the packets on one link, in the order in which they leave it. Nearly all leave in the order in which they
 * entered, so they are kept in a list; only packets that overtake others (because of jitter or reordering) go into a heap.
 * The next packet to leave is the earlier one of the two heads.
 */
#ifndef LAB_DELAY_H
#define LAB_DELAY_H

#include "store.h"

struct delay {
	/* the list, in order of the time of leaving */
	struct piece *head;
	struct piece *tail;
	/* packets that leave before the tail of the list did when they entered */
	struct heap early;
};

void delay_init(struct delay *delay);
void delay_destroy(struct delay *delay);

/* Inserts a packet by piece->at_ns. Returns 0, or -ENOMEM if the heap cannot grow. */
int delay_put(struct delay *delay, struct piece *piece);

/* Return the next packet to leave, or NULL; delay_take() also removes it. Of equal times the list's comes first. */
struct piece *delay_peek(const struct delay *delay);
struct piece *delay_take(struct delay *delay);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* delay.c: a list and a heap; see delay.h. */
#include "delay.h"

#include "base/list.h"

#define HEAP_START 1024

void delay_init(struct delay *delay)
{
	*delay = (struct delay){ 0 };
	heap_init(&delay->early);
}

void delay_destroy(struct delay *delay)
{
	heap_destroy(&delay->early);
}

int delay_put(struct delay *delay, struct piece *piece)
{
	struct heap *heap = &delay->early;

	piece->next = NULL;
	if (!delay->head) {
		delay->head = delay->tail = piece;
		return 0;
	}
	if (piece->at_ns >= delay->tail->at_ns) {
		delay->tail->next = piece;
		delay->tail = piece;
		return 0;
	}
	if (heap_count(heap) == heap_capacity(heap)) {
		size_t room = heap_capacity(heap) ? 2 * heap_capacity(heap) : HEAP_START;
		int rc = heap_reserve(heap, room);

		if (rc)
			return rc;
	}
	heap_insert(heap, &piece->node, piece->at_ns);
	return 0;
}

static struct piece *earliest(const struct delay *delay)
{
	struct heap_node *node = heap_min(&delay->early);

	return node ? container_of(node, struct piece, node) : NULL;
}

struct piece *delay_peek(const struct delay *delay)
{
	struct piece *piece = earliest(delay);

	return piece && (!delay->head || piece->at_ns < delay->head->at_ns) ? piece : delay->head;
}

struct piece *delay_take(struct delay *delay)
{
	struct piece *piece = delay_peek(delay);

	if (!piece)
		return NULL;
	if (piece != delay->head) {
		heap_pop(&delay->early);
		return piece;
	}
	delay->head = piece->next;
	if (!delay->head)
		delay->tail = NULL;
	return piece;
}

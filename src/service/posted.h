/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * posted.h: work items that any thread adds and one takes, all at once, without locks.
 *
 * It is a stack: a thread adds an item by one compare-and-swap of the top. The taker exchanges the top for null, so that no
 * item can come back while another thread compares, and reverses the list: the order is that of adding.
 */
#ifndef SERVICE_POSTED_H
#define SERVICE_POSTED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <godwit/service.h>

struct posted {
	struct gw_service_work *_Atomic top;
};

/* Sequentially consistent, as posted_any() is: whoever adds and then finds the taker awake is seen by it before it sleeps. */
static inline void posted_add(struct posted *posted, struct gw_service_work *work)
{
	struct gw_service_work *top = atomic_load_explicit(&posted->top, memory_order_relaxed);

	do {
		work->next = top;
	} while (!atomic_compare_exchange_weak(&posted->top, &top, work));
}

static inline bool posted_any(struct posted *posted)
{
	return atomic_load(&posted->top);
}

/* Returns the oldest of all items, linked by `next`, or null. */
static inline struct gw_service_work *posted_take(struct posted *posted)
{
	struct gw_service_work *newer = atomic_exchange(&posted->top, NULL), *oldest = NULL;

	while (newer) {
		struct gw_service_work *next = newer->next;

		newer->next = oldest;
		oldest = newer;
		newer = next;
	}
	return oldest;
}

#endif

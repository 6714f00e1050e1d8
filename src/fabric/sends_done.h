/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sends_done.h: writes that are done and not yet reported as FABRIC_SENT, for fabrics whose device reads the memory later.
 * A queue pair or a group has one count; an endpoint lists those that are not zero.
 */
#ifndef FABRIC_SENDS_DONE_H
#define FABRIC_SENDS_DONE_H

#include <string.h>

#include "base/list.h"
#include "fabric/fabric.h"

struct sends_done {
	/* Link in the endpoint's list, while there is something to report. */
	struct list link;
	/* As in fabric_event.user: whose writes they are. */
	void *user;
	uint32_t count;
};

static inline void sends_done_init(struct sends_done *done, void *user)
{
	list_init(&done->link);
	done->user = user;
	done->count = 0;
}

static inline void sends_done_add(struct list *list, struct sends_done *done, uint32_t count)
{
	done->count += count;
	if (done->count && list_empty(&done->link))
		list_add_tail(list, &done->link);
}

/* Reports the counts of the list as events, at most `most`; returns how many events. */
static inline int sends_done_poll(struct list *list, struct fabric_event *events, int most)
{
	struct list *item;
	int n = 0;

	while (n < most && (item = list_first(list))) {
		struct sends_done *done = container_of(item, struct sends_done, link);

		list_del(item);
		memset(&events[n], 0, sizeof(events[n]));
		events[n].type = FABRIC_SENT;
		events[n].user = done->user;
		events[n].count = done->count;
		done->count = 0;
		n++;
	}
	return n;
}

#endif

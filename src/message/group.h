/* SPDX-License-Identifier: BSD-3-Clause */
/* group.h: a context's memberships of multicast groups. Private to message/. */
#ifndef MESSAGE_GROUP_H
#define MESSAGE_GROUP_H

#include <stdbool.h>

#include <godwit/group.h>

#include "base/list.h"
#include "base/pool.h"
#include "fabric/fabric.h"
#include "message/timer.h"

struct gw_group {
	struct gw_context *ctx;
	struct fabric_group *fabric_group;
	const struct gw_group_handler *handler;
	void *arg;
	struct timer timer;
	struct fabric_split split;
	/* Place in groups.refused or groups.left. */
	struct list link;
	/* Packets taken by the fabric whose memory it may still read. */
	uint32_t unsent;
};

struct groups {
	struct pool pool;
	/* Groups whose `room` is to be called. */
	struct list refused;
	/* Groups that were left during a turn. Events of that turn may still name them, so they are reused after it. */
	struct list left;
};

int context_groups_open(struct gw_context *ctx);
void context_groups_close(struct gw_context *ctx);

/* Takes an event if it is one of a group. */
bool context_group_event(struct gw_context *ctx, const struct fabric_event *event);
/* Calls `room` of those that were refused before; returns how many. */
int context_groups_turn(struct gw_context *ctx);
void group_timer_fired(struct gw_group *group);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* timer.h: a timer of a queue pair, a send, a receive or a group, in the context's heap. Private to message/. */
#ifndef MESSAGE_TIMER_H
#define MESSAGE_TIMER_H

#include <stdint.h>

#include <godwit/godwit.h>

#include "base/heap.h"

#define NEVER UINT64_MAX

enum timer_kind { TIMER_QP, TIMER_SEND, TIMER_RECV, TIMER_QP_USER, TIMER_GROUP };

struct timer {
	struct heap_node node;
	enum timer_kind kind;
};

/* Sets the time at which it fires; NEVER stops it. One that is due fires in the next turn. context.c */
void timer_set(struct gw_context *ctx, struct timer *timer, uint64_t at);
/* Has one that is running fire in the next turn. */
void timer_hasten(struct gw_context *ctx, struct timer *timer);

#endif

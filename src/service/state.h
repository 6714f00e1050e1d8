/* SPDX-License-Identifier: BSD-3-Clause */
/* state.h: a service and its members, each a context with its thread. */
#ifndef SERVICE_STATE_H
#define SERVICE_STATE_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "service/posted.h"

#define CACHE_LINE 64

enum sleep_state {
	/* The thread looks at posted work before it sleeps next. */
	AWAKE,
	/* It sleeps for a short time, because other threads make progress in its place; posted work wakes it. */
	NAPPING,
	/* It sleeps until a packet arrives or a timer is due; whoever changes anything wakes it. */
	ASLEEP,
};

/* Three cache lines, so that posting does not disturb who owns the context.
 * NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): that is what the padding is for. */
struct member {
	/* Written by any thread. */
	struct posted posted;
	/* enum sleep_state; whoever changes it to AWAKE from another thread writes to `wake_fd` */
	atomic_int state;
	/* threads that wait in gw_service_enter() */
	atomic_uint waiting;
	/* times that other threads have owned the context */
	atomic_uint visits;

	/* Ownership of the context. */
	_Alignas(CACHE_LINE) pthread_mutex_t owner;
	struct gw_context *ctx;

	/* Of the thread, or fixed. */
	_Alignas(CACHE_LINE) struct gw_service *service;
	pthread_t thread;
	/* eventfd that ends a sleep */
	int wake_fd;
	/* value of `visits` at the last look */
	unsigned visits_seen;
	/* length of the next nap */
	uint64_t nap_ns;
	/* time at which there was last something to do; only with spin_ns */
	uint64_t busy_ns;
	/* descriptors of the last sleep that the context has not been told of yet: wake_fd, then `watched` of the context's */
	unsigned watched;
	struct pollfd fds[1 + GW_WATCH_MAX];
};

struct gw_service {
	/* gw_service_close() was called */
	atomic_bool stop;
	/* value of forks() when it was opened */
	unsigned forks;
	uint32_t threads;
	uint64_t spin_ns;
	struct member members[];
};

/* thread.c: the life of a member's thread. */
void *member_serve(void *arg);
/* Ends the sleep of the thread if that is `least` or deeper. */
void member_wake(struct member *member, enum sleep_state least);
/* Runs posted work. The caller owns the context. */
void member_run_posted(struct member *member);

/* forks.c: counts how many times this process has become a child of fork(). */
int forks_count(void);
unsigned forks(void);

#endif

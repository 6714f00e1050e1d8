/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many sockets and one deadline behind one descriptor: an epoll set that also holds a timer. It is readable when a socket
 * is ready or the deadline has passed.
 */
#ifndef GODWIT_RENDEZVOUS_WATCH_H
#define GODWIT_RENDEZVOUS_WATCH_H

#include <stdint.h>

struct watch {
	int epoll_fd;
	int timer_fd;
};

#define WATCH_NEVER UINT64_MAX

int watch_open(struct watch *watch);
void watch_close(struct watch *watch);

/* From `before` to `events`, which are EPOLLIN, EPOLLOUT or both; 0 is not in the set. */
int watch_change(const struct watch *watch, int fd, uint32_t before, uint32_t events);

/* Replaces the deadline: nanoseconds of the monotonic clock, or WATCH_NEVER. */
void watch_until(const struct watch *watch, uint64_t deadline_ns);

uint64_t watch_now(void);

/* Sleeps until the watch is readable: 0. -ETIMEDOUT at the deadline, -EINTR when a signal came or interrupt_fd, unless that
 * is 0, is readable. */
int watch_wait(const struct watch *watch, int interrupt_fd, uint64_t deadline_ns);

#endif

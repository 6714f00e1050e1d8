/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define NS_PER_MS     UINT64_C(1000000)
#define NS_PER_SECOND UINT64_C(1000000000)

uint64_t watch_now(void)
{
	return clock_now_ns();
}

int watch_open(struct watch *watch)
{
	struct epoll_event event = { .events = EPOLLIN };
	int rc;

	watch->timer_fd = -1;
	watch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (watch->epoll_fd >= 0)
		watch->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	event.data.fd = watch->timer_fd;
	if (watch->timer_fd >= 0 &&
	    epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, watch->timer_fd, &event) == 0)
		return 0;
	rc = -errno;
	watch_close(watch);
	return rc;
}

void watch_close(struct watch *watch)
{
	if (watch->timer_fd >= 0)
		close(watch->timer_fd);
	if (watch->epoll_fd >= 0)
		close(watch->epoll_fd);
	watch->timer_fd = watch->epoll_fd = -1;
}

int watch_change(const struct watch *watch, int fd, uint32_t before, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };
	int operation = EPOLL_CTL_MOD;

	if (before == events || fd < 0)
		return 0;
	if (!before)
		operation = EPOLL_CTL_ADD;
	else if (!events)
		operation = EPOLL_CTL_DEL;
	return epoll_ctl(watch->epoll_fd, operation, fd, &event) ? -errno : 0;
}

void watch_until(const struct watch *watch, uint64_t deadline_ns)
{
	struct itimerspec when = { 0 };

	if (deadline_ns != WATCH_NEVER) {
		/* A time of 0 would stop the timer. */
		deadline_ns = deadline_ns ? deadline_ns : 1;
		when.it_value.tv_sec = (time_t)(deadline_ns / NS_PER_SECOND);
		when.it_value.tv_nsec = (long)(deadline_ns % NS_PER_SECOND);
	}
	timerfd_settime(watch->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

int watch_wait(const struct watch *watch, int interrupt_fd, uint64_t deadline_ns)
{
	struct pollfd fds[2] = { { .fd = watch->epoll_fd, .events = POLLIN },
				 { .fd = interrupt_fd > 0 ? interrupt_fd : -1, .events = POLLIN } };

	for (;;) {
		uint64_t now = watch_now();
		uint64_t left_ms = deadline_ns > now ? (deadline_ns - now) / NS_PER_MS + 1 : 0;
		int ready = poll(fds, 2, left_ms > INT_MAX ? INT_MAX : (int)left_ms);

		if (ready < 0)
			return -errno;
		if (fds[1].revents)
			return -EINTR;
		if (fds[0].revents)
			return 0;
		if (watch_now() >= deadline_ns)
			return -ETIMEDOUT;
	}
}

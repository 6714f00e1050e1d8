/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * late_wake.c: a library to be preloaded into a program that sleeps in ppoll(): each sleep lasts LATE_WAKE_US longer than it
 * should, as on a host that has other work.
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

typedef int ppoll_fn(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		     const sigset_t *mask);

#define EXPORTED __attribute__((visibility("default")))

static int late(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		const sigset_t *mask)
{
	/* Cast by way of an object, as POSIX does it for functions that dlsym() finds. */
	ppoll_fn *real;
	const char *text = getenv("LATE_WAKE_US");
	long us = text ? strtol(text, NULL, 10) : 0;
	struct timespec more = { us / 1000000, us % 1000000 * 1000 };
	int ready;

	*(void **)&real = dlsym(RTLD_NEXT, "ppoll");
	ready = real(fds, count, timeout, mask);
	if (us > 0)
		nanosleep(&more, NULL);
	return ready;
}

EXPORTED int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		   const sigset_t *mask)
{
	return late(fds, count, timeout, mask);
}

/* What ppoll() is in code compiled with _FORTIFY_SOURCE, as some distributions do by default. */
EXPORTED int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
			 const sigset_t *mask, size_t bytes);

EXPORTED int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
			 const sigset_t *mask, size_t bytes)
{
	(void)bytes;
	return late(fds, count, timeout, mask);
}

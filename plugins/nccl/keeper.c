/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keeper: one thread in a process for all that takes time and is not data. It makes connections, frees those that have
 * lingered long enough, warns about requests that hang, answers questions, and writes statistics.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ask.h"
#include "state.h"

#define WATCHED_MAX    4096
#define TURN_MS	       1000
#define LINGER_TURN_MS 50
#define LINGER_NS      (30 * NS_PER_SECOND)
#define STATISTICS_NS  (10 * NS_PER_SECOND)
/* At the end of the process: how long results that a peer has not heard of are repeated. */
#define EXIT_LINGER_MS 2000

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

void keeper_wake(void)
{
	uint64_t one = 1;

	(void)!write(process.wake_fd, &one, sizeof(one));
}

/* Frees closed connections whose peers have closed, too, or whose time is over; senders when all was delivered. */
static void free_lingering(uint64_t now)
{
	struct connection **at = &process.lingering;

	while (*at) {
		struct connection *c = *at;

		if (!atomic_load(&c->status) && now - c->closed_ns < LINGER_NS &&
		    !(c->sending && connection_is_answered(c))) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		connection_free(c);
	}
}

static void turn(uint64_t *statistics_ns)
{
	uint64_t now;

	pthread_mutex_lock(&process.lock);
	/* Under the lock: no time in a list is later than this. */
	now = now_ns();
	for (struct endpoint *e = process.endpoints; e; e = e->next)
		meet_accept(e);
	meet_step_all(now);
	free_lingering(now);
	alive_look(now);
	watch_look(now);
	if (process.settings.statistics && now - *statistics_ns > STATISTICS_NS) {
		*statistics_ns = now;
		watch_statistics();
	}
	pthread_mutex_unlock(&process.lock);
}

static void *keep(void *arg)
{
	static struct pollfd fds[WATCHED_MAX + 2];
	static int watched[WATCHED_MAX];
	uint64_t statistics_ns = 0, drained;

	(void)arg;
	for (;;) {
		unsigned count;
		int wait_ms;

		pthread_mutex_lock(&process.lock);
		count = meet_fds(watched, WATCHED_MAX);
		wait_ms = process.lingering ? LINGER_TURN_MS : TURN_MS;
		pthread_mutex_unlock(&process.lock);
		fds[0] = (struct pollfd){ .fd = process.wake_fd, .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = process.ask_fd, .events = POLLIN };
		for (unsigned i = 0; i < count; i++)
			fds[i + 2] = (struct pollfd){ .fd = watched[i], .events = POLLIN };
		poll(fds, count + 2, wait_ms);
		if (fds[0].revents)
			(void)!read(process.wake_fd, &drained, sizeof(drained));
		if (fds[1].revents)
			watch_answer();
		turn(&statistics_ns);
	}
	return NULL;
}

/* A socket where `godwit ncclcheck --ask` asks; -1 if there can be none, which is no failure. */
static int open_ask(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, ASK_SOCKET,
			      (int)getpid());

	if (fd < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) ||
	    listen(fd, 4)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* A child of fork() has none of the threads: nothing works there, and what it inherited is closed as far as it is known. */
static void in_child(void)
{
	atomic_store(&process.forked, true);
	if (process.wake_fd > 0)
		close(process.wake_fd);
	if (process.ask_fd > 0)
		close(process.ask_fd);
}

int keeper_start(void)
{
	sigset_t all, before;
	int error;

	process.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (process.wake_fd < 0)
		return -errno;
	process.ask_fd = open_ask();
	pthread_atfork(NULL, NULL, in_child);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&process.keeper, NULL, keep, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error)
		pthread_setname_np(process.keeper, "godwit-keeper");
	return -error;
}

/* Whether a connection that NCCL did not close has sent what is not delivered yet. Holds process.lock. */
static bool owes_data(void)
{
	for (struct connection *c = process.connections; c; c = c->next) {
		if (c->sending && !atomic_load(&c->status) && !connection_is_answered(c))
			return true;
	}
	return false;
}

/* The process ends: peers may still need to hear that their sends arrived, or to receive what was sent to them. */
__attribute__((destructor)) static void at_exit(void)
{
	if (!process.begun || atomic_load(&process.forked))
		return;
	for (int ms = 0; ms < EXIT_LINGER_MS; ms += LINGER_TURN_MS) {
		bool lingering, last;

		if (pthread_mutex_trylock(&process.lock))
			return;
		lingering = process.lingering || owes_data();
		last = !lingering || ms + LINGER_TURN_MS >= EXIT_LINGER_MS;
		if (last && process.settings.statistics)
			watch_statistics();
		pthread_mutex_unlock(&process.lock);
		if (last)
			return;
		nanosleep(&(struct timespec){ .tv_nsec = LINGER_TURN_MS * 1000000L }, NULL);
	}
}

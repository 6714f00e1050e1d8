/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the process at the other end of a silent connection still exists. A peer may be silent for GODWIT_TIMEOUT; but after
 * ALIVE_ASK_NS the keeper connects to the TCP port where that process meets others. If its host refuses, the process has ended, and
 * the connection fails then. Any other outcome proves nothing: a stopped process, a slow path and a firewall look alike.
 *
 * Only an end that sends knows that this port can be reached, because it has met the peer there; so it asks. What it learns
 * holds for all connections to that process.
 *
 * The channel tells of the silence (alive_silent(), called by who owns the context), the keeper asks and answers (alive_look(),
 * with process.lock). They share connection.question.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "state.h"

#define ANSWER_NS (3 * NS_PER_SECOND)

enum question { QUESTION_NONE, QUESTION_ASKED, QUESTION_REFUSED };

uint64_t alive_ask_ns(void)
{
	uint64_t timeout_ns = process.settings.timeout_ns;

	return timeout_ns < ALIVE_ASK_NS ? timeout_ns : ALIVE_ASK_NS;
}

int alive_silent(struct connection *c, uint64_t now)
{
	uint64_t ask_ns = alive_ask_ns();
	int question = atomic_load(&c->question);

	/* The channel calls again after a quarter of ask_ns if the silence goes on: after a longer pause this is another one. */
	if (!c->silence_told_ns || now - c->silence_told_ns > ask_ns / 2)
		c->silence_ns = now > ask_ns ? now - ask_ns : 0;
	c->silence_told_ns = now;
	if (question == QUESTION_REFUSED || now - c->silence_ns >= process.settings.timeout_ns)
		return 0;
	if (question == QUESTION_NONE && c->peer_port) {
		atomic_store(&c->question, QUESTION_ASKED);
		keeper_wake();
	}
	return 1;
}

/* Begins to connect to the peer's port. Returns 0 and the socket, or the error; EISCONN if it is connected already. */
static int begin(const struct connection *c, int *out)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *found;
	char port[8];
	int fd, error = 0;

	snprintf(port, sizeof(port), "%u", (unsigned)c->peer_port);
	if (getaddrinfo(c->peer_address, port, &hints, &found))
		return EINVAL;
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		error = errno;
	else if (connect(fd, found->ai_addr, found->ai_addrlen))
		error = errno == EINPROGRESS ? 0 : errno;
	else
		error = EISCONN;
	freeaddrinfo(found);
	if (error) {
		if (fd >= 0)
			close(fd);
		return error;
	}
	*out = fd;
	return 0;
}

/* What became of it: -1 while it is under way, else the error, or EISCONN. */
static int outcome(const struct connection *c, uint64_t now)
{
	struct pollfd fd = { .fd = c->question_fd, .events = POLLOUT };
	socklen_t length = sizeof(int);
	int error = 0;

	if (poll(&fd, 1, 0) < 1)
		return now - c->question_ns > ANSWER_NS ? ETIMEDOUT : -1;
	if (getsockopt(c->question_fd, SOL_SOCKET, SO_ERROR, &error, &length))
		return errno;
	return error ? error : EISCONN;
}

/* The peer's process has ended: so have all its connections. */
static void mark_peer(const struct connection *dead)
{
	say_warn("%s has ended: its host refuses connections to port %u", dead->peer,
		 (unsigned)dead->peer_port);
	for (struct connection *c = process.connections; c; c = c->next) {
		if (!strcmp(c->peer, dead->peer) && !strcmp(c->peer_address, dead->peer_address))
			atomic_store(&c->question, QUESTION_REFUSED);
	}
}

void alive_look(uint64_t now)
{
	for (struct connection *c = process.connections; c; c = c->next) {
		int error;

		if (atomic_load(&c->question) != QUESTION_ASKED)
			continue;
		if (c->question_fd < 0) {
			c->question_ns = now;
			error = begin(c, &c->question_fd);
			if (!error)
				continue;
		} else {
			error = outcome(c, now);
			if (error < 0)
				continue;
			alive_forget(c);
		}
		if (error == ECONNREFUSED)
			mark_peer(c);
		else
			atomic_store(&c->question, QUESTION_NONE);
	}
}

void alive_forget(struct connection *c)
{
	if (c->question_fd >= 0)
		close(c->question_fd);
	c->question_fd = -1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* See socket_spy.h. The calls are made by number, for their names are taken. */
#include "socket_spy.h"

#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire/roce.h"

struct socket_spy spy;

void spy_reset(void)
{
	memset(&spy, 0, sizeof(spy));
}

void spy_refuse(enum spy_kind kind, int error, unsigned times)
{
	spy.refuse[kind] = error;
	spy.refusals[kind] = times;
}

static enum spy_kind kind_of(const struct msghdr *message)
{
	const uint8_t *opcode = message->msg_iov[0].iov_base;

	if (message->msg_controllen)
		return SPY_BATCH;
	return *opcode == 0x2b ? SPY_DATA : SPY_CONTROL;
}

/* Notes the time of departure of a message that has one. */
static void note_time(const struct msghdr *message)
{
	struct msghdr *m = (struct msghdr *)(uintptr_t)message;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TXTIME)
			continue;
		spy.timed++;
		memcpy(&spy.depart_ns, CMSG_DATA(c), sizeof(spy.depart_ns));
	}
}

/* False, and errno set, where the call is to fail. */
static bool allowed(const struct msghdr *message)
{
	enum spy_kind kind = kind_of(message);

	if (spy.refusals[kind]) {
		spy.refusals[kind]--;
		errno = spy.refuse[kind];
		return false;
	}
	spy.calls[kind]++;
	note_time(message);
	return true;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	return allowed(message) ? syscall(SYS_sendmsg, fd, message, flags) : -1;
}

/* Other datagrams than packets pass: processes that share a port write to each other. */
ssize_t sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to,
	       socklen_t to_length)
{
	struct iovec part = { (void *)(uintptr_t)bytes, length };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	bool packet = length && *(const uint8_t *)bytes == ROCE_OP_UD_SEND_ONLY;

	return !packet || allowed(&message)
		       ? syscall(SYS_sendto, fd, bytes, length, flags, to, to_length)
		       : -1;
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	return allowed(&messages[0].msg_hdr)
		       ? (int)syscall(SYS_sendmmsg, fd, messages, count, flags)
		       : -1;
}

static int spied_poll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		      const sigset_t *mask)
{
	struct timespec left = { 0 };

	spy.sleeps++;
	if (timeout)
		left = *timeout; /* the kernel writes to it */
	return (int)syscall(SYS_ppoll, fds, count, timeout ? &left : NULL, mask, _NSIG / 8);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	return spied_poll(fds, count, timeout, mask);
}

/* What ppoll() is in code compiled with _FORTIFY_SOURCE, as some distributions do by default. */
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		const sigset_t *mask, size_t room);

int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		const sigset_t *mask, size_t room)
{
	(void)room;
	return spied_poll(fds, count, timeout, mask);
}

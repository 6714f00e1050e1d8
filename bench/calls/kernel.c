/* SPDX-License-Identifier: BSD-3-Clause */
/* See kernel.h. Sockets are real, so that they have addresses; nothing is sent by them. */
#include "kernel.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "wire/roce.h"

#define DATAGRAM_MOST 65536
/* What a call takes, each datagram of one that sends several, and a byte that it copies. */
#define CALL_NS	   UINT64_C(1000)
#define BYTES_A_NS UINT64_C(4)
/* From one end to the other. */
#define WIRE_NS	     UINT64_C(5000)
#define BUFFER_BYTES (32 << 20)
#define START_NS     UINT64_C(1000000000)
#define NS_A_SECOND  UINT64_C(1000000000)
#define OPCODE_DATA  0x2b
#define STACK_BYTES  (1 << 20)

/* A datagram, or a batch that arrives in one piece. */
struct datagram {
	struct datagram *next;
	/* When it arrives. */
	uint64_t at_ns;
	struct sockaddr_in from;
	uint32_t length;
	/* Bytes of each packet in a batch; 0: one packet. */
	uint32_t segment;
	uint8_t bytes[];
};

/* A socket, the datagrams on their way to it, and the clock of its end. */
struct line {
	int fd;
	uint64_t now_ns;
	/* Time that the end sleeps until; 0: it runs. */
	uint64_t until_ns;
	ucontext_t context;
	struct sockaddr_in local;
	struct datagram *first, **last;
};

struct kernel_calls kernel_calls[2];
int kernel_mtu = 1500;
static struct line lines[2];
static unsigned lines_used;
static int running;
static ucontext_t scheduler;
static uint64_t random_state = 1;

void kernel_reset(void)
{
	for (unsigned i = 0; i < lines_used; i++)
		while (lines[i].first) {
			struct datagram *datagram = lines[i].first;

			lines[i].first = datagram->next;
			free(datagram);
		}
	memset(kernel_calls, 0, sizeof(kernel_calls));
	memset(lines, 0, sizeof(lines));
	lines_used = 0;
	running = 0;
	lines[0].now_ns = lines[1].now_ns = START_NS;
	random_state = 1;
}

static void pass(uint64_t ns)
{
	lines[running].now_ns += ns;
}

/* ---- two processors ---- */

void kernel_start(int end, void (*body)(int end))
{
	static uint8_t stacks[2][STACK_BYTES];

	getcontext(&lines[end].context);
	lines[end].context.uc_stack.ss_sp = stacks[end];
	lines[end].context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&lines[end].context, (void (*)(void))body, 1, end);
	lines[end].until_ns = 0;
}

/* When an end does something next: now, or at the time that it sleeps until, or when a datagram wakes it. */
static uint64_t next_ns(const struct line *line)
{
	uint64_t at_ns = line->until_ns;

	if (line->first && line->first->at_ns < at_ns)
		at_ns = line->first->at_ns;
	return at_ns > line->now_ns ? at_ns : line->now_ns;
}

void kernel_step(void)
{
	running = next_ns(&lines[1]) < next_ns(&lines[0]);
	lines[running].now_ns = next_ns(&lines[running]);
	swapcontext(&scheduler, &lines[running].context);
}

static void sleep_until(uint64_t until_ns)
{
	lines[running].until_ns = until_ns;
	swapcontext(&lines[running].context, &scheduler);
}

void kernel_yield(uint64_t ns)
{
	pass(ns);
	sleep_until(0);
}

static int play_poll(struct pollfd *fds, nfds_t count, const struct timespec *timeout)
{
	struct line *line = &lines[running];
	uint64_t until_ns = UINT64_MAX;
	bool readable;

	kernel_calls[running].sleeps++;
	pass(CALL_NS);
	if (timeout)
		until_ns = line->now_ns + (uint64_t)timeout->tv_sec * NS_A_SECOND +
			   (uint64_t)timeout->tv_nsec;
	sleep_until(until_ns);
	readable = line->first && line->first->at_ns <= line->now_ns;
	for (nfds_t i = 0; i < count; i++)
		fds[i].revents = fds[i].fd == line->fd && readable ? POLLIN : 0;
	return readable;
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals)
{
	(void)signals;
	return play_poll(fds, count, timeout);
}

/* What ppoll() is in code compiled with _FORTIFY_SOURCE, as some distributions do by default. */
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		const sigset_t *signals, size_t room);

int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		const sigset_t *signals, size_t room)
{
	(void)signals;
	(void)room;
	return play_poll(fds, count, timeout);
}

static void stop(const char *what)
{
	fprintf(stderr, "calls: %s\n", what);
	abort();
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	struct line *line = &lines[lines_used];
	socklen_t room = sizeof(line->local);
	int error = (int)syscall(SYS_bind, fd, address, length);

	if (error)
		return error;
	if (lines_used == 2)
		stop("a third socket");
	line->fd = fd;
	line->last = &line->first;
	lines_used++;
	return getsockname(fd, (struct sockaddr *)&line->local, &room);
}

static unsigned end_of(int fd)
{
	for (unsigned i = 0; i < lines_used; i++)
		if (lines[i].fd == fd)
			return i;
	stop("an unknown socket");
	return 0;
}

/* ---- sending ---- */

static struct line *line_to(const struct sockaddr_in *to)
{
	for (unsigned i = 0; i < lines_used; i++)
		if (lines[i].local.sin_port == to->sin_port)
			return &lines[i];
	return NULL;
}

static ssize_t deliver(unsigned end, const struct msghdr *message)
{
	struct line *to = line_to(message->msg_name);
	struct msghdr *mutable = (struct msghdr *)(uintptr_t)message;
	struct cmsghdr *c = CMSG_FIRSTHDR(mutable);
	struct datagram *datagram = malloc(sizeof(*datagram) + DATAGRAM_MOST);
	uint16_t segment = 0;
	uint32_t packets;

	if (!datagram || !to)
		stop("a datagram to nobody");
	datagram->next = NULL;
	datagram->from = lines[end].local;
	datagram->length = 0;
	for (size_t i = 0; i < message->msg_iovlen; i++) {
		const struct iovec *part = &message->msg_iov[i];

		if (datagram->length + part->iov_len > DATAGRAM_MOST)
			stop("a datagram that no socket takes");
		memcpy(datagram->bytes + datagram->length, part->iov_base, part->iov_len);
		datagram->length += (uint32_t)part->iov_len;
	}
	if (c && c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_SEGMENT)
		memcpy(&segment, CMSG_DATA(c), sizeof(segment));
	datagram->segment = segment;
	*to->last = datagram;
	to->last = &datagram->next;
	packets = segment ? (datagram->length + segment - 1) / segment : 1;
	kernel_calls[end].batches++;
	if (datagram->bytes[0] != OPCODE_DATA)
		kernel_calls[end].control += packets;
	else
		kernel_calls[end].packets += packets;
	pass(datagram->length / BYTES_A_NS);
	datagram->at_ns = lines[end].now_ns + WIRE_NS;
	return (ssize_t)datagram->length;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	unsigned end = end_of(fd);

	(void)flags;
	kernel_calls[end].sends++;
	pass(CALL_NS);
	return deliver(end, message);
}

ssize_t sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to,
	       socklen_t to_length)
{
	struct iovec part = { (void *)(uintptr_t)bytes, length };
	struct msghdr message = { .msg_name = (void *)(uintptr_t)to,
				  .msg_namelen = to_length,
				  .msg_iov = &part,
				  .msg_iovlen = 1 };

	return sendmsg(fd, &message, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	unsigned end = end_of(fd);

	(void)flags;
	kernel_calls[end].sends++;
	for (unsigned i = 0; i < count; i++) {
		pass(CALL_NS);
		messages[i].msg_len = (unsigned)deliver(end, &messages[i].msg_hdr);
	}
	return (int)count;
}

/* ---- receiving ---- */

static void hand_over(const struct datagram *datagram, struct mmsghdr *out)
{
	struct msghdr *message = &out->msg_hdr;
	struct cmsghdr *c = message->msg_control;
	int segment = (int)datagram->segment;

	if (message->msg_iov[0].iov_len < datagram->length)
		stop("a buffer that is too small");
	memcpy(message->msg_iov[0].iov_base, datagram->bytes, datagram->length);
	memcpy(message->msg_name, &datagram->from, sizeof(datagram->from));
	message->msg_namelen = sizeof(datagram->from);
	out->msg_len = datagram->length;
	if (!segment) {
		message->msg_controllen = 0;
		return;
	}
	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_GRO;
	c->cmsg_len = CMSG_LEN(sizeof(segment));
	memcpy(CMSG_DATA(c), &segment, sizeof(segment));
	message->msg_controllen = CMSG_SPACE(sizeof(segment));
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
	unsigned end = end_of(fd), n = 0;
	struct line *line = &lines[end];

	(void)flags;
	(void)timeout;
	pass(CALL_NS);
	for (; n < count && line->first && line->first->at_ns <= line->now_ns; n++) {
		struct datagram *datagram = line->first;

		hand_over(datagram, &messages[n]);
		pass(datagram->length / BYTES_A_NS);
		line->first = datagram->next;
		if (!line->first)
			line->last = &line->first;
		free(datagram);
	}
	if (n) {
		kernel_calls[end].reads++;
		return (int)n;
	}
	kernel_calls[end].empty_reads++;
	errno = EAGAIN;
	return -1;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	struct mmsghdr one = { .msg_hdr = *message };
	int n = recvmmsg(fd, &one, 1, flags, NULL);

	*message = one.msg_hdr;
	return n < 0 ? n : (ssize_t)one.msg_len;
}

/* ---- what else differs between machines ---- */

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	if (level == SOL_UDP || (level == SOL_SOCKET && name != SO_REUSEPORT))
		return 0;
	return (int)syscall(SYS_setsockopt, fd, level, name, value, length);
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	int bytes = BUFFER_BYTES;

	if (level != SOL_UDP && !(level == SOL_SOCKET && (name == SO_RCVBUF || name == SO_SNDBUF)))
		return (int)syscall(SYS_getsockopt, fd, level, name, value, length);
	memcpy(value, &bytes, sizeof(bytes));
	return 0;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (request != SIOCGIFMTU)
		return (int)syscall(SYS_ioctl, fd, request, argument);
	((struct ifreq *)argument)->ifr_mtu = kernel_mtu;
	return 0;
}

ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
	uint8_t *out = buffer;

	(void)flags;
	for (size_t i = 0; i < length; i++) {
		random_state = random_state * UINT64_C(6364136223846793005) + 1;
		out[i] = (uint8_t)(random_state >> 56);
	}
	return (ssize_t)length;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
	uint64_t now_ns = lines[running].now_ns;

	(void)clock;
	out->tv_sec = (time_t)(now_ns / NS_A_SECOND);
	out->tv_nsec = (long)(now_ns % NS_A_SECOND);
	return 0;
}

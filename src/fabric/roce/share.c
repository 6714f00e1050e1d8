/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One UDP port, several processes. NICs send to port 4791 only, so that every user-space end behind an address has to
 * share it.
 *
 * SO_REUSEPORT lets processes of one user bind the same port, and a classic BPF program in the kernel picks the socket
 * for each packet: the one whose index is the class in the high bits of the packet's queue pair number. A process learns
 * its index by sending itself one probe for every class and seeing which arrives, and numbers its queue pairs in that
 * class.
 *
 * When a process ends, the kernel moves the last socket of the group into the gap, and packets for the moved process
 * reach the wrong one from then on. So each process also claims its class as an abstract Unix socket named after
 * address, port and class, and a process that gets a packet of another class hands it on there. The program makes
 * sharing fast, the hand-over makes it right.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "fabric/roce/endpoint.h"
#include "wire/bytes.h"

#define PROBE_SIZE     24
#define PROBE_OPCODE   0xff /* of the range left to manufacturers: nobody takes it for a packet */
#define PROBE_WAIT_MS  20
#define PROBE_ATTEMPTS 3

struct share {
	int fd;	 /* the abstract Unix socket that packets are handed on to */
	int out; /* the one they are handed on by: sending on the first before it has its name would give it another */
};

/* What travels before a packet that is handed on. */
struct envelope {
	union address from;
};

static socklen_t name_of(const struct endpoint *endpoint, uint32_t class, struct sockaddr_un *out)
{
	char text[INET6_ADDRSTRLEN];
	const union address *local = &endpoint->local;
	const void *ip = local->any.sa_family == AF_INET ? (const void *)&local->v4.sin_addr
							 : (const void *)&local->v6.sin6_addr;
	int length;

	inet_ntop(local->any.sa_family, ip, text, sizeof(text));
	memset(out, 0, sizeof(*out));
	out->sun_family = AF_UNIX;
	length = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "godwit/%s/%u/%u", text,
			  address_port(local), class);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int attach_program(int fd)
{
	struct sock_filter code[] = {
		/* The packet starts at the BTH; its destination is the low 24 bits of the second word. */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ROCE_QPN_MASK),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, CLASS_SHIFT),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program))
		       ? -errno
		       : 0;
}

static bool claim(struct endpoint *endpoint, uint32_t class)
{
	struct sockaddr_un name;
	socklen_t length = name_of(endpoint, class, &name);

	if (bind(endpoint->share->fd, (struct sockaddr *)&name, length))
		return false;
	endpoint->class = class;
	return true;
}

static void send_probes(struct endpoint *endpoint, uint64_t nonce)
{
	uint8_t probe[PROBE_SIZE] = { PROBE_OPCODE };

	put_be64(probe + 8, nonce);
	for (uint32_t class = 0; class < CLASSES; class ++) {
		put_be24(probe + 5, class << CLASS_SHIFT);
		put_be32(probe + 16, class);
		sendto(endpoint->fd, probe, sizeof(probe), MSG_DONTWAIT, &endpoint->local.any,
		       endpoint->local_length);
	}
}

/* Takes what is in the socket. Hands on what is another process's: this one may be about to join or to leave, and what
 * it swallows would be lost. Returns the lowest class among its own probes, or -1. */
static int drain(struct endpoint *endpoint, uint64_t nonce)
{
	uint8_t *bytes = endpoint->rx;
	int best = -1;

	for (;;) {
		union address from;
		socklen_t from_length = sizeof(from);
		ssize_t n = recvfrom(endpoint->fd, bytes, RX_PACKET, MSG_DONTWAIT, &from.any,
				     &from_length);

		if (n < 0)
			return best;
		if (n == PROBE_SIZE && get_be64(bytes + 8) == nonce) {
			int class = (int)get_be32(bytes + 16);

			if (best < 0 || class < best)
				best = class;
		} else if (n >= ROCE_BTH_SIZE && !share_probe(endpoint, &from, bytes, (size_t)n)) {
			share_forward(endpoint, &from, bytes, (size_t)n, get_be24(bytes + 5));
		}
	}
}

/* The class whose packets the kernel gives to this socket, or -1 when that cannot be learnt. A class beyond the group's
 * size is spread by hash: the lowest that comes is the index. */
static int learn_class(struct endpoint *endpoint)
{
	uint64_t nonce = (uint64_t)random_u32(endpoint) << 32 | random_u32(endpoint);

	for (int i = 0; i < PROBE_ATTEMPTS; i++) {
		struct pollfd poll_fd = { .fd = endpoint->fd, .events = POLLIN };
		int best;

		send_probes(endpoint, nonce);
		if (poll(&poll_fd, 1, PROBE_WAIT_MS) <= 0)
			continue;
		best = drain(endpoint, nonce);
		if (best >= 0)
			return best;
	}
	return -1;
}

bool share_probe(const struct endpoint *endpoint, const union address *from, const uint8_t *bytes,
		 size_t length)
{
	return length == PROBE_SIZE && bytes[0] == PROBE_OPCODE &&
	       same_host(from, &endpoint->local) &&
	       address_port(from) == address_port(&endpoint->local);
}

int share_join(struct endpoint *endpoint)
{
	struct share *share = calloc(1, sizeof(*share));
	int class, on = 1;
	int error;

	if (!share)
		return -ENOMEM;
	share->fd = share->out = -1;
	endpoint->share = share;
	endpoint->class = CLASSES; /* none yet: every packet is another's */
	share->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	share->out = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (share->fd < 0 || share->out < 0)
		return -errno;
	if (setsockopt(share->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)))
		return -errno;
	error = attach_program(endpoint->fd);
	if (error)
		log_info("no BPF program for the shared port (%s): packets are handed on instead",
			 strerror(-error));
	class = learn_class(endpoint);
	if (class >= 0 && (uint32_t) class < CLASSES && claim(endpoint, (uint32_t) class))
		return 0;
	for (uint32_t i = CLASSES; i > 0; i--)
		if (claim(endpoint, i - 1))
			return 0;
	log_error("%u processes share UDP port %u already", CLASSES,
		  address_port(&endpoint->local));
	return -EADDRINUSE;
}

void share_leave(struct endpoint *endpoint)
{
	if (!endpoint->share)
		return;
	if (endpoint->fd >= 0)
		drain(endpoint, 0);
	if (endpoint->share->fd >= 0)
		close(endpoint->share->fd);
	if (endpoint->share->out >= 0)
		close(endpoint->share->out);
	free(endpoint->share);
	endpoint->share = NULL;
}

int share_fd(const struct endpoint *endpoint)
{
	return endpoint->share ? endpoint->share->fd : -1;
}

bool share_forward(struct endpoint *endpoint, const union address *from, const void *packet,
		   size_t length, uint32_t qpn)
{
	uint32_t class = qpn >> CLASS_SHIFT;
	struct envelope envelope = { *from };
	struct iovec parts[2] = { { &envelope, sizeof(envelope) },
				  { (void *)(uintptr_t)packet, length } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	struct sockaddr_un name;

	if (!endpoint->share || class == endpoint->class)
		return false;
	message.msg_namelen = name_of(endpoint, class, &name);
	message.msg_name = &name;
	if (sendmsg(endpoint->share->out, &message, MSG_DONTWAIT) < 0)
		return false;
	endpoint->fabric.counters[FABRIC_RX_FORWARDED]++;
	return true;
}

/* Whoever may bind the port may hand packets on: the same user, or root. */
static bool trusted(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		struct ucred who;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
			continue;
		memcpy(&who, CMSG_DATA(c), sizeof(who));
		return who.uid == geteuid() || who.uid == 0;
	}
	return false;
}

size_t share_take(struct endpoint *endpoint, void *packet, size_t size, union address *from)
{
	struct envelope envelope;
	struct iovec parts[2] = { { &envelope, sizeof(envelope) }, { packet, size } };
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct ucred))];
	struct msghdr message;
	ssize_t n;

	if (!endpoint->share)
		return 0;
	do {
		message = (struct msghdr){ .msg_iov = parts,
					   .msg_iovlen = 2,
					   .msg_control = control,
					   .msg_controllen = sizeof(control) };
		n = recvmsg(endpoint->share->fd, &message, MSG_DONTWAIT);
		if (n < 0)
			return 0;
	} while ((size_t)n <= sizeof(envelope) || !trusted(&message) ||
		 envelope.from.any.sa_family != endpoint->local.any.sa_family);
	*from = envelope.from;
	return (size_t)n - sizeof(envelope);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several processes share one UDP port. NICs send to port 4791 only, so that all user-space ends with one address have to
 * share it.
 *
 * SO_REUSEPORT lets processes of one user bind the same port. Each process has a class of its own, which is the high bits
 * of its queue pairs' numbers, and owns the class by binding an abstract Unix socket named after address, port and class.
 * The kernel is made to give each packet to the socket of its class (steer.c). A process that gets a packet of another
 * class hands it on to that class's Unix socket. Steering makes sharing fast; handing on makes it right while sockets
 * move.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "fabric/refuse.h"
#include "fabric/roce/share.h"

/* What precedes a packet that is handed on. */
struct envelope {
	/* Sender of the packet; AF_UNSPEC: not a packet follows, but a notice. */
	union socket_address from;
};

/* Where the socket of a class is. */
struct notice {
	uint32_t class;
	uint32_t place;
	/* Not 0: it answers another notice, and is not answered. */
	uint32_t answer;
};

static socklen_t name_of(const struct roce_endpoint *endpoint, uint32_t class,
			 struct sockaddr_un *out)
{
	char text[INET6_ADDRSTRLEN];
	const union socket_address *local = &endpoint->local;
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

static bool claim(struct roce_endpoint *endpoint, uint32_t class)
{
	struct sockaddr_un name;
	socklen_t length = name_of(endpoint, class, &name);

	if (bind(endpoint->share->fd, (struct sockaddr *)&name, length))
		return false;
	endpoint->class = class;
	return true;
}

bool share_company(const struct roce_endpoint *endpoint)
{
	struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	bool found = false;

	for (uint32_t class = 0; class < CLASSES && !found; class ++) {
		struct sockaddr_un name;
		socklen_t length = name_of(endpoint, class, &name);

		found = !connect(endpoint->share->out, (struct sockaddr *)&name, length);
	}
	/* Unconnects the socket, which sends to any name again. */
	if (found && connect(endpoint->share->out, &nobody, sizeof(nobody)))
		log_debug("cannot let go of a neighbour's name: %s", strerror(errno));
	return found;
}

static void notify(const struct roce_endpoint *endpoint, uint32_t class, uint32_t answer)
{
	struct {
		struct envelope envelope;
		struct notice notice;
	} letter;
	struct sockaddr_un name;
	socklen_t length = name_of(endpoint, class, &name);

	memset(&letter, 0, sizeof(letter));
	letter.envelope.from.any.sa_family = AF_UNSPEC;
	letter.notice = (struct notice){ endpoint->class, endpoint->share->places[endpoint->class],
					 answer };
	sendto(endpoint->share->out, &letter, sizeof(letter), MSG_DONTWAIT,
	       (struct sockaddr *)&name, length);
}

void share_announce(struct roce_endpoint *endpoint)
{
	for (uint32_t class = 0; class < CLASSES; class ++)
		if (class != endpoint->class)
			notify(endpoint, class, 0);
}

static void heed(struct roce_endpoint *endpoint, const uint8_t *bytes, size_t length)
{
	struct notice notice;

	if (length != sizeof(notice))
		return;
	memcpy(&notice, bytes, sizeof(notice));
	steer_told(endpoint, notice.class, notice.place);
	if (!notice.answer && notice.class < CLASSES && notice.class != endpoint->class)
		notify(endpoint, notice.class, 1);
}

int share_join(struct roce_endpoint *endpoint)
{
	struct share *share = calloc(1, sizeof(*share));
	int place, on = 1;

	if (!share)
		return open_refuse(LOG_LEVEL_INFO, -ENOMEM, "no memory to share a port");
	share->fd = share->out = -1;
	endpoint->share = share;
	endpoint->class = CLASSES; /* none yet: every packet is for another process */
	share->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	share->out = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (share->fd < 0 || share->out < 0 ||
	    setsockopt(share->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on))) {
		int error = -errno;

		return open_refuse(LOG_LEVEL_INFO, error,
				   "no Unix socket for the processes that share the port: %s",
				   strerror(-error));
	}
	for (uint32_t i = 0; i < CLASSES; i++)
		share->places[i] = (uint8_t)i;
	place = steer_join(endpoint);
	if (place < 0 || !claim(endpoint, (uint32_t)place)) {
		uint32_t class = CLASSES;

		while (class > 0 && !claim(endpoint, class - 1))
			class --;
		if (!class)
			goto crowded;
	}
	if (place >= 0)
		share->places[endpoint->class] = (uint8_t)place;
	share_announce(endpoint);
	return 0;

crowded:
	return open_refuse(LOG_LEVEL_ERROR, -EADDRINUSE, "%u processes share UDP port %u already",
			   CLASSES, address_port(&endpoint->local));
}

void share_leave(struct roce_endpoint *endpoint)
{
	if (!endpoint->share)
		return;
	/* Packets for other processes that wait in our socket would be lost with it. */
	if (endpoint->fd >= 0 && endpoint->share->fd >= 0)
		rx_drain(endpoint);
	if (endpoint->share->fd >= 0)
		close(endpoint->share->fd);
	if (endpoint->share->out >= 0)
		close(endpoint->share->out);
	free(endpoint->share);
	endpoint->share = NULL;
}

int share_fd(const struct roce_endpoint *endpoint)
{
	return endpoint->share ? endpoint->share->fd : -1;
}

bool share_forward(struct roce_endpoint *endpoint, const union socket_address *from,
		   const void *packet, size_t length, uint32_t qpn)
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

/* Whether the sender may hand packets on: those may who can bind the port, the same user and root. */
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

int share_take(struct roce_endpoint *endpoint, void *packet, size_t size,
	       union socket_address *from)
{
	struct envelope envelope;
	struct iovec parts[2] = { { &envelope, sizeof(envelope) }, { packet, size } };
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct ucred))];
	struct msghdr message = { .msg_iov = parts,
				  .msg_iovlen = 2,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	ssize_t n;

	if (!endpoint->share)
		return -EAGAIN;
	n = recvmsg(endpoint->share->fd, &message, MSG_DONTWAIT);
	if (n < 0)
		return -EAGAIN;
	if ((size_t)n <= sizeof(envelope) || !trusted(&message))
		return 0;
	n -= (ssize_t)sizeof(envelope);
	if (envelope.from.any.sa_family == AF_UNSPEC)
		heed(endpoint, packet, (size_t)n);
	if (envelope.from.any.sa_family != endpoint->local.any.sa_family)
		return 0;
	*from = envelope.from;
	return (int)n;
}

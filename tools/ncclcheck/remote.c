/* SPDX-License-Identifier: BSD-3-Clause */
#include "remote.h"

#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TRIES	 100
#define RETRY_NS 100000000

/* On the wire numbers are big-endian. */
static void swap(struct remote_order *order)
{
	order->version = (int32_t)htobe32((uint32_t)order->version);
	order->dev = (int32_t)htobe32((uint32_t)order->dev);
	order->timeout_s = htobe32(order->timeout_s);
	order->connections = htobe32(order->connections);
	order->channels = htobe32(order->channels);
}

static int open_socket(const char *host, const char *port, int passive)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = passive ? AI_PASSIVE : 0 },
			*found;
	int fd = -ENOENT, one = 1;

	if (getaddrinfo(host, port, &hints, &found))
		return -ENOENT;
	for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
		if (fd < 0) {
			fd = -errno;
			continue;
		}
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (passive ? bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 8)
			    : connect(fd, a->ai_addr, a->ai_addrlen)) {
			int error = -errno;

			close(fd);
			fd = error;
		}
	}
	freeaddrinfo(found);
	return fd;
}

int remote_connect(const char *host, const char *port, const struct remote_order *order)
{
	struct remote_order wire = *order;
	int fd = -ECONNREFUSED, one = 1;

	for (int i = 0; i < TRIES && fd == -ECONNREFUSED; i++) {
		if (i)
			nanosleep(&(struct timespec){ .tv_nsec = RETRY_NS }, NULL);
		fd = open_socket(host, port, 0);
	}
	if (fd < 0)
		return fd;
	swap(&wire);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (send(fd, &wire, sizeof(wire), MSG_NOSIGNAL) != (ssize_t)sizeof(wire)) {
		close(fd);
		return -EPIPE;
	}
	return fd;
}

int remote_listen(const char *bind, const char *port)
{
	return open_socket(bind, port, 1);
}

int remote_accept(int listener, struct remote_order *order)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), one = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (recv(fd, order, sizeof(*order), MSG_WAITALL) != (ssize_t)sizeof(*order)) {
		close(fd);
		return -EPROTO;
	}
	swap(order);
	order->name[sizeof(order->name) - 1] = '\0';
	if (order->version)
		return fd;
	close(fd);
	return -ESHUTDOWN;
}

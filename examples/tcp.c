/* SPDX-License-Identifier: BSD-3-Clause */
/* How two ends of an example find each other. See tcp.h. */
#include "tcp.h"

#include <arpa/inet.h>
#include <err.h>
#include <netdb.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_S 10

void die(const char *what)
{
	errx(1, "%s", what);
}

int tcp_meet(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *list;
	time_t until = time(NULL) + PATIENCE_S;
	int fd = -1, one = 1, caller;

	if (!host)
		hints.ai_family = AF_INET6; /* takes IPv4 as well */
	if (getaddrinfo(host, port, &hints, &list))
		die("no such host or port");
	if (host) {
		do {
			for (struct addrinfo *at = list; at && fd < 0; at = at->ai_next) {
				fd = socket(at->ai_family, SOCK_STREAM, 0);
				if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen)) {
					close(fd);
					fd = -1;
				}
			}
			if (fd < 0)
				usleep(50000);
		} while (fd < 0 && time(NULL) < until);
		freeaddrinfo(list);
		if (fd < 0)
			die("nobody answers there; start this program on that host first");
		return fd;
	}
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, list->ai_addr, list->ai_addrlen) || listen(fd, 1))
		die("cannot listen on that port");
	freeaddrinfo(list);
	caller = accept(fd, NULL, NULL);
	close(fd);
	if (caller < 0)
		die("nobody came");
	return caller;
}

void tcp_tell(int fd, const void *data, size_t length)
{
	for (const char *at = data; length;) {
		ssize_t n = write(fd, at, length);

		if (n <= 0)
			die("the other end hung up");
		at += n;
		length -= (size_t)n;
	}
}

void tcp_hear(int fd, void *data, size_t length)
{
	for (char *at = data; length;) {
		ssize_t n = read(fd, at, length);

		if (n <= 0)
			die("the other end hung up");
		at += n;
		length -= (size_t)n;
	}
}

void tcp_swap(void *numbers, size_t length)
{
	uint32_t *at = numbers;

	for (size_t i = 0; i < length / sizeof(*at); i++)
		at[i] = htonl(at[i]);
}

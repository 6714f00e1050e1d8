/* SPDX-License-Identifier: BSD-3-Clause */
/* What a host's kernel tells without anybody at the other end. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pair_probe.h"

#define WAIT_MS 700
/* Linux answers six such probes at once, then one in a second. */
#define SIZES 5u
/* The first of the ports that traceroute uses: nobody listens there. */
#define PORT_CLOSED 33434u

static int open_towards(const struct addrinfo *to, uint16_t port)
{
	int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int probe4 = IP_PMTUDISC_PROBE, probe6 = IPV6_PMTUDISC_PROBE;
	union probe_address address = { 0 };

	if (fd < 0)
		return -1;
	memcpy(&address, to->ai_addr, to->ai_addrlen);
	if (to->ai_family == AF_INET) {
		address.in.sin_port = htons(port);
		setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe4, sizeof(probe4));
	} else {
		address.in6.sin6_port = htons(port);
		setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe6, sizeof(probe6));
	}
	if (connect(fd, &address.any, to->ai_addrlen) == 0)
		return fd;
	close(fd);
	return -1;
}

enum pair_icmp probe_icmp(const char *host, uint32_t *size)
{
	static const uint32_t sizes[SIZES] = { 92, 1280, 1500, 4200, 9000 };
	static const uint8_t zeros[9000];
	const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM };
	struct addrinfo *to;
	struct pollfd fds[SIZES];
	enum pair_icmp state = PAIR_ICMP_SILENT;
	unsigned waiting = 0;
	char byte;

	if (getaddrinfo(host, NULL, &hints, &to) != 0)
		return PAIR_ICMP_UNTRIED;
	for (unsigned i = 0; i < SIZES; i++) {
		uint32_t headers = to->ai_family == AF_INET ? 28 : 48;

		fds[i] = (struct pollfd){ .fd = open_towards(to, (uint16_t)(PORT_CLOSED + i)) };
		if (fds[i].fd >= 0 && send(fds[i].fd, zeros, sizes[i] - headers, 0) >= 0)
			waiting++;
	}
	while (waiting && poll(fds, SIZES, WAIT_MS) > 0) {
		for (unsigned i = 0; i < SIZES; i++) {
			if (fds[i].fd < 0 || !fds[i].revents)
				continue;
			if (recv(fds[i].fd, &byte, 1, 0) < 0 && errno == ECONNREFUSED) {
				state = PAIR_ICMP_ANSWERED;
				*size = sizes[i] > *size ? sizes[i] : *size;
			}
			close(fds[i].fd);
			fds[i].fd = -1;
			waiting--;
		}
	}
	for (unsigned i = 0; i < SIZES; i++) {
		if (fds[i].fd >= 0)
			close(fds[i].fd);
	}
	freeaddrinfo(to);
	return state;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "error.h"

/* Connections that the kernel completes before they are accepted; it takes fewer where its own limit is lower. All processes of
 * a job may come at once, and one that finds no room tries again a second later. */
#define BACKLOG 4096

#define NS_PER_MS UINT64_C(1000000)

int socket_resolve(const char *name, uint16_t port, bool passive, int family, struct addrinfo **out)
{
	struct addrinfo hints = { .ai_family = family,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0) };
	char service[8];
	int rc;

	snprintf(service, sizeof(service), "%u", port);
	rc = getaddrinfo(name, service, &hints, out);
	if (rc == 0)
		return 0;
	if (passive)
		return error_set(-EADDRNOTAVAIL, "%s is not an address of this host: %s", name,
				 gai_strerror(rc));
	return error_set(rc == EAI_AGAIN ? -EAGAIN : -ENOENT, "unknown host %s: %s", name,
			 rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
}

/* since Linux 6.15: longest pause between repeated segments, in milliseconds */
#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif
/* the least that the kernel takes */
#define PAUSE_MAX_MS 1000
/* what the kernel's own 15 repeats take, which with short pauses would end after 15 s */
#define GIVE_UP_MS 900000

/* Messages are small, and what follows waits for them. Where many packets are lost, the kernel's pauses between repeated
 * segments must not double: that is allowed for connections with few packets in flight whose slow start is over, which bbr
 * never says. Nor must they be long from the start: they are 3 s after the loss of a SYN, and a sample of the round-trip time
 * that includes repeats makes them longer. */
static void send_at_once(int fd)
{
	static const char reno[] = "reno";
	int on = 1, pause_ms = PAUSE_MAX_MS;
	unsigned give_up_ms = GIVE_UP_MS;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof(reno) - 1);
	setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof(on));
	if (setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &pause_ms, sizeof(pause_ms)) == 0)
		setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &give_up_ms, sizeof(give_up_ms));
}

void socket_set_silence(int fd, uint64_t silence_ns)
{
	/* Four questions fit into the time, and none is asked more often than once a second. */
	uint64_t ms = silence_ns / NS_PER_MS, quarter_s = ms / 4000;
	int on = 1, pause_s = quarter_s < 1 ? 1 : quarter_s > SHRT_MAX ? SHRT_MAX : (int)quarter_s;
	unsigned give_up_ms = ms < 1 ? 1 : ms > INT_MAX ? INT_MAX : (unsigned)ms;

	if (!silence_ns)
		return;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &pause_s, sizeof(pause_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause_s, sizeof(pause_s));
	/* Questions are not asked while something is being sent; this counts then, and replaces the number of questions. */
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &give_up_ms, sizeof(give_up_ms));
}

int socket_connect(const struct addrinfo *to, const struct addrinfo *from, int *out)
{
	int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc;

	if (fd < 0)
		return -errno;
	send_at_once(fd);
	if ((from && bind(fd, from->ai_addr, from->ai_addrlen)) ||
	    (connect(fd, to->ai_addr, to->ai_addrlen) && errno != EINPROGRESS)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	*out = fd;
	return 0;
}

int socket_connected(int fd)
{
	socklen_t length = sizeof(int);
	int error = 0;

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) ? -errno : -error;
}

static int listen_on(const struct sockaddr *address, socklen_t length, int *out)
{
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, off = 0;
	int rc;

	if (fd < 0)
		return -errno;
	/* A port whose last connection still lingers is free. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	/* Accepted sockets inherit it. */
	send_at_once(fd);
	if (bind(fd, address, length) || listen(fd, BACKLOG)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	*out = fd;
	return 0;
}

static int listen_anywhere(uint16_t port, int *out)
{
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr_in any4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	int rc = listen_on((const struct sockaddr *)&any6, sizeof(any6), out);

	/* A host without IPv6. */
	if (rc == -EAFNOSUPPORT || rc == -EADDRNOTAVAIL)
		rc = listen_on((const struct sockaddr *)&any4, sizeof(any4), out);
	return rc;
}

static int explain_listen(const char *bind, uint16_t port, int error)
{
	if (error == -EADDRINUSE)
		return error_set(
			error,
			"TCP port %u is in use by another program: choose another at both ends",
			port);
	if (error == -EACCES)
		return error_set(
			error,
			"TCP port %u is not for ordinary users: choose one above 1023 at both ends",
			port);
	if (error == -EADDRNOTAVAIL && bind)
		return error_set(error, "%s is not an address of this host", bind);
	return error_set(error, "cannot listen on TCP port %u: %s", port, strerror(-error));
}

int socket_listen(const char *bind, uint16_t port, int *out, uint16_t *bound)
{
	struct sockaddr_in6 address = { 0 };
	socklen_t length = sizeof(address);
	struct addrinfo *addresses;
	int rc;

	if (!bind) {
		rc = listen_anywhere(port, out);
	} else {
		rc = socket_resolve(bind, port, true, AF_UNSPEC, &addresses);
		if (rc)
			return rc;
		rc = listen_on(addresses->ai_addr, addresses->ai_addrlen, out);
		freeaddrinfo(addresses);
	}
	if (rc)
		return explain_listen(bind, port, rc);
	getsockname(*out, (struct sockaddr *)&address, &length);
	/* The port lies at the same place in both families. */
	*bound = ntohs(address.sin6_port);
	return 0;
}

void socket_name_address(const struct sockaddr_storage *address, char out[ADDRESS_TEXT])
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
	socklen_t length = address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							  : sizeof(struct sockaddr_in);

	out[0] = '\0';
	/* An IPv4 peer on an IPv6 socket: the fabric must use IPv4 as well. */
	if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		inet_ntop(AF_INET, in6->sin6_addr.s6_addr + 12, out, ADDRESS_TEXT);
	else
		getnameinfo((const struct sockaddr *)address, length, out, ADDRESS_TEXT, NULL, 0,
			    NI_NUMERICHOST);
}

int socket_name(int fd, char local[ADDRESS_TEXT], char remote[ADDRESS_TEXT])
{
	struct sockaddr_storage address = { 0 };
	socklen_t length = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &length))
		return -errno;
	socket_name_address(&address, local);
	length = sizeof(address);
	if (getpeername(fd, (struct sockaddr *)&address, &length))
		return -errno;
	socket_name_address(&address, remote);
	return 0;
}

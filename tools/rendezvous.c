/* SPDX-License-Identifier: BSD-3-Clause */
/* Every wait is a poll() on one socket and on the interrupt's pipe, until a deadline. */
#include "rendezvous.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "interrupt.h"
#include "report.h"

#define NS_PER_MS	    UINT64_C(1000000)
#define NS_PER_SECOND	    UINT64_C(1000000000)
#define REFUSED_PATIENCE_NS NS_PER_SECOND /* how long the other end may take to start */
#define REFUSED_PAUSE_NS    (50 * NS_PER_MS)
#define FAREWELL_NS	    (500 * NS_PER_MS)
#define FAREWELL_READS	    64 /* a peer that keeps talking is not listened to for ever */
#define NO_DEADLINE	    UINT64_MAX

uint64_t rendezvous_now(void)
{

	return clock_now_ns();
}

/* 0 when the socket is ready (or failed: the next call on it tells), -ETIMEDOUT, -EINTR. fd -1 just sleeps. */
static int wait_for(int fd, short events, uint64_t deadline)
{
	struct pollfd fds[2] = { { .fd = interrupt_fd(), .events = POLLIN },
				 { .fd = fd, .events = events } };

	for (;;) {
		uint64_t now = rendezvous_now();
		uint64_t left_ms = deadline > now ? (deadline - now) / NS_PER_MS + 1 : 0;
		int timeout_ms = left_ms > INT_MAX ? INT_MAX : (int)left_ms;
		int ready;

		if (interrupt_signal())
			return -EINTR;
		ready = poll(fds, 2, deadline == NO_DEADLINE ? -1 : timeout_ms);
		if (ready < 0 && errno != EINTR)
			return -errno;
		if (interrupt_signal())
			return -EINTR;
		if (ready > 0 && fds[1].revents)
			return 0;
		if (deadline != NO_DEADLINE && rendezvous_now() >= deadline)
			return -ETIMEDOUT;
	}
}

static void name_address(const struct sockaddr_storage *address, char out[ADDRESS_TEXT])
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
	socklen_t length = address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							  : sizeof(struct sockaddr_in);

	out[0] = '\0';
	/* A caller by IPv4 on an IPv6 socket: the fabric must use IPv4 as well. */
	if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		inet_ntop(AF_INET, in6->sin6_addr.s6_addr + 12, out, ADDRESS_TEXT);
	else
		getnameinfo((const struct sockaddr *)address, length, out, ADDRESS_TEXT, NULL, 0,
			    NI_NUMERICHOST);
}

/* Everything that a new connection needs. */
static int settle(struct connection *connection)
{
	struct sockaddr_storage address = { 0 };
	socklen_t length = sizeof(address);
	int on = 1;

	/* Records are small, and what follows waits for them. */
	setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (getsockname(connection->fd, (struct sockaddr *)&address, &length))
		return -errno;
	name_address(&address, connection->local);
	length = sizeof(address);
	if (getpeername(connection->fd, (struct sockaddr *)&address, &length))
		return -errno;
	name_address(&address, connection->remote);
	return 0;
}

static int resolve(struct report *report, const char *name, const char *service, int flags,
		   int family, struct addrinfo **out)
{
	struct addrinfo hints = { .ai_family = family,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = flags | AI_NUMERICSERV };
	int rc = getaddrinfo(name, service, &hints, out);

	if (rc == 0)
		return 0;
	if (flags & AI_PASSIVE)
		return report_fail(report, -EADDRNOTAVAIL,
				   "--bind %s is not an address of this host: %s", name,
				   gai_strerror(rc));
	return report_fail(report, -ENOENT, "unknown host %s: %s", name,
			   rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
}

/* One address, once. */
static int try_address(const struct addrinfo *to, const struct addrinfo *from, uint64_t deadline,
		       struct connection *out)
{
	socklen_t length = sizeof(int);
	int error = 0;
	int fd, rc;

	fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (from && bind(fd, from->ai_addr, from->ai_addrlen)) {
		rc = -errno;
		goto close_socket;
	}
	if (connect(fd, to->ai_addr, to->ai_addrlen) && errno != EINPROGRESS) {
		rc = -errno;
		goto close_socket;
	}
	rc = wait_for(fd, POLLOUT, deadline);
	if (rc)
		goto close_socket;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length))
		error = errno;
	rc = -error;
	if (rc)
		goto close_socket;
	out->fd = fd;
	rc = settle(out);
	if (rc)
		goto close_socket;
	return 0;

close_socket:
	close(fd);
	out->fd = -1;
	return rc;
}

/* Every address in turn, each with its share of the time. A refusal outranks other errors: the host is there. */
static int try_all(const struct addrinfo *to, const struct addrinfo *from, uint64_t deadline,
		   struct connection *out)
{
	unsigned left = 0;
	int worst = -EHOSTUNREACH;

	for (const struct addrinfo *a = to; a; a = a->ai_next)
		left++;
	for (const struct addrinfo *a = to; a; a = a->ai_next, left--) {
		uint64_t now = rendezvous_now();
		uint64_t share = deadline > now ? (deadline - now) / left : 0;
		int rc = try_address(a, from, now + share, out);

		if (rc == 0 || rc == -EINTR)
			return rc;
		if (worst != -ECONNREFUSED)
			worst = rc;
	}
	return worst;
}

static int explain_unreachable(struct report *report, const struct options *options, int error)
{
	if (error == -EINTR)
		return error;
	if (error == -ECONNREFUSED)
		return report_fail(
			report, error,
			"cannot reach %s port %u: connection refused; is `godwit %s` running there?",
			options->host, options->port, options->counterpart);
	if (error == -ETIMEDOUT)
		return report_fail(report, error, "cannot reach %s port %u: no answer within %g s",
				   options->host, options->port,
				   (double)options->timeout_ns / (double)NS_PER_SECOND);
	if (error == -EADDRNOTAVAIL && options->bind)
		return report_fail(report, error, "--bind %s is not an address of this host",
				   options->bind);
	return report_fail(report, error, "cannot reach %s port %u: %s", options->host,
			   options->port, strerror(-error));
}

int rendezvous_connect(struct report *report, const struct options *options, struct connection *out)
{
	struct addrinfo *to = NULL, *from = NULL;
	uint64_t now = rendezvous_now();
	uint64_t deadline = now + options->timeout_ns;
	uint64_t patience = now + REFUSED_PATIENCE_NS;
	char service[8];
	int rc = 0;

	if (options->bind)
		rc = resolve(report, options->bind, NULL, AI_PASSIVE, AF_UNSPEC, &from);
	if (rc)
		return rc;
	snprintf(service, sizeof(service), "%u", options->port);
	rc = resolve(report, options->host, service, 0, from ? from->ai_family : AF_UNSPEC, &to);
	if (rc)
		goto free_from;
	for (;;) {
		rc = try_all(to, from, deadline, out);
		now = rendezvous_now();
		if (rc != -ECONNREFUSED || now >= patience || now >= deadline)
			break;
		if (wait_for(-1, 0, now + REFUSED_PAUSE_NS) == -EINTR) {
			rc = -EINTR;
			break;
		}
	}
	if (rc)
		rc = explain_unreachable(report, options, rc);
	freeaddrinfo(to);
free_from:
	if (from)
		freeaddrinfo(from);
	return rc;
}

static int listen_on(const struct sockaddr *address, socklen_t length, int *out)
{
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, off = 0;
	int rc;

	if (fd < 0)
		return -errno;
	/* A port whose last connection still lingers is free for us. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, address, length) || listen(fd, 16)) {
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

int rendezvous_listen(struct report *report, const struct options *options, int *out)
{
	struct addrinfo *addresses;
	char service[8];
	int rc;

	if (!options->bind) {
		rc = listen_anywhere(options->port, out);
	} else {
		snprintf(service, sizeof(service), "%u", options->port);
		rc = resolve(report, options->bind, service, AI_PASSIVE, AF_UNSPEC, &addresses);
		if (rc)
			return rc;
		rc = listen_on(addresses->ai_addr, addresses->ai_addrlen, out);
		freeaddrinfo(addresses);
	}
	if (rc == -EADDRINUSE)
		return report_fail(
			report, rc,
			"TCP port %u is in use by another program; choose another with --port at both ends",
			options->port);
	if (rc == -EACCES)
		return report_fail(
			report, rc,
			"TCP port %u is not for ordinary users; choose one above 1023 with --port at both ends",
			options->port);
	if (rc == -EADDRNOTAVAIL && options->bind)
		return report_fail(report, rc, "--bind %s is not an address of this host",
				   options->bind);
	if (rc)
		return report_fail(report, rc, "cannot listen on TCP port %u: %s", options->port,
				   strerror(-rc));
	return 0;
}

int rendezvous_accept(int listener, struct connection *out)
{
	int rc;

	for (;;) {
		rc = wait_for(listener, POLLIN, NO_DEADLINE);
		if (rc)
			return rc;
		out->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (out->fd >= 0)
			break;
		/* The caller may have hung up already: wait for the next. */
		if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR && errno != EPROTO)
			return -errno;
	}
	rc = settle(out);
	/* It hung up in this very moment. Reading from it will say so. */
	if (rc == -ENOTCONN)
		snprintf(out->remote, sizeof(out->remote), "an unknown address");
	else if (rc)
		rendezvous_close(out);
	return rc == -ENOTCONN ? 0 : rc;
}

void rendezvous_close(struct connection *connection)
{
	if (connection->fd >= 0)
		close(connection->fd);
	connection->fd = -1;
}

int rendezvous_look(const struct connection *connection)
{
	struct pollfd fd = { .fd = connection->fd, .events = POLLIN | POLLRDHUP };
	int seen = 0;

	if (poll(&fd, 1, 0) <= 0)
		return 0;
	if (fd.revents & POLLIN)
		seen |= RENDEZVOUS_READABLE;
	if (fd.revents & (POLLRDHUP | POLLHUP | POLLERR))
		seen |= RENDEZVOUS_HUNG_UP;
	return seen;
}

int rendezvous_write(struct connection *connection, enum protocol_kind kind, const void *body,
		     size_t length, uint64_t deadline)
{
	struct protocol_header header = { .version = PROTOCOL_VERSION,
					  .kind = (uint16_t)kind,
					  .length = (uint32_t)length };
	uint8_t record[PROTOCOL_HEADER + PROTOCOL_BODY_MAX];
	size_t total = PROTOCOL_HEADER + length;
	size_t done = 0;

	if (length > PROTOCOL_BODY_MAX)
		return -EMSGSIZE;
	protocol_encode_header(&header, record);
	memcpy(record + PROTOCOL_HEADER, body, length);
	while (done < total) {
		ssize_t n = send(connection->fd, record + done, total - done, MSG_NOSIGNAL);
		int rc;

		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		rc = wait_for(connection->fd, POLLOUT, deadline);
		if (rc)
			return rc;
	}
	return 0;
}

static int read_exactly(int fd, uint8_t *buffer, size_t length, uint64_t deadline)
{
	size_t done = 0;

	while (done < length) {
		ssize_t n = recv(fd, buffer + done, length - done, 0);
		int rc;

		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		if (n == 0)
			return -ECONNRESET;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		rc = wait_for(fd, POLLIN, deadline);
		if (rc)
			return rc;
	}
	return 0;
}

int rendezvous_read(struct connection *connection, uint8_t body[PROTOCOL_BODY_MAX],
		    uint64_t deadline, struct protocol_header *header)
{
	uint8_t bytes[PROTOCOL_HEADER];
	int rc;

	rc = read_exactly(connection->fd, bytes, sizeof(bytes), deadline);
	if (rc)
		return rc;
	rc = protocol_decode_header(bytes, header);
	if (rc)
		return rc;
	if (header->version != PROTOCOL_VERSION)
		return -EPROTONOSUPPORT;
	if (header->length > PROTOCOL_BODY_MAX)
		return -EPROTO;
	return read_exactly(connection->fd, body, header->length, deadline);
}

void rendezvous_refuse(struct connection *connection, const char *text)
{
	uint64_t deadline = rendezvous_now() + FAREWELL_NS;
	uint8_t discard[PROTOCOL_BODY_MAX];
	size_t length = strlen(text);

	if (length > PROTOCOL_TEXT)
		length = PROTOCOL_TEXT;
	if (rendezvous_write(connection, PROTOCOL_KIND_REFUSE, text, length, deadline) == 0) {
		/* Closing with bytes unread would reset the connection and take the sentence with it. */
		shutdown(connection->fd, SHUT_WR);
		for (int i = 0; i < FAREWELL_READS; i++) {
			if (read_exactly(connection->fd, discard, sizeof(discard), deadline))
				break;
		}
	}
	rendezvous_close(connection);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the two ends find each other: one TCP connection that carries a hello and its answer. No byte of the
 * data goes over it. Its own local address is also the fabric's, so that packets take
 * a path that is known to work.
 */
#ifndef TOOLS_RENDEZVOUS_H
#define TOOLS_RENDEZVOUS_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "options.h"
#include "tools/file/protocol.h"

struct report;

#define ADDRESS_TEXT (INET6_ADDRSTRLEN + 32) /* with a scope such as %eth0 */

struct connection {
	int fd;			  /* -1 when closed */
	char local[ADDRESS_TEXT]; /* numeric; IPv4 as such even on an IPv6 socket */
	char remote[ADDRESS_TEXT];
};

/* Reaches options->host. Waits a little for an end that is just being started. */
int rendezvous_connect(struct report *report, const struct options *options,
		       struct connection *out);

/* Waits on options->port; `*out` is the listening socket. */
int rendezvous_listen(struct report *report, const struct options *options, int *out);

/* The next to call. -EINTR when a signal came. */
int rendezvous_accept(int listener, struct connection *out);

void rendezvous_close(struct connection *connection);

#define RENDEZVOUS_READABLE 1 /* a record, or a part of one, has come */
#define RENDEZVOUS_HUNG_UP  2

/* What can be seen of the connection without waiting: some of the above. */
int rendezvous_look(const struct connection *connection);

/* Sends one record. Deadlines are in nanoseconds of rendezvous_now(). -ETIMEDOUT, -EINTR, -errno. */
int rendezvous_write(struct connection *connection, enum protocol_kind kind, const void *body,
		     size_t length, uint64_t deadline);

/*
 * Reads one record of this version.
 * -EPROTO           that is no such thing
 * -EPROTONOSUPPORT  of another version, which header->version tells
 * -ECONNRESET       the other end closed before it was complete
 * -ETIMEDOUT, -EINTR, -errno
 */
int rendezvous_read(struct connection *connection, uint8_t body[PROTOCOL_BODY_MAX],
		    uint64_t deadline, struct protocol_header *header);

/* Says no in a sentence and closes, giving the sentence a moment to arrive. */
void rendezvous_refuse(struct connection *connection, const char *text);

uint64_t rendezvous_now(void);

#endif

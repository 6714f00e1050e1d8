/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for a caller, and being one: what is said when the other end is not what it should be. */
#include "meet.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "report.h"
#include "session.h"

/* A stranger who says nothing holds others up no longer. */
#define HELLO_PATIENCE_NS UINT64_C(3000000000)

int meet_listen(struct report *report, const struct options *options, int *out)
{
	int rc = rendezvous_listen(report, options, out);

	if (rc)
		return rc;
	if (!options->quiet && isatty(STDERR_FILENO))
		fprintf(stderr, "waiting on [%s]:%u\n",
			options->bind ? options->bind : "::", options->port);
	return 0;
}

/* -EAGAIN: this was a stranger, wait for the next. */
static int read_hello(struct report *report, const struct options *options, enum protocol_kind kind,
		      meet_decode *decode, void *hello, struct connection *connection)
{
	uint64_t patience =
		options->timeout_ns < HELLO_PATIENCE_NS ? options->timeout_ns : HELLO_PATIENCE_NS;
	uint8_t body[PROTOCOL_BODY_MAX];
	struct protocol_header header = { 0 };
	char text[PROTOCOL_TEXT];
	int rc;

	rc = rendezvous_read(connection, body, rendezvous_now() + patience, &header);
	if (rc == 0 && header.kind != kind)
		rc = -EPROTO;
	if (rc == 0)
		rc = decode(body, header.length, hello);
	if (rc == 0 || rc == -EINTR)
		return rc;
	snprintf(text, sizeof(text), "not `godwit %s`", options->counterpart);
	if (rc == -EPROTONOSUPPORT) {
		snprintf(text, sizeof(text),
			 "this end speaks version %d of the protocol, the caller version %u",
			 PROTOCOL_VERSION, header.version);
		rendezvous_refuse(connection, text);
	} else if (rc == -ETIMEDOUT) {
		snprintf(text, sizeof(text), "it said nothing");
	} else if (rc == -ECONNRESET) {
		snprintf(text, sizeof(text), "it hung up");
	}
	report_warn(report, "ignored a connection from %s: %s", connection->remote, text);
	rendezvous_close(connection);
	return -EAGAIN;
}

int meet_caller(struct report *report, const struct options *options, int listener,
		enum protocol_kind kind, meet_decode *decode, void *hello, struct connection *out)
{
	int rc;

	do {
		rc = rendezvous_accept(listener, out);
		if (rc && rc != -EINTR)
			report_fail(report, rc, "cannot accept a connection: %s", strerror(-rc));
		if (rc == 0)
			rc = read_hello(report, options, kind, decode, hello, out);
	} while (rc == -EAGAIN);
	return rc;
}

int meet_explain(struct report *report, const struct options *options, int error,
		 const struct protocol_header *header)
{
	const char *host = options->host;

	switch (error) {
	case -EINTR:
		return error;
	case -EPROTO:
		return report_fail(report, error, "what answers on %s port %u is not `godwit %s`",
				   host, options->port, options->counterpart);
	case -EPROTONOSUPPORT:
		return report_fail(report, error,
				   "%s speaks version %u of the protocol, this end version %u",
				   host, header->version, PROTOCOL_VERSION);
	case -ETIMEDOUT:
		return report_fail(report, error, "%s did not answer within %g s; nothing was sent",
				   host, session_seconds(options->timeout_ns));
	case -ECONNRESET:
		return report_fail(
			report, error,
			"%s hung up without an answer; it may be serving another, or run something other than `godwit %s`",
			host, options->counterpart);
	default:
		return report_fail(report, error, "lost %s before anything was sent: %s", host,
				   strerror(-error));
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The attributes of a rendezvous, from the options. */
#include "meet.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/interrupt.h"
#include "tools/report.h"

/* Version of the messages between commands; the same for all commands. */
#define PROTOCOL_VERSION 3

/* The names of both ends, as attributes point to them. */
struct names {
	char own[GW_RENDEZVOUS_SERVICE_MAX + 1];
	char peer[GW_RENDEZVOUS_SERVICE_MAX + 1];
};

static struct gw_rendezvous_attr describe(const struct report *report,
					  const struct options *options, struct names *names)
{
	snprintf(names->own, sizeof(names->own), "godwit %s", report->command);
	snprintf(names->peer, sizeof(names->peer), "godwit %s", options->counterpart);
	return (struct gw_rendezvous_attr){
		.bind = options->bind,
		.port = options->port,
		.service = names->own,
		.peer_service = names->peer,
		.service_version = PROTOCOL_VERSION,
		.interrupt_fd = interrupt_fd(),
		.secret_file = options->secret_file,
		.timeout_ns = options->timeout_ns,
	};
}

int meet_explain(struct report *report, int error)
{
	return error == -EINTR ? error : report_fail(report, error, "%s", gw_rendezvous_error());
}

/* Names the options, which the library does not know. */
static int explain_options(struct report *report, const struct options *options, int error)
{
	if (error == -EADDRINUSE)
		return report_fail(
			report, error,
			"TCP port %u is in use by another program; choose another with --port at both ends",
			options->port);
	if (error == -EADDRNOTAVAIL && options->bind)
		return report_fail(report, error, "--bind %s is not an address of this host",
				   options->bind);
	return meet_explain(report, error);
}

int meet_connect(struct report *report, const struct options *options, struct gw_rendezvous **out)
{
	struct names names = { "", "" };
	struct gw_rendezvous_attr attr = describe(report, options, &names);
	int rc;

	attr.host = options->host;
	rc = gw_rendezvous_connect(&attr, out);
	return rc ? explain_options(report, options, rc) : 0;
}

static void warn(void *arg, const char *address, const char *why)
{
	report_warn(arg, "ignored a connection from %s: %s", address, why);
}

int meet_listen(struct report *report, const struct options *options,
		struct gw_rendezvous_listener **out)
{
	struct names names = { "", "" };
	struct gw_rendezvous_attr attr = describe(report, options, &names);
	int rc;

	attr.ignored = warn;
	attr.arg = report;
	rc = gw_rendezvous_listen(&attr, out);
	if (rc)
		return explain_options(report, options, rc);
	if (!options->quiet && isatty(STDERR_FILENO))
		fprintf(stderr, "waiting on [%s]:%u\n",
			options->bind ? options->bind : "::", options->port);
	return 0;
}

int meet_accept(struct report *report, struct gw_rendezvous_listener *listener,
		struct gw_rendezvous **out)
{
	int rc = gw_rendezvous_accept(listener, UINT64_MAX, out);

	return rc ? meet_explain(report, rc) : 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The attributes of a rendezvous, from the options. */
#include "meet.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/interrupt.h"
#include "tools/report.h"
#include "tools/session.h"

/* Version of the messages between commands; the same for all commands. */
#define PROTOCOL_VERSION 3

/* Connections turned away that are named before the warnings become fewer, and the least pause between two from then on:
 * strangers must not be able to fill a log. */
#define NAMED_AT_ONCE  32
#define NAMED_PAUSE_NS UINT64_C(1000000000)

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

void meet_ignore(const struct report *report, const char *address, const char *why)
{
	/* A process waits on one port at a time. */
	static unsigned named, skipped;
	static uint64_t last_ns;
	uint64_t now = session_now();

	if (named == NAMED_AT_ONCE && now - last_ns < NAMED_PAUSE_NS) {
		skipped++;
		return;
	}
	if (skipped)
		report_warn(report, "ignored %u more connections", skipped);
	skipped = 0;
	last_ns = now;
	if (named < NAMED_AT_ONCE)
		named++;
	report_warn(report, "ignored a connection from %s: %s", address, why);
}

void meet_refuse(const struct report *report, struct gw_rendezvous_listener *listener,
		 struct gw_rendezvous **rendezvous, const char *reply, const char *why)
{
	meet_ignore(report, gw_rendezvous_remote(*rendezvous), why);
	gw_rendezvous_listener_refuse(listener, *rendezvous, reply);
	*rendezvous = NULL;
}

static void ignored(void *arg, const char *address, const char *why)
{
	meet_ignore(arg, address, why);
}

int meet_listen(struct report *report, const struct options *options,
		struct gw_rendezvous_listener **out)
{
	struct names names = { "", "" };
	struct gw_rendezvous_attr attr = describe(report, options, &names);
	int rc;

	attr.from = options->from;
	attr.ignored = ignored;
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

int meet_seal(struct report *report, const struct options *options, struct gw_rendezvous *r,
	      struct gw_seal *memory, const struct gw_seal **out)
{
	static const char purpose[] = "sealed packets";
	struct gw_rendezvous_keys keys;
	int rc;

	*out = NULL;
	if (!options->seal)
		return 0;
	rc = gw_rendezvous_keys(r, purpose, sizeof(purpose), &keys);
	if (rc)
		return meet_explain(report, rc);
	memcpy(memory->tx, keys.tx, sizeof(memory->tx));
	memcpy(memory->rx, keys.rx, sizeof(memory->rx));
	explicit_bzero(&keys, sizeof(keys));
	*out = memory;
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end that waits. It serves one caller at a time: two examinations would measure each other. Until a caller has shown
 * the right name (and the secret, if there is one) over TCP it gets no packet, and its UDP ports are not open; then it gets
 * a bounded number of them, for a bounded time, at the address that it called from.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pair.h"
#include "pair_session.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/meet.h"
#include "tools/session.h"

static int serve_one(struct report *report, const struct options *options,
		     struct gw_rendezvous_listener *listener)
{
	struct pair pair = { 0 };
	struct pair_session session = { .udp_port = options->udp_port,
					.interrupt_fd = interrupt_fd() };
	uint64_t began;
	int rc = meet_accept(report, listener, &session.rendezvous);

	if (rc)
		return rc;
	began = session_now();
	gethostname(pair.here.name, sizeof(pair.here.name) - 1);
	rc = pair_session_run(&session, &pair);
	if (rc && rc != -EINTR)
		meet_ignore(report, gw_rendezvous_remote(session.rendezvous),
			    rc == -EPROTO      ? "it said something unexpected"
			    : rc == -ETIMEDOUT ? "it stopped answering"
					       : gw_rendezvous_error());
	else if (rc == 0 && !options->quiet)
		fprintf(stderr, "godwit doctor: %s (%s) examined the path in %.1f s\n",
			gw_rendezvous_remote(session.rendezvous), pair.there.name,
			session_seconds(session_now() - began));
	gw_rendezvous_close(session.rendezvous);
	return rc == -EINTR ? rc : 0;
}

int pair_serve(struct report *report, const struct options *options, bool once)
{
	struct gw_rendezvous_listener *listener = NULL;
	int rc = session_prepare(report);

	rc = rc ? rc : meet_listen(report, options, &listener);
	while (rc == 0) {
		rc = serve_one(report, options, listener);
		if (once)
			break;
	}
	gw_rendezvous_listener_close(listener);
	if (interrupt_signal())
		return EXIT_BY_SIGNAL + interrupt_signal();
	if (rc)
		fprintf(stderr, "godwit doctor: %s\n", report->error);
	return rc ? DIAGNOSIS_NOT_EXAMINED : 0;
}

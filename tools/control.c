/* SPDX-License-Identifier: BSD-3-Clause */
/* One record is read ahead, so that what comes early waits for its turn and what comes late can be looked for. */
#include "control.h"

#include <errno.h>
#include <string.h>

#include <godwit/godwit.h>

#include "interrupt.h"
#include "report.h"
#include "session.h"

#define NAP_NS	     UINT64_C(100000)
#define LAST_WORD_NS UINT64_C(300000000)

static int explain(struct perf_talk *talk, int error)
{
	const char *peer = talk->report->peer;

	talk->lost = error != -EINTR;
	switch (error) {
	case -EINTR:
		return error;
	case -ETIMEDOUT:
		return report_fail(talk->report, error, "%s went silent for %g s", peer,
				   session_seconds(talk->options->timeout_ns));
	case -ECONNRESET:
	case -EPIPE:
		return report_fail(talk->report, error, "%s hung up in the middle of the test",
				   peer);
	case -EPROTO:
	case -EPROTONOSUPPORT:
		return report_fail(talk->report, error, "%s said something that makes no sense",
				   peer);
	default:
		return report_fail(talk->report, error, "lost %s: %s", peer, strerror(-error));
	}
}

int perf_talk_say(struct perf_talk *talk, enum protocol_kind kind, const void *body, size_t length)
{
	int rc = rendezvous_write(&talk->connection, kind, body, length,
				  rendezvous_now() + talk->options->timeout_ns);

	/* Who refuses also hangs up: its reason outranks our broken pipe. */
	if (rc == -EPIPE || rc == -ECONNRESET) {
		int heard = perf_talk_watch(talk);

		return heard ? heard : explain(talk, rc);
	}
	return rc ? explain(talk, rc) : 0;
}

static int read_record(struct perf_talk *talk, uint64_t deadline)
{
	int rc = rendezvous_read(&talk->connection, talk->body, deadline, &talk->header);

	if (rc)
		return explain(talk, rc);
	if (talk->header.kind == PROTOCOL_KIND_REFUSE)
		return report_fail(talk->report, -ECONNREFUSED, "%s refused: %.*s",
				   talk->report->peer, (int)talk->header.length,
				   (const char *)talk->body);
	talk->pending = true;
	return 0;
}

static int hear_any(struct perf_talk *talk)
{
	uint64_t deadline = rendezvous_now() + talk->options->timeout_ns;
	int rc;

	/* What was said last may still have to be repeated, so the fabric has to go on. */
	while (talk->ctx && !talk->pending && !rendezvous_look(&talk->connection)) {
		if (interrupt_signal())
			return -EINTR;
		if (rendezvous_now() >= deadline)
			return explain(talk, -ETIMEDOUT);
		gw_wait(talk->ctx, NAP_NS);
	}
	rc = talk->pending ? 0 : read_record(talk, deadline);
	talk->pending = false;
	return rc;
}

int perf_talk_hear(struct perf_talk *talk)
{
	int rc;

	/* That the peer has sent everything is no news to one that has everything. */
	do {
		rc = hear_any(talk);
	} while (rc == 0 && talk->header.kind == PROTOCOL_KIND_PERF_SENT);
	return rc;
}

int perf_talk_hear_kind(struct perf_talk *talk, enum protocol_kind kind)
{
	int rc = perf_talk_hear(talk);

	if (rc == 0 && talk->header.kind != kind)
		rc = explain(talk, -EPROTO);
	return rc;
}

int perf_talk_watch(struct perf_talk *talk)
{
	int seen = rendezvous_look(&talk->connection);
	int rc;

	if (seen & RENDEZVOUS_READABLE && !talk->pending) {
		rc = read_record(talk, rendezvous_now() + talk->options->timeout_ns);
		if (rc)
			return rc;
	}
	return seen & RENDEZVOUS_HUNG_UP ? explain(talk, -ECONNRESET) : 0;
}

int perf_talk_explain_loss(struct perf_talk *talk, int error)
{
	uint64_t deadline = rendezvous_now() + LAST_WORD_NS;
	char reason[256];
	int rc;

	if (error == -EINTR)
		return error;
	if (error == -ECONNRESET && !talk->pending) {
		while (!rendezvous_look(&talk->connection) && rendezvous_now() < deadline &&
		       !interrupt_signal())
			gw_wait(talk->ctx, NAP_NS);
		rc = perf_talk_watch(talk);
		if (rc)
			return rc;
	}
	talk->lost = true;
	session_describe_loss(reason, sizeof(reason), talk->report->peer, error, talk->options,
			      talk->ctx);
	return report_fail(talk->report, error, "%s", reason);
}

void perf_talk_give_up(struct perf_talk *talk)
{
	if (talk->connection.fd >= 0 && talk->report->error[0] != '\0' && !talk->lost)
		rendezvous_refuse(&talk->connection, talk->report->error);
	rendezvous_close(&talk->connection);
}

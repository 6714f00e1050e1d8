/* SPDX-License-Identifier: BSD-3-Clause */
/* One message is read ahead, so that one that comes early waits for its turn. */
#include "control.h"

#include <errno.h>
#include <string.h>

#include <godwit/godwit.h>

#include "tools/interrupt.h"
#include "tools/meet.h"
#include "tools/report.h"
#include "tools/session.h"

#define NAP_NS	     UINT64_C(100000)
#define LAST_WORD_NS UINT64_C(300000000)
/* limit of a wait while the fabric hears the peer, in units of --timeout */
#define HEARD_LIMIT 6
/* the same while the fabric does not watch: after the loss of a SYN, TCP waits 3 s before it first repeats a segment */
#define UNHEARD_LIMIT 3

static int explain(struct control *control, int error)
{
	control->lost = error != -EINTR && error != -EPROTO;
	return meet_explain(control->report, error);
}

int control_explain_nonsense(struct control *control)
{
	return report_fail(control->report, -EPROTO, "%s sent something that makes no sense",
			   control->report->peer);
}

int control_send(struct control *control, uint32_t kind, const void *body, size_t length)
{
	int rc = gw_rendezvous_send(control->rendezvous, kind, body, length);

	return rc ? explain(control, rc) : 0;
}

static int keep(struct control *control, const struct gw_rendezvous_message *message)
{
	control->kind = message->kind;
	control->length = message->length;
	memcpy(control->body, message->data, message->length);
	control->pending = true;
	return 0;
}

uint64_t control_patience_ns(const struct control *control)
{
	return control->options->timeout_ns * (control->gone ? HEARD_LIMIT : UNHEARD_LIMIT);
}

static int explain_silence(struct control *control, uint64_t limit_ns)
{
	control->lost = true;
	return report_fail(control->report, -ETIMEDOUT, "%s was silent for %g s",
			   control->report->peer, session_seconds(limit_ns));
}

/* Waits for a message for UNHEARD_LIMIT times --timeout, or less if TCP itself gives up. Explains nothing. */
static int wait_long(struct control *control, struct gw_rendezvous_message *message)
{
	int rc = -ETIMEDOUT;

	for (int turn = 0; rc == -ETIMEDOUT && turn < UNHEARD_LIMIT; turn++)
		rc = gw_rendezvous_recv(control->rendezvous, message);
	return rc;
}

/* Waits for a message while there is no context. */
static int wait_idle(struct control *control, struct gw_rendezvous_message *message)
{
	uint64_t limit_ns = control_patience_ns(control), deadline = session_now() + limit_ns;
	int rc = wait_long(control, message);

	if (rc == -ETIMEDOUT && session_now() >= deadline)
		return explain_silence(control, limit_ns);
	return rc ? explain(control, rc) : 0;
}

/* Waits for a message while the fabric goes on: what was sent last may still have to be repeated. */
static int wait_busy(struct control *control, struct gw_rendezvous_message *message)
{
	uint64_t limit_ns = control_patience_ns(control), deadline = session_now() + limit_ns;
	int rc;

	while ((rc = gw_rendezvous_try_recv(control->rendezvous, message)) == -EAGAIN) {
		if (interrupt_signal())
			return -EINTR;
		if (control->gone && *control->gone == -ETIMEDOUT)
			deadline = 0, limit_ns = control->options->timeout_ns;
		if (session_now() >= deadline)
			return explain_silence(control, limit_ns);
		gw_wait(control->ctx, NAP_NS);
	}
	return rc ? explain(control, rc) : 0;
}

int control_recv(struct control *control)
{
	struct gw_rendezvous_message message;
	int rc = 0;

	if (!control->pending)
		rc = control->ctx ? wait_busy(control, &message) : wait_idle(control, &message);
	if (rc == 0 && !control->pending)
		keep(control, &message);
	control->pending = false;
	return rc;
}

int control_expect(struct control *control, uint32_t kind)
{
	int rc = control_recv(control);

	return rc == 0 && control->kind != kind ? control_explain_nonsense(control) : rc;
}

int control_poll(struct control *control)
{
	struct gw_rendezvous_message message;
	int rc;

	if (control->pending) {
		rc = gw_rendezvous_step(control->rendezvous);
		return rc < 0 ? explain(control, rc) : 0;
	}
	rc = gw_rendezvous_try_recv(control->rendezvous, &message);
	if (rc == 0)
		return keep(control, &message);
	return rc == -EAGAIN ? 0 : explain(control, rc);
}

void control_part(struct control *control)
{
	struct gw_rendezvous_message message;

	wait_long(control, &message);
}

int control_explain_loss(struct control *control, int error)
{
	uint64_t deadline = session_now() + LAST_WORD_NS;
	char reason[SESSION_LOSS_SIZE];
	int rc;

	if (error == -EINTR)
		return error;
	while (error == -ECONNRESET && !control->pending && session_now() < deadline &&
	       !interrupt_signal()) {
		rc = control_poll(control);
		if (rc)
			return rc;
		gw_wait(control->ctx, NAP_NS);
	}
	control->lost = true;
	session_describe_loss(reason, control->report, control->report->peer, error,
			      control->options, control->ctx);
	return report_fail(control->report, error, "%s", reason);
}

void control_give_up(struct control *control)
{
	if (control->rendezvous && control->report->error[0] != '\0' && !control->lost)
		gw_rendezvous_refuse(control->rendezvous, control->report->error);
	else
		gw_rendezvous_close(control->rendezvous);
	control->rendezvous = NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls on one connection: the ones that never block, and what blocks in terms of them. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"

#define FAREWELL_NS UINT64_C(500000000)

int gw_rendezvous_step(struct gw_rendezvous *r)
{
	return r ? connection_step(r) : error_set(-EINVAL, "no connection");
}

int gw_rendezvous_fd(const struct gw_rendezvous *r)
{
	return r ? r->own_watch.epoll_fd : -EINVAL;
}

const char *gw_rendezvous_local(const struct gw_rendezvous *r)
{
	return r ? r->local : "";
}

const char *gw_rendezvous_remote(const struct gw_rendezvous *r)
{
	return r ? r->remote : "";
}

const char *gw_rendezvous_peer_version(const struct gw_rendezvous *r)
{
	return r && r->greeted ? r->peer_hello.library : "";
}

int gw_rendezvous_keys(struct gw_rendezvous *r, const void *context, size_t length,
		       struct gw_rendezvous_keys *out)
{
	/* The connecting end's key comes first. */
	uint8_t both[2][GW_RENDEZVOUS_KEY_BYTES];
	int rc;

	if (!r || !out || (length && !context) || length > GW_RENDEZVOUS_MESSAGE_MAX)
		return error_set(-EINVAL, "no connection, or a context that is too long");
	if (!r->tls || r->state != OPEN)
		return error_set(-ENOTCONN, "there are no keys without a secret at both ends");
	rc = tls_export(r->tls, context, length, both[0], sizeof(both));
	if (rc)
		return error_set(rc, "cannot derive keys");
	memcpy(out->tx, both[r->server], sizeof(out->tx));
	memcpy(out->rx, both[!r->server], sizeof(out->rx));
	explicit_bzero(both, sizeof(both));
	return 0;
}

int gw_rendezvous_try_send(struct gw_rendezvous *r, uint32_t kind, const void *data, size_t length)
{
	int rc;

	if (!r || (length && !data) || kind > UINT16_MAX ||
	    (kind != GW_RENDEZVOUS_DESCRIPTION && kind < GW_RENDEZVOUS_KIND_MIN))
		return error_set(-EINVAL, "not a message");
	if (length > GW_RENDEZVOUS_MESSAGE_MAX)
		return error_set(-EMSGSIZE, "a message of %zu bytes is longer than %d", length,
				 GW_RENDEZVOUS_MESSAGE_MAX);
	if (r->state == FAILED)
		return error_set(r->status, "%s", r->why);
	rc = r->state == OPEN && !r->refusal_only ? connection_queue(r, kind, data, length)
						  : -EAGAIN;
	if (rc == -EAGAIN)
		return rc;
	if (rc)
		return connection_fail(r, rc, "cannot encrypt a message to %s", r->peer);
	/* An error shows in the next step, after what the other end may have said about it. */
	connection_flush(r);
	connection_rewatch(r);
	return 0;
}

int gw_rendezvous_try_recv(struct gw_rendezvous *r, struct gw_rendezvous_message *out)
{
	int rc;

	if (!r || !out)
		return error_set(-EINVAL, "no connection, or nowhere to put a message");
	rc = connection_next(r, out);
	if (rc != -EAGAIN)
		return rc;
	rc = connection_step(r);
	return rc < 0 ? rc : connection_next(r, out);
}

/* Waits for the connection to have something to do. */
static int wait_more(struct gw_rendezvous *r, uint64_t deadline)
{
	int rc = watch_wait(r->watch, r->identity.interrupt_fd, deadline);

	if (rc == -EINTR)
		return error_set(rc, "interrupted");
	if (rc == -ETIMEDOUT && !r->greeted) {
		r->answer_deadline = 0;
		return connection_step(r) < 0 ? r->status : rc;
	}
	if (rc == -ETIMEDOUT)
		return error_set(rc, "%s was silent for %g s", r->peer,
				 (double)r->identity.timeout_ns / 1e9);
	return rc ? error_set(rc, "cannot wait for %s: %s", r->peer, strerror(-rc)) : 0;
}

int gw_rendezvous_send(struct gw_rendezvous *r, uint32_t kind, const void *data, size_t length)
{
	uint64_t deadline;
	int rc;

	if (!r)
		return error_set(-EINVAL, "no connection");
	deadline = watch_now() + r->identity.timeout_ns;
	while ((rc = gw_rendezvous_try_send(r, kind, data, length)) == -EAGAIN) {
		rc = wait_more(r, deadline);
		if (rc == 0)
			rc = connection_step(r);
		if (rc < 0)
			return rc;
	}
	/* Until the system has all of it. */
	while (rc == 0 && (r->out_used > r->out_sent || (r->tls && tls_pending(r->tls)))) {
		rc = wait_more(r, deadline);
		if (rc == 0)
			rc = connection_step(r);
		rc = rc < 0 ? rc : 0;
	}
	return rc;
}

int gw_rendezvous_recv(struct gw_rendezvous *r, struct gw_rendezvous_message *out)
{
	uint64_t deadline;
	int rc;

	if (!r)
		return error_set(-EINVAL, "no connection");
	deadline = watch_now() + r->identity.timeout_ns;
	while ((rc = gw_rendezvous_try_recv(r, out)) == -EAGAIN) {
		rc = wait_more(r, deadline);
		if (rc)
			return rc;
	}
	return rc;
}

int gw_rendezvous_exchange(struct gw_rendezvous *r, const void *mine, size_t length, void *theirs,
			   size_t size)
{
	struct gw_rendezvous_message message = { 0 };
	int rc = gw_rendezvous_send(r, GW_RENDEZVOUS_DESCRIPTION, mine, length);

	if (rc == 0)
		rc = gw_rendezvous_recv(r, &message);
	if (rc)
		return rc;
	if (message.kind != GW_RENDEZVOUS_DESCRIPTION)
		return error_set(-EPROTO, "%s sent something that is not a description", r->peer);
	if (message.length > size)
		return error_set(-EMSGSIZE,
				 "%s sent a description of %u bytes where %zu were expected",
				 r->peer, message.length, size);
	memcpy(theirs, message.data, message.length);
	return (int)message.length;
}

void gw_rendezvous_refuse(struct gw_rendezvous *r, const char *why)
{
	size_t length = why ? strlen(why) : 0;
	struct gw_rendezvous_message ignored;
	uint64_t deadline;

	if (!r)
		return;
	deadline = watch_now() +
		   (r->identity.timeout_ns < FAREWELL_NS ? r->identity.timeout_ns : FAREWELL_NS);
	if (length > FRAME_TEXT)
		length = FRAME_TEXT;
	if (r->state == OPEN && connection_queue(r, FRAME_KIND_REFUSE, why, length) == 0 &&
	    connection_flush(r) == 0) {
		/* Closing with bytes unread would reset the connection and take the sentence with it. */
		shutdown(r->fd, SHUT_WR);
		for (int rc = 0; rc == 0 || rc == -EAGAIN;) {
			rc = gw_rendezvous_try_recv(r, &ignored);
			if (rc == -EAGAIN && watch_wait(r->watch, 0, deadline))
				break;
			if (watch_now() >= deadline)
				break;
		}
	}
	connection_free(r);
}

void gw_rendezvous_close(struct gw_rendezvous *r)
{
	if (r)
		connection_free(r);
}

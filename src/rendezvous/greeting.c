/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who the other end is: the frames that the rendezvous itself sends and takes, and the sentences for ends that do not
 * belong together. A listening end also keeps a sentence for the other end (`reply`).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "connection.h"

void greeting_send(struct gw_rendezvous *r, enum frame_kind kind)
{
	struct frame_hello hello = { .service_version = r->identity.service_version };
	uint8_t body[FRAME_HELLO];

	snprintf(hello.service, sizeof(hello.service), "%s", r->identity.service);
	snprintf(hello.library, sizeof(hello.library), "%s", gw_version());
	frame_encode_hello(&hello, body);
	/* The first frame of this end: there is room. */
	connection_queue(r, kind, body, sizeof(body));
}

void greeting_consume(struct gw_rendezvous *r)
{
	if (!r->consumed)
		return;
	r->in_used -= r->consumed;
	memmove(r->in, r->in + r->consumed, r->in_used);
	r->consumed = 0;
}

static int fail_frame(struct gw_rendezvous *r, int error, const struct frame_header *header)
{
	char wanted[FRAME_SERVICE + 16];

	identity_peer(&r->identity, wanted);
	if (error == -EPROTONOSUPPORT) {
		snprintf(r->reply, sizeof(r->reply),
			 "the caller speaks version %u of the rendezvous, this end version %u",
			 header->version, FRAME_VERSION);
		return connection_fail(
			r, error, "%s speaks version %u of the rendezvous, this end version %u",
			r->server ? "it" : r->peer, header->version, FRAME_VERSION);
	}
	if (r->greeted)
		return connection_fail(r, error, "%s sent something that is not a message",
				       r->peer);
	if (r->server)
		return connection_fail(r, error, "it is not %s", wanted);
	return connection_fail(r, error, "what answers on %s is not %s", r->peer, wanted);
}

int greeting_fail_eof(struct gw_rendezvous *r)
{
	char wanted[FRAME_SERVICE + 16];

	if (r->server && !r->greeted)
		return connection_fail(r, -ECONNRESET, "it hung up");
	if (r->silent)
		return connection_fail(r, -ETIMEDOUT, "%s was silent for %g s", r->peer,
				       (double)r->identity.silence_ns / 1e9);
	if (r->greeted)
		return connection_fail(r, -ECONNRESET, "%s closed the connection", r->peer);
	return connection_fail(
		r, -ECONNRESET,
		"%s hung up without an answer: it may be serving another, or is not %s", r->peer,
		identity_peer(&r->identity, wanted));
}

static int check_hello(struct gw_rendezvous *r, const struct frame_hello *hello)
{
	const struct identity *own = &r->identity;

	if (strcmp(hello->service, own->peer_service) != 0) {
		snprintf(r->reply, sizeof(r->reply),
			 "`%s` waits here for `%s`, and the caller is `%s`", own->service,
			 own->peer_service, hello->service);
		if (r->server)
			return connection_fail(r, -EPROTO, "it is `%s`, not `%s`", hello->service,
					       own->peer_service);
		return connection_fail(r, -EPROTO, "what answers on %s is `%s`, not `%s`", r->peer,
				       hello->service, own->peer_service);
	}
	if (hello->service_version != own->service_version) {
		snprintf(
			r->reply, sizeof(r->reply),
			"the caller has version %u of the protocol of `%s` (Godwit %s), this end version %u (Godwit %s)",
			hello->service_version, hello->service, hello->library,
			own->service_version, gw_version());
		return connection_fail(
			r, -EPROTONOSUPPORT,
			"%s has version %u of the protocol of `%s` (Godwit %s), this end version %u (Godwit %s)",
			r->server ? "it" : r->peer, hello->service_version, hello->service,
			hello->library, own->service_version, gw_version());
	}
	return 0;
}

/* The other end's first frame. */
static int meet(struct gw_rendezvous *r, const struct frame_header *header, const uint8_t *body)
{
	enum frame_kind wanted = r->server ? FRAME_KIND_HELLO : FRAME_KIND_WELCOME;
	int rc;

	if (r->refusal_only)
		return connection_fail(
			r, -EACCES,
			"%s has no secret, and this end has one: give both ends the same secret file",
			r->peer);
	if (header->kind != wanted || frame_decode_hello(body, header->length, &r->peer_hello))
		return fail_frame(r, -EPROTO, header);
	rc = check_hello(r, &r->peer_hello);
	if (rc)
		return rc;
	r->greeted = true;
	r->answer_deadline = WATCH_NEVER;
	if (r->server)
		greeting_send(r, FRAME_KIND_WELCOME);
	return 0;
}

int greeting_digest(struct gw_rendezvous *r, struct frame_header *header)
{
	char text[FRAME_TEXT + 1];

	for (;;) {
		int rc = frame_decode(r->in, r->in_used, header);

		if (rc < 0)
			return fail_frame(r, rc, header);
		if (rc == 0)
			return 0;
		if (header->kind == FRAME_KIND_REFUSE) {
			frame_decode_refusal(r->in + FRAME_HEADER, header->length, text);
			return connection_fail(r, -ECONNREFUSED, "%s refused: %s", r->peer, text);
		}
		if (r->greeted && header->kind != FRAME_KIND_DESCRIPTION &&
		    header->kind < GW_RENDEZVOUS_KIND_MIN)
			return fail_frame(r, -EPROTO, header);
		if (r->greeted)
			return 1;
		rc = meet(r, header, r->in + FRAME_HEADER);
		if (rc)
			return rc;
		r->consumed = FRAME_HEADER + header->length;
		greeting_consume(r);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes of a connection:
 *
 *	socket -> [TLS] -> in -> frames			frames -> [TLS] -> out -> socket
 *
 * `in` holds one frame at most, and nothing is read from the socket while it is full: a peer that sends faster than it is
 * listened to is held up by TCP.
 */
#include "connection.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define RAW_BYTES 4096

int connection_fail(struct gw_rendezvous *r, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(r->why, sizeof(r->why), format, arguments);
	va_end(arguments);
	r->state = FAILED;
	r->status = error;
	return error_set(error, "%s", r->why);
}

int connection_config(const struct gw_rendezvous_attr *attr, struct tls_config **out)
{
	struct secret secret;
	int rc;

	*out = NULL;
	if (!attr->secret_file)
		return 0;
	rc = secret_read(attr->secret_file, &secret);
	if (rc == 0)
		rc = tls_config_open(&secret, out);
	secret_wipe(&secret);
	return rc;
}

struct gw_rendezvous *connection_new(const struct identity *identity, bool server)
{
	struct gw_rendezvous *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->identity = *identity;
	r->server = server;
	r->fd = -1;
	list_init(&r->children);
	r->own_watch = (struct watch){ -1, -1 };
	r->answer_deadline = r->alarm = WATCH_NEVER;
	return r;
}

void connection_free(struct gw_rendezvous *r)
{
	children_forget(r);
	tls_close(r->tls);
	if (r->config_owned)
		tls_config_close(r->config);
	attempt_free(&r->attempt);
	/* Closing a socket takes it out of every epoll set. */
	if (r->fd >= 0)
		close(r->fd);
	watch_close(&r->own_watch);
	explicit_bzero(r->in, sizeof(r->in));
	free(r);
}

static int out_of_memory(struct gw_rendezvous *r)
{
	return connection_fail(r, -ENOMEM, "no memory for TLS");
}

static void opened(struct gw_rendezvous *r)
{
	r->state = OPEN;
	if (r->server)
		return;
	r->answer_deadline = watch_now() + r->identity.timeout_ns;
	greeting_send(r, FRAME_KIND_HELLO);
}

int connection_begin(struct gw_rendezvous *r)
{
	if (!r->config) {
		opened(r);
		return 0;
	}
	r->state = SECURING;
	/* A server waits for the first byte, which tells whether the other end speaks TLS. */
	if (r->server)
		return 0;
	if (tls_open(r->config, false, &r->tls))
		return out_of_memory(r);
	tls_handshake(r->tls);
	return 0;
}

/* ---- out ------------------------------------------------------------------------------------------------------- */

int connection_queue(struct gw_rendezvous *r, uint32_t kind, const void *body, size_t length)
{
	struct frame_header header = { .version = FRAME_VERSION,
				       .kind = (uint16_t)kind,
				       .length = (uint32_t)length };
	size_t queued = r->out_used + (r->tls ? tls_pending(r->tls) : 0);
	uint8_t frame[FRAME_MAX];

	if (queued + FRAME_HEADER + length + TLS_OVERHEAD > sizeof(r->out))
		return -EAGAIN;
	frame_encode_header(&header, frame);
	if (length)
		memcpy(frame + FRAME_HEADER, body, length);
	if (r->tls)
		return tls_write(r->tls, frame, FRAME_HEADER + length);
	memcpy(r->out + r->out_used, frame, FRAME_HEADER + length);
	r->out_used += FRAME_HEADER + length;
	return 0;
}

/* Whether the kernel gave up on the other host; what routers said last stands for the reason. */
static bool is_silence(const struct gw_rendezvous *r, int error)
{
	return r->identity.silence_ns &&
	       (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH);
}

int connection_flush(struct gw_rendezvous *r)
{
	for (;;) {
		ssize_t n;

		if (r->out_sent == r->out_used)
			r->out_sent = r->out_used = 0;
		if (r->tls)
			r->out_used += tls_take(r->tls, r->out + r->out_used,
						sizeof(r->out) - r->out_used);
		if (r->out_sent == r->out_used)
			return 0;
		n = send(r->fd, r->out + r->out_sent, r->out_used - r->out_sent,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		/* The system tells it once, to whoever asks first. */
		if (n < 0 && is_silence(r, errno))
			r->silent = true;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		r->out_sent += (size_t)n;
	}
}

/* ---- in -------------------------------------------------------------------------------------------------------- */

/* The first byte of the other end tells whether it speaks TLS. */
static int sort(struct gw_rendezvous *r, uint8_t first)
{
	bool secured = first == TLS_FIRST_BYTE;

	r->sorted = true;
	if (r->config && !secured && first == FRAME_FIRST_BYTE) {
		if (r->server) {
			snprintf(
				r->reply, sizeof(r->reply),
				"a secret is needed here and the caller has none: give both ends the same secret file");
			return connection_fail(r, -EACCES,
					       "it has no secret, and this end has one");
		}
		tls_close(r->tls);
		r->tls = NULL;
		r->refusal_only = true;
		r->state = OPEN;
	} else if (r->config && r->server) {
		if (tls_open(r->config, true, &r->tls))
			return out_of_memory(r);
	} else if (!r->config && r->server && secured) {
		snprintf(
			r->reply, sizeof(r->reply),
			"the caller has a secret and this end has none: give both ends the same secret file, or neither");
		return connection_fail(r, -EACCES, "it has a secret, and this end has none");
	}
	return 0;
}

static int secure(struct gw_rendezvous *r)
{
	int rc = tls_handshake(r->tls);

	if (rc > 0)
		opened(r);
	if (rc >= 0)
		return 0;
	connection_flush(r);
	if (r->server)
		return connection_fail(r, rc, "it does not hold this end's secret");
	return connection_fail(
		r, rc, "%s does not hold this end's secret: give both ends the same secret file",
		r->peer);
}

/* Decrypts as much as fits. */
static int decrypt(struct gw_rendezvous *r)
{
	int n = 0;

	if (r->state == SECURING && r->tls) {
		int rc = secure(r);

		if (rc)
			return rc;
	}
	while (r->state == OPEN && r->tls && r->in_used < sizeof(r->in)) {
		n = tls_read(r->tls, r->in + r->in_used, sizeof(r->in) - r->in_used);
		if (n <= 0)
			break;
		r->in_used += (size_t)n;
	}
	if (n == -ECONNRESET)
		r->eof = true;
	else if (n < 0)
		return connection_fail(r, n, "%s sent something that is not TLS", r->peer);
	return 0;
}

static int take(struct gw_rendezvous *r, const uint8_t *bytes, size_t length)
{
	int rc = 0;

	if (!r->sorted)
		rc = sort(r, bytes[0]);
	if (rc)
		return rc;
	if (r->tls)
		return tls_feed(r->tls, bytes, length) ? out_of_memory(r) : decrypt(r);
	memcpy(r->in + r->in_used, bytes, length);
	r->in_used += length;
	return 0;
}

static int receive(struct gw_rendezvous *r)
{
	uint8_t raw[RAW_BYTES];
	int rc = r->tls ? decrypt(r) : 0;

	while (rc == 0 && !r->eof && r->in_used < sizeof(r->in)) {
		size_t room = sizeof(r->in) - r->in_used;
		ssize_t n = recv(r->fd, raw, room < RAW_BYTES ? room : RAW_BYTES, MSG_DONTWAIT);

		if (n > 0) {
			r->received += (uint64_t)n;
			rc = take(r, raw, (size_t)n);
		} else if (n == 0 || errno == ECONNRESET) {
			r->eof = true;
		} else if (errno == EAGAIN) {
			break;
		} else if (is_silence(r, errno)) {
			r->silent = r->eof = true;
		} else if (errno != EINTR) {
			rc = connection_fail(r, -errno, "lost %s: %s", r->peer, strerror(errno));
		}
	}
	return rc;
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

static int check_answer(struct gw_rendezvous *r)
{
	char wanted[FRAME_SERVICE + 16];

	if (r->greeted || watch_now() < r->answer_deadline)
		return 0;
	return connection_fail(
		r, -ETIMEDOUT,
		"no answer from %s within %g s: is %s running there, is the port open?", r->peer,
		(double)r->identity.timeout_ns / 1e9, identity_peer(&r->identity, wanted));
}

/* SECURING or OPEN. */
static int exchange_bytes(struct gw_rendezvous *r)
{
	struct frame_header header;
	int lost = connection_flush(r);
	int rc = receive(r), ready;

	/* What the other end said before it went away counts more than that it went away. */
	if (rc == 0 && r->state == OPEN) {
		ready = greeting_digest(r, &header);
		if (ready < 0)
			return ready;
		if (ready == 0 && (r->eof || lost))
			return greeting_fail_eof(r);
	} else if (rc == 0 && (r->eof || lost)) {
		return greeting_fail_eof(r);
	}
	if (rc == 0)
		connection_flush(r);
	return rc ? rc : check_answer(r);
}

int connection_step(struct gw_rendezvous *r)
{
	int rc = 1;

	if (r->state == FAILED)
		return error_set(r->status, "%s", r->why);
	greeting_consume(r);
	if (r->state == CONNECTING) {
		rc = attempt_step(r);
		if (rc > 0)
			rc = connection_begin(r) ? r->status : 1;
	}
	if (rc > 0)
		rc = exchange_bytes(r);
	if (rc == 0)
		rc = r->state == OPEN;
	connection_rewatch(r);
	return rc;
}

int connection_next(struct gw_rendezvous *r, struct gw_rendezvous_message *out)
{
	struct frame_header header;
	int rc;

	if (r->state == FAILED)
		return error_set(r->status, "%s", r->why);
	if (r->state != OPEN)
		return -EAGAIN;
	greeting_consume(r);
	rc = greeting_digest(r, &header);
	if (rc <= 0)
		return rc ? rc : -EAGAIN;
	*out = (struct gw_rendezvous_message){ .kind = header.kind,
					       .length = header.length,
					       .data = r->in + FRAME_HEADER };
	r->consumed = FRAME_HEADER + header.length;
	return 0;
}

void connection_rewatch(struct gw_rendezvous *r)
{
	uint64_t deadline = r->answer_deadline;
	uint32_t events = 0;

	if (!r->watch)
		return;
	if (r->state == CONNECTING) {
		events = EPOLLOUT;
		deadline = r->fd >= 0 ? r->attempt.deadline : r->attempt.resume_at;
	} else if (r->state != FAILED) {
		if (!r->eof && r->in_used < sizeof(r->in))
			events |= EPOLLIN;
		if (r->out_used > r->out_sent || (r->tls && tls_pending(r->tls)))
			events |= EPOLLOUT;
	}
	if (r->fd >= 0 && watch_change(r->watch, r->fd, r->watched, events) == 0)
		r->watched = events;
	if (r->watch == &r->own_watch && r->alarm != deadline) {
		r->alarm = deadline;
		watch_until(r->watch, deadline);
	}
}

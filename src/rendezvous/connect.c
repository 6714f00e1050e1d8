/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connecting end's TCP: every address of the host in turn, each with its share of the time. If all refuse, it starts
 * over after a pause, for a listener that is just being started. If one accepts after others refused, the listener may have been started in
 * between: the others are asked once more, so that all who connect to a name come by the same address, and have one of its family themselves.
 *
 * An attempt without an answer is given up after a few seconds and made again, from another source port: the network may
 * send that along another path, and the kernel's pauses between repeated SYNs start over, which matters where many packets
 * are lost.
 */
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "connection.h"

#define NS_PER_MS	 UINT64_C(1000000)
#define RETRY_DEFAULT_NS (1000 * NS_PER_MS)
#define RETRY_PAUSE_NS	 (50 * NS_PER_MS)
#define PORT_DEFAULT	 4791
#define ATTEMPT_NS	 (3000 * NS_PER_MS)

void attempt_free(struct attempt *attempt)
{
	if (attempt->to)
		freeaddrinfo(attempt->to);
	if (attempt->from)
		freeaddrinfo(attempt->from);
	attempt->to = attempt->from = NULL;
}

static int explain(struct gw_rendezvous *r, int error)
{
	char wanted[FRAME_SERVICE + 16];

	identity_peer(&r->identity, wanted);
	if (error == -ECONNREFUSED)
		return connection_fail(r, error,
				       "cannot reach %s: connection refused; is %s running there?",
				       r->peer, wanted);
	if (error == -ETIMEDOUT)
		return connection_fail(
			r, error,
			"no answer from %s within %g s: is %s running there, is the port open?",
			r->peer, (double)r->identity.timeout_ns / 1e9, wanted);
	if (error == -EADDRNOTAVAIL && r->attempt.from)
		return connection_fail(r, error,
				       "the address to connect from is not one of this host");
	return connection_fail(r, error, "cannot reach %s: %s", r->peer, strerror(-error));
}

static int try_next(struct gw_rendezvous *r)
{
	struct attempt *attempt = &r->attempt;
	uint64_t now = watch_now();
	unsigned left = 1;

	for (const struct addrinfo *a = attempt->at->ai_next; a; a = a->ai_next)
		left++;
	attempt->deadline = now;
	if (attempt->last_deadline > now) {
		uint64_t share = (attempt->last_deadline - now) / left;

		attempt->deadline += share < ATTEMPT_NS ? share : ATTEMPT_NS;
	}
	return socket_connect(attempt->at, attempt->from, &r->fd);
}

static bool may_try_again(const struct attempt *attempt, uint64_t now)
{
	if (attempt->worst == -ECONNREFUSED)
		return now < attempt->retry_until;
	return attempt->worst == -ETIMEDOUT;
}

/* A refusal outranks other errors: the host is there. So does silence: the host may come yet. */
static bool outranks(int error, int worst)
{
	return error == -ECONNREFUSED || (worst != -ECONNREFUSED && worst != -ETIMEDOUT);
}

static void leave_address(struct gw_rendezvous *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	r->watched = 0;
}

/* The attempt on one address failed. 0: another follows. */
static int give_up_address(struct gw_rendezvous *r, int error)
{
	struct attempt *attempt = &r->attempt;
	uint64_t now = watch_now();

	leave_address(r);
	if (outranks(error, attempt->worst))
		attempt->worst = error;
	attempt->at = attempt->at->ai_next;
	if (attempt->at)
		return 0;
	if (now >= attempt->last_deadline || !may_try_again(attempt, now))
		return explain(r, attempt->worst);
	attempt->at = attempt->to;
	attempt->worst = -EHOSTUNREACH;
	attempt->resume_at = now + RETRY_PAUSE_NS;
	return 0;
}

/* An address accepts. True: those before it are asked once more. */
static bool starts_over(struct gw_rendezvous *r)
{
	struct attempt *attempt = &r->attempt;

	if (attempt->worst != -ECONNREFUSED || attempt->asked_again)
		return false;
	leave_address(r);
	attempt->at = attempt->to;
	attempt->worst = -EHOSTUNREACH;
	attempt->asked_again = true;
	return true;
}

/* -EINPROGRESS while it is undecided. */
static int outcome(const struct gw_rendezvous *r)
{
	struct pollfd fd = { .fd = r->fd, .events = POLLOUT };

	if (poll(&fd, 1, 0) > 0)
		return socket_connected(r->fd);
	return watch_now() < r->attempt.deadline ? -EINPROGRESS : -ETIMEDOUT;
}

int attempt_step(struct gw_rendezvous *r)
{
	int rc = 0;

	while (rc == 0) {
		if (r->fd < 0 && watch_now() < r->attempt.resume_at)
			return 0;
		if (r->fd < 0)
			rc = try_next(r);
		if (rc == 0)
			rc = outcome(r);
		if (rc == -EINPROGRESS)
			return 0;
		if (rc == 0 && starts_over(r))
			continue;
		if (rc == 0)
			rc = socket_name(r->fd, r->local, r->remote);
		if (rc == 0) {
			socket_set_silence(r->fd, r->identity.silence_ns);
			return 1;
		}
		rc = give_up_address(r, rc);
	}
	return rc;
}

static int resolve(const struct gw_rendezvous_attr *attr, struct attempt *out)
{
	uint16_t port = attr->port ? attr->port : PORT_DEFAULT;
	int rc = 0;

	if (attr->bind)
		rc = socket_resolve(attr->bind, 0, true, AF_UNSPEC, &out->from);
	if (rc == 0)
		rc = socket_resolve(attr->host, port, false,
				    out->from ? out->from->ai_family : AF_UNSPEC, &out->to);
	out->at = out->to;
	return rc;
}

static int prepare(struct gw_rendezvous *r, const struct gw_rendezvous_attr *attr)
{
	uint64_t now;
	int rc;

	snprintf(r->peer, sizeof(r->peer), strchr(attr->host, ':') ? "[%.255s]:%u" : "%.255s:%u",
		 attr->host, attr->port ? attr->port : PORT_DEFAULT);
	rc = connection_config(attr, &r->config);
	r->config_owned = true;
	if (rc == 0)
		rc = resolve(attr, &r->attempt);
	if (rc)
		return rc;
	rc = watch_open(&r->own_watch);
	if (rc)
		return error_set(rc, "cannot watch a connection: %s", strerror(-rc));
	r->watch = &r->own_watch;
	now = watch_now();
	r->attempt.worst = -EHOSTUNREACH;
	r->attempt.last_deadline = r->answer_deadline = now + r->identity.timeout_ns;
	r->attempt.retry_until = now + (attr->retry_ns ? attr->retry_ns : RETRY_DEFAULT_NS);
	return 0;
}

int gw_rendezvous_start(const struct gw_rendezvous_attr *attr, struct gw_rendezvous **out)
{
	struct identity identity;
	struct gw_rendezvous *r;
	int rc = identity_read(attr, &identity);

	if (rc)
		return rc;
	if (!out || !attr->host || !attr->host[0] || attr->flags || attr->from)
		return error_set(-EINVAL,
				 "no host to connect to, or an attribute that a listener has");
	r = connection_new(&identity, false);
	if (!r)
		return error_set(-ENOMEM, "no memory for a connection");
	rc = prepare(r, attr);
	if (rc == 0) {
		rc = connection_step(r);
		rc = rc < 0 ? rc : 0;
	}
	if (rc) {
		connection_free(r);
		return rc;
	}
	*out = r;
	return 0;
}

int gw_rendezvous_connect(const struct gw_rendezvous_attr *attr, struct gw_rendezvous **out)
{
	struct gw_rendezvous *r = NULL;
	int rc = out ? gw_rendezvous_start(attr, &r) : error_set(-EINVAL, "nowhere to put it");

	if (rc)
		return rc;
	assert(r);
	while ((rc = connection_step(r)) == 0) {
		rc = watch_wait(r->watch, r->identity.interrupt_fd, WATCH_NEVER);
		if (rc) {
			rc = error_set(rc, "interrupted while connecting to %s", r->peer);
			break;
		}
	}
	if (rc < 0) {
		connection_free(r);
		return rc;
	}
	*out = r;
	return 0;
}

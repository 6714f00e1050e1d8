/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A listener serves up to PLACES connections side by side until each has shown who it is and has sent its first message:
 *
 *	STRANGER	leaves after timeout_ns without a byte, and after HELLO_LIMIT times that at the latest
 *	GUEST		its first message is awaited for timeout_ns
 *	READY		waits for gw_rendezvous_accept()
 *	LEAVING		is read from until it hangs up, LEAVE_NS at most
 *
 * Patience costs nothing while there are free places; when there is none, place.c decides who goes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "origin.h"
#include "place.h"

#define NS_PER_MS    UINT64_C(1000000)
#define HELLO_LIMIT  3
#define LEAVE_NS     (500 * NS_PER_MS)
#define PORT_DEFAULT 4791

struct gw_rendezvous_listener {
	struct identity identity;
	struct tls_config *config;
	struct watch watch;
	int fd;
	uint16_t port;
	void (*ignored)(void *arg, const char *address, const char *why);
	void *arg;
	/* who may connect */
	struct origin_filter from;
	struct place places[PLACES];
};

static void drop(struct place *place)
{
	connection_free(place->r);
	*place = (struct place){ 0 };
}

static void ignore(struct gw_rendezvous_listener *listener, const struct gw_rendezvous *r,
		   const char *why)
{
	if (listener->ignored)
		listener->ignored(listener->arg, r->remote, why);
}

/* Sends the sentence for the other end. The connection stays until that has arrived. */
static void say_farewell(struct gw_rendezvous_listener *listener, struct place *place)
{
	struct gw_rendezvous *r = place->r;

	if (r->reply[0])
		connection_queue(r, FRAME_KIND_REFUSE, r->reply, strlen(r->reply));
	connection_flush(r);
	shutdown(r->fd, SHUT_WR);
	place->state = LEAVING;
	place->deadline = watch_now() + LEAVE_NS;
	if (watch_change(&listener->watch, r->fd, r->watched, EPOLLIN) == 0)
		r->watched = EPOLLIN;
}

/* The connection failed. */
static void turn_away(struct gw_rendezvous_listener *listener, struct place *place)
{
	struct gw_rendezvous *r = place->r;

	/* Who hangs up without a word has looked whether somebody listens (connect.c). */
	if (r->received || !r->eof)
		ignore(listener, r, r->why);
	/* A handshake that failed left an alert to send. */
	if (r->reply[0] || (r->tls && !r->greeted))
		say_farewell(listener, place);
	else
		drop(place);
}

static void serve_leaving(struct place *place, uint64_t now)
{
	uint8_t discard[512];
	ssize_t n = recv(place->r->fd, discard, sizeof(discard), MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || now >= place->deadline)
		drop(place);
}

/* Its first message is complete, and is left where it is. */
static bool has_message(const struct gw_rendezvous *r)
{
	struct frame_header header;

	return r->greeted && frame_decode(r->in, r->in_used, &header) == 1;
}

static void serve(struct gw_rendezvous_listener *listener, struct place *place, uint64_t now)
{
	struct gw_rendezvous *r = place->r;

	if (place->state == LEAVING) {
		serve_leaving(place, now);
		return;
	}
	if (place->state == READY)
		return;
	if (connection_step(r) < 0) {
		turn_away(listener, place);
		return;
	}
	if (has_message(r)) {
		place->state = READY;
		place->deadline = WATCH_NEVER;
		/* Nothing more is read until it is accepted. */
		if (watch_change(&listener->watch, r->fd, r->watched, 0) == 0)
			r->watched = 0;
		return;
	}
	if (r->greeted && place->state == STRANGER) {
		place->state = GUEST;
		place->deadline = place->last_deadline = now + listener->identity.timeout_ns;
	} else if (place->state == STRANGER && r->received > place->seen) {
		place->seen = r->received;
		place->deadline = now + listener->identity.timeout_ns;
	}
	if (now >= place->deadline || now >= place->last_deadline) {
		ignore(listener, r,
		       place->state == GUEST ? "its first message did not come"
					     : "it did not say who it is");
		drop(place);
	}
}

/* A place for a connection from there; null if the others have more right to theirs. */
static struct place *make_place(struct gw_rendezvous_listener *listener,
				const struct in6_addr *origin)
{
	struct place *place = place_find(listener->places, origin);

	if (place && place->r) {
		if (place->state != LEAVING)
			ignore(listener, place->r, "too many others came after it");
		drop(place);
	}
	return place;
}

static int admit(struct gw_rendezvous_listener *listener, int fd, const struct in6_addr *address,
		 uint64_t now)
{
	struct in6_addr origin = origin_key(address);
	struct place *place = make_place(listener, &origin);
	struct gw_rendezvous *r = place ? connection_new(&listener->identity, true) : NULL;

	if (!r) {
		close(fd);
		return place ? -ENOMEM : 0;
	}
	r->fd = fd;
	r->origin = origin;
	r->config = listener->config;
	r->watch = &listener->watch;
	/* It may have hung up by now: reading will show that. */
	if (socket_name(fd, r->local, r->remote))
		snprintf(r->remote, sizeof(r->remote), "an unknown address");
	snprintf(r->peer, sizeof(r->peer), "%s", r->remote);
	connection_begin(r);
	*place = (struct place){ .r = r,
				 .state = STRANGER,
				 .origin = r->origin,
				 .deadline = now + listener->identity.timeout_ns,
				 .last_deadline = now + HELLO_LIMIT * listener->identity.timeout_ns,
				 .came_at = now };
	serve(listener, place, now);
	return 0;
}

/* Hangs up on a connection from where nobody may connect. It learns nothing, and takes no place. */
static void shut_out(struct gw_rendezvous_listener *listener, int fd,
		     const struct sockaddr_storage *from)
{
	char name[ADDRESS_TEXT];

	close(fd);
	socket_name_address(from, name);
	if (listener->ignored)
		listener->ignored(listener->arg, name, "nobody may connect from there");
}

/* Out of descriptors or memory: the connection stays in the kernel's queue, and the caller is told. */
static bool exhausted(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/* What arrives faster than this has to wait: those that have a place must be served as well. */
static int admit_some(struct gw_rendezvous_listener *listener, uint64_t now)
{
	for (unsigned i = 0; i < PLACES; i++) {
		struct sockaddr_storage from = { 0 };
		socklen_t length = sizeof(from);
		int fd = accept4(listener->fd, (struct sockaddr *)&from, &length,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct in6_addr address;
		int rc;

		if (fd < 0 && errno == EAGAIN)
			return 0;
		if (fd < 0 && exhausted(errno))
			return error_set(-errno, "cannot accept a connection: %s", strerror(errno));
		/* Errors of the connection itself: the next one may do better. */
		if (fd < 0)
			continue;
		address = origin_address(&from);
		if (!origin_filter_allows(&listener->from, &address)) {
			shut_out(listener, fd, &from);
			continue;
		}
		rc = admit(listener, fd, &address, now);
		if (rc)
			return error_set(rc, "cannot accept a connection: %s", strerror(-rc));
	}
	return 0;
}

/* Hands a connection out: from here on it has a watch of its own. */
static int hand_out(struct place *place, struct gw_rendezvous **out)
{
	struct gw_rendezvous *r = place->r;
	int rc = watch_open(&r->own_watch);

	if (rc)
		return error_set(rc, "cannot watch a connection: %s", strerror(-rc));
	r->watch = &r->own_watch;
	r->watched = 0;
	/* The listener may be closed first. */
	r->config = NULL;
	connection_rewatch(r);
	*place = (struct place){ 0 };
	*out = r;
	return 0;
}

static void set_alarm(struct gw_rendezvous_listener *listener)
{
	uint64_t next = WATCH_NEVER;

	for (unsigned i = 0; i < PLACES; i++) {
		const struct place *place = &listener->places[i];

		if (place->r && place->deadline < next)
			next = place->deadline;
		if (place->r && place->state == STRANGER && place->last_deadline < next)
			next = place->last_deadline;
	}
	watch_until(&listener->watch, next);
}

int gw_rendezvous_try_accept(struct gw_rendezvous_listener *listener, struct gw_rendezvous **out)
{
	uint64_t now = watch_now();
	struct place *place;
	int rc;

	if (!listener || !out)
		return error_set(-EINVAL, "no listener, or nowhere to put a connection");
	for (unsigned i = 0; i < PLACES; i++) {
		if (listener->places[i].r)
			serve(listener, &listener->places[i], now);
	}
	rc = admit_some(listener, now);
	place = place_next(listener->places);
	if (place)
		rc = hand_out(place, out);
	else if (rc == 0)
		rc = -EAGAIN;
	set_alarm(listener);
	return rc;
}

int gw_rendezvous_accept(struct gw_rendezvous_listener *listener, uint64_t timeout_ns,
			 struct gw_rendezvous **out)
{
	uint64_t now = watch_now();
	uint64_t deadline = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
	int rc;

	while ((rc = gw_rendezvous_try_accept(listener, out)) == -EAGAIN) {
		rc = watch_wait(&listener->watch, listener->identity.interrupt_fd, deadline);
		if (rc == -ETIMEDOUT)
			return error_set(rc, "nobody came within %g s", (double)timeout_ns / 1e9);
		if (rc)
			return error_set(rc, "interrupted while waiting for a connection");
	}
	return rc;
}

void gw_rendezvous_listener_refuse(struct gw_rendezvous_listener *listener, struct gw_rendezvous *r,
				   const char *why)
{
	struct place *place = NULL;

	if (!r)
		return;
	if (listener && r->server && r->state == OPEN)
		place = make_place(listener, &r->origin);
	if (!place) {
		connection_free(r);
		return;
	}
	watch_close(&r->own_watch);
	r->watch = &listener->watch;
	r->watched = 0;
	*place = (struct place){ .r = r, .origin = r->origin, .came_at = watch_now() };
	snprintf(r->reply, sizeof(r->reply), "%s", why ? why : "");
	say_farewell(listener, place);
	set_alarm(listener);
}

int gw_rendezvous_listen(const struct gw_rendezvous_attr *attr, struct gw_rendezvous_listener **out)
{
	struct gw_rendezvous_listener *listener;
	struct identity identity;
	uint16_t port;
	int rc = identity_read(attr, &identity);

	if (rc)
		return rc;
	if (!out || attr->host)
		return error_set(-EINVAL,
				 "a listener has no host, and needs a place for its handle");
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return error_set(-ENOMEM, "no memory for a listener");
	listener->identity = identity;
	listener->ignored = attr->ignored;
	listener->arg = attr->arg;
	listener->fd = -1;
	listener->watch = (struct watch){ -1, -1 };
	port = attr->port ? attr->port : PORT_DEFAULT;
	if (attr->flags & GW_RENDEZVOUS_ANY_PORT)
		port = 0;
	rc = origin_filter_read(attr->from, &listener->from);
	if (rc == 0)
		rc = connection_config(attr, &listener->config);
	if (rc == 0)
		rc = socket_listen(attr->bind, port, &listener->fd, &listener->port);
	if (rc)
		goto close_listener;
	socket_set_silence(listener->fd, identity.silence_ns);
	rc = watch_open(&listener->watch);
	if (rc == 0)
		rc = watch_change(&listener->watch, listener->fd, 0, EPOLLIN);
	if (rc) {
		error_set(rc, "cannot watch a port: %s", strerror(-rc));
		goto close_listener;
	}
	*out = listener;
	return 0;

close_listener:
	gw_rendezvous_listener_close(listener);
	return rc;
}

int gw_rendezvous_listener_fd(const struct gw_rendezvous_listener *listener)
{
	return listener ? listener->watch.epoll_fd : -EINVAL;
}

uint16_t gw_rendezvous_listener_port(const struct gw_rendezvous_listener *listener)
{
	return listener ? listener->port : 0;
}

void gw_rendezvous_listener_close(struct gw_rendezvous_listener *listener)
{
	if (!listener)
		return;
	for (unsigned i = 0; i < PLACES; i++) {
		if (listener->places[i].r)
			drop(&listener->places[i]);
	}
	if (listener->fd >= 0)
		close(listener->fd);
	watch_close(&listener->watch);
	tls_config_close(listener->config);
	free(listener);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *	connecting end			listening end
 *	HELLO: token, name, channel ->	finds the listener, makes a channel and connects it
 *	connects its channel	    <-	ANSWER: name, channel
 *	closes			    ->	closes
 *
 * A meeting is forgotten when it has ended, or when nobody asks for it any more: NCCL gives connects up without a word.
 */
#include "meet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SERVICE		"godwit nccl"
#define SERVICE_VERSION 1
#define KIND_HELLO	(GW_RENDEZVOUS_KIND_MIN + 0)
#define KIND_ANSWER	(GW_RENDEZVOUS_KIND_MIN + 1)
/* Longest that a meeting may take, that nobody may ask for it, and that an answered one stays. */
#define MEET_LIMIT_NS (60 * NS_PER_SECOND)
#define UNASKED_NS    (30 * NS_PER_SECOND)
#define ANSWERED_NS   (10 * NS_PER_SECOND)

struct hello {
	uint8_t token[TOKEN_BYTES];
	char who[WHO_CHARS];
	struct gw_channel_info channel;
};

struct answer {
	char who[WHO_CHARS];
	struct gw_channel_info channel;
};

enum stage { MEETING_BEGUN, MEETING_CONNECTING, MEETING_ASKED, MEETING_ANSWERED, MEETING_DONE };

struct meeting {
	struct meeting *next;
	uint64_t id;
	enum stage stage;
	/* 0, or why it failed */
	int error;
	struct endpoint *endpoint;
	struct communicator *communicator;
	struct handle to;
	struct gw_rendezvous *r;
	struct connection *connection;
	uint64_t begun_ns, asked_ns;
};

void meet_attr(struct gw_rendezvous_attr *attr)
{
	attr->service = SERVICE;
	attr->service_version = SERVICE_VERSION;
	attr->secret_file = process.settings.secret_file;
	attr->timeout_ns = MEET_LIMIT_NS;
}

static struct meeting *new_meeting(void)
{
	struct meeting *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->id = ++process.meeting_ids;
	m->begun_ns = m->asked_ns = now_ns();
	m->next = process.meetings;
	process.meetings = m;
	return m;
}

static void forget(struct meeting *m)
{
	struct meeting **at = &process.meetings;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	gw_rendezvous_close(m->r);
	if (m->connection)
		connection_free(m->connection);
	free(m);
}

uint64_t meet_begin(struct endpoint *endpoint, struct communicator *communicator,
		    const struct handle *handle)
{
	struct meeting *m = new_meeting();

	if (!m)
		return 0;
	m->endpoint = endpoint;
	m->communicator = communicator;
	m->to = *handle;
	m->to.address[ADDRESS_CHARS - 1] = '\0';
	keeper_wake();
	return m->id;
}

int meet_result(uint64_t meeting, uint64_t now, struct connection **out)
{
	struct meeting *m = process.meetings;
	int error;

	while (m && m->id != meeting)
		m = m->next;
	if (!m)
		return -ENOENT;
	m->asked_ns = now;
	if (m->error) {
		error = m->error;
		forget(m);
		return error;
	}
	if (m->stage != MEETING_DONE)
		return 0;
	*out = m->connection;
	m->connection = NULL;
	connection_enlist(*out, m->communicator);
	forget(m);
	return 1;
}

/* Keys for sealed packets, from the TLS session. */
static int derive(struct gw_rendezvous *r, struct gw_seal *out)
{
	struct gw_rendezvous_keys keys;
	int error = gw_rendezvous_keys(r, SERVICE, sizeof(SERVICE), &keys);

	if (error)
		return error;
	memcpy(out->tx, keys.tx, sizeof(out->tx));
	memcpy(out->rx, keys.rx, sizeof(out->rx));
	explicit_bzero(&keys, sizeof(keys));
	return 0;
}

static int make_connection(struct endpoint *endpoint, bool sending, struct gw_rendezvous *r,
			   struct connection **out)
{
	struct gw_seal seal;
	int error;

	if (!process.settings.seal)
		return connection_create(endpoint, sending, r, NULL, out);
	error = derive(r, &seal);
	if (!error)
		error = connection_create(endpoint, sending, r, &seal, out);
	explicit_bzero(&seal, sizeof(seal));
	return error;
}

static void copy_name(struct connection *c, const char *from)
{
	memcpy(c->peer, from, WHO_CHARS);
	c->peer[WHO_CHARS - 1] = '\0';
}

/* ---- the end that connects -------------------------------------------------------------------------------------- */

static int begin(struct meeting *m)
{
	struct gw_rendezvous_attr attr = { .host = m->to.address, .port = m->to.port };

	meet_attr(&attr);
	m->stage = MEETING_CONNECTING;
	return gw_rendezvous_start(&attr, &m->r);
}

static int say_hello(struct meeting *m)
{
	struct hello hello = { 0 };
	int error;

	error = make_connection(m->endpoint, true, m->r, &m->connection);
	if (error)
		return error;
	memcpy(hello.token, m->to.token, sizeof(hello.token));
	memcpy(hello.who, process.who, sizeof(hello.who));
	connection_describe(m->connection, &hello.channel);
	m->stage = MEETING_ASKED;
	return gw_rendezvous_try_send(m->r, KIND_HELLO, &hello, sizeof(hello));
}

static int take_answer(struct meeting *m)
{
	struct gw_rendezvous_message message;
	struct answer answer;
	int error = gw_rendezvous_try_recv(m->r, &message);

	if (error == -EAGAIN)
		return 0;
	if (error)
		return error;
	if (message.kind != KIND_ANSWER || message.length != sizeof(answer))
		return -EPROTO;
	memcpy(&answer, message.data, sizeof(answer));
	copy_name(m->connection, answer.who);
	m->connection->peer_port = m->to.port;
	error = connection_join(m->connection, &answer.channel);
	if (error)
		return error;
	/* The other end waits for this. */
	gw_rendezvous_close(m->r);
	m->r = NULL;
	m->stage = MEETING_DONE;
	return 0;
}

static int step(struct meeting *m)
{
	int rc;

	if (m->stage == MEETING_BEGUN)
		return begin(m);
	rc = gw_rendezvous_step(m->r);
	if (rc < 0 && m->stage != MEETING_ASKED)
		return rc;
	if (m->stage == MEETING_CONNECTING)
		return rc == 1 ? say_hello(m) : 0;
	return m->stage == MEETING_ASKED ? take_answer(m) : 0;
}

/* ---- the end that listens --------------------------------------------------------------------------------------- */

static struct listener *find_listener(const struct endpoint *endpoint, const uint8_t *token)
{
	struct listener *l = process.listeners;

	while (l && (l->endpoint != endpoint || memcmp(l->token, token, TOKEN_BYTES) != 0))
		l = l->next;
	return l;
}

/* Answers one peer. Returns null, or why it is turned away. */
static const char *answer_hello(struct endpoint *endpoint, struct gw_rendezvous *r)
{
	struct gw_rendezvous_message message;
	struct answer answer = { 0 };
	struct connection *c, **end;
	struct listener *l;
	struct hello hello;
	struct meeting *m;

	if (gw_rendezvous_try_recv(r, &message) || message.kind != KIND_HELLO ||
	    message.length != sizeof(hello))
		return "this is no greeting of the plugin";
	memcpy(&hello, message.data, sizeof(hello));
	l = find_listener(endpoint, hello.token);
	if (!l)
		return "the listener that the handle names was closed";
	if (make_connection(endpoint, false, r, &c))
		return "no memory for another connection";
	copy_name(c, hello.who);
	if (connection_join(c, &hello.channel)) {
		connection_free(c);
		return "the description of the channel is not usable";
	}
	memcpy(answer.who, process.who, sizeof(answer.who));
	connection_describe(c, &answer.channel);
	m = new_meeting();
	if (!m || gw_rendezvous_try_send(r, KIND_ANSWER, &answer, sizeof(answer))) {
		connection_free(c);
		if (m)
			forget(m);
		return "no memory for another connection";
	}
	m->stage = MEETING_ANSWERED;
	m->endpoint = endpoint;
	m->r = r;
	c->communicator = l->communicator;
	for (end = &l->ready; *end; end = &(*end)->next)
		;
	*end = c;
	return NULL;
}

void meet_accept(struct endpoint *endpoint)
{
	struct gw_rendezvous *r;

	while (!gw_rendezvous_try_accept(endpoint->meets, &r)) {
		const char *why = answer_hello(endpoint, r);

		if (why)
			gw_rendezvous_listener_refuse(endpoint->meets, r, why);
	}
}

/* ---- both ------------------------------------------------------------------------------------------------------- */

/* A meeting may have begun after `now` was read. */
static bool is_past(uint64_t now, uint64_t time)
{
	return now > time;
}

/* True if the meeting is over for its reason or for its time. */
static bool is_over(struct meeting *m, uint64_t now)
{
	if (m->stage == MEETING_ANSWERED)
		return gw_rendezvous_step(m->r) < 0 || is_past(now, m->begun_ns + ANSWERED_NS);
	if (is_past(now, m->asked_ns + UNASKED_NS))
		return true;
	if (m->error || m->stage == MEETING_DONE)
		return false;
	m->error = step(m);
	if (!m->error && is_past(now, m->begun_ns + MEET_LIMIT_NS))
		m->error = -ETIMEDOUT;
	if (m->error)
		say_warn("no connection to %s: %s", m->to.address,
			 gw_rendezvous_error()[0] ? gw_rendezvous_error() : strerror(-m->error));
	return false;
}

void meet_step_all(uint64_t now)
{
	struct meeting *next;

	for (struct meeting *m = process.meetings; m; m = next) {
		next = m->next;
		if (is_over(m, now))
			forget(m);
	}
}

unsigned meet_fds(int *fds, unsigned most)
{
	unsigned count = 0;

	for (struct endpoint *e = process.endpoints; e && count < most; e = e->next)
		fds[count++] = gw_rendezvous_listener_fd(e->meets);
	for (struct meeting *m = process.meetings; m && count < most; m = m->next) {
		if (m->r && m->stage != MEETING_DONE && !m->error)
			fds[count++] = gw_rendezvous_fd(m->r);
	}
	return count;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection of a rendezvous, of either end, as a state machine that never blocks.
 *
 *	CONNECTING	TCP; the connecting end tries the host's addresses one after the other (connect.c)
 *	SECURING	TLS, where there is a secret
 *	OPEN		frames travel. `greeted` once the other end's hello or welcome was right.
 *	FAILED		`status` and `why` say how; every later call returns them
 */
#ifndef GODWIT_RENDEZVOUS_CONNECTION_H
#define GODWIT_RENDEZVOUS_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include <godwit/rendezvous.h>

#include "base/list.h"
#include "error.h"
#include "frame.h"
#include "socket.h"
#include "tls.h"
#include "watch.h"

enum {
	/* bytes queued for the network */
	OUT_BYTES = 4 * (FRAME_MAX + TLS_OVERHEAD),
	/* "[address or name]:port" */
	PEER_TEXT = 272,
};

enum connection_state { CONNECTING, SECURING, OPEN, FAILED };

/* What both ends take from the attributes, copied. */
struct identity {
	char service[FRAME_SERVICE];
	char peer_service[FRAME_SERVICE];
	uint32_t service_version;
	uint64_t timeout_ns;
	uint64_t silence_ns;
	int interrupt_fd;
};

/* The addresses of the host, and which of them is tried. */
struct attempt {
	struct addrinfo *to;
	struct addrinfo *from;
	const struct addrinfo *at;
	/* end of the attempt on `at`, of all attempts, and of starting over after a refusal */
	uint64_t deadline;
	uint64_t last_deadline;
	uint64_t retry_until;
	/* time of the next attempt, while there is no socket */
	uint64_t resume_at;
	/* error to report if every address fails */
	int worst;
	/* addresses that refused were asked once more when another accepted */
	bool asked_again;
};

struct gw_rendezvous {
	enum connection_state state;
	struct identity identity;
	bool server;
	/* of a listening end: origin_key() of the other */
	struct in6_addr origin;
	int fd;
	/* link in the list of connections that children of fork() close (children.c) */
	struct list children;
	/* the set that `fd` is in, and for which events; the connection's own, or its listener's */
	struct watch *watch;
	struct watch own_watch;
	uint32_t watched;
	/* deadline that the connection's own watch is set to */
	uint64_t alarm;

	struct attempt attempt;
	/* when the other end must have answered */
	uint64_t answer_deadline;

	/* null: no secret */
	struct tls_config *config;
	bool config_owned;
	struct tls *tls;
	/* the first byte of the other end was looked at */
	bool sorted;
	/* a secret is set and the other end answers without: it can only refuse */
	bool refusal_only;

	bool greeted;
	bool eof;
	/* the other host was silent for too long */
	bool silent;
	/* bytes read from the socket so far */
	uint64_t received;
	int status;
	char why[ERROR_TEXT];
	/* sentence for the other end that goes with the failure; "" when it needs none */
	char reply[FRAME_TEXT + 1];

	/* bytes of the last message, dropped from `in` with the next call */
	size_t consumed;
	size_t in_used;
	size_t out_sent;
	size_t out_used;
	uint8_t in[FRAME_MAX];
	uint8_t out[OUT_BYTES];

	struct frame_hello peer_hello;
	/* for sentences: "host:port" where this end connected, else the address */
	char peer[PEER_TEXT];
	char local[ADDRESS_TEXT];
	char remote[ADDRESS_TEXT];
};

/* -EINVAL with a sentence, or the attributes as both ends need them. */
int identity_read(const struct gw_rendezvous_attr *attr, struct identity *out);

/* "`godwit recv`", or "the other end" where it has no name. `out` has room for FRAME_SERVICE + 16. */
const char *identity_peer(const struct identity *identity, char *out);

/* Reads the secret file and makes a TLS config of it; null without one. */
int connection_config(const struct gw_rendezvous_attr *attr, struct tls_config **out);

struct gw_rendezvous *connection_new(const struct identity *identity, bool server);
void connection_free(struct gw_rendezvous *r);

/* TCP is up: begins TLS, or opens at once. Both ends. */
int connection_begin(struct gw_rendezvous *r);

/* Fails for good. Returns `error`. */
int connection_fail(struct gw_rendezvous *r, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Queues a frame. -EAGAIN: no room. */
int connection_queue(struct gw_rendezvous *r, uint32_t kind, const void *body, size_t length);

/* Sends what the socket takes. 0 or -errno. */
int connection_flush(struct gw_rendezvous *r);

/* Reads, decrypts, writes, and handles hello and welcome. 1: open. 0: not yet. -errno. */
int connection_step(struct gw_rendezvous *r);

/* After connection_step(): the next message of the application. -EAGAIN: none yet. */
int connection_next(struct gw_rendezvous *r, struct gw_rendezvous_message *out);

/* Brings the watch up to date with what the connection waits for. */
void connection_rewatch(struct gw_rendezvous *r);

/* greeting.c: queues this end's hello or welcome. */
void greeting_send(struct gw_rendezvous *r, enum frame_kind kind);

/* greeting.c: handles frames of the rendezvous itself. 1: one of the application is next. 0: none is there yet. */
int greeting_digest(struct gw_rendezvous *r, struct frame_header *header);

/* greeting.c: drops the message that was handed out last. */
void greeting_consume(struct gw_rendezvous *r);

/* greeting.c: fails because the other end closed. */
int greeting_fail_eof(struct gw_rendezvous *r);

/* connect.c: goes on with TCP. 1: connected. 0: not yet. -errno. */
int attempt_step(struct gw_rendezvous *r);
void attempt_free(struct attempt *attempt);

/* Its children need not close it any more. */
void children_forget(struct gw_rendezvous *r);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The end that asks: connects, takes part, and judges. If nobody answers, it learns what it can without. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pair.h"
#include "pair_probe.h"
#include "pair_session.h"
#include "pair_talk.h"
#include "tools/interrupt.h"
#include "tools/meet.h"
#include "tools/session.h"

/* Listens for the other end's connection: on the port of a rendezvous, or on a free one. Nobody need accept it. */
static int listen_back(const char *local, uint16_t wanted, uint16_t *port)
{
	union probe_address address = { 0 };
	socklen_t length;
	int fd, one = 1;

	if (inet_pton(AF_INET, local, &address.in.sin_addr) == 1)
		address.any.sa_family = AF_INET;
	else if (inet_pton(AF_INET6, local, &address.in6.sin6_addr) == 1)
		address.any.sa_family = AF_INET6;
	else
		return -1;
	length = address.any.sa_family == AF_INET ? sizeof(address.in) : sizeof(address.in6);
	fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	/* The port stands at the same place in both. */
	address.in.sin_port = htons(wanted);
	if (bind(fd, &address.any, length) != 0) {
		address.in.sin_port = 0;
		if (bind(fd, &address.any, length) != 0)
			goto failed;
	}
	length = sizeof(address);
	if (listen(fd, 1) != 0 || getsockname(fd, &address.any, &length) != 0)
		goto failed;
	*port = ntohs(address.in.sin_port);
	return fd;
failed:
	close(fd);
	return -1;
}

/* What kind of silence a failed connection is. Returns -1 if it is this end's mistake. */
static int peer_of(int error, bool connected)
{
	switch (error) {
	case -ECONNREFUSED:
		return connected ? PAIR_PEER_OTHER : PAIR_PEER_REFUSED;
	case -ECONNRESET:
	case -EPROTO:
	case -EPROTONOSUPPORT:
		return PAIR_PEER_OTHER;
	case -ETIMEDOUT:
		return connected ? PAIR_PEER_OTHER : PAIR_PEER_SILENT;
	case -EHOSTUNREACH:
	case -ENETUNREACH:
	case -EHOSTDOWN:
		return PAIR_PEER_UNREACHABLE;
	case -EACCES:
		return PAIR_PEER_SECRET;
	default:
		return -1;
	}
}

static int examine(struct report *report, const struct options *options, struct pair *pair,
		   char sentence[256])
{
	struct pair_session session = { .caller = true,
					.udp_port = options->udp_port,
					.interrupt_fd = interrupt_fd() };
	bool connected;
	int rc = meet_connect(report, options, &session.rendezvous), back = -1, peer;

	connected = rc == 0;
	if (connected) {
		back = listen_back(gw_rendezvous_local(session.rendezvous), options->port,
				   &session.back_port);
		rc = pair_session_run(&session, pair);
	}
	snprintf(sentence, 256, "%s", gw_rendezvous_error());
	gw_rendezvous_close(session.rendezvous);
	if (back >= 0)
		close(back);
	if (rc == 0)
		return 0;
	/* A refusal by a program may come before the connection counts as made. */
	connected |= strstr(sentence, " refused: ") != NULL;
	peer = peer_of(rc, connected);
	if (connected && strstr(sentence, "secret"))
		peer = PAIR_PEER_SECRET;
	if (rc == -EINTR)
		return rc;
	/* It said who it is and broke off later, or the mistake is here. */
	if (pair->there.address[0] || peer < 0)
		return report_fail(report, rc, "%s",
				   sentence[0] ? sentence : "the other end stopped answering");
	pair->peer = (enum pair_peer)peer;
	if (peer != PAIR_PEER_SECRET)
		pair->icmp = probe_icmp(options->host, &pair->icmp_size);
	return 0;
}

int pair_call(struct report *report, const struct options *options, const char *only,
	      const char *skip, struct diagnosis *diagnosis, json_t **figures)
{
	struct pair pair = { .port = options->port,
			     .udp_option = options->udp_port_given ? options->udp_port : 0,
			     .dscp = options->traffic_class >> 2,
			     .secret = options->secret_file != NULL };
	char sentence[256];
	int rc;

	/* A wrong name is told at once, not after five seconds. */
	rc = pair_judge(&pair, only, skip, diagnosis);
	diagnosis_free(diagnosis);
	if (rc)
		return report_usage(
			report,
			"no such check in --only or --skip (--list shows them; a path's begin with path-)");
	rc = session_prepare(report);
	if (rc)
		return rc;
	gethostname(pair.here.name, sizeof(pair.here.name) - 1);
	snprintf(pair.there.name, sizeof(pair.there.name), "%s", options->host);
	rc = examine(report, options, &pair, sentence);
	if (rc)
		return rc;
	pair.sentence = scratch_print(&diagnosis->scratch, "%s", sentence);
	*figures = pair_json(&pair);
	return pair_judge(&pair, only, skip, diagnosis);
}

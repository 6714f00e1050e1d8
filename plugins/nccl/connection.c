/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections from their making to their end. Requests are in request.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sizes.h"
#include "state.h"

static void gone(struct gw_channel *channel, void *arg, int status, uint64_t now)
{
	struct connection *c = arg;

	(void)channel, (void)now;
	atomic_store(&c->status, status);
}

/* The context with the fewest connections: a ring has as many sends as receives, and all of them are busy at the same time. Holds
 * process.lock. */
static unsigned least_used(const struct endpoint *endpoint)
{
	unsigned least = 0;

	for (unsigned i = 1; i < gw_service_threads(endpoint->service); i++) {
		if (endpoint->connections[i] < endpoint->connections[least])
			least = i;
	}
	return least;
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

static int silent(struct gw_channel *channel, void *arg, uint64_t now)
{
	(void)channel;
	return alive_silent(arg, now);
}

static const struct gw_channel_handler handler = { .gone = gone, .silent = silent };

int connection_create(struct endpoint *endpoint, bool sending, const struct gw_rendezvous *met,
		      const struct gw_seal *seal, struct connection **out)
{
	const struct settings *settings = &process.settings;
	struct connection *c = calloc(1, sizeof(*c));
	struct gw_channel_attr attr = { .congestion = settings->congestion,
					.rate_bps = settings->rate_bps,
					.peer_timeout_ns = alive_ask_ns(),
					.flags = GW_CHANNEL_LINES,
					.handler = &handler,
					.arg = c,
					.peer_host = gw_rendezvous_remote(met),
					.rtt_hint_us = (uint32_t)(gw_rendezvous_rtt_ns(met) / 1000),
					.seal = seal };
	int error;

	if (!c)
		return -ENOMEM;
	/* A NIC pins the memory of a connection, which is to be little. */
	connection_sizes(settings->verbs ? 0 : gw_rendezvous_rtt_ns(met), &attr);
	if (!settings->parity)
		attr.flags |= GW_CHANNEL_NO_PARITY;
	c->endpoint = endpoint;
	c->sending = sending;
	c->question_fd = -1;
	c->index = least_used(endpoint);
	requests_open(c);
	strncpy(c->peer_address, gw_rendezvous_remote(met), sizeof(c->peer_address) - 1);
	error = gw_service_enter(endpoint->service, c->index);
	if (!error) {
		error = gw_channel_create(gw_service_context(endpoint->service, c->index), &attr,
					  &c->channel);
		gw_service_leave(endpoint->service, c->index);
	}
	if (error) {
		free(c);
		return error;
	}
	endpoint->connections[c->index]++;
	*out = c;
	return 0;
}

void connection_describe(const struct connection *c, struct gw_channel_info *out)
{
	if (gw_service_enter(c->endpoint->service, c->index))
		return;
	gw_channel_info(c->channel, out);
	gw_service_leave(c->endpoint->service, c->index);
}

int connection_join(struct connection *c, const struct gw_channel_info *peer)
{
	int error = gw_service_enter(c->endpoint->service, c->index);

	if (error)
		return error;
	error = gw_channel_connect(c->channel, peer);
	gw_service_leave(c->endpoint->service, c->index);
	return error;
}

void connection_enlist(struct connection *c, struct communicator *communicator)
{
	c->communicator = communicator;
	if (communicator)
		communicator->connections++;
	c->next = process.connections;
	process.connections = c;
}

static void unlist(struct connection **list, const struct connection *c)
{
	while (*list && *list != c)
		list = &(*list)->next;
	if (*list)
		*list = c->next;
}

/* What a communicator keeps of a connection that is closed. Holds process.lock; the caller owns the context. */
static void keep_statistics(const struct connection *c)
{
	struct communicator *communicator = c->communicator;
	struct gw_channel_stats stats;

	if (!c->channel || !communicator || gw_channel_stats(c->channel, &stats))
		return;
	communicator->closed.sends += stats.sends;
	communicator->closed.receives += stats.receives;
	communicator->closed.sent_bytes += stats.sent_bytes;
	communicator->closed.received_bytes += stats.received_bytes;
	communicator->closed.failed += stats.failed;
	communicator->caller_turns += atomic_load(&c->caller_turns);
	communicator->hand_overs += atomic_load(&c->hand_overs);
}

void connection_shut(struct connection *c)
{
	if (!c->channel)
		return;
	gw_channel_close(c->channel);
	c->channel = NULL;
	atomic_store(&c->status, -ECANCELED);
	requests_cancel(c);
}

void connection_free(struct connection *c)
{
	if (!gw_service_enter(c->endpoint->service, c->index)) {
		keep_statistics(c);
		connection_shut(c);
		gw_service_leave(c->endpoint->service, c->index);
	}
	alive_forget(c);
	c->endpoint->connections[c->index]--;
	free(c);
}

bool connection_is_answered(struct connection *c)
{
	struct gw_channel_stats stats = { .unanswered = 0 };

	if (!gw_service_enter(c->endpoint->service, c->index)) {
		if (c->channel)
			gw_channel_stats(c->channel, &stats);
		gw_service_leave(c->endpoint->service, c->index);
	}
	return !stats.unanswered;
}

/*
 * A receiver that has everything stays for a while: its peer's sends end with results that may have to be repeated. It goes when
 * the peer has closed. A sender goes when all that it copied was delivered.
 */
static int close_connection(struct connection *c)
{
	if (!c || atomic_load(&process.forked))
		return NCCL_SUCCESS;
	pthread_mutex_lock(&process.lock);
	unlist(&process.connections, c);
	if (requests_are_open(c) || atomic_load(&c->status) ||
	    (c->sending && connection_is_answered(c))) {
		connection_free(c);
	} else {
		c->closed_ns = now_ns();
		c->next = process.lingering;
		process.lingering = c;
	}
	pthread_mutex_unlock(&process.lock);
	return NCCL_SUCCESS;
}

int core_close_send(void *sender)
{
	return close_connection(sender);
}

int core_close_recv(void *receiver)
{
	return close_connection(receiver);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * soak_peer: one of several processes that send each other messages for as long as they live; tests/soak/soak starts, kills and
 * restarts them.
 *
 *	soak_peer LEDGER RANK LONGEST SEED ADDRESS...
 *
 * ADDRESS is that of each rank, in order. A pair of ranks has one channel; the lower rank connects, and connects again when
 * the channel has ended. A peer that comes back while its old channel is still open replaces that. SIGTERM ends it: each pair
 * says a last message, and a peer that has said and heard all of them exits with status 0.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link.h"

#define RANKS_MAX     16
#define PORT	      18800
#define WAIT_NS	      UINT64_C(5000000)
#define SECOND_NS     UINT64_C(1000000000)
#define MEET_AGAIN_NS UINT64_C(200000000)
#define MEETING_NS    (60 * SECOND_NS)
#define CALLERS	      8
#define REPLACED      2

/* What the connecting end says. */
struct hello {
	uint32_t rank;
	uint32_t reserved;
	uint64_t token;
	struct gw_channel_info info;
};

/* A connection whose answer is on its way, until the other end hangs up. */
struct caller {
	struct gw_rendezvous *meeting;
	bool answered;
};

struct peer {
	struct soak soak;
	uint32_t ranks;
	char **addresses;
	struct link links[RANKS_MAX];
	struct gw_rendezvous_listener *listener;
	struct caller callers[CALLERS];
	/* advanced for each token */
	uint64_t drawn;
	uint64_t sampled_ns;
};

static volatile sig_atomic_t told_to_stop;

static void stop(int number)
{
	(void)number;
	told_to_stop = 1;
}

/* ---- the connecting end ------------------------------------------------------------------------------------------ */

static void meet_later(struct link *link)
{
	gw_rendezvous_close(link->meeting);
	link->meeting = NULL;
	if (link->channel && !link->entry)
		link_drop(link, 0);
	link->meet_at_ns = gw_now_ns(link->soak->ctx) + MEET_AGAIN_NS;
}

static void start_meeting(struct peer *peer, struct link *link)
{
	struct gw_rendezvous_attr attr = { .host = peer->addresses[link->peer],
					   .bind = peer->addresses[peer->soak.rank],
					   .port = (uint16_t)(PORT + link->peer),
					   .service = "soak",
					   .timeout_ns = MEETING_NS };

	link->described = false;
	if (gw_now_ns(link->soak->ctx) >= link->meet_at_ns &&
	    gw_rendezvous_start(&attr, &link->meeting))
		meet_later(link);
}

static int say_hello(struct peer *peer, struct link *link)
{
	struct hello hello = { .rank = peer->soak.rank };
	int error;

	peer->drawn += UINT64_C(0x9e3779b97f4a7c15);
	hello.token = peer->drawn | 1;
	error = link_describe(link, hello.token, &hello.info);
	link->described = true;
	return error ? error
		     : gw_rendezvous_try_send(link->meeting, GW_RENDEZVOUS_DESCRIPTION, &hello,
					      sizeof(hello));
}

static void go_on_meeting(struct peer *peer, struct link *link)
{
	struct gw_rendezvous_message message;
	struct gw_channel_info info;
	int error = gw_rendezvous_step(link->meeting);

	if (error == 1 && !link->described)
		error = say_hello(peer, link);
	if (error < 0 && error != -ECONNRESET) {
		meet_later(link);
		return;
	}
	error = gw_rendezvous_try_recv(link->meeting, &message);
	if (error == -EAGAIN)
		return;
	if (!error && message.length == sizeof(info)) {
		memcpy(&info, message.data, sizeof(info));
		error = link_connect(link, &info);
	} else if (!error) {
		error = -EPROTO;
	}
	gw_rendezvous_close(link->meeting);
	link->meeting = NULL;
	if (error)
		meet_later(link);
}

/* ---- the listening end ------------------------------------------------------------------------------------------- */

static int answer(struct peer *peer, struct gw_rendezvous *meeting,
		  const struct gw_rendezvous_message *message)
{
	struct gw_channel_info info;
	struct hello hello;
	struct link *link;
	int error;

	if (message->length != sizeof(hello))
		return -EPROTO;
	memcpy(&hello, message->data, sizeof(hello));
	if (hello.rank >= peer->soak.rank)
		return -EPROTO;
	link = &peer->links[hello.rank];
	link_drop(link, REPLACED);
	link->over = false;
	error = link_describe(link, hello.token, &info);
	if (!error)
		error = link_connect(link, &hello.info);
	if (!error)
		error = gw_rendezvous_try_send(meeting, GW_RENDEZVOUS_DESCRIPTION, &info,
					       sizeof(info));
	if (error)
		ledger_wrong(peer->soak.ledger, "cannot answer rank %u: %s", hello.rank,
			     strerror(-error));
	return error;
}

static void hear_callers(struct peer *peer)
{
	for (unsigned i = 0; i < CALLERS; i++) {
		struct caller *caller = &peer->callers[i];
		struct gw_rendezvous_message message;
		int error;

		if (!caller->meeting) {
			caller->answered = false;
			if (gw_rendezvous_try_accept(peer->listener, &caller->meeting))
				continue;
		}
		error = gw_rendezvous_step(caller->meeting);
		if (error >= 0 && !caller->answered) {
			error = gw_rendezvous_try_recv(caller->meeting, &message);
			if (!error) {
				caller->answered = true;
				error = answer(peer, caller->meeting, &message);
			}
		}
		if (error < 0 && error != -EAGAIN) {
			gw_rendezvous_close(caller->meeting);
			caller->meeting = NULL;
		}
	}
}

/* ---- the process ------------------------------------------------------------------------------------------------- */

static bool step(struct peer *peer)
{
	uint64_t now_ns = gw_now_ns(peer->soak.ctx);
	bool over = peer->soak.stopping;

	hear_callers(peer);
	for (uint32_t i = 0; i < peer->ranks; i++) {
		struct link *link = &peer->links[i];

		if (i == peer->soak.rank)
			continue;
		if (link->meeting)
			go_on_meeting(peer, link);
		else if (i > peer->soak.rank && !link->channel && !link->over)
			start_meeting(peer, link);
		link_step(link);
		over &= link->over;
	}
	if (now_ns - peer->sampled_ns > SECOND_NS) {
		peer->sampled_ns = now_ns;
		ledger_sample(peer->soak.ledger, now_ns);
	}
	return over;
}

static int open_all(struct peer *peer)
{
	char fabric[64];
	struct gw_context_attr attr = { .fabric = fabric };
	struct gw_rendezvous_attr listen = { .bind = peer->addresses[peer->soak.rank],
					     .port = (uint16_t)(PORT + peer->soak.rank),
					     .service = "soak",
					     .timeout_ns = MEETING_NS };
	int error;

	snprintf(fabric, sizeof(fabric), "roce:%s", peer->addresses[peer->soak.rank]);
	error = gw_context_open(&attr, &peer->soak.ctx);
	for (uint32_t i = 0; i < peer->ranks && !error; i++)
		if (i != peer->soak.rank)
			error = link_open(&peer->links[i], &peer->soak, i);
	return error ? error : gw_rendezvous_listen(&listen, &peer->listener);
}

static void close_all(struct peer *peer)
{
	for (unsigned i = 0; i < CALLERS; i++)
		gw_rendezvous_close(peer->callers[i].meeting);
	gw_rendezvous_listener_close(peer->listener);
	for (uint32_t i = 0; i < peer->ranks; i++)
		if (i != peer->soak.rank)
			link_close(&peer->links[i]);
	gw_context_close(peer->soak.ctx);
}

static int run(struct peer *peer)
{
	struct ledger *ledger = peer->soak.ledger;
	int error;

	ledger->descriptors_before = ledger_descriptors();
	error = open_all(peer);
	if (error) {
		ledger_wrong(ledger, "cannot begin: %s %s %s", strerror(-error),
			     gw_context_error(NULL), gw_rendezvous_error());
		return 1;
	}
	do {
		gw_wait(peer->soak.ctx, WAIT_NS);
		peer->soak.stopping |= told_to_stop;
	} while (!step(peer) && !ledger->wrong[0]);
	/* The last results reach the others, and who asks again is answered. */
	for (uint64_t end = gw_now_ns(peer->soak.ctx) + SECOND_NS; gw_now_ns(peer->soak.ctx) < end;)
		gw_wait(peer->soak.ctx, WAIT_NS);
	close_all(peer);
	ledger->descriptors_after = ledger_descriptors();
	ledger->finished = !ledger->wrong[0];
	return ledger->wrong[0] ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = stop };
	static struct peer peer;

	if (argc < 7 || argc - 5 > RANKS_MAX) {
		fprintf(stderr, "usage: soak_peer LEDGER RANK LONGEST SEED ADDRESS ADDRESS...\n");
		return 2;
	}
	sigaction(SIGTERM, &action, NULL);
	peer.soak.rank = (uint32_t)strtoul(argv[2], NULL, 10);
	peer.soak.longest = strtoull(argv[3], NULL, 10);
	peer.drawn = strtoull(argv[4], NULL, 10);
	peer.addresses = argv + 5;
	peer.ranks = (uint32_t)(argc - 5);
	peer.soak.ledger = ledger_open(argv[1], peer.soak.rank);
	if (!peer.soak.ledger || peer.soak.rank >= peer.ranks || peer.soak.longest < 64) {
		fprintf(stderr, "soak_peer: bad arguments, or no ledger\n");
		return 2;
	}
	return run(&peer);
}

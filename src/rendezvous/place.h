/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The places of a listener, and who gets one when all are taken.
 *
 * Those who hold the most places lose one first: no origin can keep the others out with any number of connections, in
 * whatever state. Within that origin, the connection that is worth least goes, the oldest of them first.
 */
#ifndef GODWIT_RENDEZVOUS_PLACE_H
#define GODWIT_RENDEZVOUS_PLACE_H

#include <netinet/in.h>
#include <stdint.h>

struct gw_rendezvous;

enum { PLACES = 64 };

/* What a connection is worth, the least first. */
enum place_state {
	/* was told a sentence, and is read from until it hangs up */
	LEAVING,
	/* has not said who it is, or not shown the secret */
	STRANGER,
	/* has said so; its first message is awaited */
	GUEST,
	/* waits for gw_rendezvous_accept() */
	READY,
};

struct place {
	/* null: free */
	struct gw_rendezvous *r;
	enum place_state state;
	/* origin_key() of the other end */
	struct in6_addr origin;
	/* when its state ends, and when it ends at the latest */
	uint64_t deadline;
	uint64_t last_deadline;
	uint64_t came_at;
	/* bytes that had come when it was last looked at */
	uint64_t seen;
};

/*
 * The place for a newcomer: a free one, or the one whose connection has to go; null if the newcomer has to. A connection
 * that is ready goes only for an origin that would then still have fewer places.
 */
struct place *place_find(struct place places[PLACES], const struct in6_addr *origin);

/*
 * The connection to be accepted next, null if none is ready: of the origin that holds the fewest places the oldest. To accept one
 * and find that it is of no use costs the application time, so that one origin must not make the others wait for all of its own.
 */
struct place *place_next(struct place places[PLACES]);

#endif

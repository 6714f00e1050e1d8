/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * share.h: state of an endpoint that shares its UDP port. Private to share.c (names of the processes, handing packets on)
 * and steer.c (the kernel program that picks a socket for each packet, and the check that it picks the right one).
 */
#ifndef FABRIC_ROCE_SHARE_H
#define FABRIC_ROCE_SHARE_H

#include "fabric/roce/endpoint.h"

enum steer_state {
	/* Probes do not come back on this host: packets are handed on instead. */
	STEER_OFF,
	/* The last check succeeded; another one follows. */
	STEER_FINE,
	/* A packet of our class was sent, and should arrive here. */
	STEER_CHECKING,
	/* It did not arrive; probes to every place were sent to find our socket. */
	STEER_LOOKING,
};

struct share {
	/* Abstract Unix socket at which others hand packets on to us. */
	int fd;
	/* Socket by which we hand packets on. Not the first one: sending from that before it has its name would give it
	 * another. */
	int out;
	enum steer_state state;
	/* Random number that tells our probes from others'. */
	uint64_t nonce;
	/* When the state ends. */
	uint64_t until_ns;
	/* When the last check began. */
	uint64_t checked_ns;
	/* STEER_LOOKING: lowest place from which a probe came back; CLASSES: none yet. */
	uint32_t found;
	/* By class: place of its socket among those that share the port, as far as known. */
	uint8_t places[CLASSES];
};

/* share.c */
/* Whether another process shares the port already. */
bool share_company(const struct roce_endpoint *endpoint);
/* Tells all processes that share the port which place our socket has. */
void share_announce(struct roce_endpoint *endpoint);

/* steer.c */
/* Finds the place of our socket among those that share the port; -1 when it cannot be found. Blocks for 60 ms at most. */
int steer_join(struct roce_endpoint *endpoint);
/* Notes the place of another process's socket. */
void steer_told(struct roce_endpoint *endpoint, uint32_t class, uint32_t place);

#endif

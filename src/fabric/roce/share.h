/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * share.h: what the two halves of port sharing keep. Private to share.c (names, hand-over) and steer.c (the program in
 * the kernel, and watching that it still is right).
 */
#ifndef FABRIC_ROCE_SHARE_H
#define FABRIC_ROCE_SHARE_H

#include "fabric/roce/endpoint.h"

enum steer_state {
	STEER_OFF,	/* probes do not come back here: packets are handed on instead */
	STEER_FINE,	/* until the next check */
	STEER_CHECKING, /* sent itself a packet of its class */
	STEER_LOOKING,	/* that did not come: where is our socket now? */
};

struct share {
	int fd;	 /* the abstract Unix socket that packets are handed on to */
	int out; /* the one they are handed on by: sending on the first before it has its name would give it another */
	enum steer_state state;
	uint64_t nonce;	   /* tells our probes from others' */
	uint64_t until_ns; /* the state lasts no longer */
	uint64_t checked_ns;
	uint32_t found; /* while looking: the lowest place that a probe came from */
	uint8_t places
		[CLASSES]; /* by class: the place of its socket in the group, as far as known */
};

/* share.c */
/* Whether some process has joined before. */
bool share_company(const struct roce_endpoint *endpoint);
/* Tells every process of the group where our socket is. */
void share_announce(struct roce_endpoint *endpoint);

/* steer.c */
/* Finds the place of our socket in the group; -1 when that cannot be learnt. Blocks for some milliseconds at most. */
int steer_join(struct roce_endpoint *endpoint);
/* Another process's socket is there. */
void steer_told(struct roce_endpoint *endpoint, uint32_t class, uint32_t place);

#endif

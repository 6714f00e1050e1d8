/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spoke.h: one TCP connection of a hub, between rank 0 and another rank.
 *
 * Letters wait in `queue` until the other end has room. Each end may have SPOKE_WINDOW bytes of records on the way that the other
 * has not read; whoever reads returns credit. So a process that does not read has at most that much in its socket, which
 * surely holds it, and the window of TCP never closes.
 *
 * At rank 0, letters from a rank to ranks that do not read stay in memory. Beyond SPOKE_CUSTODY bytes of those the sender gets no
 * credit: it is held up, and nobody else. Memory is bounded, and rank 0 goes on reading, since credit comes the same way.
 */
#ifndef COLLECTIVE_SPOKE_H
#define COLLECTIVE_SPOKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <godwit/rendezvous.h>

#include "base/list.h"
#include "collective/hub_record.h"

enum {
	/* bytes of records sent and not credited yet, at most: a quarter of the usual receive buffer */
	SPOKE_WINDOW = 32768,
	/* bytes read at which credit is returned */
	SPOKE_CREDIT_STEP = SPOKE_WINDOW / 4,
	/* bytes of letters that a rank may have waiting, at rank 0 and in its own queue */
	SPOKE_CUSTODY = 262144,
	/* bytes of an address as text */
	SPOKE_ADDRESS = 80,
};

/* A record that waits in one queue or more. */
struct letter {
	/* queues that it waits in, and its maker while that adds it to them */
	uint32_t references;
	/* bytes that `custody` counts for it */
	uint32_t cost;
	/* counter of its sender; null: none */
	uint64_t *custody;
	/* spoke that may return credit when `custody` falls; null: none */
	struct spoke *sender;
	/* nothing follows it in a message */
	bool last;
	/* the record's bytes */
	uint32_t length;
	uint8_t bytes[];
};

struct spoke {
	/* null: not connected */
	struct gw_rendezvous *r;
	/* the rank at the other end, its process id and its address */
	uint32_t rank;
	uint32_t process;
	char address[SPOKE_ADDRESS];
	/* a ring of letters that wait to be sent; the capacity is a power of two */
	struct letter **queue;
	uint32_t head;
	uint32_t count;
	uint32_t capacity;
	/* bytes of records that may be sent */
	uint32_t credit;
	/* bytes of records that were read and not credited yet */
	uint32_t owed;
	/* bytes of letters from the other end that rank 0 keeps for others */
	uint64_t custody;
	/* in `dirty` of the hub while it may have something to send */
	struct list dirty;
	/* HUB_GOODBYE is to follow the queue; was sent */
	bool leaving;
	bool left;
};

struct hub;

/* Makes a record that waits. One reference is the caller's. Null: no memory. */
struct letter *letter_new(uint16_t kind, uint32_t number, const void *data, size_t length);
/* Drops a reference. The sender's spoke gets dirty when it may return credit. */
void letter_release(struct hub *hub, struct letter *letter);

/* Takes over a connection and watches it. -ENOMEM or -errno: `r` is still the caller's. */
int spoke_open(struct hub *hub, struct spoke *spoke, uint32_t rank, struct gw_rendezvous *r);
/* Hangs up, and drops what waits. Does nothing to a spoke that is not connected. */
void spoke_close(struct hub *hub, struct spoke *spoke);

/* Adds a reference to the queue; the hub's next flush sends it. -ENOMEM. Does nothing if not connected, or leaving. */
int spoke_post(struct hub *hub, struct spoke *spoke, struct letter *letter);
/* The same with a record of its own. */
int spoke_post_record(struct hub *hub, struct spoke *spoke, uint16_t kind, uint32_t number,
		      const void *data, size_t length);

/* Reads what has come, and hands each record to hub->record, and the end of the connection to hub->broken. Returns how many. */
int spoke_turn(struct hub *hub, struct spoke *spoke);

/* Sends what may be sent now. 0, or -errno of a broken connection. */
int spoke_flush(struct hub *hub, struct spoke *spoke);

/* Drops what waits. */
void spoke_drop_queue(struct hub *hub, struct spoke *spoke);

/* "rank 3 (process 4711 on 10.0.0.3)" */
const char *spoke_name(const struct spoke *spoke, char *out, size_t size);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* hub_private.h: what the files of the hub share. */
#ifndef COLLECTIVE_HUB_PRIVATE_H
#define COLLECTIVE_HUB_PRIVATE_H

#include "collective/hub.h"
#include "collective/spoke.h"

/* What the ends of a connection call themselves; people read it where nobody answers. */
#define HUB_SERVICE	 "rank"
#define HUB_ROOT_SERVICE "rank 0"
/* How long close() blocks, at most. */
#define HUB_CLOSE_NS UINT64_C(1000000000)
/* Bytes of "rank N (process N on ADDRESS)". */
#define HUB_NAME (SPOKE_ADDRESS + 48)

struct hub {
	struct mail mail;
	uint32_t rank;
	uint32_t size;
	uint64_t peer_timeout_ns;
	/* descriptors of all spokes, and of the listener while the ranks meet; -1 if there is only one rank */
	int epoll_fd;
	/* at rank 0: one for each rank, the first unused; elsewhere: one, to rank 0 */
	struct spoke *spokes;
	uint32_t spoke_count;
	/* spokes that may have something to send */
	struct list dirty;
	/* a record came. -EPROTO: it makes no sense; the spoke breaks. */
	int (*record)(struct hub *hub, struct spoke *spoke, const struct hub_record *record);
	/* a connection has ended; the callee closes the spoke */
	void (*broken)(struct hub *hub, struct spoke *spoke, int error);
	/* bytes of letters of rank 0 itself that wait, or at other ranks of its own */
	uint64_t custody;
	/* no handler is called any more */
	bool closing;
	/* the other end of rank 0's mail said goodbye */
	bool ended;
	/* -errno once the mail as a whole has failed */
	int status;
	/* another rank than 0: when it gives up the meeting, once rank 0 has answered; 0 before */
	uint64_t meet_deadline_ns;
	/* the meeting is over: what has come since is left unread until the first progress */
	bool held;
	/* descriptor that is readable while `held`; -1: none */
	int held_fd;
	/* longest round-trip time between rank 0 and another rank, in us; 0: not known */
	uint32_t rtt_us;
	/* addresses by rank; "" where not known */
	char (*addresses)[SPOKE_ADDRESS];
	/* why the meeting failed */
	char *why;
};

/* Sets the sentence about a failed meeting. Returns `error`. */
int hub_fail(struct hub *hub, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Handles what has come on the spokes, and sends. Returns how many things that was. */
int hub_turn(struct hub *hub);
void hub_flush(struct hub *hub);

/* Sleeps until there is something to do, or `deadline_ns` of clock_now_ns(): -ETIMEDOUT. -EINTR after a signal. */
int hub_sleep(const struct hub *hub, uint64_t deadline_ns);

/* hub_root.c, hub_rank.c: what records and ends of connections mean once the ranks have met. */
int hub_root_record(struct hub *hub, struct spoke *spoke, const struct hub_record *record);
void hub_root_broken(struct hub *hub, struct spoke *spoke, int error);
int hub_root_send(struct hub *hub, uint32_t to, const void *data, size_t length);
void hub_root_goodbye(struct hub *hub);
int hub_rank_record(struct hub *hub, struct spoke *spoke, const struct hub_record *record);
void hub_rank_broken(struct hub *hub, struct spoke *spoke, int error);
int hub_rank_send(struct hub *hub, uint32_t to, const void *data, size_t length);
void hub_rank_goodbye(struct hub *hub);

/* hub_root_meet.c, hub_rank_meet.c: return when all ranks have come, or with an error that they have explained. */
int hub_root_meet(struct hub *hub, const struct hub_attr *attr);
int hub_rank_meet(struct hub *hub, const struct hub_attr *attr);

/* "rank 3 (...) ended without a goodbye" and the like, for the error with which a connection ended. */
void hub_explain_end(const struct hub *hub, const struct spoke *spoke, int error,
		     char why[HUB_WHY]);

#endif

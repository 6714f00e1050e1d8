/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hub.h: mail between ranks over TCP. Rank 0 listens, every other rank connects to it, and rank 0 relays letters: a star.
 *
 *	hub_root_meet.c, hub_rank_meet.c	how the ranks meet
 *	hub_root.c, hub_rank.c			mail at rank 0, and at the others
 *	spoke.c				one connection: letters that wait, and how much the other end has room for
 *	hub_record.c				what is said, as bytes
 *
 * A letter between two other ranks moves only while rank 0 makes progress.
 *
 * Silence is judged by the kernels (gw_rendezvous_attr.silence_ns), not by heartbeats of the processes: a rank that computes
 * for minutes without making progress, or that is stopped, is alive, and a host that vanishes is found. TCP takes a socket that
 * stays full for a silent host, so each end sends only what the other surely has room for (spoke.c).
 *
 * Limits. A rank that has 256 KiB of letters on the way to ranks that do not read is held up until they do; other ranks are not.
 * Rank 0 uses three descriptors for each rank, and raises the soft limit of its process where that is too low.
 */
#ifndef COLLECTIVE_HUB_H
#define COLLECTIVE_HUB_H

#include <stdint.h>

#include "collective/mail.h"

/* Bytes of a sentence about a failure, with its final zero. */
#define HUB_WHY 400

struct hub_attr {
	uint32_t rank;
	uint32_t size;
	/* host of rank 0, a name or an address; not used by rank 0 */
	const char *root;
	/* TCP port on which rank 0 listens */
	uint16_t port;
	/* address of this host to listen on or to connect from; null: any */
	const char *bind;
	/* file with a secret that all ranks have (rendezvous.h); null: none */
	const char *secret_file;
	/* what all ranks need to have alike, as rank 0 does, for people to read; null: nothing */
	const char *settings;
	/* how long rank 0 waits for the others, and how long these try to reach it; 0: 60 s */
	uint64_t meet_ns;
	/* silence after which a host is taken for dead, in whole seconds and at least 2 s; 0: 10 s */
	uint64_t peer_timeout_ns;
};

/*
 * Returns when all ranks have come; a rank that has reached rank 0 waits as long as rank 0 does. On failure, `why` has the
 * reason in a sentence, which every rank that came is told.
 * -EINVAL      rank, size, root or port
 * -ETIMEDOUT   ranks did not come: `why` names them
 * -EEXIST      two processes have the same rank
 * -EPROTO      ranks disagree about their number or settings, or have different versions
 * -ECONNRESET  a rank ended before all had come
 * -EMFILE      rank 0 may not open enough files
 * -EINTR       a signal
 * and as gw_rendezvous_connect() and gw_rendezvous_listen(). A connection without the secret is refused, and the meeting goes
 * on.
 */
int hub_open(const struct hub_attr *attr, const struct mail_handler *handler, void *arg,
	     char why[HUB_WHY], struct mail **out);

#endif

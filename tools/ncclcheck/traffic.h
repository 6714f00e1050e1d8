/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages in both directions of a pair, several at a time, every byte checked. */
#ifndef TOOLS_NCCLCHECK_TRAFFIC_H
#define TOOLS_NCCLCHECK_TRAFFIC_H

#include "worker.h"

struct traffic {
	/* determines sizes and bytes; the same at both ranks */
	uint64_t seed;
	/* messages in each direction */
	unsigned count;
	/* most requests open in each direction, up to NCCL_REQUESTS */
	unsigned depth;
	/* bytes of the largest message, and of every receive; sizes are spread evenly over powers of two */
	size_t max;
	/* one message in eight is empty */
	bool empty;
	/* buffers at odd addresses */
	bool unaligned;
	/* test() gets no pointer for the size */
	bool no_sizes;
	/* the sender overwrites its buffer as soon as test() says done */
	bool overwrite;
	/* this rank sends only, receives only */
	bool send_only, recv_only;
};

/* Runs it; any difference ends the case. */
void traffic_run(struct worker *w, const struct pair *pair, const struct traffic *traffic);

/* A short one, to show that a pair works. */
void traffic_short(struct worker *w, const struct pair *pair, uint64_t seed);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * strands.h: threads that share the operations of a communicator. Private to collective/.
 *
 * A communicator with N threads consists of N communicators of the same ranks, the caller's and N - 1 *strands*. Each has a context,
 * channels and multicast groups of its own, and a strand also has a thread, which alone uses it. A large operation is cut into N
 * parts, a range of elements of each block. The caller's communicator does the last one, a strand each of the others: it receives,
 * checks and writes the packets of its part, and repairs what is missing. So no packet passes from one thread to another, and
 * nothing is locked. The operation ends when the last part has.
 *
 * Parts are handed over on a list that is added to by compare-and-swap. The strand that ends the last part of an operation
 * makes the caller's communicator look, by its eventfd. When one of the N communicators fails, the others end with its reason.
 */
#ifndef COLLECTIVE_STRANDS_H
#define COLLECTIVE_STRANDS_H

#include <stdatomic.h>

#include "collective/comm.h"

/* Bytes of an operation for each thread from which on it is cut. */
#define STRAND_BYTES (UINT64_C(64) << 10)

struct strand;

/* A range of an operation, for one strand. */
struct part {
	/* the one that was handed over before */
	struct part *next;
	struct strand *strand;
	struct parts *parts;
	enum operation operation;
	struct gw_coll_attr attr;
	/* bytes from one block of the caller's buffers to the next; 0: there are no blocks */
	uint64_t stride;
};

/* All parts of an operation but the caller's. */
struct parts {
	/* parts that have not ended */
	atomic_uint open;
	/* 0, or what a part ended with */
	atomic_int status;
	struct part part[];
};

/* Makes `count` strands of a communicator, each by `open`, and starts their threads. */
int strands_open(struct gw_comm *comm, uint32_t count, const struct gw_comm_attr *attr,
		 int (*open)(const struct gw_comm_attr *attr, struct gw_comm **out));
/* Ends the threads; every part has ended afterwards. */
void strands_close(struct gw_comm *comm);
/* Whether an operation is cut. The same on all ranks. */
bool strands_share(const struct gw_comm *comm, enum operation operation,
		   const struct gw_coll_attr *attr);
/* Posts an operation in parts. */
int strands_submit(struct gw_comm *comm, enum operation operation, const struct gw_coll_attr *attr,
		   struct gw_coll **out);
/* Ends operations whose parts have ended, and passes failures on. Returns how many things that was. */
int strands_turn(struct gw_comm *comm);

static inline bool parts_open(const struct gw_coll *coll)
{
	return coll->parts && atomic_load(&coll->parts->open);
}

#endif

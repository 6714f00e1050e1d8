/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * buffers.h: the memory of `godwit coll`, with what a rank gives before an operation and what it must have got after it.
 *
 * In place there is one piece of memory, and of an allgather and a reduce_scatter the smaller buffer is this rank's block of it
 * (collective.h).
 */
#ifndef TOOLS_COLL_BUFFERS_H
#define TOOLS_COLL_BUFFERS_H

#include "values.h"

struct coll_buffers {
	/* the same in place */
	uint8_t *given, *got;
};

/* Allocates room for `bytes` in either buffer, and writes to it, so that it is there. -ENOMEM */
int coll_buffers_open(struct coll_buffers *buffers, uint64_t bytes, bool in_place);

void coll_buffers_close(struct coll_buffers *buffers);

/* Where the operation's `send` and `recv` are. */
void *coll_buffers_send(const struct coll_buffers *buffers, const struct value_question *question);
void *coll_buffers_recv(const struct coll_buffers *buffers, const struct value_question *question);

/* Writes what this rank gives, and nonsense where it gets. */
void coll_buffers_fill(const struct coll_buffers *buffers, const struct value_question *question);

/* Returns how many of the elements that this rank got are wrong. */
uint64_t coll_buffers_wrong(const struct coll_buffers *buffers,
			    const struct value_question *question);

#endif

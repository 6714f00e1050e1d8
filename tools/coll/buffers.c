/* SPDX-License-Identifier: BSD-3-Clause */
#include "buffers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096

int coll_buffers_open(struct coll_buffers *buffers, uint64_t bytes, bool in_place)
{
	uint64_t whole = (bytes + PAGE) / PAGE * PAGE;

	buffers->given = aligned_alloc(PAGE, whole);
	buffers->got = in_place ? buffers->given : aligned_alloc(PAGE, whole);
	if (!buffers->given || !buffers->got)
		return -ENOMEM;
	memset(buffers->given, 1, whole);
	memset(buffers->got, 1, whole);
	return 0;
}

void coll_buffers_close(struct coll_buffers *buffers)
{
	if (buffers->got != buffers->given)
		free(buffers->got);
	free(buffers->given);
}

/* Bytes before this rank's block, if `operation` is the one whose buffer is that block and there is one piece of memory. */
static uint64_t block_offset(const struct coll_buffers *buffers, const struct value_question *q,
			     enum coll_operation operation)
{
	bool in_place = buffers->given == buffers->got;

	return in_place && q->operation == operation ? q->rank * q->count * gw_type_size(q->type)
						     : 0;
}

void *coll_buffers_send(const struct coll_buffers *buffers, const struct value_question *question)
{
	return buffers->given + block_offset(buffers, question, COLL_ALLGATHER);
}

void *coll_buffers_recv(const struct coll_buffers *buffers, const struct value_question *question)
{
	return buffers->got + block_offset(buffers, question, COLL_REDUCE_SCATTER);
}

void coll_buffers_fill(const struct coll_buffers *buffers, const struct value_question *q)
{
	uint64_t given = value_send_count(q->operation, q->count, q->size);
	uint64_t got = value_recv_count(q->operation, q->count, q->size);
	uint8_t *send = coll_buffers_send(buffers, q);

	memset(coll_buffers_recv(buffers, q), 0xff, got * gw_type_size(q->type));
	for (uint64_t i = 0; i < given; i++)
		value_put(q->type, send, i, value_given_sparsely(q, q->rank, i));
}

uint64_t coll_buffers_wrong(const struct coll_buffers *buffers, const struct value_question *q)
{
	uint64_t got = value_recv_count(q->operation, q->count, q->size), wrong = 0;
	const uint8_t *recv = coll_buffers_recv(buffers, q);

	for (uint64_t i = 0; i < got; i++)
		wrong += !value_right(q, recv, i);
	return wrong;
}

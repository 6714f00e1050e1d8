/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues that cannot overflow. Every queue pair reserves an entry for each request that it can have
 * outstanding; when all entries are reserved, the next queue pair gets a new completion queue. Entries that a destroyed
 * queue pair had reserved are free only after the completion queue was seen empty, since its completions may still be in
 * there.
 *
 * All completion queues share one channel, on which a thread sleeps.
 */
#include <errno.h>
#include <stdlib.h>

#include "fabric/verbs/endpoint.h"

int cq_open(struct verbs_endpoint *endpoint, uint32_t entries)
{
	struct cq *cq;

	if (endpoint->cq_count == CQS_MAX)
		return -ENOBUFS;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	errno = 0;
	cq->ibv = ibv_create_cq(endpoint->context, (int)entries, cq, endpoint->channel, 0);
	if (!cq->ibv) {
		int error = errno;

		free(cq);
		return error > 0 ? -error : -ENOMEM; /* not every provider sets errno */
	}
	cq->size = entries;
	endpoint->cqs[endpoint->cq_count++] = cq;
	return 0;
}

int cq_reserve(struct verbs_endpoint *endpoint, uint32_t entries, struct cq **out)
{
	struct cq *cq;
	int error;

	/* The first one is for the binder only. */
	for (uint32_t i = 1; i < endpoint->cq_count; i++) {
		cq = endpoint->cqs[i];
		if (cq->size - cq->reserved >= entries) {
			cq->reserved += entries;
			*out = cq;
			return 0;
		}
	}
	if (entries + sizes_common(&endpoint->sizes) > endpoint->sizes.cq)
		return -ENOBUFS;
	error = cq_open(endpoint, endpoint->sizes.cq);
	if (error)
		return error;
	cq = endpoint->cqs[endpoint->cq_count - 1];
	cq->reserved = entries + sizes_common(&endpoint->sizes);
	*out = cq;
	return 0;
}

void cq_release(struct cq *cq, uint32_t entries)
{
	cq->leaving += entries;
}

struct ibv_wc *cq_next(struct cq *cq)
{
	int count;

	if (cq->next < cq->count)
		return &cq->taken[cq->next++];
	count = ibv_poll_cq(cq->ibv, CQ_BATCH, cq->taken);
	cq->next = 0;
	cq->count = count > 0 ? (uint32_t)count : 0;
	if (cq->count)
		return &cq->taken[cq->next++];
	cq->empties++;
	cq->reserved -= cq->leaving;
	cq->leaving = 0;
	return NULL;
}

bool cqs_arm(struct verbs_endpoint *endpoint)
{
	bool something = false;

	for (uint32_t i = 0; i < endpoint->cq_count; i++) {
		struct cq *cq = endpoint->cqs[i];

		if (!cq->armed && !ibv_req_notify_cq(cq->ibv, 0)) {
			cq->armed = true;
			/* Completions from before the request raise no event. */
			if (cq->next == cq->count && cq_next(cq))
				cq->next--;
		}
		something |= cq->next < cq->count;
	}
	return something;
}

void cqs_take_events(struct verbs_endpoint *endpoint)
{
	struct ibv_cq *ibv;
	void *context;

	/* The channel does not block. */
	while (!ibv_get_cq_event(endpoint->channel, &ibv, &context)) {
		struct cq *cq = context;

		cq->armed = false;
		ibv_ack_cq_events(ibv, 1);
	}
}

void cqs_close(struct verbs_endpoint *endpoint)
{
	while (endpoint->cq_count) {
		struct cq *cq = endpoint->cqs[--endpoint->cq_count];

		ibv_destroy_cq(cq->ibv);
		free(cq);
	}
}

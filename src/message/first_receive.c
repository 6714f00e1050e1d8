/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first receive, promised in the queue pair's description.
 *
 * A sender waits for a grant: a round trip in which nothing moves. A queue pair that knows how long its first receive will
 * be (`first_bytes`) draws the key when it is made and puts both into its description; the receive is posted as soon as
 * the queue pair is connected, and exposed under that key. So its peer has one grant from the beginning. Its packets have
 * the floor's size, which every path carries. The promise is the fabric's to keep: a NIC chooses its keys itself, and
 * there the first message waits for a grant like any other.
 */
#include "message/info.h"

/* Of a slot's first use. */
#define GENERATION 1

void first_receive_promise(struct gw_qp *qp, uint64_t bytes)
{
	const struct fabric_ops *ops = qp->ctx->fabric->ops;

	if (bytes && ops->promise &&
	    !ops->promise(qp->fabric_qp, qp->rx.first_msn & qp->rx.mask, &qp->rx.first_key))
		qp->rx.first_bytes = bytes;
}

/* Without room in the pool the peer's GRANT will be the first to tell. */
void first_receive_take(struct gw_qp *qp, const struct peer_info *info)
{
	struct grant *grant = info->first_bytes ? pool_get(&qp->ctx->grants) : NULL;

	if (!grant)
		return;
	grant->target = (struct fabric_target){ .slot = info->first_msn & qp->tx.mask,
						.generation = GENERATION,
						.rkey = info->first_key };
	grant->va = 0;
	grant->capacity = info->first_bytes;
	grant->tag = 0;
	grant->payload = qp->size.floor;
	list_add_tail(&qp->tx.grants, &grant->link);
	qp->tx.grants_seen++;
}

bool first_receive_covers(const struct gw_qp *qp, const struct gw_recv *recv)
{
	return qp->rx.first_bytes && recv->msn == qp->rx.first_msn;
}

void first_receive_exposed(struct gw_qp *qp, const struct gw_recv *recv)
{
	struct fabric_event event = { .slot = recv->msn & qp->rx.mask, .generation = GENERATION };

	event.exposed.rkey = qp->rx.first_key;
	recv_exposed(qp, &event);
}

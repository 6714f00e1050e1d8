/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first message, ahead of every handshake.
 *
 * A sender waits for a grant, and before its first packet for the word that full packets reach the peer (reach.c): a round
 * trip or more in which nothing moves. A queue pair that is told how long its first receive will be (`first_bytes`)
 * promises it in its description: the key is drawn when the queue pair is made, and the receive, posted as soon as it is
 * connected, is exposed under that key. So its peer has one grant from the beginning, and uses it without knowing yet how
 * large a packet may be.
 *
 * That guess is right, or nothing of the message lands. Then both ends cut it into smaller packets and it starts anew:
 * only streams go ahead, for they have their memory until the receiver's result. The promise is the fabric's to keep. A
 * NIC picks its keys itself, and there the first message waits like any other.
 */
#include <errno.h>

#include "base/serial.h"
#include "message/info.h"

/* The slot's first. */
#define GENERATION 1

void first_promise(struct gw_qp *qp, uint64_t bytes)
{
	const struct fabric_ops *ops = qp->ctx->fabric->ops;

	if (bytes && ops->promise &&
	    !ops->promise(qp->fabric_qp, qp->first_msn & qp->slots_mask, &qp->first_key))
		qp->first_bytes = bytes;
}

/* Not heard, but as good as that. When there is no room for it the peer's GRANT will be the first to tell. */
void first_granted(struct gw_qp *qp, const struct peer_info *info)
{
	struct grant *grant = info->first_bytes ? pool_get(&qp->ctx->grants) : NULL;

	qp->first_to = info->first_msn;
	if (!grant)
		return;
	grant->target = (struct fabric_target){ info->first_msn & qp->sends_mask, GENERATION,
						info->first_key };
	grant->va = 0;
	grant->capacity = info->first_bytes;
	grant->tag = 0;
	list_add_tail(&qp->grants, &grant->link);
	qp->grants_seen++;
	qp->ahead = true;
}

/* The receive that was promised: exposed at once under the key it was promised with. */
bool first_kept(const struct gw_qp *qp, const struct gw_recv *recv)
{
	return qp->first_bytes && recv->msn == qp->first_msn;
}

void first_exposed(struct gw_qp *qp, const struct gw_recv *recv)
{
	struct fabric_event event = { .slot = recv->msn & qp->slots_mask,
				      .generation = GENERATION };

	event.exposed.rkey = qp->first_key;
	recv_exposed(qp, &event);
}

/* Whether this send may leave before it is known how large its packets may be. */
bool first_may_go(const struct gw_qp *qp, const struct gw_send *send)
{
	return qp->ahead && send->stream && send->msn == qp->first_to && !qp->stepped_down;
}

/* The one that went ahead and is still open. */
static struct gw_send *under_way(struct gw_qp *qp)
{
	struct gw_send *send = qp->ahead ? send_find(qp, qp->first_to) : NULL;

	return send && !send->ended ? send : NULL;
}

/* How large its packets are to be is being asked: none leaves, and what the receiver says may be about others. */
bool first_uncut(const struct gw_send *send)
{
	const struct gw_qp *qp = send->qp;

	return qp && qp->stepped_down && qp->reach < REACH_SETTLED;
}

/* Another size is tried: what waits was cut to the old one. */
void first_stop(struct gw_qp *qp)
{
	struct gw_send *send = under_way(qp);

	if (!send)
		return;
	put_drop_all(send);
	list_del(&send->link);
}

/* Smaller packets reach the peer, and what was sent did not. */
void first_again(struct gw_qp *qp)
{
	struct gw_send *send = under_way(qp);

	if (!send)
		return;
	first_stop(qp);
	send->high_water = 0;
	qp->sent_front = (uint64_t)qp->first_to << 32;
	feedback_stalled(qp);
	send_recut(send);
	if (!send->ended && !send->closing && send->handler && send->handler->granted)
		send->handler->granted(send, send->arg, send->length, qp->ctx->now);
}

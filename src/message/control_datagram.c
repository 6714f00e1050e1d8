/* SPDX-License-Identifier: BSD-3-Clause */
/* See control_datagram.h. */
#include <errno.h>

#include "message/control_datagram.h"

#include "message/trace.h"

#define MESSAGE_ROOM 232 /* a header, and a report with its lanes and some results */

void control_datagram_open(struct control_datagram *datagram, struct gw_qp *qp, size_t size)
{
	datagram->qp = qp;
	datagram->size = size < CONTROL_DATAGRAM_SIZE ? size : CONTROL_DATAGRAM_SIZE;
	datagram->used = 0;
	datagram->error = 0;
}

void control_datagram_begin(struct control_datagram *datagram, enum control_type type)
{
	const struct gw_qp *qp = datagram->qp;
	uint8_t *bytes;
	size_t room;
	struct control_header header;

	if (datagram->used && datagram->size - datagram->used < MESSAGE_ROOM)
		control_datagram_send(datagram);
	bytes = datagram->bytes + datagram->used;
	room = datagram->size - datagram->used;
	/* While a datagram is filled nothing comes that would change these numbers. */
	if (datagram->used) {
		control_begin_like(&datagram->writer, bytes, room, type, datagram->bytes);
		return;
	}
	header = (struct control_header){ .token = qp->control.peer_token,
					  .announced = qp->rx.announced,
					  .granted = qp->tx.grants_seen,
					  .completed = qp->rx.completed,
					  .results = qp->tx.results_seen,
					  .size = qp->size.proven,
					  .settled = qp->size.state == SIZE_SETTLED,
					  .epoch = qp->size.epoch,
					  .epoch_applied = qp->size.applied };
	control_begin(&datagram->writer, bytes, room, type, &header);
}

void control_datagram_end(struct control_datagram *datagram)
{
	datagram->used += control_end(&datagram->writer);
}

void control_flush(struct gw_context *ctx)
{
	if (ctx->fabric->ops->flush)
		ctx->fabric->ops->flush(ctx->fabric);
}

int control_datagram_send(struct control_datagram *datagram)
{
	struct gw_qp *qp = datagram->qp;
	size_t length = datagram->used;

	if (!length)
		return 0;
	datagram->used = 0;
	datagram->error = -EAGAIN;
	if (reach_may_send(qp, length))
		datagram->error =
			qp->ctx->fabric->ops->control(qp->fabric_qp, datagram->bytes, length);
	/* Within a turn it leaves with the others of the turn. */
	if (!qp->ctx->busy)
		control_flush(qp->ctx);
	if (trace_is_on())
		trace_datagram(qp, datagram->error ? "tx-failed" : "tx", datagram->bytes, length);
	if (datagram->error)
		return datagram->error;
	count(qp->ctx, COUNT_CONTROL_SENT);
	qp->ctx->counters[COUNT_CONTROL_BYTES] += length;
	qp->control.told_at = qp->ctx->now;
	qp->control.owed &= ~OWE_ACK; /* every datagram carries the cumulative numbers */
	return 0;
}

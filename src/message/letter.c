/* SPDX-License-Identifier: BSD-3-Clause */
/* See letter.h. */
#include "message/letter.h"

#define MESSAGE_ROOM 232 /* a header, and a report with its lanes and some results */

void letter_open(struct letter *letter, struct gw_qp *qp, size_t size)
{
	letter->qp = qp;
	letter->size = size < LETTER_SIZE ? size : LETTER_SIZE;
	letter->used = 0;
	letter->error = 0;
}

void letter_begin(struct letter *letter, enum control_type type)
{
	struct gw_qp *qp = letter->qp;
	struct control_header header = { .token = qp->peer_token,
					 .announced = qp->announced,
					 .granted = qp->grants_seen,
					 .completed = qp->completed,
					 .results = qp->results_seen,
					 .size = qp->size.proven,
					 .settled = qp->size.state == SIZE_SETTLED,
					 .epoch = qp->size.epoch,
					 .epoch_applied = qp->size.applied };

	if (letter->used && letter->size - letter->used < MESSAGE_ROOM)
		letter_send(letter);
	control_begin(&letter->writer, letter->bytes + letter->used, letter->size - letter->used,
		      type, &header);
}

void letter_end(struct letter *letter)
{
	letter->used += control_end(&letter->writer);
}

int letter_send(struct letter *letter)
{
	struct gw_qp *qp = letter->qp;
	size_t length = letter->used;

	if (!length)
		return 0;
	letter->used = 0;
	letter->error = qp->ctx->fabric->ops->control(qp->fabric_qp, letter->bytes, length);
	if (letter->error)
		return letter->error;
	count(qp->ctx, COUNT_CONTROL_SENT);
	qp->ctx->counters[COUNT_CONTROL_BYTES] += length;
	qp->owed &= ~OWE_ACK; /* every datagram carries the cumulative numbers */
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What schemes say to each other. Each leaves at once, in a datagram of its own. */
#include <errno.h>

#include "base/serial.h"
#include "message/letter.h"

int gw_recv_nack(struct gw_recv *recv, const struct gw_nack *nack)
{
	struct control_nack body;
	struct letter letter;

	if (!recv || !nack || nack->count > GW_NACK_RUNS_MAX || (nack->count && !nack->runs) ||
	    nack->reserved)
		return -EINVAL;
	if (!recv_valid(recv))
		return -ESTALE;
	if (recv->completed || !recv->qp)
		return -EALREADY;
	body = (struct control_nack){ .msn = recv->msn,
				      .round = nack->round,
				      .below = nack->below };
	letter_open(&letter, recv->qp, recv->qp->control_max);
	letter_begin(&letter, CONTROL_NACK);
	control_put_nack(&letter.writer, &body);
	for (uint32_t i = 0; i < nack->count; i++) {
		struct control_run run = { nack->runs[i].first, nack->runs[i].count };
		int error = control_put_run(&letter.writer, &run);

		if (error == -EINVAL)
			return error;
		if (error)
			break;
	}
	letter_end(&letter);
	return letter_send(&letter);
}

static int say_scheme(struct gw_qp *qp, uint32_t msn, enum control_side side, uint8_t scheme,
		      const void *data, size_t length)
{
	struct control_scheme body = { .msn = msn,
				       .side = (uint8_t)side,
				       .scheme = scheme,
				       .payload_length = (uint16_t)length,
				       .payload = data };
	struct letter letter;

	if (length > GW_CONTROL_MAX)
		return -EMSGSIZE;
	letter_open(&letter, qp, qp->control_max);
	letter_begin(&letter, CONTROL_SCHEME);
	if (control_put_scheme(&letter.writer, &body))
		return -EMSGSIZE;
	letter_end(&letter);
	return letter_send(&letter);
}

int gw_send_control(struct gw_send *send, const void *data, size_t length)
{
	if (!send || (!data && length))
		return -EINVAL;
	if (!send_valid(send))
		return -ESTALE;
	if (!send->qp || send->ended || send->result)
		return -EALREADY;
	if (!send->granted)
		return -EAGAIN;
	return say_scheme(send->qp, send->msn, CONTROL_TO_RECEIVER, send->scheme, data, length);
}

int gw_recv_control(struct gw_recv *recv, const void *data, size_t length)
{
	if (!recv || (!data && length))
		return -EINVAL;
	if (!recv_valid(recv))
		return -ESTALE;
	if (!recv->qp || recv->completed)
		return -EALREADY;
	if (!serial_before(recv->msn, recv->qp->recv_granted))
		return -EAGAIN;
	return say_scheme(recv->qp, recv->msn, CONTROL_TO_SENDER, recv->scheme, data, length);
}

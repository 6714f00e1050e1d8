/* SPDX-License-Identifier: BSD-3-Clause */
/* What schemes say to each other. Each leaves at once, in a datagram of its own. */
#include <errno.h>

#include "base/serial.h"
#include "message/control_datagram.h"

int gw_recv_nack(struct gw_recv *recv, const struct gw_nack *nack)
{
	struct control_nack body;
	struct control_datagram datagram;

	if (!recv || !nack || nack->count > GW_NACK_RUNS_MAX || (nack->count && !nack->runs) ||
	    nack->reserved)
		return -EINVAL;
	if (!recv_valid(recv))
		return -ESTALE;
	if (recv_is_completed(recv) || !recv->qp)
		return -EALREADY;
	body = (struct control_nack){ .msn = recv->msn,
				      .round = nack->round,
				      .below = nack->below };
	control_datagram_open(&datagram, recv->qp, recv->qp->control.max);
	control_datagram_begin(&datagram, CONTROL_NACK);
	control_put_nack(&datagram.writer, &body);
	for (uint32_t i = 0; i < nack->count; i++) {
		struct control_run run = { nack->runs[i].first, nack->runs[i].count };
		int error = control_put_run(&datagram.writer, &run);

		if (error == -EINVAL)
			return error;
		if (error)
			break;
	}
	control_datagram_end(&datagram);
	return control_datagram_send(&datagram);
}

static int send_scheme(struct gw_qp *qp, uint32_t msn, enum control_side side, uint8_t scheme,
		       const void *data, size_t length)
{
	struct control_scheme body = { .msn = msn,
				       .side = (uint8_t)side,
				       .scheme = scheme,
				       .payload_length = (uint16_t)length,
				       .payload = data };
	struct control_datagram datagram;

	if (length > GW_CONTROL_MAX)
		return -EMSGSIZE;
	control_datagram_open(&datagram, qp, qp->control.max);
	control_datagram_begin(&datagram, CONTROL_SCHEME);
	if (control_put_scheme(&datagram.writer, &body))
		return -EMSGSIZE;
	control_datagram_end(&datagram);
	return control_datagram_send(&datagram);
}

int gw_send_control(struct gw_send *send, const void *data, size_t length)
{
	if (!send || (!data && length))
		return -EINVAL;
	if (!send_valid(send))
		return -ESTALE;
	if (!send->qp || send_is_ended(send) || send_is_answered(send))
		return -EALREADY;
	if (!send_is_matched(send))
		return -EAGAIN;
	return send_scheme(send->qp, send->msn, CONTROL_TO_RECEIVER, send->scheme, data, length);
}

int gw_recv_control(struct gw_recv *recv, const void *data, size_t length)
{
	if (!recv || (!data && length))
		return -EINVAL;
	if (!recv_valid(recv))
		return -ESTALE;
	if (!recv->qp || recv_is_completed(recv))
		return -EALREADY;
	if (!serial_before(recv->msn, recv->qp->rx.granted))
		return -EAGAIN;
	return send_scheme(recv->qp, recv->msn, CONTROL_TO_SENDER, recv->scheme, data, length);
}

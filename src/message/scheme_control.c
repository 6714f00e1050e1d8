/* SPDX-License-Identifier: BSD-3-Clause */
/* What schemes say to each other. Each leaves at once, in a datagram of its own. */
#include <errno.h>

#include "base/serial.h"
#include "message/control_datagram.h"

/* Runs that one datagram carries. */
static uint32_t runs_fit(const struct gw_qp *qp)
{
	uint32_t fit =
		(qp->control.max - CONTROL_HEADER_SIZE - CONTROL_NACK_SIZE) / CONTROL_RUN_SIZE;

	return fit < GW_NACK_RUNS_MAX ? fit : GW_NACK_RUNS_MAX;
}

static int check_recv(const struct gw_recv *recv)
{
	if (!recv)
		return -EINVAL;
	if (!recv_valid(recv))
		return -ESTALE;
	return recv_is_completed(recv) || !recv->qp ? -EALREADY : 0;
}

int gw_recv_nack(struct gw_recv *recv, const struct gw_nack *nack)
{
	int error = check_recv(recv);
	struct control_datagram datagram;
	struct control_nack body;
	uint32_t count;

	if (error)
		return error;
	if (!nack || nack->count > GW_NACK_RUNS_MAX || (nack->count && !nack->runs) ||
	    nack->reserved)
		return -EINVAL;
	body = (struct control_nack){ .msn = recv->msn,
				      .round = nack->round,
				      .below = nack->below };
	count = runs_fit(recv->qp);
	if (count < nack->count)
		body.below = nack->runs[count - 1].first + nack->runs[count - 1].count;
	else
		count = nack->count;
	control_datagram_open(&datagram, recv->qp, recv->qp->control.max);
	control_datagram_begin(&datagram, CONTROL_NACK);
	control_put_nack(&datagram.writer, &body);
	for (uint32_t i = 0; i < count; i++) {
		struct control_run run = { nack->runs[i].first, nack->runs[i].count };

		if (control_put_run(&datagram.writer, &run))
			return -EINVAL;
	}
	control_datagram_end(&datagram);
	return control_datagram_send(&datagram);
}

int gw_recv_nack_holes(struct gw_recv *recv, uint32_t round, uint32_t *from, uint32_t below)
{
	struct gw_nack nack = { .round = round };
	struct gw_run runs[GW_NACK_RUNS_MAX];
	int error = check_recv(recv), packets = 0;
	uint32_t most;

	if (error)
		return error;
	if (!from)
		return -EINVAL;
	most = runs_fit(recv->qp);
	while (nack.count < most && gw_recv_next_hole(recv, *from, below, &runs[nack.count]) == 1) {
		packets += (int)runs[nack.count].count;
		*from = runs[nack.count].first + runs[nack.count].count;
		nack.count++;
	}
	nack.runs = runs;
	nack.below = *from;
	if (nack.count)
		gw_recv_nack(recv, &nack);
	return packets;
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

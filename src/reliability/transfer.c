/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers: a message under a scheme. This file is what every scheme shares: posting, finishing once, and telling the
 * caller when the memory is free. Like every scheme it sees the public headers alone.
 */
#include <errno.h>
#include <string.h>

#include <godwit/scheme.h>

static int check(struct gw_qp *qp, const struct gw_scheme *scheme,
		 const struct gw_transfer_attr *attr, uint32_t geometry[2])
{
	if (!scheme || !attr || attr->reserved32 || attr->reserved[0] || attr->reserved[1] ||
	    attr->reserved[2])
		return -EINVAL;
	if (scheme->prepare)
		return qp ? scheme->prepare(qp, attr, geometry) : -EINVAL;
	return attr->options ? -EINVAL : 0;
}

static void fill(struct gw_transfer *transfer, const struct gw_scheme *scheme,
		 const struct gw_transfer_attr *attr)
{
	transfer->scheme = scheme;
	transfer->addr = attr->addr;
	transfer->length = attr->length;
	transfer->mr = attr->mr;
	transfer->done = attr->done;
	transfer->arg = attr->arg;
	transfer->tag = attr->tag;
	transfer->options = attr->options;
	transfer->result.length = attr->length;
}

int gw_transfer_send(struct gw_qp *qp, const struct gw_scheme *scheme,
		     const struct gw_transfer_attr *attr, struct gw_send **out)
{
	struct gw_send_attr send_attr = { 0 };
	struct gw_send *send;
	int error;

	if (!out || !attr || attr->tag || (attr->length && (!attr->addr || !attr->mr)))
		return -EINVAL;
	error = check(qp, scheme, attr, send_attr.geometry);
	if (error)
		return error;
	send_attr.length = attr->length;
	send_attr.flags = attr->flags;
	send_attr.imm = attr->imm;
	send_attr.scheme = scheme->id;
	send_attr.handler = &scheme->send;
	error = gw_stream_start(qp, &send_attr, &send);
	if (error)
		return error;
	fill(gw_send_state(send), scheme, attr);
	if (scheme->send_begin)
		scheme->send_begin(send, gw_qp_now_ns(qp));
	*out = send;
	return 0;
}

int gw_transfer_recv(struct gw_qp *qp, const struct gw_scheme *scheme,
		     const struct gw_transfer_attr *attr, struct gw_recv **out)
{
	struct gw_recv_attr recv_attr = { 0 };
	uint32_t geometry[2];
	struct gw_recv *recv;
	int error;

	if (!out || !attr || attr->flags || attr->imm)
		return -EINVAL;
	error = check(qp, scheme, attr, geometry);
	if (error)
		return error;
	recv_attr.addr = attr->addr;
	recv_attr.length = attr->length;
	recv_attr.mr = attr->mr;
	recv_attr.tag = attr->tag;
	recv_attr.handler = &scheme->recv;
	error = gw_recv_post(qp, &recv_attr, &recv);
	if (error)
		return error;
	fill(gw_recv_state(recv), scheme, attr);
	if (scheme->recv_begin)
		scheme->recv_begin(recv, gw_qp_now_ns(qp));
	*out = recv;
	return 0;
}

static int finish(struct gw_transfer *transfer, int status, uint32_t missing)
{
	if (!transfer || transfer->finished)
		return 0;
	transfer->finished = 1;
	transfer->result.status = status;
	transfer->result.missing = missing;
	return 1;
}

void gw_transfer_finish_send(struct gw_send *send, int status, uint32_t missing)
{
	if (finish(gw_send_state(send), status, missing))
		gw_stream_end(send);
}

void gw_transfer_finish_recv(struct gw_recv *recv, int status, uint32_t missing)
{
	if (finish(gw_recv_state(recv), status, missing))
		gw_recv_complete(recv);
}

static void tell(struct gw_transfer *transfer, int status, uint64_t now)
{
	if (status && !transfer->result.status)
		transfer->result.status = status;
	if (!transfer->finished)
		transfer->result.missing = GW_MISSING_UNKNOWN;
	transfer->finished = 1;
	if (transfer->done)
		transfer->done(transfer->arg, &transfer->result, now);
}

void gw_transfer_sent(struct gw_send *send, void *arg, int status, uint64_t now)
{
	(void)arg;
	tell(gw_send_state(send), status, now);
}

void gw_transfer_received(struct gw_recv *recv, void *arg, int status, uint64_t now)
{
	struct gw_transfer *transfer = gw_recv_state(recv);
	struct gw_recv_status what;

	(void)arg;
	if (!gw_recv_status(recv, &what) && what.flags & GW_RECV_ANNOUNCED)
		transfer->result.length = what.length;
	tell(transfer, status, now);
}

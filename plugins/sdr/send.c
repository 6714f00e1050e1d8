/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c: sends, one-shot and streaming.
 *
 * A message of Godwit has a length from its start. A one-shot send ends with its last byte; if it has an offset, everything
 * before it is a hole, and it is a stream with a single put. A streaming send may put data anywhere, so it is as long as
 * the receive turns out to be.
 */
#include <errno.h>
#include <string.h>

#include "state.h"

#define PUT_AGAIN_NS 1000000

/* Puts the data of a one-shot send with an offset, once its receive was granted. */
static void put_once(struct gw_send *send, struct sdr_send_handle *handle, uint64_t now)
{
	int error =
		gw_stream_put(send, handle->offset, handle->addr, handle->length, handle->mr->gw);

	if (error == -EAGAIN) {
		gw_send_timer(send, now + PUT_AGAIN_NS);
		return;
	}
	handle->error = error;
	gw_stream_end(send);
}

static void granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now)
{
	put_once(send, arg, now);
}

static void timer(struct gw_send *send, void *arg, uint64_t now)
{
	put_once(send, arg, now);
}

static const struct gw_send_handler put_handler = { .granted = granted, .timer = timer };

static struct sdr_send_handle *take(struct sdr_qp *qp)
{
	struct sdr_send_handle *handle = qp->sends_free;

	handle->open = true;
	handle->stream = false;
	handle->error = 0;
	handle->mr = NULL;
	qp->sends_free = handle->next_free;
	return handle;
}

static void give_back(struct sdr_send_handle *handle)
{
	if (handle->mr)
		handle->mr->users--;
	handle->open = false;
	handle->next_free = handle->qp->sends_free;
	handle->qp->sends_free = handle;
}

static int explain_range(const struct sdr_send_handle *handle, const char *call)
{
	uint32_t payload = 0;

	gw_send_payload(handle->gw, &payload);
	if (payload && (UINT64_C(1) << handle->qp->chunk_log) % payload)
		return complain(
			"%s: the path carries packets of %u bytes, which do not divide a chunk; create the queue pairs with a smaller mtu",
			call, payload);
	return complain(
		"%s: the range is outside the receive, or ends inside a packet of %u bytes that is not the receive's last",
		call, payload);
}

static int finish(struct sdr_send_handle *handle, const char *call, int error)
{
	if (!error)
		return SDR_SUCCESS;
	give_back(handle);
	return error == -ENOBUFS ? SDR_RETRY : complain_gw(call, error);
}

static int check_wr(const struct sdr_qp *qp, const char *call, enum sdr_wr_opcode opcode)
{
	if (!qp->send_enable)
		return complain("%s: the queue pair was made without send_enable", call);
	if (opcode != SDR_WR_WRITE && opcode != SDR_WR_WRITE_WITH_IMM)
		return complain("%s: unknown opcode %d", call, (int)opcode);
	return SDR_SUCCESS;
}

static int post(struct sdr_qp *qp, const struct sdr_send_wr *wr, struct sdr_send_handle **out)
{
	static const char call[] = "sdr_send_post";
	struct gw_send_attr attr = { .imm = wr->imm_value };
	struct sdr_mr *mr = mr_find(qp->ctx, wr->lkey);
	struct sdr_send_handle *handle;
	int result = check_wr(qp, call, wr->opcode);

	if (result)
		return result;
	if (!mr)
		return complain("%s: lkey %#x names no memory of this context", call, wr->lkey);
	if (wr->length > qp->message_max ||
	    wr->remote_offset > (qp->message_max - wr->length) >> qp->chunk_log)
		return complain(
			"%s: offset and length exceed the longest message of this queue pair",
			call);
	if (!qp->sends_free)
		return SDR_RETRY;
	handle = take(qp);
	handle->offset = wr->remote_offset << qp->chunk_log;
	attr.length = handle->offset + wr->length;
	if (wr->opcode == SDR_WR_WRITE_WITH_IMM)
		attr.flags = GW_SEND_IMM;
	if (handle->offset) {
		handle->mr = mr;
		mr->users++;
		handle->addr = (const void *)(uintptr_t)wr->local_addr;
		handle->length = wr->length;
		attr.handler = &put_handler;
		attr.arg = handle;
		result = gw_stream_start(qp->gw, &attr, &handle->gw);
	} else {
		attr.addr = (const void *)(uintptr_t)wr->local_addr;
		attr.mr = mr->gw;
		result = gw_send_post(qp->gw, &attr, &handle->gw);
	}
	*out = handle;
	return finish(handle, call, result);
}

int sdr_send_post(struct sdr_qp *qp, struct sdr_send_wr *wr, struct sdr_send_handle **handle)
{
	struct sdr_send_handle *made = NULL;
	int result;

	if (!qp || !wr || !handle)
		return complain("sdr_send_post: a null argument");
	service_enter(qp->ctx);
	result = post(qp, wr, &made);
	if (result == SDR_SUCCESS)
		*handle = made;
	service_leave(qp->ctx, result != SDR_ERROR);
	return result;
}

static int start(struct sdr_qp *qp, const struct sdr_send_start_wr *wr,
		 struct sdr_send_handle **out)
{
	static const char call[] = "sdr_streaming_send_start";
	struct gw_send_attr attr = { .flags = GW_SEND_FILL, .imm = wr->imm_value };
	struct sdr_send_handle *handle;
	int result = check_wr(qp, call, wr->opcode);

	if (result)
		return result;
	if (!qp->sends_free)
		return SDR_RETRY;
	if (wr->opcode == SDR_WR_WRITE_WITH_IMM)
		attr.flags |= GW_SEND_IMM;
	handle = take(qp);
	handle->stream = true;
	*out = handle;
	return finish(handle, call, gw_stream_start(qp->gw, &attr, &handle->gw));
}

int sdr_streaming_send_start(struct sdr_qp *qp, struct sdr_send_start_wr *wr,
			     struct sdr_send_handle **handle)
{
	struct sdr_send_handle *made = NULL;
	int result;

	if (!qp || !wr || !handle)
		return complain("sdr_streaming_send_start: a null argument");
	service_enter(qp->ctx);
	result = start(qp, wr, &made);
	if (result == SDR_SUCCESS)
		*handle = made;
	service_leave(qp->ctx, result != SDR_ERROR);
	return result;
}

static int check_stream(const struct sdr_send_handle *handle, const char *call)
{
	if (!handle->open || !handle->stream)
		return complain("%s: the handle is not that of an open streaming send", call);
	return SDR_SUCCESS;
}

static int put(struct sdr_send_handle *handle, const struct sdr_send_continue_wr *wr)
{
	static const char call[] = "sdr_streaming_send_continue";
	struct sdr_qp *qp = handle->qp;
	struct sdr_mr *mr = mr_find(qp->ctx, wr->lkey);
	int error = check_stream(handle, call);

	if (error)
		return error;
	if (!mr)
		return complain("%s: lkey %#x names no memory of this context", call, wr->lkey);
	if (wr->remote_offset > qp->message_max >> qp->chunk_log)
		return explain_range(handle, call);
	error = gw_stream_put(handle->gw, wr->remote_offset << qp->chunk_log,
			      (const void *)(uintptr_t)wr->local_addr, wr->length, mr->gw);
	switch (error) {
	case 0:
		return SDR_SUCCESS;
	case -EAGAIN:
		return SDR_RETRY;
	case -ERANGE:
		return explain_range(handle, call);
	case -EALREADY:
		return complain(
			"%s: the send was ended, the receive completed, or the peer is gone", call);
	default:
		return complain_gw(call, error);
	}
}

int sdr_streaming_send_continue(struct sdr_send_handle *handle, struct sdr_send_continue_wr *wr)
{
	int result;

	if (!handle || !wr)
		return complain("sdr_streaming_send_continue: a null argument");
	service_enter(handle->qp->ctx);
	result = put(handle, wr);
	service_leave(handle->qp->ctx, result != SDR_ERROR);
	return result;
}

int sdr_streaming_send_end(struct sdr_send_handle *handle)
{
	static const char call[] = "sdr_streaming_send_end";
	int result;

	if (!handle)
		return complain("%s: no handle", call);
	service_enter(handle->qp->ctx);
	result = check_stream(handle, call);
	/* A send that ended because the peer did is reported by sdr_send_poll(). */
	if (result == SDR_SUCCESS && gw_stream_end(handle->gw) == -EALREADY &&
	    !gw_qp_status(handle->qp->gw))
		result = complain("%s: the send was ended before", call);
	service_leave(handle->qp->ctx, true);
	return result;
}

int sdr_send_poll(struct sdr_send_handle *handle, int *completed, struct sdr_send_status *status)
{
	int state, error = 0;

	if (!handle || !completed)
		return complain("sdr_send_poll: a null argument");
	service_enter(handle->qp->ctx);
	if (!handle->open) {
		service_leave(handle->qp->ctx, false);
		return complain("sdr_send_poll: the send was completed before");
	}
	state = gw_send_test(handle->gw);
	*completed = state != 0;
	if (state) {
		error = handle->error ? handle->error : state < 0 ? state : 0;
		gw_send_close(handle->gw);
		give_back(handle);
	}
	if (error == -ERANGE)
		explain_range(handle, "sdr_send_poll");
	else if (error)
		complain("sdr_send_poll: the send failed: %s", strerror(-error));
	if (status)
		status->flags = 0;
	service_leave(handle->qp->ctx, !state);
	return error ? SDR_ERROR : SDR_SUCCESS;
}

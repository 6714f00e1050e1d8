/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recv.c: receives, from post to completion.
 *
 * sdr_recv_complete() is one call, but Godwit completes a receive in two steps: the message stops counting, and later the
 * fabric has fenced the memory. As published, the memory is the caller's when the call returns, so it waits for both.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "state.h"

static void landed(struct gw_recv *recv, void *arg, uint64_t now)
{
	bitmap_update(arg);
}

static void released(struct gw_recv *recv, void *arg, int status, uint64_t now)
{
	bitmap_update(arg);
}

static const struct gw_recv_handler handler = { .progress = landed, .released = released };

static int post(struct sdr_qp *qp, const struct sdr_recv_wr *wr, struct sdr_recv_handle **out)
{
	struct gw_recv_attr attr = { .addr = (void *)(uintptr_t)wr->address,
				     .length = wr->max_length,
				     .handler = &handler };
	struct sdr_recv_handle *handle = qp->recvs_free;
	struct sdr_mr *mr = mr_find(qp->ctx, wr->lkey);
	int error;

	if (!qp->recv_enable)
		return complain("sdr_recv_post: the queue pair was made without recv_enable");
	if (!mr)
		return complain("sdr_recv_post: lkey %#x names no memory of this context",
				wr->lkey);
	if (wr->max_length > qp->message_max)
		return complain(
			"sdr_recv_post: %u bytes exceed the longest message of this queue pair",
			wr->max_length);
	if (!handle)
		return SDR_RETRY;
	attr.mr = mr->gw;
	attr.arg = handle;
	error = gw_recv_post(qp->gw, &attr, &handle->gw);
	if (error == -ENOBUFS)
		return SDR_RETRY;
	if (error)
		return complain_gw("sdr_recv_post", error);
	qp->recvs_free = handle->next_free;
	handle->open = true;
	handle->whole = 0;
	handle->max_length = wr->max_length;
	handle->chunks = (size_t)(((uint64_t)wr->max_length + (UINT64_C(1) << qp->chunk_log) - 1) >>
				  qp->chunk_log);
	memset(handle->bytes, 0, handle->chunks);
	*out = handle;
	return SDR_SUCCESS;
}

int sdr_recv_post(struct sdr_qp *qp, struct sdr_recv_wr *wr, struct sdr_recv_handle **handle)
{
	int result;

	if (!qp || !wr || !handle)
		return complain("sdr_recv_post: a null argument");
	service_enter(qp->ctx);
	result = post(qp, wr, handle);
	service_leave(qp->ctx, result == SDR_SUCCESS);
	return result;
}

/* Returns SDR_ERROR if the receive was completed, or if it is incomplete and the peer is gone. */
static int check(const struct sdr_recv_handle *handle, const char *call)
{
	struct gw_recv_status status;

	if (!handle->open)
		return complain("%s: the receive was completed", call);
	if (gw_qp_status(handle->qp->gw) && !gw_recv_status(handle->gw, &status) &&
	    !(status.flags & GW_RECV_FULL))
		return complain("%s: the peer is gone", call);
	return SDR_SUCCESS;
}

int sdr_recv_imm_get(struct sdr_recv_handle *handle, uint32_t *imm)
{
	int error, result;

	if (!handle || !imm)
		return complain("sdr_recv_imm_get: a null argument");
	service_enter(handle->qp->ctx);
	result = check(handle, "sdr_recv_imm_get");
	if (result == SDR_SUCCESS) {
		error = gw_recv_imm(handle->gw, imm);
		if (error == -EAGAIN)
			result = SDR_RETRY;
		else if (error == -ENODATA)
			result = complain("sdr_recv_imm_get: the message has no immediate");
		else if (error)
			result = complain_gw("sdr_recv_imm_get", error);
	}
	service_leave(handle->qp->ctx, result == SDR_RETRY);
	return result;
}

int sdr_recv_bitmap_get(struct sdr_recv_handle *handle, uint8_t **bitmap, size_t *length_bytes)
{
	int result;

	if (!handle || !bitmap || !length_bytes)
		return complain("sdr_recv_bitmap_get: a null argument");
	service_enter(handle->qp->ctx);
	result = check(handle, "sdr_recv_bitmap_get");
	if (result == SDR_SUCCESS) {
		*bitmap = handle->bytes;
		*length_bytes = handle->chunks;
	}
	service_leave(handle->qp->ctx, true);
	return result;
}

int sdr_recv_bitmap_chunk_expand(struct sdr_recv_handle *handle, uint32_t chunk_offset,
				 uint64_t *chunk_bitmap)
{
	int result;

	if (!handle || !chunk_bitmap)
		return complain("sdr_recv_bitmap_chunk_expand: a null argument");
	service_enter(handle->qp->ctx);
	if (!handle->open)
		result = complain("sdr_recv_bitmap_chunk_expand: the receive was completed");
	else if (chunk_offset >= handle->chunks)
		result = complain(
			"sdr_recv_bitmap_chunk_expand: chunk %u is beyond the buffer of %zu chunks",
			chunk_offset, handle->chunks);
	else if ((1u << handle->qp->chunk_log) / handle->qp->mtu > 64)
		result = complain(
			"sdr_recv_bitmap_chunk_expand: a chunk has more than 64 times the mtu, and the result 64 bits");
	else
		result = SDR_SUCCESS;
	if (result == SDR_SUCCESS)
		*chunk_bitmap = bitmap_expand(handle, chunk_offset);
	service_leave(handle->qp->ctx, true);
	return result;
}

int sdr_recv_complete(struct sdr_recv_handle *handle)
{
	struct sdr_qp *qp;

	if (!handle)
		return complain("sdr_recv_complete: no handle");
	qp = handle->qp;
	service_enter(qp->ctx);
	if (!handle->open) {
		service_leave(qp->ctx, false);
		return complain("sdr_recv_complete: the receive was completed before");
	}
	handle->open = false;
	/* Returns -EALREADY if the receive ended because the peer did. */
	gw_recv_complete(handle->gw);
	while (!gw_recv_test(handle->gw)) {
		service_leave(qp->ctx, true);
		sched_yield();
		service_enter(qp->ctx);
	}
	gw_recv_close(handle->gw);
	handle->next_free = qp->recvs_free;
	qp->recvs_free = handle;
	service_leave(qp->ctx, true);
	return SDR_SUCCESS;
}

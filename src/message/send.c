/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends, from post to the receiver's result. Their phases and stages are in send.h, their ranges in put.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/zero.h"
#include "message/trace.h"

struct gw_send *send_find(struct gw_qp *qp, uint32_t msn)
{
	uint32_t index = qp->tx.sends ? qp->tx.sends[msn & qp->tx.mask] : 0;
	struct gw_send *send;

	if (!index)
		return NULL;
	send = pool_at(&qp->ctx->sends, index - 1);
	return send->msn == msn ? send : NULL;
}

/* Gives the object back when nobody needs it any more. */
static void reap(struct gw_send *send)
{
	if (send->phase == SEND_RETIRED && send->closed && send->stage == SEND_TOLD)
		pool_put(&send->ctx->sends, send);
}

void send_end(struct gw_send *send, int status)
{
	if (send_is_ended(send))
		return;
	send_set_stage(send, SEND_ENDED);
	if (send->qp)
		TRACE_QP(send->qp, "send msn=%u ended status=%d", send->msn, status);
	send->status = status;
	put_drop_all(send);
	if (send->mr)
		send->mr->users--;
	if (send_is_matched(
		    send)) /* one that waits for a grant keeps its place: its number is taken */
		list_del(&send->link);
	if (send->phase == SEND_RETIRED)
		send->qp = NULL;
	timer_set(send->ctx, &send->timer, NEVER);
	list_add_tail(&send->ctx->ended_sends, &send->ended_link);
}

/* When the last of what was sent has left: later than now where the host holds it. */
static uint64_t left_at(const struct gw_send *send)
{
	uint64_t now = send->ctx->now;

	return send->qp && send->qp->feedback.sent_ns > now ? send->qp->feedback.sent_ns : now;
}

void send_check(struct gw_send *send)
{
	if (send->head || send_is_ended(send) || !send_is_matched(send))
		return;
	if (!send_is_closing(send)) {
		if (send->handler && send->handler->drained && !send_is_answered(send))
			send->handler->drained(send, send->arg, left_at(send));
		return;
	}
	if (!send->qp || send->qp->tx.flushed >= send->mark) {
		send_end(send, send->status);
		return;
	}
	list_del(&send->link);
	list_add_tail(&send->qp->tx.flushing, &send->link);
}

void send_tell(struct gw_send *send)
{
	/* `told` stays unset during the call, so that a close inside it does not free the object under us. */
	if (!send->closed && send->handler && send->handler->done)
		send->handler->done(send, send->arg, send->status, send->ctx->now);
	send_set_stage(send, SEND_TOLD);
	reap(send);
}

static void retire(struct gw_send *send)
{
	struct gw_qp *qp = send->qp;

	qp->tx.sends[send->msn & qp->tx.mask] = 0;
	send_set_phase(send, SEND_RETIRED);
	if (send_is_ended(send))
		send->qp = NULL;
	else if (list_empty(&send->link))
		list_add_tail(&qp->tx.lingering, &send->link);
	reap(send);
}

/* The queue pair is over. Unless it is over for the fabric as well, a send whose memory is still being read ends only
 * when that is done. */
void send_detach(struct gw_send *send, int status, bool fenced)
{
	struct gw_qp *qp = send->qp;

	if (send_is_matched(send) && send->phase != SEND_RETIRED)
		qp->tx.sends[send->msn & qp->tx.mask] = 0;
	if (send->phase != SEND_RETIRED)
		send_set_phase(send, SEND_RETIRED);
	list_del(&send->link);
	if (!fenced && !send_is_ended(send) && qp->tx.flushed < send->mark) {
		put_drop_all(send);
		timer_set(send->ctx, &send->timer, NEVER);
		if (!send_is_closing(send))
			send_set_stage(send, SEND_CLOSING);
		send->status = status;
		list_add_tail(&qp->tx.flushing, &send->link);
		return;
	}
	send_end(send, status);
	send->qp = NULL;
	reap(send);
}

/* The longest message: what the immediate counts in packets of the smallest size, so that a message may be cut. */
static uint64_t longest(const struct gw_qp *qp)
{
	return (uint64_t)qp->size.floor << qp->split.packet_bits;
}

/* The first of the waiting sends meets the first of the grants. */
static void match_one(struct gw_send *send, const struct grant *grant)
{
	struct gw_qp *qp = send->qp;
	uint64_t capacity = grant->capacity;

	list_del(&send->link);
	send_set_phase(send, SEND_MATCHED);
	send->target = grant->target;
	send->va = grant->va;
	send->payload = grant->payload;
	qp->tx.payload = grant->payload;
	qp->tx.sends[send->msn & qp->tx.mask] = pool_index(&send->ctx->sends, send) + 1;
	qp->tx.matched++;
	qp_owe(qp, OWE_ANNOUNCE);
	if (send_is_ended(send))
		return;
	/* A peer may claim any capacity. */
	if (send->flags & GW_SEND_FILL)
		send->length = capacity < longest(qp) ? capacity : longest(qp);
	send->packets = packets_of(send->length, send->payload);
	if (send->length > capacity) {
		send_end(send, -EMSGSIZE);
		return;
	}
	if (!send->stream) {
		send_set_stage(send, SEND_CLOSING);
		if (send->length && put_add(send, 0, send->addr, send->length, send->mr))
			send_end(send, -ENOBUFS);
		send_check(send);
		return;
	}
	if (!send_is_closing(send) && send->handler && send->handler->granted)
		send->handler->granted(send, send->arg, capacity, send->ctx->now);
	if (send_is_closing(send))
		send_check(send); /* ended before its turn came: there is nothing to wait for */
}

void send_match(struct gw_qp *qp)
{
	struct list *waiting, *first;

	while (qp->state == QP_CONNECTED && (waiting = list_first(&qp->tx.waiting)) &&
	       (first = list_first(&qp->tx.grants))) {
		struct gw_send *send = container_of(waiting, struct gw_send, link);
		struct grant *grant = container_of(first, struct grant, link);
		struct grant copy = *grant;

		list_del(first);
		pool_put(&qp->ctx->grants, grant);
		match_one(send, &copy);
	}
}

static int check_post(struct gw_qp *qp, const struct gw_send_attr *attr, const void *out)
{
	int error = qp_usable(qp);

	if (error)
		return error;
	if (!attr || !out || attr->flags & ~(GW_SEND_IMM | GW_SEND_FILL) || attr->reserved32)
		return -EINVAL;
	if (!array_is_zero(attr->reserved) || !array_is_zero(attr->reserved8))
		return -EINVAL;
	if (attr->length > longest(qp))
		return -EMSGSIZE;
	return 0;
}

/* What sending takes is got with the first send: a queue pair that only receives needs none of it. */
static int begin_sending(struct gw_qp *qp)
{
	if (!qp->tx.sends)
		qp->tx.sends = calloc((size_t)qp->tx.mask + 1, sizeof(*qp->tx.sends));
	return qp->tx.sends ? feedback_start(qp) : -ENOMEM;
}

static int post(struct gw_qp *qp, const struct gw_send_attr *attr, bool stream,
		struct gw_send **out)
{
	struct gw_send *send;
	int error = begin_sending(qp);

	if (error)
		return error;
	send = pool_get(&qp->ctx->sends);
	if (!send)
		return -ENOBUFS;
	qp_busy(qp);
	send->ctx = qp->ctx;
	send->qp = qp;
	send->handler = attr->handler;
	send->arg = attr->arg;
	send->addr = attr->addr;
	send->mr = attr->length ? attr->mr : NULL;
	if (send->mr)
		send->mr->users++; /* until it ends, also while it waits for its grant */
	send->length = attr->length;
	send->flags = attr->flags;
	send->imm = attr->flags & GW_SEND_IMM ? attr->imm : 0;
	send->scheme = attr->scheme;
	send->geometry[0] = attr->geometry[0];
	send->geometry[1] = attr->geometry[1];
	send->stream = stream;
	send->msn = qp->tx.posted++;
	send->timer.kind = TIMER_SEND;
	list_init(&send->ended_link);
	list_add_tail(&qp->tx.waiting, &send->link);
	*out = send;
	/* Matched in the next turn: `granted` must not be called before the caller holds the handle. */
	if (!list_empty(&qp->tx.grants))
		qp_owe(qp, OWE_ANNOUNCE);
	qp_arm(qp);
	return 0;
}

int gw_send_post(struct gw_qp *qp, const struct gw_send_attr *attr, struct gw_send **out)
{
	int error = check_post(qp, attr, out);

	if (error)
		return error;
	if (attr->flags & GW_SEND_FILL || (attr->length && (!attr->mr || !attr->addr)))
		return -EINVAL;
	if (attr->length && !mr_covers(attr->mr, qp->ctx, attr->addr, attr->length))
		return -EFAULT;
	return post(qp, attr, false, out);
}

int gw_stream_start(struct gw_qp *qp, const struct gw_send_attr *attr, struct gw_send **out)
{
	int error = check_post(qp, attr, out);

	if (error)
		return error;
	if (attr->addr || attr->mr || (attr->flags & GW_SEND_FILL && attr->length))
		return -EINVAL;
	return post(qp, attr, true, out);
}

static int check_stream(const struct gw_send *stream)
{
	if (!stream)
		return -EINVAL;
	if (!send_valid(stream))
		return -ESTALE;
	return stream->stream ? 0 : -EINVAL;
}

int gw_stream_put(struct gw_send *stream, uint64_t offset, const void *addr, uint64_t length,
		  struct gw_mr *mr)
{
	int error = check_stream(stream);

	if (error)
		return error;
	if (send_is_ended(stream) || send_is_closing(stream) || send_is_answered(stream))
		return -EALREADY;
	if (!send_is_matched(stream))
		return -EAGAIN; /* how large its packets are is not known yet */
	if (offset > stream->length || length > stream->length - offset ||
	    offset % stream->payload ||
	    (length % stream->payload && offset + length != stream->length))
		return -ERANGE;
	if (stream->puts >= GW_PUTS_MAX || stream->held)
		return -EAGAIN;
	if (!length)
		return 0;
	if (!mr || !addr)
		return -EINVAL;
	if (!mr_covers(mr, stream->ctx, addr, length))
		return -EFAULT;
	return put_add(stream, offset, addr, length, mr);
}

int gw_send_payload(const struct gw_send *send, uint32_t *out)
{
	if (!send || !out)
		return -EINVAL;
	if (!send_valid(send))
		return -ESTALE;
	if (!send->payload)
		return -EAGAIN;
	*out = send->payload;
	return 0;
}

int gw_stream_waiting(const struct gw_send *stream)
{
	int error = check_stream(stream);

	return error ? error : (int)stream->puts;
}

int gw_stream_end(struct gw_send *stream)
{
	int error = check_stream(stream);

	if (error)
		return error;
	if (send_is_ended(stream) || send_is_closing(stream))
		return -EALREADY;
	send_set_stage(stream, SEND_CLOSING);
	send_check(stream);
	return 0;
}

int gw_stream_abort(struct gw_send *stream)
{
	int error = check_stream(stream);

	if (error)
		return error;
	if (send_is_ended(stream) || (send_is_closing(stream) && !stream->head))
		return -EALREADY;
	if (!send_is_closing(stream))
		send_set_stage(stream, SEND_CLOSING);
	put_drop_all(stream);
	if (send_is_matched(stream)) {
		list_del(&stream->link);
		send_check(stream);
	}
	return 0;
}

void send_result(struct gw_send *send, const struct gw_result *result)
{
	struct gw_qp *qp = send->qp;
	struct gw_send *next;

	if (send_is_answered(send))
		return;
	send_set_phase(send, SEND_ANSWERED);
	feedback_ended(qp, send);
	/* The receiver takes no more: what waits is not worth sending. */
	put_drop_all(send);
	if (!send_is_ended(send))
		list_del(&send->link);
	if (!send->closed && send->handler && send->handler->result)
		send->handler->result(send, send->arg, result, send->ctx->now);
	if (send->qp && !send_is_ended(send))
		send_check(send);
	while (qp->state == QP_CONNECTED && qp->tx.results_seen != qp->tx.matched &&
	       (next = send_find(qp, qp->tx.results_seen)) && send_is_answered(next)) {
		qp->tx.results_seen++;
		retire(next);
	}
}

int gw_send_test(const struct gw_send *send)
{
	if (!send)
		return -EINVAL;
	if (!send_valid(send))
		return -ESTALE;
	if (!send_is_ended(send))
		return 0;
	return send->status ? send->status : 1;
}

int gw_send_close(struct gw_send *send)
{
	if (!send)
		return -EINVAL;
	if (!send_valid(send))
		return -ESTALE;
	send->closed = true;
	send_end(send, -ECANCELED);
	reap(send);
	return 0;
}

int gw_send_timer(struct gw_send *send, uint64_t at)
{
	if (!send)
		return -EINVAL;
	if (!send_valid(send))
		return -ESTALE;
	if (send_is_ended(send))
		return -EALREADY;
	timer_set(send->ctx, &send->timer, at ? at : NEVER);
	return 0;
}

void *gw_send_state(struct gw_send *send)
{
	return send && send_valid(send) ? send->state : NULL;
}

struct gw_qp *gw_send_qp(const struct gw_send *send)
{
	return send && send_valid(send) ? send->qp : NULL;
}

int gw_send_set_handler(struct gw_send *send, const struct gw_send_handler *handler)
{
	if (!send)
		return -EINVAL;
	if (!send_valid(send))
		return -ESTALE;
	send->handler = handler;
	return 0;
}

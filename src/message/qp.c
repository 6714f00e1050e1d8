/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: their birth, their one timer, and their end.
 *
 * The timer serves everything a queue pair waits for: repeating what is not acknowledged, a report that is due, a window
 * that never opened, a probe, a slot's rest, and a peer that fell silent. qp_arm() sets it to the earliest of them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/zero.h"
#include "constants/protocol.h"
#include "message/info.h"
#include "message/trace.h"

#define DEFAULT_CHUNK_PACKETS	16
#define DEFAULT_SLOTS		64
#define DEFAULT_PEER_TIMEOUT_NS UINT64_C(10000000000)
#define MIN_PEER_TIMEOUT_NS	UINT64_C(1000000)
#define MAX_SLOT_BITS		16 /* a grant's slot is 16 bits */
#define MAX_PAYLOAD_SHIFT	10

static const struct fabric_split published_split = { 10, 18, 4 };

int qp_usable(const struct gw_qp *qp)
{
	if (!qp)
		return -EINVAL;
	if (!qp_valid(qp))
		return -ESTALE;
	return qp->state == QP_CREATED ? -ENOTCONN : qp->status;
}

static bool power_of_two(uint32_t value)
{
	return value && !(value & (value - 1));
}

static int check_attr(const struct gw_qp_attr *attr, const struct fabric *fabric,
		      struct fabric_split *split)
{
	if (!array_is_zero(attr->reserved) || attr->payload_shift > MAX_PAYLOAD_SHIFT ||
	    attr->payload_divides % 4 || attr->payload % (1u << attr->payload_shift) ||
	    (attr->payload && attr->payload_divides % attr->payload))
		return -EINVAL;
	*split = (struct fabric_split){ attr->slot_bits, attr->packet_bits, attr->user_bits };
	if (!split->slot_bits && !split->packet_bits && !split->user_bits)
		*split = published_split;
	if (split->slot_bits + split->packet_bits + split->user_bits != 32 ||
	    split->slot_bits > MAX_SLOT_BITS || !split->packet_bits || split->packet_bits > 31 ||
	    split->user_bits > 16 || split->user_bits < fabric->caps.generation_bits)
		return -EINVAL;
	if (attr->payload % 4 ||
	    attr->payload > fabric->caps.max_payload - (attr->seal ? fabric->caps.seal_extra : 0))
		return -EINVAL;
	if (attr->chunk_packets && (!power_of_two(attr->chunk_packets) || attr->chunk_packets > 64))
		return -EINVAL;
	if (attr->slots && (!power_of_two(attr->slots) || attr->slots > 1u << split->slot_bits))
		return -EINVAL;
	if (attr->peer_timeout_ns && attr->peer_timeout_ns < MIN_PEER_TIMEOUT_NS)
		return -EINVAL;
	return 0;
}

/* For gw_context_error(). */
static int explain(struct gw_context *ctx, int error, const char *why)
{
	strncpy(ctx->fabric->error, why, sizeof(ctx->fabric->error) - 1);
	return error;
}

int gw_qp_create(struct gw_context *ctx, const struct gw_qp_attr *attr, struct gw_qp **out)
{
	static const struct gw_qp_attr defaults;
	struct fabric_qp_attr fabric_attr;
	uint32_t secrets[2];
	struct size size = { 0 };
	struct reach reach = { 0 };
	struct fabric_seal seal;
	uint32_t slots;
	struct gw_qp *qp;
	int error;

	if (!ctx || !out)
		return -EINVAL;
	if (!attr)
		attr = &defaults;
	error = check_attr(attr, ctx->fabric, &fabric_attr.split);
	if (error)
		return error;
	if (attr->seal && !ctx->fabric->caps.seal_extra)
		return explain(ctx, -ENOTSUP, "packets can be sealed between user-space ends only");
	size_init(&size, &ctx->fabric->caps, attr);
	error = reach_init(&reach, attr->peer_host);
	if (error)
		return error;
	if (size.floor < size.ceiling && size.floor < SIZE_LEAST)
		return -EINVAL;
	error = ctx->fabric->ops->entropy(ctx->fabric, secrets, sizeof(secrets));
	if (error)
		return error;
	qp = pool_get(&ctx->qps);
	if (!qp)
		return -ENOBUFS;
	slots = attr->slots ? attr->slots : DEFAULT_SLOTS;
	if (slots > 1u << fabric_attr.split.slot_bits)
		slots = 1u << fabric_attr.split.slot_bits;
	qp->rx.slots = calloc(slots, sizeof(*qp->rx.slots));
	if (!qp->rx.slots) {
		error = -ENOMEM;
		goto put_qp;
	}
	fabric_attr.user = qp;
	fabric_attr.slots = slots;
	fabric_attr.late = &qp->feedback.late;
	if (attr->seal) {
		memcpy(seal.tx, attr->seal->tx, sizeof(seal.tx));
		memcpy(seal.rx, attr->seal->rx, sizeof(seal.rx));
	}
	fabric_attr.seal = attr->seal ? &seal : NULL;
	error = ctx->fabric->ops->qp_create(ctx->fabric, &fabric_attr, &qp->fabric_qp);
	explicit_bzero(&seal, sizeof(seal));
	if (error)
		goto free_slots;
	qp->ctx = ctx;
	qp->split = fabric_attr.split;
	qp->status = -ENOTCONN;
	qp->handler = attr->handler;
	qp->arg = attr->arg;
	qp->size = size;
	qp->reach = reach;
	qp->rx.chunk_packets = attr->chunk_packets ? attr->chunk_packets : DEFAULT_CHUNK_PACKETS;
	qp->rx.mask = slots - 1;
	qp->peer_timeout_ns =
		attr->peer_timeout_ns ? attr->peer_timeout_ns : DEFAULT_PEER_TIMEOUT_NS;
	qp->rtt_hint_ns = (uint64_t)attr->rtt_hint_us * 1000;
	qp->lifetime_ns =
		attr->packet_lifetime_ns ? attr->packet_lifetime_ns : ctx->fabric->caps.lifetime_ns;
	qp->control.token = secrets[0];
	qp->rx.first_msn = secrets[1];
	qp->rx.posted = qp->rx.placed = qp->rx.granted = qp->rx.grants_acked = qp->rx.grants_told =
		secrets[1];
	qp->rx.announced = qp->rx.completed = qp->rx.results_acked = secrets[1];
	qp->timer.kind = TIMER_QP;
	qp->user_timer.kind = TIMER_QP_USER;
	list_init(&qp->run_link);
	list_init(&qp->arm_link);
	list_init(&qp->credit.link);
	list_init(&qp->data_link);
	list_init(&qp->rx.waiting);
	list_init(&qp->tx.waiting);
	list_init(&qp->tx.ready);
	list_init(&qp->tx.flushing);
	list_init(&qp->tx.lingering);
	list_init(&qp->tx.grants);
	list_init(&qp->order.watchers);
	first_receive_promise(qp, attr->first_bytes);
	list_add_tail(&ctx->all_qps, &qp->link);
	*out = qp;
	return 0;

free_slots:
	free(qp->rx.slots);
put_qp:
	pool_put(&ctx->qps, qp);
	return error;
}

int gw_qp_seal(struct gw_qp *qp, const struct gw_seal *keys)
{
	struct fabric_seal seal;
	int error;

	if (!qp || !keys)
		return -EINVAL;
	if (!qp_valid(qp))
		return -ESTALE;
	if (qp->state != QP_CREATED)
		return -EISCONN;
	if (!qp->size.extra)
		return -EINVAL;
	memcpy(seal.tx, keys->tx, sizeof(seal.tx));
	memcpy(seal.rx, keys->rx, sizeof(seal.rx));
	error = qp->ctx->fabric->ops->qp_seal(qp->fabric_qp, &seal);
	explicit_bzero(&seal, sizeof(seal));
	return error;
}

int gw_qp_info(const struct gw_qp *qp, struct gw_qp_info *out)
{
	struct peer_info info = { 0 };
	const struct fabric *fabric;

	if (!qp || !out)
		return -EINVAL;
	if (!qp_valid(qp))
		return -ESTALE;
	fabric = qp->ctx->fabric;
	info.split = qp->split;
	info.generation_bits = fabric->caps.generation_bits;
	info.payload = qp->size.ceiling;
	info.floor = qp->size.floor;
	info.probes = fabric->caps.rungs[0] != 0;
	info.slots = qp->rx.mask + 1;
	info.token = qp->control.token;
	info.first_msn = qp->rx.first_msn; /* also when asked for after receives were posted */
	info.window = credit_packets(qp);
	info.control_max = fabric->caps.max_control;
	info.lanes = (uint8_t)(fabric->caps.lanes ? fabric->caps.lanes : 1);
	info.first_bytes = qp->rx.first_bytes;
	info.first_key = qp->rx.first_key;
	strncpy(info.fabric, fabric_wire(fabric), sizeof(info.fabric) - 1);
	info.address_length = (uint32_t)fabric->ops->qp_address(qp->fabric_qp, info.address);
	info_encode(&info, out);
	return 0;
}

int gw_qp_connect(struct gw_qp *qp, const struct gw_qp_info *peer)
{
	struct gw_context *ctx;
	struct peer_info info;
	int error;

	if (!qp || !peer)
		return -EINVAL;
	if (!qp_valid(qp))
		return -ESTALE;
	if (qp->state != QP_CREATED)
		return -EISCONN;
	ctx = qp->ctx;
	error = info_decode(peer, &info);
	if (error == -EPROTONOSUPPORT)
		return explain(
			ctx, error,
			"the peer runs a version of Godwit that this one does not speak with");
	if (error)
		return explain(
			ctx, error,
			"the peer's description is none of Godwit's, or was cut or changed on its way");
	if (strcmp(info.fabric, fabric_wire(ctx->fabric)) != 0)
		return explain(ctx, -EPROTONOSUPPORT, "the peer is on another kind of fabric");
	if (memcmp(&info.split, &qp->split, sizeof(info.split)) != 0)
		return explain(ctx, -EMSGSIZE, "the two ends split the immediate differently");
	if (!size_connect(qp, &info))
		return explain(
			ctx, -EMSGSIZE,
			"the peer's packets are smaller than 256 bytes, or not of a size that this end asks for");
	ctx->fabric->error[0] = '\0';
	error = order_open(qp, info.lanes);
	if (!error)
		error = lanes_open(qp);
	if (error) {
		order_close(qp);
		return error;
	}
	error = ctx->fabric->ops->qp_connect(qp->fabric_qp, info.address, info.address_length,
					     info.payload < qp->size.ceiling ? info.payload
									     : qp->size.ceiling);
	if (!error)
		error = reach_connect(qp);
	if (error) {
		order_close(qp);
		lanes_close(qp);
		if (ctx->fabric->error[0]) /* the fabric knows better */
			return error;
		return explain(ctx, error,
			       "there is no way from this fabric's address to the peer's");
	}
	qp->generation_bits = ctx->fabric->caps.generation_bits > info.generation_bits
				      ? ctx->fabric->caps.generation_bits
				      : info.generation_bits;
	qp->fragment_bits = (uint8_t)(qp->split.user_bits - qp->generation_bits);
	qp->control.peer_token = info.token;
	qp->control.max = info.control_max < ctx->fabric->caps.max_control
				  ? info.control_max
				  : ctx->fabric->caps.max_control;
	qp->control.max -= qp->size.extra;
	/* A path may begin to carry less at any time, and control has to fit it all the same. */
	if (qp->size.floor < qp->size.ceiling && qp->control.max > qp->size.floor)
		qp->control.max = qp->size.floor;
	qp->tx.mask = info.slots - 1;
	qp->tx.posted = qp->tx.matched = qp->tx.grants_seen = info.first_msn;
	qp->tx.announce_acked = qp->tx.announce_told = qp->tx.results_seen = info.first_msn;
	qp->tx.front = (uint64_t)info.first_msn << 32;
	qp->state = QP_CONNECTED;
	qp->status = 0;
	qp->control.repeat_at = NEVER;
	qp->control.soon_at = NEVER;
	qp->control.heard_at = ctx->now;
	/* Of all that a peer may claim: no more than a CREDIT may say. */
	qp->feedback.window = info.window ? info.window : 1;
	if (qp->feedback.window > CREDIT_MAX)
		qp->feedback.window = CREDIT_MAX;
	qp->feedback.report_at = NEVER;
	qp->feedback.timeout_at = NEVER;
	qp->feedback.gate_at = NEVER;
	qp->feedback.probe_at = 0;
	qp->feedback.advertised = credit_packets(qp);
	first_receive_take(qp, &info);
	gate_credit(qp);
	if (!qp->reach.proven)
		qp_owe(qp, OWE_PROBE);
	return 0;
}

int gw_qp_status(const struct gw_qp *qp)
{
	return qp_usable(qp);
}

bool qp_waits(const struct gw_qp *qp)
{
	return qp->rx.open || qp->tx.results_seen != qp->tx.posted;
}

/* Something is asked of the peer. Silence counts from now if nothing was asked before. */
void qp_busy(struct gw_qp *qp)
{
	qp->ctx->now = qp->ctx->fabric->ops->now_ns(qp->ctx->fabric);
	size_begin(qp);
	if (!qp_waits(qp)) {
		qp->control.heard_at = qp->ctx->now;
		qp->feedback.probes_unanswered = 0;
		if (qp->feedback.probe_at < qp->ctx->now)
			qp->feedback.probe_at = qp->ctx->now;
	}
}

/* Ends every request. `fenced` says that the fabric's queue pair is gone, and nothing can land. */
static void end_requests(struct gw_qp *qp, int status, bool fenced)
{
	struct list *item;

	while ((item = list_first(&qp->tx.waiting)))
		send_detach(container_of(item, struct gw_send, link), status, fenced);
	for (uint32_t i = 0; qp->tx.sends && i <= qp->tx.mask; i++)
		if (qp->tx.sends[i])
			send_detach(pool_at(&qp->ctx->sends, qp->tx.sends[i] - 1), status, fenced);
	while ((item = list_first(&qp->tx.lingering)))
		send_detach(container_of(item, struct gw_send, link), status, fenced);
	while (fenced && (item = list_first(&qp->tx.flushing)))
		send_detach(container_of(item, struct gw_send, link), status, fenced);
	while ((item = list_first(&qp->tx.grants))) {
		list_del(item);
		pool_put(&qp->ctx->grants, container_of(item, struct grant, link));
	}
	while ((item = list_first(&qp->rx.waiting)))
		recv_detach(container_of(item, struct gw_recv, link), status, true);
	for (uint32_t i = 0; i <= qp->rx.mask; i++)
		if (qp->rx.slots[i].state != SLOT_FREE && qp->rx.slots[i].state != SLOT_RESTING)
			recv_detach(pool_at(&qp->ctx->recvs, qp->rx.slots[i].value), status,
				    fenced);
}

static void silence(struct gw_qp *qp, int status)
{
	qp->state = QP_GONE;
	qp->status = status;
	qp->control.owed = 0;
	list_del(&qp->run_link);
	list_del(&qp->arm_link);
	list_del(&qp->credit.link);
	list_del(&qp->data_link);
	timer_set(qp->ctx, &qp->timer, NEVER);
	feedback_stop(qp);
}

void qp_gone(struct gw_qp *qp, int status)
{
	if (qp->state == QP_GONE)
		return;
	TRACE_QP(qp, "gone status=%d", status);
	silence(qp, status);
	list_add_tail(&qp->ctx->gone, &qp->data_link);
	end_requests(qp, status, false);
}

/* Data cannot get there, control can: the peer need not wait until we fall silent. */
void qp_give_up(struct gw_qp *qp, int status)
{
	if (qp->state != QP_CONNECTED)
		return;
	control_send_close(qp);
	qp_gone(qp, status);
}

int gw_qp_close(struct gw_qp *qp)
{
	struct gw_context *ctx;

	if (!qp)
		return -EINVAL;
	if (!qp_valid(qp))
		return -ESTALE;
	ctx = qp->ctx;
	if (qp->state == QP_CONNECTED)
		control_send_close(qp);
	silence(qp, -ECANCELED);
	timer_set(ctx, &qp->user_timer, NEVER);
	ctx->fabric->ops->qp_destroy(qp->fabric_qp);
	end_requests(qp, -ECANCELED, true);
	list_del(&qp->link);
	free(qp->rx.slots);
	free(qp->tx.sends);
	order_close(qp);
	lanes_close(qp);
	qp->ctx = NULL;
	pool_put(&ctx->qps, qp);
	return 0;
}

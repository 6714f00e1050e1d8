/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A channel's birth, its timer, and its end. All memory is got when it is created and connected; see state.h for what is
 * in it.
 *
 * The end, whether the peer is gone or the user closes it: both queue pairs are closed, which fences everything, so that
 * all memory is free at once; then every operation ends with one status.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/zero.h"
#include "channel/state.h"

#define DEFAULT_OPERATIONS 4096
#define LIMIT_OPERATIONS   65536
#define DEFAULT_SMALL	   4096
#define DEFAULT_PACK	   (16u << 10)
#define DEFAULT_PACKS	   32
#define DEFAULT_SLOTS	   256
#define DEFAULT_PART	   (UINT64_C(64) << 20)
#define DEFAULT_EAGER	   (64u << 10)
#define LIMIT_EAGER	   (16u << 20)
#define RETRY_NS	   UINT64_C(1000000)
#define LINE_SHIFT	   7 /* GW_CHANNEL_LINES: 128 bytes */
#define FLAGS_KNOWN	   (GW_CHANNEL_CRC | GW_CHANNEL_NO_PARITY | GW_CHANNEL_LINES | GW_CHANNEL_QUIET)

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void channel_arm(struct gw_channel *ch)
{
	const struct heap_node *node = heap_min(&ch->deadlines);
	uint64_t at = earlier(earlier(ch->ask_at, ch->retry_at), ch->pack_at);

	if (!ch->qp[SMALL] || ch->closed)
		return; /* settle() is running: it calls this at its end */
	if (node)
		at = earlier(at, node->key);
	if (ch->kicked)
		at = 1; /* long past: the next turn */
	if (at == ch->armed_at)
		return;
	ch->armed_at = at;
	gw_qp_timer(ch->qp[SMALL], at == NEVER ? 0 : at);
}

void channel_kick(struct gw_channel *ch)
{
	if (ch->kicked)
		return;
	ch->kicked = true;
	channel_arm(ch);
}

void channel_retry(struct gw_channel *ch)
{
	if (ch->retry_at == NEVER)
		ch->retry_at = gw_now_ns(ch->ctx) + RETRY_NS;
	channel_arm(ch);
}

static void timer(struct gw_qp *qp, void *arg, uint64_t now)
{
	struct gw_channel *ch = arg;

	(void)qp;
	ch->armed_at = NEVER;
	op_expire(ch, now);
	bulk_ask(ch, now);
	if (now >= ch->retry_at) {
		ch->retry_at = NEVER;
		if (bounce_post(ch))
			channel_retry(ch);
		bulk_post(ch);
	}
	if (now >= ch->pack_at)
		ch->pack_at = NEVER;
	settle(ch);
}

static void granted(struct gw_qp *qp, void *arg, uint64_t now)
{
	struct gw_channel *ch = arg;

	(void)now;
	if (qp == ch->qp[BULK])
		bulk_bind(ch);
}

static void gone(struct gw_qp *qp, void *arg, int status, uint64_t now)
{
	struct gw_channel *ch = arg;

	(void)qp;
	(void)now;
	channel_fail(ch, status);
	settle(ch);
}

static void closed(struct gw_qp *qp, void *arg)
{
	(void)qp;
	gw_channel_close(arg);
}

static int silent(struct gw_qp *qp, void *arg, uint64_t now)
{
	struct gw_channel *ch = arg;

	(void)qp;
	return ch->handler && ch->handler->silent && ch->handler->silent(ch, ch->arg, now);
}

static const struct gw_qp_handler qp_handler = {
	.gone = gone,
	.granted = granted,
	.timer = timer,
	.closed = closed,
	.silent = silent,
};

/* Nothing moves any more, and no callback of a request follows. */
static void shut(struct gw_channel *ch)
{
	struct list *item;

	/* The peer takes the end of one queue pair for the end of the channel: it knows by then what has arrived on the other. */
	if (ch->qp[SMALL])
		gw_qp_tell_results(ch->qp[SMALL]);
	for (int i = 0; i < QPS; i++) {
		if (ch->qp[i])
			gw_qp_close(ch->qp[i]);
		ch->qp[i] = NULL;
	}
	governor_leave(&ch->governor);
	while ((item = list_first(&ch->parts))) {
		struct part *part = container_of(item, struct part, all);

		if (part->send)
			gw_send_close(part->send);
		if (part->recv)
			gw_recv_close(part->recv);
		list_del(&part->link);
		list_del(&part->all);
		pool_put(&ch->part_pool, part);
	}
	for (uint32_t i = 0; ch->packs && ch->bounces && i < ch->pack_count; i++) {
		if (ch->packs[i].send)
			gw_send_close(ch->packs[i].send);
		if (ch->bounces[i].recv)
			gw_recv_close(ch->bounces[i].recv);
		ch->packs[i].send = NULL;
		ch->bounces[i].recv = NULL;
	}
	if (ch->eager.recv)
		gw_recv_close(ch->eager.recv);
	ch->eager.recv = NULL;
}

void channel_fail(struct gw_channel *ch, int status)
{
	if (ch->status)
		return;
	explain_end(ch, status);
	ch->status = status;
	for (uint32_t i = 0; i <= ch->mask; i++)
		if (ch->recvs[i])
			ch->recvs[i]->moved += bulk_landed(ch->recvs[i]);
	shut(ch);
	for (uint32_t i = 0; i <= ch->mask; i++) {
		if (ch->sends[i])
			op_drop(ch->sends[i]);
		if (ch->recvs[i])
			op_drop(ch->recvs[i]);
	}
}

bool channel_lost(struct gw_channel *ch, int status)
{
	for (int i = 0; status && !ch->status && i < QPS; i++)
		if (gw_qp_status(ch->qp[i]))
			channel_fail(ch, gw_qp_status(ch->qp[i]));
	return ch->status != 0;
}

bool channel_broken(struct gw_channel *ch, int status)
{
	if (status && !channel_lost(ch, status))
		channel_fail(ch, -EPROTO);
	return ch->status != 0;
}

static void free_all(struct gw_channel *ch)
{
	if (ch->mr)
		gw_mr_deregister(ch->mr);
	coders_close(ch);
	pool_destroy(&ch->ops);
	pool_destroy(&ch->part_pool);
	heap_destroy(&ch->deadlines);
	free(ch->sends);
	free(ch->recvs);
	free(ch->early);
	free(ch->packs);
	free(ch->bounces);
	free(ch->memory);
	free(ch);
}

static bool power_of_two(uint32_t value)
{
	return value && !(value & (value - 1));
}

/* Takes the attributes in, with defaults where they are zero. */
static int configure(struct gw_channel *ch, const struct gw_channel_attr *attr)
{
	uint32_t operations = attr->operations ? attr->operations : DEFAULT_OPERATIONS;

	if (!array_is_zero(attr->reserved))
		return -EINVAL;
	ch->controller = cc_find(attr->congestion ? attr->congestion : "default");
	ch->cap_bps = attr->rate_bps ? attr->rate_bps : GW_RATE_UNLIMITED;
	ch->flags = attr->flags;
	ch->pack_bytes = attr->pack_bytes ? attr->pack_bytes : DEFAULT_PACK;
	ch->small_bytes = attr->small_bytes ? attr->small_bytes : DEFAULT_SMALL;
	ch->pack_count = attr->packs ? attr->packs : DEFAULT_PACKS;
	ch->slots = attr->slots ? attr->slots : DEFAULT_SLOTS;
	ch->part_bytes = attr->part_bytes ? attr->part_bytes : DEFAULT_PART;
	ch->eager_bytes = attr->eager_bytes ? attr->eager_bytes : DEFAULT_EAGER;
	ch->bounce_bytes = ch->pack_bytes;
	ch->handler = attr->handler;
	ch->arg = attr->arg;
	if (!ch->controller || attr->flags & ~FLAGS_KNOWN || operations > LIMIT_OPERATIONS ||
	    ch->pack_bytes < 8 * RECORD_HEADER || ch->pack_bytes > 1u << 20 ||
	    ch->small_bytes > ch->pack_bytes - RECORD_HEADER || ch->pack_count < 4 ||
	    ch->pack_count > SMALL_SLOTS || !power_of_two(ch->slots) || ch->slots > 1024 ||
	    ch->eager_bytes > LIMIT_EAGER)
		return -EINVAL;
	for (ch->mask = 1; ch->mask < operations; ch->mask *= 2)
		;
	ch->mask--;
	return 0;
}

static int get_memory(struct gw_channel *ch)
{
	size_t operations = (size_t)ch->mask + 1;
	size_t packs = (size_t)ch->pack_count * ch->pack_bytes;
	size_t bytes = 2 * packs + ch->eager_bytes;
	int error;

	ch->sends = calloc(operations, sizeof(struct gw_op *));
	ch->recvs = calloc(operations, sizeof(struct gw_op *));
	ch->early = calloc(operations, sizeof(*ch->early));
	ch->packs = calloc(ch->pack_count, sizeof(*ch->packs));
	ch->bounces = calloc(ch->pack_count, sizeof(*ch->bounces));
	ch->memory = calloc(1, bytes);
	if (!ch->sends || !ch->recvs || !ch->early || !ch->packs || !ch->bounces || !ch->memory)
		return -ENOMEM;
	for (uint32_t i = 0; i < ch->pack_count; i++) {
		ch->packs[i].ch = ch->bounces[i].ch = ch;
		ch->packs[i].addr = ch->memory + (size_t)i * ch->pack_bytes;
		ch->bounces[i].addr = ch->memory + packs + (size_t)i * ch->pack_bytes;
		list_init(&ch->packs[i].records);
	}
	ch->eager.ch = ch;
	ch->eager.addr = ch->memory + 2 * packs;
	error = pool_init(&ch->ops, sizeof(struct gw_op), (uint32_t)(2 * operations));
	if (!error)
		error = heap_reserve(&ch->deadlines, 2 * operations);
	if (!error)
		error = gw_mr_register(ch->ctx, ch->memory, bytes, &ch->mr);
	return error;
}

static int make_qps(struct gw_channel *ch, const struct gw_channel_attr *from)
{
	struct gw_qp_attr attr = { .peer_timeout_ns = from->peer_timeout_ns,
				   .peer_host = from->peer_host,
				   .seal = from->seal,
				   .rtt_hint_us = from->rtt_hint_us,
				   .handler = &qp_handler,
				   .arg = ch };
	int error;

	attr.payload_shift = ch->flags & GW_CHANNEL_LINES ? LINE_SHIFT : 0;
	attr.slots = ch->slots;
	attr.first_bytes = ch->eager_bytes;
	error = gw_qp_create(ch->ctx, &attr, &ch->qp[BULK]);
	attr.slots = SMALL_SLOTS;
	attr.first_bytes = ch->pack_bytes;
	return error ? error : gw_qp_create(ch->ctx, &attr, &ch->qp[SMALL]);
}

int gw_channel_set_rate(struct gw_channel *ch, uint64_t bits_per_second)
{
	if (!ch)
		return -EINVAL;
	ch->cap_bps = bits_per_second;
	if (ch->status)
		return ch->status == -ENOTCONN ? 0 : ch->status;
	governor_cap(&ch->governor, bits_per_second, gw_now_ns(ch->ctx));
	return 0;
}

int gw_channel_create(struct gw_context *ctx, const struct gw_channel_attr *attr,
		      struct gw_channel **out)
{
	static const struct gw_channel_attr defaults;
	struct gw_channel *ch;
	int error;

	if (!ctx || !out)
		return -EINVAL;
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return -ENOMEM;
	ch->ctx = ctx;
	ch->status = -ENOTCONN;
	ch->ask_at = ch->retry_at = ch->pack_at = ch->armed_at = NEVER;
	ch->wanted_seq = UINT32_MAX;
	list_init(&ch->ended);
	for (int i = 0; i < GROUPS; i++)
		list_init(&ch->lines[i]);
	list_init(&ch->parts);
	list_init(&ch->bulk_sends);
	list_init(&ch->bulk_recvs);
	heap_init(&ch->deadlines);
	bounce_listen(ch);
	if (!attr)
		attr = &defaults;
	governor_init(&ch->governor, attr->beside ? &attr->beside->governor : NULL);
	error = configure(ch, attr);
	if (!error)
		error = get_memory(ch);
	/* Without memory for parity there is Selective Repeat. */
	if (!error && coders_open(ch))
		coders_close(ch);
	if (!error)
		error = make_qps(ch, attr);
	if (error) {
		shut(ch);
		free_all(ch);
		return error;
	}
	*out = ch;
	return 0;
}

int gw_channel_info(const struct gw_channel *ch, struct gw_channel_info *out)
{
	struct peer_channel info;

	if (!ch || !out)
		return -EINVAL;
	if (!ch->qp[BULK])
		return ch->status;
	info = (struct peer_channel){ .small_bytes = ch->small_bytes,
				      .pack_bytes = ch->pack_bytes,
				      .packs = ch->pack_count,
				      .operations = ch->mask + 1,
				      .slots = ch->slots };
	for (int i = 0; i < QPS; i++)
		gw_qp_info(ch->qp[i], &info.qp[i]);
	channel_info_encode(&info, out);
	return 0;
}

int gw_channel_seal(struct gw_channel *ch, const struct gw_seal *keys)
{
	int error = 0;

	if (!ch || !keys)
		return -EINVAL;
	if (ch->connected)
		return -EISCONN;
	for (int i = 0; !error && i < QPS; i++)
		error = gw_qp_seal(ch->qp[i], keys);
	return error;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

int gw_channel_connect(struct gw_channel *ch, const struct gw_channel_info *peer)
{
	struct peer_channel info;
	int error;

	if (!ch || !peer)
		return -EINVAL;
	if (ch->connected)
		return -EISCONN;
	error = channel_info_decode(peer, &info);
	for (int i = 0; !error && i < QPS; i++)
		error = gw_qp_connect(ch->qp[i], &info.qp[i]);
	if (!error)
		error = pool_init(&ch->part_pool, sizeof(struct part), ch->slots + info.slots);
	if (error)
		return error;
	ch->small_bytes = smaller(ch->small_bytes, info.small_bytes);
	ch->pack_bytes = smaller(ch->pack_bytes, info.pack_bytes);
	ch->small_bytes = smaller(ch->small_bytes, ch->pack_bytes - RECORD_HEADER);
	ch->packs_max = smaller(ch->pack_count, info.packs);
	ch->send_window = smaller(ch->mask + 1, info.operations);
	ch->connected = true;
	ch->status = 0;
	governor_open(&ch->governor, ch->controller, ch->cap_bps, ch->qp, QPS, gw_now_ns(ch->ctx));
	ch->peer_eager = true;
	error = bounce_post(ch);
	if (!error)
		error = eager_post(ch);
	if (error)
		channel_fail(ch, error);
	return error;
}

int gw_channel_status(const struct gw_channel *ch)
{
	return ch ? ch->status : -EINVAL;
}

int gw_channel_close(struct gw_channel *ch)
{
	if (!ch)
		return -EINVAL;
	if (ch->closed)
		*ch->closed = true;
	shut(ch);
	free_all(ch);
	return 0;
}

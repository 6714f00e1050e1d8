/* SPDX-License-Identifier: BSD-3-Clause */
#include "link.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEADER	    16u
#define TIMEOUT_NS  UINT64_C(10000000000)
#define KIND_DATA   1u
#define KIND_LAST   2u
#define STATUS_DONE 1

static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 27;
	x *= UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static uint64_t key_of(uint64_t token, uint32_t from, uint64_t number)
{
	return mix(token + mix(from + 1) + mix(number + 1));
}

/* From one byte more than the header to the longest, small ones as likely as large ones. */
static uint64_t length_of(const struct soak *soak, uint64_t key)
{
	double part = (double)(key >> 11) / (double)(UINT64_C(1) << 53);

	return HEADER + 1 + (uint64_t)(pow((double)(soak->longest - HEADER), part) - 1 + 0.5);
}

/* The header has the number and the kind, all else is drawn from the key. */
static void fill(uint8_t *bytes, uint64_t length, uint64_t key, uint64_t number, uint64_t kind)
{
	memcpy(bytes, &number, 8);
	memcpy(bytes + 8, &kind, 8);
	for (uint64_t i = HEADER; i < length; i += 8) {
		uint64_t word = key += UINT64_C(0x9e3779b97f4a7c15);

		memcpy(bytes + i, &word, length - i < 8 ? length - i : 8);
	}
}

static bool is_right(const uint8_t *bytes, uint64_t length, uint64_t key)
{
	for (uint64_t i = HEADER; i < length; i += 8) {
		uint64_t word = key += UINT64_C(0x9e3779b97f4a7c15);

		if (memcmp(bytes + i, &word, length - i < 8 ? length - i : 8) != 0)
			return false;
	}
	return true;
}

static void post_recv(struct transfer *t);

static void received(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct transfer *t = arg;
	struct link *link = t->link;
	struct ledger *ledger = link->soak->ledger;
	uint64_t key = key_of(link->token, link->peer, t->number), number, kind;

	gw_op_close(op);
	t->op = NULL;
	if (result->status)
		return; /* the channel is gone, which `gone` tells */
	memcpy(&number, t->bytes, 8);
	memcpy(&kind, t->bytes + 8, 8);
	if (result->length < HEADER || number != t->number)
		ledger_wrong(ledger, "message %llu from %u came where %llu was expected",
			     (unsigned long long)number, link->peer, (unsigned long long)t->number);
	else if (kind == KIND_LAST && result->length == HEADER)
		link->last_received = true;
	else if (kind != KIND_DATA || result->length != length_of(link->soak, key) ||
		 !is_right(t->bytes, result->length, key))
		ledger_wrong(ledger, "message %llu from %u has other bytes than were sent",
			     (unsigned long long)number, link->peer);
	link->entry->received++;
	link->entry->received_bytes += result->length;
	if (!link->last_received)
		post_recv(t);
}

static void post_recv(struct transfer *t)
{
	struct link *link = t->link;
	struct gw_op_attr attr = { .addr = t->bytes,
				   .length = link->soak->longest + 8,
				   .mr = link->mr,
				   .done = received,
				   .arg = t };
	int error;

	t->number = link->recv_next++;
	error = gw_channel_recv(link->channel, &attr, &t->op);
	if (error && !gw_channel_status(link->channel))
		ledger_wrong(link->soak->ledger, "cannot post a receive: %s", strerror(-error));
}

static void sent(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct transfer *t = arg;
	struct link *link = t->link;

	gw_op_close(op);
	t->op = NULL;
	link->sending--;
	if (result->status)
		return;
	link->entry->delivered++;
	link->last_delivered |= t->last;
}

static void post_send(struct link *link, struct transfer *t)
{
	uint64_t number = link->send_next;
	uint64_t key = key_of(link->token, link->soak->rank, number);
	struct gw_op_attr attr = { .addr = t->bytes, .mr = link->mr, .done = sent, .arg = t };
	int error;

	t->last = link->soak->stopping;
	attr.length = t->last ? HEADER : length_of(link->soak, key);
	fill(t->bytes, attr.length, key, number, t->last ? KIND_LAST : KIND_DATA);
	error = gw_channel_send(link->channel, &attr, &t->op);
	if (error && !gw_channel_status(link->channel) && error != -ENOBUFS)
		ledger_wrong(link->soak->ledger, "cannot post a send: %s", strerror(-error));
	if (error)
		return;
	link->send_next++;
	link->sending++;
	link->entry->posted++;
	link->last_sent |= t->last;
}

void link_drop(struct link *link, int status)
{
	if (!link->channel)
		return;
	if (link->entry && !link->entry->status) {
		link->entry->status = status;
		link->entry->ended_ns = gw_now_ns(link->soak->ctx);
	}
	gw_channel_close(link->channel);
	link->channel = NULL;
	link->entry = NULL;
	link->sending = 0;
	for (unsigned i = 0; i < LINK_DEPTH; i++)
		link->sends[i].op = link->recvs[i].op = NULL;
}

static void gone(struct gw_channel *channel, void *arg, int status, uint64_t now)
{
	struct link *link = arg;

	(void)channel;
	(void)now;
	/* Whoever has said and heard the last message may leave. */
	if (link->last_received && link->last_sent)
		link->over = true;
	link_drop(link, link->over ? STATUS_DONE : status);
}

static const struct gw_channel_handler handler = { .gone = gone };

int link_describe(struct link *link, uint64_t token, struct gw_channel_info *out)
{
	struct gw_channel_attr attr = { .peer_timeout_ns = TIMEOUT_NS,
					.handler = &handler,
					.arg = link,
					.operations = 64,
					.slots = 16,
					.packs = 8 };
	int error = gw_channel_create(link->soak->ctx, &attr, &link->channel);

	if (!error)
		error = gw_channel_info(link->channel, out);
	link->token = token;
	link->entry = NULL;
	link->send_next = link->recv_next = 0;
	link->last_sent = link->last_delivered = link->last_received = false;
	return error;
}

int link_connect(struct link *link, const struct gw_channel_info *peer)
{
	int error = gw_channel_connect(link->channel, peer);

	if (error)
		return error;
	link->entry = ledger_channel(link->soak->ledger);
	*link->entry = (struct ledger_channel){ .token = link->token,
						.peer = link->peer,
						.opened_ns = gw_now_ns(link->soak->ctx) };
	for (unsigned i = 0; i < LINK_DEPTH; i++)
		post_recv(&link->recvs[i]);
	return 0;
}

void link_step(struct link *link)
{
	if (!link->channel || !link->entry)
		return;
	if (link->last_delivered && link->last_received) {
		link->over = true;
		link_drop(link, STATUS_DONE);
		return;
	}
	for (unsigned i = 0; i < LINK_DEPTH && link->channel; i++)
		if (!link->sends[i].op && !link->last_sent &&
		    (!link->soak->stopping || !link->sending))
			post_send(link, &link->sends[i]);
}

int link_open(struct link *link, struct soak *soak, uint32_t peer)
{
	size_t each = soak->longest + 8;

	*link = (struct link){ .soak = soak, .peer = peer };
	link->memory = calloc(2 * LINK_DEPTH, each);
	if (!link->memory)
		return -ENOMEM;
	/* Resident from the start, so that growth later on is somebody else's. */
	memset(link->memory, 1, 2 * LINK_DEPTH * each);
	for (unsigned i = 0; i < LINK_DEPTH; i++) {
		link->sends[i] =
			(struct transfer){ .link = link, .bytes = link->memory + i * each };
		link->recvs[i] =
			(struct transfer){ .link = link,
					   .bytes = link->memory + (LINK_DEPTH + i) * each };
	}
	return gw_mr_register(soak->ctx, link->memory, 2 * LINK_DEPTH * each, &link->mr);
}

void link_close(struct link *link)
{
	gw_rendezvous_close(link->meeting);
	link->meeting = NULL;
	link_drop(link, STATUS_DONE);
	if (link->mr)
		gw_mr_deregister(link->mr);
	free(link->memory);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message_user.h: a user of one context and one queue pair who does anything, at any time: between turns, and inside of
 * callbacks. Requests stand in a table, so that an operation can name one by a byte.
 */
#ifndef TESTS_FUZZ_MESSAGE_USER_H
#define TESTS_FUZZ_MESSAGE_USER_H

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include <godwit/scheme.h>

#include "message/info.h"
#include "message_fabric.h"
#include "message_input.h"

#define REQUESTS 24
#define PAYLOAD	 64 /* bytes of data in a packet where packets have one size */
/* Where they have several: the smallest, and the largest. Control has to fit the smallest. */
#define FLOOR	  256
#define CEILING	  1024
#define DEPTH_MAX 4

struct request {
	struct gw_send *send; /* one of the two, or none */
	struct gw_recv *recv;
	const void *addr;
	uint32_t qp_number; /* of the fabric's queue pair it was posted on */
	bool ended;
	/* Bytes of data in a packet as last seen, and times that they changed. */
	uint32_t payload;
	uint32_t changes;
};

/* Bits of the byte that says which sizes packets have. */
#define SIZES_SEVERAL	1u
#define SIZES_PEER_LESS 2u /* the peer's interface carries packets half as large */
#define SIZES_PEER_ONE	4u /* the peer's packets have one size */
#define SIZES_DIVIDE	8u /* all sizes have to divide the ceiling */

static struct {
	struct fake fake;
	struct gw_context *ctx;
	struct gw_qp *qp;
	struct gw_mr *mr;
	uint8_t *memory;
	struct request requests[REQUESTS];
	int depth; /* of callbacks */
	bool ending;
	bool abrupt; /* the context is closed with everything in it */
	uint32_t slots, chunk_packets;
	uint32_t sizes; /* SIZES_ bits */
} f;

static uint64_t size_of_message(void)
{
	uint32_t w = word();

	/* Small ones mostly, whole packets half of the time. */
	return w & 1 ? w >> 4 : (w >> 8) * f.fake.floor;
}

/* A message's packets have a size that both ends agreed on, and change it once at most: to the smallest. */
static void watch_payload(struct request *request, uint32_t payload)
{
	if (payload == request->payload)
		return;
	assert(payload >= f.fake.floor && payload <= f.fake.payload && payload % 4 == 0);
	if (request->payload) {
		assert(payload == f.fake.floor && payload < request->payload);
		assert(!request->changes++);
	}
	request->payload = payload;
}

static uint32_t payload_of_send(struct request *request)
{
	uint32_t payload = 0;
	int error = gw_send_payload(request->send, &payload);

	assert(error == (payload ? 0 : -EAGAIN));
	if (payload)
		watch_payload(request, payload);
	return payload ? payload : f.fake.floor;
}

static void watch_recv(struct request *request)
{
	struct gw_recv_status status;

	assert(gw_recv_status(request->recv, &status) == 0);
	/* Without a window it is not granted. */
	if (request->recv->rkey)
		watch_payload(request, status.payload);
}

static struct request *pick(void)
{
	return &f.requests[byte() % REQUESTS];
}

static struct request *vacant(void)
{
	for (int i = 0; i < REQUESTS; i++)
		if (!f.requests[i].send && !f.requests[i].recv)
			return &f.requests[i];
	return NULL;
}

static void act(void);

static void inside(void)
{
	if (f.ending || f.depth >= DEPTH_MAX || byte() % 4 != 1)
		return;
	f.depth++;
	act();
	f.depth--;
}

static struct request *find_send(const struct gw_send *send)
{
	for (int i = 0; i < REQUESTS; i++)
		if (f.requests[i].send == send)
			return &f.requests[i];
	abort(); /* the end of a send that is closed */
}

static struct request *find_recv(const struct gw_recv *recv)
{
	for (int i = 0; i < REQUESTS; i++)
		if (f.requests[i].recv == recv)
			return &f.requests[i];
	abort(); /* of a receive */
}

static void send_over(struct request *request, int status)
{
	assert(!request->ended && gw_send_test(request->send) == (status ? status : 1));
	request->ended = true;
	if (f.fake.qp && request->qp_number == f.fake.qp->number)
		assert(f.fake.qp->flushed >= request->send->mark);
	inside();
}

static void recv_over(struct request *request, int status)
{
	assert(!request->ended && gw_recv_test(request->recv) == (status ? status : 1));
	request->ended = true;
	assert(!fake_may_land(&f.fake, request->addr));
	inside();
}

static void on_granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now)
{
	inside();
}

static void on_send(struct gw_send *send, void *arg, uint64_t now)
{
	inside();
}

static void on_nack(struct gw_send *send, void *arg, const struct gw_nack *nack, uint64_t now)
{
	for (uint32_t i = 0; i < nack->count; i++)
		assert(nack->runs[i].count &&
		       nack->runs[i].first + nack->runs[i].count <= send->packets);
	inside();
}

static void on_control(struct gw_send *send, void *arg, const void *data, size_t length,
		       uint64_t now)
{
	inside();
}

static void on_result(struct gw_send *send, void *arg, const struct gw_result *result, uint64_t now)
{
	inside();
}

static void on_done(struct gw_send *send, void *arg, int status, uint64_t now)
{
	send_over(find_send(send), status);
}

static void on_recut(struct gw_send *send, void *arg, uint64_t now)
{
	struct request *request = find_send(send);
	uint32_t before = request->payload;

	assert(payload_of_send(request) == f.fake.floor && before != f.fake.floor);
	assert(gw_stream_waiting(send) == 0);
	inside();
}

#define SEND_HANDLER                                                                               \
	.granted = on_granted, .drained = on_send, .nack = on_nack, .control = on_control,         \
	.timer = on_send, .result = on_result, .done = on_done
static const struct gw_send_handler send_handler = { SEND_HANDLER, .recut = on_recut };
/* Of a scheme that cannot go on with smaller packets. */
static const struct gw_send_handler rigid_handler = { SEND_HANDLER };

static void on_recv(struct gw_recv *recv, void *arg, uint64_t now)
{
	inside();
}

static void on_recv_control(struct gw_recv *recv, void *arg, const void *data, size_t length,
			    uint64_t now)
{
	inside();
}

static void on_recv_recut(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct request *request = find_recv(recv);

	watch_recv(request);
	assert(request->payload == f.fake.floor);
	inside();
}

static void on_released(struct gw_recv *recv, void *arg, int status, uint64_t now)
{
	recv_over(find_recv(recv), status);
}

static const struct gw_recv_handler recv_handler = {
	.announced = on_recv,
	.progress = on_recv,
	.control = on_recv_control,
	.timer = on_recv,
	.released = on_released,
	.recut = on_recv_recut,
};

/* Under a scheme: the same, told by its request. */
static void scheme_sent(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct request *request = arg;

	send_over(request, request->send->status);
}

static void scheme_received(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct request *request = arg;

	recv_over(request, request->recv->status);
}

static void gone(struct gw_qp *qp, void *arg, int status, uint64_t now)
{
	assert(qp == f.qp && (status == -ECONNRESET || status == -ETIMEDOUT ||
			      (status == -EMSGSIZE && f.sizes & SIZES_SEVERAL)));
	inside();
}

static void connect_qp(void)
{
	static const struct gw_qp_handler handler = { .gone = gone };
	struct gw_qp_attr attr = { .slots = f.slots,
				   .chunk_packets = f.chunk_packets,
				   .handler = &handler };
	struct peer_info peer = { .split = { 10, 18, 4 },
				  .payload = f.fake.fabric.caps.max_payload,
				  .floor = PAYLOAD,
				  .slots = f.slots,
				  .token = f.fake.peer_token,
				  .window = 64,
				  .control_max = 256 + byte(),
				  .fabric = "fake",
				  .address_length = 1 };
	struct gw_qp_info info;

	if (f.qp)
		return;
	f.fake.payload = f.fake.floor = PAYLOAD;
	if (f.sizes & SIZES_SEVERAL) {
		peer.payload = f.sizes & SIZES_PEER_LESS ? CEILING / 2 : CEILING;
		peer.floor = f.sizes & SIZES_PEER_ONE ? peer.payload : FLOOR;
		peer.probes = !(f.sizes & SIZES_PEER_ONE);
		peer.lanes = (uint8_t)f.fake.fabric.caps.lanes;
		attr.payload_divides = f.sizes & SIZES_DIVIDE ? CEILING : 0;
		f.fake.payload = peer.payload;
		f.fake.floor = peer.floor;
	}
	f.fake.first_msn = byte() & 1 ? UINT32_MAX - 2 : 0;
	peer.first_msn = byte() & 1 ? UINT32_MAX - 2 : 7;
	peer.generation_bits = f.fake.fabric.caps.generation_bits;
	info_encode(&peer, &info);
	assert(gw_qp_create(f.ctx, &attr, &f.qp) == 0);
	assert(gw_qp_connect(f.qp, &info) == 0);
}

static void close_qp(void)
{
	if (f.qp)
		assert(gw_qp_close(f.qp) == 0);
	f.qp = NULL;
}

static void post_recv(void)
{
	struct request *request = vacant();
	struct gw_recv_attr attr = { .length = size_of_message(), .mr = f.mr };
	uint32_t how = byte();
	int error;

	if (!f.qp || !request)
		return;
	/* An address of its own, so that a window tells whose it is. */
	attr.addr = f.memory + (size_t)(request - f.requests);
	request->addr = attr.addr;
	request->qp_number = f.fake.qp->number;
	request->ended = false;
	request->payload = request->changes = 0;
	if (how & 1) {
		struct gw_transfer_attr transfer = { .addr = attr.addr,
						     .length = attr.length,
						     .mr = f.mr,
						     .done = scheme_received,
						     .arg = request };

		error = gw_transfer_recv(f.qp, &gw_selective_repeat, &transfer, &request->recv);
	} else {
		attr.handler = how & 2 ? &recv_handler : NULL;
		if (f.sizes & SIZES_SEVERAL && how & 4)
			attr.flags = GW_RECV_SAME_SIZE;
		if (how == 0xf0)
			attr.length = UINT64_MAX - how;
		error = gw_recv_post(f.qp, &attr, &request->recv);
	}
	assert(error || request->recv);
}

static void post_send(void)
{
	struct request *request = vacant();
	struct gw_send_attr attr = { .length = size_of_message(), .handler = &send_handler };
	uint32_t how = byte();
	int error;

	if (!f.qp || !request)
		return;
	request->qp_number = f.fake.qp->number;
	request->ended = false;
	request->payload = request->changes = 0;
	attr.flags = how & 4 ? GW_SEND_IMM : 0;
	attr.imm = how & 4 ? number() : 0;
	if (how & 1) {
		struct gw_transfer_attr transfer = { .addr = f.memory,
						     .length = attr.length,
						     .mr = f.mr,
						     .done = scheme_sent,
						     .arg = request };

		error = gw_transfer_send(f.qp, &gw_selective_repeat, &transfer, &request->send);
	} else if (how & 2) {
		if (f.sizes & SIZES_SEVERAL && how > 224)
			attr.handler = &rigid_handler;
		error = gw_stream_start(f.qp, &attr, &request->send);
	} else {
		attr.addr = f.memory + byte();
		attr.mr = f.mr;
		if (how == 0xf0)
			attr.length = UINT64_MAX - how;
		error = gw_send_post(f.qp, &attr, &request->send);
	}
	assert(error || request->send);
}

static void put(void)
{
	struct request *request = pick();
	uint64_t offset = byte();
	uint64_t length = size_of_message();
	uint32_t how = byte();

	if (!request->send)
		return;
	offset *= payload_of_send(request);
	if (how == 0xf0)
		offset += how;
	if (how == 0xf1)
		length = UINT64_MAX;
	if (how & 1 && offset <= request->send->length)
		length = request->send->length - offset; /* right, for once */
	gw_stream_put(request->send, offset, f.memory + how, length, f.mr);
}

static void close_request(void)
{
	struct request *request = pick();

	if (request->send) {
		assert(gw_send_close(request->send) == 0);
		request->send = NULL;
	} else if (request->recv) {
		int error = gw_recv_close(request->recv);

		assert(error == (recv_is_released(request->recv) ? 0 : -EBUSY));
		if (!error)
			request->recv = NULL;
	}
}

static void speak(void)
{
	struct request *request = pick();
	struct gw_run gaps[2] = { { byte(), byte() }, { word(), byte() } };
	struct gw_nack nack = {
		.round = byte(), .below = word(), .runs = gaps, .count = byte() % 3
	};
	uint64_t at = byte() ? f.fake.now_ns + (UINT64_C(1) << byte() % 40) : 0;

	if (request->send) {
		gw_send_timer(request->send, at);
		gw_send_control(request->send, f.memory, word() % (GW_CONTROL_MAX + 2));
	} else if (request->recv) {
		gw_recv_timer(request->recv, at);
		gw_recv_nack(request->recv, &nack);
		gw_recv_control(request->recv, f.memory, word() % (GW_CONTROL_MAX + 2));
	}
}

static void act(void)
{
	struct request *request;

	switch (byte() % 10) {
	case 0:
	case 1:
		post_recv();
		break;
	case 2:
	case 3:
		post_send();
		break;
	case 4:
		put();
		break;
	case 5:
		request = pick();
		if (request->send)
			gw_stream_end(request->send);
		break;
	case 6:
		request = pick();
		if (request->recv)
			gw_recv_complete(request->recv);
		break;
	case 7:
		close_request();
		break;
	case 8:
		speak();
		break;
	default:
		if (byte() % 8 == 7) {
			close_qp();
			connect_qp();
		}
	}
}

#endif

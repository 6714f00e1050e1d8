/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair against a peer that says anything, and a user who does anything.
 *
 * The input is a program: each byte an operation, the bytes after it the operation's arguments, and callbacks eat from the
 * same bytes to decide what to do inside of them. The first bytes choose the kind of fabric (message_fabric.h), so that
 * one input always means one run. Most of what the peer says is well formed, has the right token and is near what could
 * be true, for anything else is thrown away at the door; the rest is those bytes damaged, or plain bytes.
 *
 * Held throughout: bits, chunks and counts agree; the cumulative numbers stay in their order; ends are told once, and
 * only when the fabric can no longer touch the memory; after the end everything is back in its pool.
 */
#include <stdio.h>
#include <sys/mman.h>

#include <godwit/scheme.h>

#include "base/bitmap.h"
#include "message/context.h"
#include "message/state.h"
#include "message_fabric.h"
#include "message_input.h"
#include "message_peer.h"
#include "wire/bytes.h"

#define REQUESTS  24
#define PAYLOAD	  64
#define DEPTH_MAX 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct request {
	struct gw_send *send; /* one of the two, or none */
	struct gw_recv *recv;
	const void *addr;
	uint32_t qp_number; /* of the fabric's queue pair it was posted on */
	bool ended;
};

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
} f;

static uint64_t datagrams, packets, runs;

static uint64_t size_of_message(void)
{
	uint32_t w = word();

	/* Small ones mostly, whole packets half of the time. */
	return w & 1 ? w >> 4 : (w >> 8) * PAYLOAD;
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

/* ---- what a user does ------------------------------------------------------------------------------------------ */

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
	if (f.qp && gw_qp_status(f.qp) == 0 && request->qp_number == f.fake.qp->number)
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

static const struct gw_send_handler send_handler = {
	.granted = on_granted,
	.drained = on_send,
	.nack = on_nack,
	.control = on_control,
	.timer = on_send,
	.result = on_result,
	.done = on_done,
};

static void on_recv(struct gw_recv *recv, void *arg, uint64_t now)
{
	inside();
}

static void on_recv_control(struct gw_recv *recv, void *arg, const void *data, size_t length,
			    uint64_t now)
{
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
	assert(qp == f.qp && (status == -ECONNRESET || status == -ETIMEDOUT));
	inside();
}

static void connect_qp(void)
{
	static const struct gw_qp_handler handler = { .gone = gone };
	struct gw_qp_attr attr = { .slots = f.slots,
				   .chunk_packets = f.chunk_packets,
				   .handler = &handler };
	struct peer_info peer = { .split = { 10, 18, 4 },
				  .payload = PAYLOAD,
				  .slots = f.slots,
				  .token = f.fake.peer_token,
				  .window = 64,
				  .control_max = 256 + byte(),
				  .fabric = "fake",
				  .address_length = 1 };
	struct gw_qp_info info;

	if (f.qp)
		return;
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
	if (how & 1) {
		struct gw_transfer_attr transfer = { .addr = attr.addr,
						     .length = attr.length,
						     .mr = f.mr,
						     .done = scheme_received,
						     .arg = request };

		error = gw_transfer_recv(f.qp, &gw_selective_repeat, &transfer, &request->recv);
	} else {
		attr.handler = how & 2 ? &recv_handler : NULL;
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
	uint64_t offset = (uint64_t)byte() * PAYLOAD;
	uint64_t length = size_of_message();
	uint32_t how = byte();

	if (!request->send)
		return;
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

		assert(error == (request->recv->released ? 0 : -EBUSY));
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

/* ---- what the peer and the fabric do --------------------------------------------------------------------------- */

static void hear_something(void)
{
	uint8_t bytes[PEER_DATAGRAM];
	uint32_t how = byte();
	size_t length = 0;

	if (!f.qp)
		return;
	datagrams++;
	if (how < 224) {
		length = peer_say(f.qp, PAYLOAD, bytes);
	} else if (how < 240) {
		/* Our own latest one comes back, as if the peer had taken our token for its own. */
		length = f.fake.sent_length;
		memcpy(bytes, f.fake.sent, length);
		if (length >= CONTROL_HEADER_SIZE)
			put_be32(bytes + 4, f.qp->token);
	} else {
		length = byte();
		for (size_t i = 0; i < length; i++)
			bytes[i] = (uint8_t)byte();
	}
	for (uint32_t i = how % 8 == 7 && length ? 1 + byte() % 3 : 0; i; i--)
		bytes[word() % length] ^= (uint8_t)(1u << byte() % 8);
	fake_hear(&f.fake, bytes, length);
}

static void land(void)
{
	struct fabric_event *event = fake_event(&f.fake, FABRIC_DATA);
	uint32_t slot = byte(), how = byte(), packet = byte(), times = 1;

	if (!event)
		return;
	slot = slot < 240 ? slot % f.slots : slot;
	if (how & 64)
		times = 1 + byte() % 32; /* a run of them */
	for (uint32_t i = 0; event && i < times; i++) {
		uint32_t generation = slot < f.slots ? f.fake.qp->windows[slot].generation : 0;

		packets++;
		if (how & 1)
			generation += byte();
		event->slot = slot;
		event->generation = generation;
		event->ce = how & 2;
		event->data.packet = how == 0xf0 ? number() : packet + i;
		event->data.length = how & 4 ? byte() : PAYLOAD;
		event->data.user_bits = how & 8 ? byte() & 15 : (generation & 3) << 2;
		if (i + 1 < times)
			event = fake_event(&f.fake, FABRIC_DATA);
	}
}

static void pass_time(void)
{
	f.fake.now_ns += UINT64_C(1) << byte() % 40;
}

/* ---- what must hold -------------------------------------------------------------------------------------------- */

static bool chunk_is_full(const struct gw_recv *recv, uint32_t chunk)
{
	uint32_t first = chunk * recv->chunk_packets, last = first + recv->chunk_packets;

	if (recv->is_announced && last > recv->packets)
		last = recv->packets;
	return first < last && last <= recv->capacity_packets &&
	       bitmap_count_range(recv->bits, first, last) == last - first;
}

static void check_recv(const struct gw_recv *recv)
{
	uint32_t chunks, end, below = recv->capacity_packets;
	const uint64_t *words;
	uint64_t expanded;

	/* One that proved too small was cut short before its bits were looked at again. */
	if (recv->status == -EMSGSIZE)
		return;
	assert(gw_recv_bitmap(recv, &words, &chunks) == 0);
	if (recv->is_announced)
		below = recv->packets;
	assert(recv->landed == bitmap_count(recv->bits, recv->capacity_packets));
	assert(recv->landed == bitmap_count(recv->bits, below));
	assert(recv->highest <= below);
	end = (uint32_t)bitmap_first_set(recv->bits, recv->capacity_packets, recv->highest);
	assert(end == recv->capacity_packets);
	for (uint32_t i = 0; i < chunks; i++) {
		assert(bitmap_test(words, i) == chunk_is_full(recv, i));
		assert(gw_recv_expand(recv, i, &expanded) == 0);
	}
	assert(gw_recv_expand(recv, chunks, &expanded) == -ERANGE);
}

static bool in_order(uint32_t a, uint32_t b)
{
	return (int32_t)(b - a) >= 0;
}

static void check_numbers(const struct gw_qp *qp)
{
	assert(in_order(qp->results_acked, qp->completed));
	assert(in_order(qp->completed, qp->recv_granted));
	assert(in_order(qp->announced, qp->recv_granted));
	assert(in_order(qp->grants_acked, qp->recv_granted));
	assert(in_order(qp->recv_granted, qp->recv_placed));
	assert(in_order(qp->recv_placed, qp->recv_posted));
	assert(qp->recv_placed - qp->results_acked <= f.slots);
	assert(in_order(qp->results_seen, qp->send_matched));
	assert(in_order(qp->announce_acked, qp->send_matched));
	assert(in_order(qp->send_matched, qp->send_posted));
	assert(in_order(qp->send_matched, qp->grants_seen));
	assert(qp->grants_seen - qp->results_seen <= f.slots);
	assert(qp->flushed <= qp->written);
}

static void check(void)
{
	for (int i = 0; i < REQUESTS; i++)
		if (f.requests[i].recv)
			check_recv(f.requests[i].recv);
	if (f.qp && gw_qp_status(f.qp) == 0)
		check_numbers(f.qp);
}

/* ---- a run ----------------------------------------------------------------------------------------------------- */

static void step(void)
{
	switch (byte() % 12) {
	case 0:
	case 1:
	case 2:
		act();
		break;
	case 3:
	case 4:
	case 5:
		hear_something();
		break;
	case 6:
	case 7:
		land();
		break;
	case 8:
		fake_change(&f.fake, byte());
		fake_flush(&f.fake, byte());
		break;
	case 9:
		pass_time();
		break;
	case 10:
		f.fake.room = byte() % 40;
		break;
	default:
		assert(gw_progress(f.ctx) >= 0);
		check();
	}
}

static void begin(void)
{
	static const struct gw_context_attr attr = {
		.max_qps = 2, .max_sends = 8, .max_recvs = 12, .bitmap_bytes = 1 << 16
	};
	uint32_t kind = byte();
	struct fabric_caps *caps = &f.fake.fabric.caps;

	memset(f.requests, 0, sizeof(f.requests));
	f.ending = false;
	f.abrupt = kind > 240;
	f.slots = 1u << (kind & 3);
	f.chunk_packets = 1u << (kind >> 2 & 3) * 2;
	f.fake = (struct fake){ .fabric.ops = &fake_ops,
				.now_ns = 1000000000,
				.peer_token = 0x70656572,
				.memory = f.memory,
				.room = 39 };
	caps->max_payload = PAYLOAD;
	caps->max_control = 512;
	caps->window = 64;
	caps->copies = kind & 16;
	caps->lanes = kind & 32 ? 3 : 0;
	if (kind & 64) {
		caps->generation_bits = 2;
		caps->lifetime_ns = 1000000;
	}
	if (!f.ctx)
		assert(context_open_on(&f.fake.fabric, &attr, &f.ctx) == 0);
	/* A context that is empty again is as good as a new one, and opening takes longer than a run. */
	f.ctx->now = f.fake.now_ns;
	f.ctx->window = caps->window;
	f.ctx->window_changed = 0;
	f.ctx->overruns = 0;
	memset(f.ctx->counters, 0, sizeof(f.ctx->counters));
	assert(gw_mr_register(f.ctx, f.memory, FAKE_MEMORY, &f.mr) == 0);
	connect_qp();
}

/* Everything is given back, and everything is there. */
static void end(void)
{
	f.ending = true;
	if (f.abrupt) {
		assert(gw_context_close(f.ctx) == 0);
		f.qp = NULL;
		f.ctx = NULL;
		return;
	}
	close_qp();
	gw_progress(f.ctx);
	check();
	for (int i = 0; i < REQUESTS; i++) {
		if (f.requests[i].send)
			assert(gw_send_close(f.requests[i].send) == 0);
		if (f.requests[i].recv)
			assert(gw_recv_close(f.requests[i].recv) == 0);
	}
	assert(gw_mr_deregister(f.mr) == 0);
	assert(!pool_used(&f.ctx->qps) && !pool_used(&f.ctx->sends) && !pool_used(&f.ctx->recvs));
	assert(!pool_used(&f.ctx->grants) && !pool_used(&f.ctx->puts) && !pool_used(&f.ctx->mrs));
	assert(!arena_used(&f.ctx->arena) && !heap_count(&f.ctx->timers));
	assert(!f.ctx->connected && list_empty(&f.ctx->senders) && list_empty(&f.ctx->talkers));
	fake_close(&f.fake.fabric);
}

static void tell(void)
{
	fprintf(stderr, "message_fuzz: %lu runs, %lu datagrams, %lu packets\n", (unsigned long)runs,
		(unsigned long)datagrams, (unsigned long)packets);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!f.memory) {
		/* The message layer itself writes into no buffer: one that cannot be written proves it. */
		f.memory = mmap(NULL, FAKE_MEMORY, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert(f.memory != MAP_FAILED);
		atexit(tell);
	}
	runs++;
	input.data = data;
	input.left = size;
	begin();
	while (input.left)
		step();
	end();
	return 0;
}

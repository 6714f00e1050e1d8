/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair against a peer that says anything, and a user who does anything.
 *
 * The input is a program: each byte an operation, the bytes after it the operation's arguments, and callbacks eat from the
 * same bytes to decide what to do inside of them. The first two bytes choose the kind of fabric (message_fabric.h) and the
 * sizes of packets, so that one input always means one run. Most of what the peer says is well formed, has the right token and is near what could
 * be true, for anything else is thrown away at the door; the rest is those bytes damaged, or plain bytes.
 *
 * Held throughout: bits, chunks and counts agree; the cumulative numbers stay in their order; ends are told once, and
 * only when the fabric can no longer touch the memory; after the end everything is back in its pool.
 */
#include <stdio.h>
#include <sys/mman.h>

#include "base/bitmap.h"
#include "message/context.h"
#include "message_peer.h"
#include "message_user.h"
#include "base/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t datagrams, packets, runs;
/* Cuts that the peer made us follow, and cuts of ours. */
static uint64_t recuts, cuts;

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
		length = peer_say(f.qp, f.fake.floor, bytes);
	} else if (how < 240) {
		/* Our own latest one comes back, as if the peer had taken our token for its own. */
		length = f.fake.sent_length;
		memcpy(bytes, f.fake.sent, length);
		if (length >= CONTROL_HEADER_SIZE)
			put_be32(bytes + 4, f.qp->control.token);
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
		uint32_t payload = slot < f.slots ? f.fake.qp->windows[slot].payload : 0;

		packets++;
		if (how & 1)
			generation += byte();
		event->slot = slot;
		event->generation = generation;
		event->ce = how & 2;
		event->data.packet = how == 0xf0 ? number() : packet + i;
		event->data.length = how & 4 ? byte() : payload ? payload : f.fake.floor;
		event->data.more = how & 16 ? byte() % 70 : 0;
		event->data.user_bits = how & 8 ? byte() & 15 : (generation & 3) << 2;
		if (i + 1 < times)
			event = fake_event(&f.fake, FABRIC_DATA);
	}
}

/* Small datagrams go to and fro and the next round of size probes is due, whether or not large ones arrive. */
static void answer_probe(void)
{
	uint8_t bytes[PEER_DATAGRAM];
	struct control_probe probe = { .kind = CONTROL_PROBE_REPLY, .time_ns = f.fake.now_ns };
	struct control_header header = { .token = f.qp->control.token,
					 .announced = f.qp->tx.announce_acked,
					 .granted = f.qp->rx.grants_acked,
					 .completed = f.qp->tx.results_seen,
					 .results = f.qp->rx.results_acked,
					 .size = f.qp->size.named,
					 .epoch = f.qp->size.applied,
					 .epoch_applied = f.qp->size.epoch };
	struct control_writer w;

	control_begin(&w, bytes, sizeof(bytes), CONTROL_PROBE, &header);
	control_put_probe(&w, &probe);
	fake_hear(&f.fake, bytes, control_end(&w));
	assert(gw_progress(f.ctx) >= 0);
	if (f.qp && f.qp->size.at != NEVER && f.qp->size.at > f.fake.now_ns)
		f.fake.now_ns = f.qp->size.at;
	f.fake.now_ns++; /* what is due now is done in the next turn */
	assert(gw_progress(f.ctx) >= 0);
}

static void pass_time(void)
{
	uint32_t how = byte();

	if (how >= 200 && f.sizes & SIZES_SEVERAL && f.qp)
		answer_probe();
	else
		f.fake.now_ns += UINT64_C(1) << how % 40;
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
	assert(in_order(qp->rx.results_acked, qp->rx.completed));
	assert(in_order(qp->rx.completed, qp->rx.granted));
	assert(in_order(qp->rx.announced, qp->rx.granted));
	assert(in_order(qp->rx.grants_acked, qp->rx.granted));
	assert(in_order(qp->rx.granted, qp->rx.placed));
	assert(in_order(qp->rx.placed, qp->rx.posted));
	assert(qp->rx.placed - qp->rx.results_acked <= f.slots);
	assert(in_order(qp->tx.results_seen, qp->tx.matched));
	assert(in_order(qp->tx.announce_acked, qp->tx.matched));
	assert(in_order(qp->tx.matched, qp->tx.posted));
	assert(in_order(qp->tx.matched, qp->tx.grants_seen));
	assert(qp->tx.grants_seen - qp->tx.results_seen <= f.slots);
	assert(qp->tx.flushed <= qp->tx.written);
}

static void check_sizes(const struct gw_qp *qp)
{
	const struct size *s = &qp->size;

	assert(s->floor == f.fake.floor && s->ceiling == f.fake.payload);
	assert(s->proven >= s->floor && s->proven <= s->ceiling && s->proven % 4 == 0);
	assert(s->named >= s->floor && s->named <= s->ceiling && s->named % 4 == 0);
	assert(!s->divides || s->divides % s->named == 0);
	assert(qp->control.max >= 256 && qp->control.max <= f.fake.fabric.caps.max_control);
	if (s->floor == s->ceiling)
		assert(s->state == SIZE_SETTLED && !s->epoch && !s->applied);
}

/* A window that is open, and whose opening was told, is not waited for. */
static void check_windows(const struct gw_qp *qp)
{
	for (uint32_t i = 0; i < f.slots && !f.fake.event_count; i++)
		if (f.fake.qp->windows[i].state == WINDOW_OPEN)
			assert(qp->rx.slots[i].state != SLOT_EXPOSING);
}

static void check(void)
{
	for (int i = 0; i < REQUESTS; i++) {
		struct request *request = &f.requests[i];

		if (request->recv) {
			check_recv(request->recv);
			watch_recv(request);
		}
		if (request->send)
			payload_of_send(request);
	}
	if (f.qp && gw_qp_status(f.qp) == 0) {
		check_numbers(f.qp);
		check_sizes(f.qp);
		check_windows(f.qp);
	}
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
	uint32_t kind = byte(), sizes = byte();
	struct fabric_caps *caps = &f.fake.fabric.caps;

	memset(f.requests, 0, sizeof(f.requests));
	f.ending = false;
	f.abrupt = kind > 240;
	f.slots = 1u << (kind & 3);
	f.sizes = sizes & SIZES_SEVERAL ? sizes : 0;
	f.chunk_packets = 1u << (kind >> 2 & 3) * 2;
	f.fake = (struct fake){ .fabric.ops = &fake_ops,
				.now_ns = 1000000000,
				.peer_token = 0x70656572,
				.memory = f.memory,
				.room = 39 };
	caps->max_payload = PAYLOAD;
	caps->max_control = 512;
	if (f.sizes) {
		caps->max_payload = CEILING;
		caps->rungs[0] = CEILING / 2;
		caps->rungs[1] = FLOOR;
		caps->probe_extra = 16;
		caps->max_control = CEILING + caps->probe_extra;
	}
	caps->buffer = caps->buffer_most = 64;
	caps->buffer_packet = 1;
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
	f.ctx->overruns = 0;
	credit_open(f.ctx);
	memset(f.ctx->counters, 0, sizeof(f.ctx->counters));
	assert(gw_mr_register(f.ctx, f.memory, FAKE_MEMORY, &f.mr) == 0);
	connect_qp();
}

/* Everything is given back, and everything is there. */
static void end(void)
{
	f.ending = true;
	recuts += f.fake.recuts;
	cuts += f.fake.sizes_sent[CONTROL_SIZE_CUT];
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
	assert(list_empty(&f.ctx->senders) && list_empty(&f.ctx->runnable));
	fake_close(&f.fake.fabric);
}

static void tell(void)
{
	fprintf(stderr,
		"message_fuzz: %lu runs, %lu datagrams, %lu packets, %lu receives cut, %lu cuts asked for\n",
		(unsigned long)runs, (unsigned long)datagrams, (unsigned long)packets,
		(unsigned long)recuts, (unsigned long)cuts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!f.memory) {
		/* Small messages that came inside control are placed by the library itself. A page behind it catches the rest. */
		f.memory = mmap(NULL, FAKE_MEMORY + 4096, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert(f.memory != MAP_FAILED);
		assert(mprotect(f.memory + FAKE_MEMORY, 4096, PROT_NONE) == 0);
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

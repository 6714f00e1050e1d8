/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory is one mapping: the ring's pieces first, then a page for the trailer and the verdict.
 *
 * Callbacks only note what happened. Acting on it is left to the command's own loop, which may read
 * and write files.
 */
#include "end.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tools/interrupt.h"
#include "tools/meet.h"
#include "tools/report.h"
#include "tools/session.h"

#define RECORDS_BYTES  4096
#define TRAILER_OFFSET 0
#define VERDICT_OFFSET 2048

/* A ring of the default blocks covers 10 Gbit/s at a round trip of 25 ms. */
#define RING_BYTES (UINT64_C(32) << 20)
#define RING_MIN   4

/* Operations of a channel: the ring, trailer and verdict, and as many that wait for the peer to acknowledge their end. */
#define OPERATIONS (4 * RING_MAX)

/* A signal may come just before the sleep begins and not end it: look again after this long. */
#define NAP_NS UINT64_C(100000000)

static void peer_gone(struct gw_channel *channel, void *arg, int status, uint64_t now)
{
	struct file_end *end = arg;

	(void)channel;
	(void)now;
	end->gone = status;
}

static const struct gw_channel_handler channel_handler = { .gone = peer_gone };

static void piece_done(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct piece *piece = arg;

	piece->state = PIECE_ENDED;
	piece->status = result->status;
	piece->length = result->length;
	piece->moved = result->moved;
	gw_op_close(op);
}

static uint32_t ring_pieces(uint32_t block, uint64_t blocks)
{
	uint64_t pieces = RING_BYTES / block;

	if (pieces < RING_MIN)
		pieces = RING_MIN;
	if (pieces > RING_MAX)
		pieces = RING_MAX;
	return (uint32_t)(blocks < pieces ? blocks : pieces);
}

static int map_memory(struct file_end *end, struct report *report, uint32_t block)
{
	size_t ring = (size_t)block * end->pieces;
	void *memory;
	int rc;

	memory = mmap(NULL, ring + RECORDS_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return report_fail(report, -errno, "no memory for a ring of %zu bytes: %s", ring,
				   strerror(errno));
	end->memory = memory;
	end->memory_bytes = ring + RECORDS_BYTES;
	for (uint32_t i = 0; i < end->pieces; i++)
		end->ring[i].memory = end->memory + (size_t)block * i;
	end->trailer.memory = end->memory + ring + TRAILER_OFFSET;
	end->verdict.memory = end->memory + ring + VERDICT_OFFSET;
	rc = gw_mr_register(end->ctx, memory, end->memory_bytes, &end->mr);
	return rc ? report_fail(report, rc, "cannot register memory: %s", strerror(-rc)) : 0;
}

static int make_codes(struct file_end *end, struct report *report, uint32_t block)
{
	struct gw_erasure_attr attr = { .max_length = block, .payload = SCHEME_PAYLOAD_MAX };
	int rc = 0;

	for (uint32_t i = 0; end->scheme->coded && rc == 0 && i < end->pieces; i++)
		rc = gw_erasure_open(end->ctx, &attr, &end->ring[i].code);
	return rc ? report_fail(report, rc, "no memory for parity: %s", strerror(-rc)) : 0;
}

static int make_channel(struct file_end *end, struct report *report, const struct options *options,
			struct gw_rendezvous *met)
{
	struct gw_channel_attr attr = { .rate_bps = options->rate_bps,
					.peer_timeout_ns = options->timeout_ns,
					.operations = OPERATIONS,
					.handler = &channel_handler,
					.arg = end,
					.peer_host = gw_rendezvous_remote(met),
					.rtt_hint_us =
						(uint32_t)(gw_rendezvous_rtt_ns(met) / 1000) };
	struct gw_seal seal;
	int rc = meet_seal(report, options, met, &seal, &attr.seal);

	if (rc)
		return rc;

	if (options->congestion[0] != '\0')
		attr.congestion = options->congestion;
	rc = gw_channel_create(end->ctx, &attr, &end->channel);
	explicit_bzero(&seal, sizeof(seal));
	return rc ? report_fail(report, rc, "cannot make a channel: %s", strerror(-rc)) : 0;
}

int file_end_open(struct file_end *end, struct report *report, const struct options *options,
		  struct gw_rendezvous *met, const struct scheme *scheme, uint32_t block,
		  uint64_t blocks)
{
	struct gw_context_attr context_attr = { 0 };
	int rc;

	memset(end, 0, sizeof(*end));
	end->scheme = scheme;
	end->pieces = ring_pieces(block, blocks);
	rc = session_open_context(report, options, gw_rendezvous_local(met), &context_attr,
				  &end->ctx);
	if (rc)
		return rc;
	rc = map_memory(end, report, block);
	if (rc == 0)
		rc = make_codes(end, report, block);
	if (rc == 0)
		rc = make_channel(end, report, options, met);
	if (rc)
		file_end_close(end);
	return rc;
}

void file_end_close(struct file_end *end)
{
	if (end->channel)
		gw_channel_close(end->channel);
	/* Takes the memory's registration with it. */
	if (end->ctx)
		gw_context_close(end->ctx);
	for (uint32_t i = 0; i < end->pieces; i++) {
		if (end->ring[i].code)
			gw_erasure_abandon(end->ring[i].code);
	}
	if (end->memory)
		munmap(end->memory, end->memory_bytes);
	memset(end, 0, sizeof(*end));
}

static struct gw_op_attr describe(struct file_end *end, struct piece *piece, uint64_t length)
{
	return (struct gw_op_attr){
		.addr = piece->memory,
		.length = length,
		.mr = end->mr,
		.scheme = end->scheme->automatic ? NULL : end->scheme->library,
		.options = piece->code,
		.done = piece_done,
		.arg = piece,
	};
}

static int posted(struct piece *piece, int error)
{
	if (error == 0)
		piece->state = PIECE_OPEN;
	return error == -ENOBUFS ? -EAGAIN : error;
}

int file_end_send(struct file_end *end, struct piece *piece, uint64_t length)
{
	struct gw_op_attr attr = describe(end, piece, length);
	struct gw_op *op;

	return posted(piece, gw_channel_send(end->channel, &attr, &op));
}

int file_end_recv(struct file_end *end, struct piece *piece, uint64_t length)
{
	struct gw_op_attr attr = describe(end, piece, length);
	struct gw_op *op;

	return posted(piece, gw_channel_recv(end->channel, &attr, &op));
}

struct piece *file_end_piece(struct file_end *end, uint64_t block)
{
	return &end->ring[block % end->pieces];
}

void piece_reuse(struct piece *piece)
{
	*piece = (struct piece){ .memory = piece->memory, .code = piece->code };
}

int file_end_wait(struct file_end *end)
{
	if (interrupt_signal())
		return -EINTR;
	gw_wait(end->ctx, NAP_NS);
	return interrupt_signal() ? -EINTR : 0;
}

void file_end_poll(struct file_end *end)
{
	gw_progress(end->ctx);
}

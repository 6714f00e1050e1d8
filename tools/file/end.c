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
#include "tools/report.h"
#include "tools/session.h"

#define RECORDS_BYTES  4096
#define TRAILER_OFFSET 0
#define VERDICT_OFFSET 2048

/* A signal may come just before the sleep begins and not end it: look again after this long. */
#define NAP_NS UINT64_C(100000000)

static void peer_gone(struct gw_qp *qp, void *arg, int status, uint64_t now)
{
	struct file_end *end = arg;

	(void)qp;
	(void)now;
	end->gone = status;
}

static const struct gw_qp_handler qp_handler = { .gone = peer_gone };

static void transfer_done(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct piece *piece = arg;
	struct gw_recv_status status;

	(void)now;
	piece->state = PIECE_ENDED;
	piece->status = result->status;
	piece->length = result->length;
	if (piece->recv && gw_recv_status(piece->recv, &status) == 0)
		piece->packets = status.landed;
}

static int map_memory(struct file_end *end, struct report *report, uint32_t block, unsigned pieces)
{
	size_t ring = (size_t)block * pieces;
	void *memory;
	int rc;

	memory = mmap(NULL, ring + RECORDS_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return report_fail(report, -errno, "no memory for a ring of %zu bytes: %s", ring,
				   strerror(errno));
	end->memory = memory;
	end->memory_bytes = ring + RECORDS_BYTES;
	for (unsigned i = 0; i < pieces; i++)
		end->ring[i].memory = end->memory + (size_t)block * i;
	end->trailer.memory = end->memory + ring + TRAILER_OFFSET;
	end->verdict.memory = end->memory + ring + VERDICT_OFFSET;
	rc = gw_mr_register(end->ctx, memory, end->memory_bytes, &end->mr);
	return rc ? report_fail(report, rc, "cannot register memory: %s", strerror(-rc)) : 0;
}

int file_end_open(struct file_end *end, struct report *report, const struct options *options,
		  const char *local, uint32_t block, unsigned pieces)
{
	struct gw_qp_attr attr = { .peer_timeout_ns = options->timeout_ns,
				   .handler = &qp_handler,
				   .arg = end };
	struct gw_context_attr context_attr = { 0 };
	int rc;

	memset(end, 0, sizeof(*end));
	rc = session_open_context(report, options, local, &context_attr, &end->ctx);
	if (rc)
		return rc;
	rc = map_memory(end, report, block, pieces);
	if (rc)
		goto close_end;
	rc = gw_qp_create(end->ctx, &attr, &end->qp);
	if (rc) {
		report_fail(report, rc, "cannot make a queue pair: %s", strerror(-rc));
		goto close_end;
	}
	return 0;

close_end:
	file_end_close(end);
	return rc;
}

int file_end_govern(struct file_end *end, struct report *report, const struct options *options)
{
	struct gw_flow_attr attr = { .rate_bps = options->rate_bps };
	int rc;

	if (options->congestion[0] != '\0')
		attr.congestion = options->congestion;
	rc = gw_flow_open(end->qp, &attr, &end->flow);
	return rc ? report_fail(report, rc, "cannot control congestion: %s", strerror(-rc)) : 0;
}

void file_end_close(struct file_end *end)
{
	if (end->flow)
		gw_flow_close(end->flow);
	if (end->qp)
		gw_qp_close(end->qp);
	/* Takes the requests and the memory's registration with it. */
	if (end->ctx)
		gw_context_close(end->ctx);
	if (end->memory)
		munmap(end->memory, end->memory_bytes);
	memset(end, 0, sizeof(*end));
}

static struct gw_transfer_attr describe(struct file_end *end, struct piece *piece, uint64_t length)
{
	return (struct gw_transfer_attr){
		.addr = piece->memory,
		.length = length,
		.mr = end->mr,
		.done = transfer_done,
		.arg = piece,
	};
}

int file_end_send(struct file_end *end, struct piece *piece, uint64_t length)
{
	struct gw_transfer_attr attr = describe(end, piece, length);
	int rc = gw_transfer_send(end->qp, &gw_selective_repeat, &attr, &piece->send);

	if (rc == 0)
		piece->state = PIECE_OPEN;
	return rc;
}

int file_end_recv(struct file_end *end, struct piece *piece, uint64_t length)
{
	struct gw_transfer_attr attr = describe(end, piece, length);
	int rc = gw_transfer_recv(end->qp, &gw_selective_repeat, &attr, &piece->recv);

	if (rc == 0)
		piece->state = PIECE_OPEN;
	return rc;
}

void piece_reuse(struct piece *piece)
{
	if (piece->send)
		gw_send_close(piece->send);
	if (piece->recv)
		gw_recv_close(piece->recv);
	*piece = (struct piece){ .memory = piece->memory };
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

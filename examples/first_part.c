/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reliability scheme of one's own, from nothing but the public headers: the first part of a message arrives whole, and
 * the rest as it comes. Think of a tensor behind a small header: without the header nothing can be read, without some of
 * the values a gradient is still a gradient.
 *
 * The sender puts the message once and says when it has sent everything. The receiver then names the holes of the first
 * part, until it has none, and is finished with whatever else has come by then. What is missing is in its bitmap.
 *
 * main() moves one message between two contexts of this process, over the loopback interface, with packets lost on purpose.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <godwit/scheme.h>

#define ALL_SENT 1

struct receiving {
	struct gw_transfer transfer; /* comes first in every scheme's state */
	uint64_t exact;		     /* bytes that must arrive */
	uint32_t round;
	int all_sent;
};

/* ---- the sender ------------------------------------------------------------------------------------------------ */

static int put(struct gw_send *send, uint64_t first, uint64_t length)
{
	const struct gw_transfer *transfer = gw_send_state(send);

	if (length > transfer->length - first)
		length = transfer->length - first;
	return gw_stream_put(send, first, (const uint8_t *)transfer->addr + first, length,
			     transfer->mr);
}

static void granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now)
{
	const struct gw_transfer *transfer = gw_send_state(send);
	int error = put(send, 0, transfer->length);

	(void)arg, (void)capacity, (void)now;
	if (error)
		gw_transfer_finish_send(send, error, GW_MISSING_UNKNOWN);
}

/* Control may be lost, so that it is said again until the result comes. */
static void say_all_sent(struct gw_send *send, void *arg, uint64_t now)
{
	static const uint8_t word[] = { ALL_SENT };

	(void)arg;
	gw_send_control(send, word, sizeof(word));
	gw_send_timer(send, now + gw_qp_patience_ns(gw_send_qp(send)));
}

static void repeat(struct gw_send *send, void *arg, const struct gw_nack *nack, uint64_t now)
{
	uint32_t payload = 0;

	(void)arg, (void)now;
	gw_send_payload(send, &payload);
	for (uint32_t i = 0; i < nack->count; i++)
		put(send, (uint64_t)nack->runs[i].first * payload,
		    (uint64_t)nack->runs[i].count * payload);
}

static void result(struct gw_send *send, void *arg, const struct gw_result *outcome, uint64_t now)
{
	(void)arg, (void)now;
	gw_transfer_finish_send(send, 0, outcome->missing);
}

/* ---- the receiver ---------------------------------------------------------------------------------------------- */

static int prepare(struct gw_qp *qp, const struct gw_transfer_attr *attr, uint32_t geometry[2])
{
	(void)qp, (void)attr;
	geometry[0] = geometry[1] = 0;
	return 0;
}

static void recv_begin(struct gw_recv *recv, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);

	(void)now;
	r->exact = r->transfer.options ? *(const uint64_t *)r->transfer.options : 0;
}

static void look(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);
	struct gw_recv_status status;
	uint64_t first_part;
	uint32_t from = 0;
	struct gw_run hole;

	(void)arg, (void)now;
	if (gw_recv_status(recv, &status) || status.flags & GW_RECV_COMPLETED ||
	    !(status.flags & GW_RECV_ANNOUNCED))
		return;
	first_part = (r->exact + status.payload - 1) / status.payload;
	if (first_part > status.packets)
		first_part = status.packets;
	if (status.flags & GW_RECV_FULL ||
	    (r->all_sent && !gw_recv_next_hole(recv, 0, (uint32_t)first_part, &hole))) {
		gw_transfer_finish_recv(recv, 0, status.packets - status.landed);
	} else if (r->all_sent == ALL_SENT) {
		/* Once for each time the sender says it: that is the timer, and it needs no other. */
		r->all_sent++;
		gw_recv_nack_holes(recv, ++r->round, &from, (uint32_t)first_part);
	}
}

static void told(struct gw_recv *recv, void *arg, const void *data, size_t length, uint64_t now)
{
	struct receiving *r = gw_recv_state(recv);

	if (length == 1 && *(const uint8_t *)data == ALL_SENT)
		r->all_sent = ALL_SENT;
	look(recv, arg, now);
}

static const struct gw_scheme first_part = {
	.name = "first-part",
	.id = 128, /* from here on numbers are a user's */
	.prepare = prepare,
	.recv_begin = recv_begin,
	.send = { .granted = granted,
		  .drained = say_all_sent,
		  .nack = repeat,
		  .timer = say_all_sent,
		  .result = result,
		  .done = gw_transfer_sent },
	.recv = { .announced = look,
		  .progress = look,
		  .control = told,
		  .released = gw_transfer_received },
};

/* ---- one message ----------------------------------------------------------------------------------------------- */

#define LENGTH (4u << 20)
#define EXACT  (1u << 20)

struct end {
	struct gw_context *ctx;
	struct gw_qp *qp;
	struct gw_mr *mr;
	uint8_t *memory;
	struct gw_qp_info info;
	struct gw_transfer_result result;
	int done;
};

static void check(int error, const char *what)
{
	if (error < 0) {
		fprintf(stderr, "first_part: %s: %s\n", what, strerror(-error));
		exit(1);
	}
}

static void done(void *arg, const struct gw_transfer_result *outcome, uint64_t now)
{
	struct end *end = arg;

	(void)now;
	end->result = *outcome;
	end->done = 1;
}

static void open_end(struct end *end, const struct gw_faults *faults)
{
	struct gw_context_attr attr = { .fabric = "roce:127.0.0.1@0", .faults = faults };
	struct gw_qp_attr qp = { 0 };

	end->memory = calloc(1, LENGTH);
	check(end->memory ? 0 : -ENOMEM, "memory");
	check(gw_context_open(&attr, &end->ctx), "opening a context");
	check(gw_mr_register(end->ctx, end->memory, LENGTH, &end->mr), "registering memory");
	check(gw_qp_create(end->ctx, &qp, &end->qp), "making a queue pair");
	check(gw_qp_info(end->qp, &end->info), "describing a queue pair");
}

int main(void)
{
	static const struct gw_faults faults = { .drop = 0.05, .seed = 1 };
	const uint64_t exact = EXACT;
	struct end tx = { 0 }, rx = { 0 };
	struct gw_transfer_attr attr = { .length = LENGTH, .done = done };
	struct gw_send *send;
	struct gw_recv *recv;

	open_end(&tx, &faults);
	open_end(&rx, NULL);
	for (uint32_t i = 0; i < LENGTH; i++)
		tx.memory[i] = (uint8_t)(i * 7 + i / 4096);
	check(gw_qp_connect(tx.qp, &rx.info), "connecting");
	check(gw_qp_connect(rx.qp, &tx.info), "connecting");
	attr.addr = rx.memory;
	attr.mr = rx.mr;
	attr.arg = &rx;
	attr.options = &exact;
	check(gw_transfer_recv(rx.qp, &first_part, &attr, &recv), "posting the receive");
	attr.addr = tx.memory;
	attr.mr = tx.mr;
	attr.arg = &tx;
	check(gw_transfer_send(tx.qp, &first_part, &attr, &send), "posting the send");
	while (!tx.done || !rx.done) {
		gw_progress(tx.ctx);
		gw_progress(rx.ctx);
	}
	check(tx.result.status, "the send");
	check(rx.result.status, "the receive");
	printf("the first %u bytes %s; %u packets of the rest are missing\n", EXACT,
	       memcmp(tx.memory, rx.memory, EXACT) ? "DIFFER" : "are there",
	       (unsigned)rx.result.missing);
	if (memcmp(tx.memory, rx.memory, EXACT) || !rx.result.missing)
		return 1;
	gw_context_close(tx.ctx);
	gw_context_close(rx.ctx);
	free(tx.memory);
	free(rx.memory);
	return 0;
}

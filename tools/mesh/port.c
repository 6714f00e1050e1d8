/* SPDX-License-Identifier: BSD-3-Clause */
#include "port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NOTE_BYTES	1
#define PEER_TIMEOUT_NS UINT64_C(5000000000)
#define SLICE_NS	UINT64_C(1000000)
#define OPERATIONS	128
#define SLOTS		64
#define PACKS		16

static uint64_t counter(const struct gw_context *ctx, const char *name)
{
	uint64_t value = 0;

	gw_counter_read(ctx, (unsigned)gw_counter_find(name), &value);
	return value;
}

void port_read(const struct port *port, struct port_counts *out)
{
	out->sent = counter(port->ctx, "sent_packets");
	out->retransmitted = counter(port->ctx, "retransmitted_packets");
	/* Each packet that arrives is counted as one of these. */
	out->received = counter(port->ctx, "landed_packets") +
			counter(port->ctx, "duplicate_packets") +
			counter(port->ctx, "late_packets") + counter(port->ctx, "drop_generation");
	out->overrun = counter(port->ctx, "drop_overrun");
}

/* A queue pair that is connected to itself names its own address as that of its peer. */
int port_address(struct gw_context *ctx, char address[64], uint16_t *number)
{
	struct gw_qp_attr attr = { 0 };
	struct gw_qp_info info;
	struct gw_qp *qp;
	char text[96] = "";
	const char *at;
	int rc = gw_qp_create(ctx, &attr, &qp);

	if (rc)
		return rc;
	rc = gw_qp_info(qp, &info);
	if (!rc)
		rc = gw_qp_connect(qp, &info);
	if (!rc)
		gw_qp_peer(qp, text, sizeof(text));
	gw_qp_close(qp);
	if (rc)
		return rc;
	at = strrchr(text, '@');
	*number = at ? (uint16_t)strtoul(at + 1, NULL, 10) : 0;
	snprintf(address, 64, "%.*s", (int)strcspn(text, "@"), text);
	return 0;
}

void port_progress(struct port *port, uint64_t until_ns)
{
	uint64_t now = gw_now_ns(port->ctx);
	uint64_t left = until_ns > now ? until_ns - now : 0;

	gw_wait(port->ctx, left < SLICE_NS ? left : SLICE_NS);
	gw_comm_progress(port->comm);
}

int port_open(struct port *port, const char *fabric, struct gw_comm *comm)
{
	struct gw_context_attr attr = { .fabric = fabric, .max_qps = 64 };
	size_t bytes = (PORT_RECEIVES + 1) * PORT_DATA_MAX;
	int rc;

	*port = (struct port){ .comm = comm };
	rc = gw_context_open(&attr, &port->ctx);
	if (rc)
		return rc;
	port->memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (port->memory == MAP_FAILED) {
		port->memory = NULL;
		rc = -ENOMEM;
	}
	if (!rc)
		rc = gw_mr_register(port->ctx, port->memory, bytes, &port->mr);
	if (!rc)
		rc = port_address(port->ctx, port->address, &port->number);
	if (rc)
		port_close(port);
	return rc;
}

void port_close(struct port *port)
{
	if (port->ctx)
		gw_context_close(port->ctx);
	if (port->memory)
		munmap(port->memory, (PORT_RECEIVES + 1) * PORT_DATA_MAX);
	*port = (struct port){ 0 };
}

static void fail(struct link *link, int status)
{
	if (status && !link->status)
		link->status = status;
}

static void gone(struct gw_channel *channel, void *arg, int status, uint64_t now)
{
	(void)channel;
	(void)now;
	fail(arg, status);
}

static const struct gw_channel_handler handler = { .gone = gone };

static int post_receive(struct receive *receive);

static void received(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct receive *receive = arg;
	struct link *link = receive->link;

	gw_op_close(op);
	if (result->status) {
		fail(link, result->status);
		return;
	}
	if (result->length >= NOTE_BYTES && result->length < NOTE_BYTES + NOTES) {
		enum note note = (enum note)(result->length - NOTE_BYTES);

		link->notes[note]++;
		if (note == NOTE_MARK)
			port_read(link->port, &link->marked);
		if (note == NOTE_PING)
			link_note(link, NOTE_PONG);
	}
	if (!link->status)
		fail(link, post_receive(receive));
}

static int post_receive(struct receive *receive)
{
	struct link *link = receive->link;
	struct gw_op_attr attr = { .addr = link->port->memory +
					   (receive->place + 1) * PORT_DATA_MAX,
				   .length = PORT_DATA_MAX,
				   .mr = link->port->mr,
				   .done = received,
				   .arg = receive };
	struct gw_op *op;

	return gw_channel_recv(link->channel, &attr, &op);
}

int link_open(struct link *link, struct port *port, struct gw_channel_info *out)
{
	struct gw_channel_attr attr = { .peer_timeout_ns = PEER_TIMEOUT_NS,
					.flags = GW_CHANNEL_NO_PARITY,
					.operations = OPERATIONS,
					.slots = SLOTS,
					.packs = PACKS,
					.handler = &handler,
					.arg = link };
	int rc;

	*link = (struct link){ .port = port };
	rc = gw_channel_create(port->ctx, &attr, &link->channel);
	return rc ? rc : gw_channel_info(link->channel, out);
}

int link_connect(struct link *link, const struct gw_channel_info *peer)
{
	int rc = gw_channel_connect(link->channel, peer);

	for (unsigned i = 0; !rc && i < PORT_RECEIVES; i++) {
		link->receives[i] = (struct receive){ .link = link, .place = i };
		rc = post_receive(&link->receives[i]);
	}
	fail(link, rc);
	return rc;
}

void link_close(struct link *link)
{
	if (link->channel)
		gw_channel_close(link->channel);
	link->channel = NULL;
}

static void noted(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct link *link = arg;

	gw_op_close(op);
	link->notes_open--;
	fail(link, result->status);
}

static void sent(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct link *link = arg;

	gw_op_close(op);
	link->open--;
	fail(link, result->status);
	if (result->status)
		return;
	link->sent_bytes += result->length;
	link->sent_ns = gw_now_ns(link->port->ctx);
}

static int post_send(struct link *link, uint64_t length, gw_op_fn *done, unsigned *open)
{
	struct gw_op_attr attr = { .addr = link->port->memory,
				   .length = length,
				   .mr = link->port->mr,
				   .done = done,
				   .arg = link };
	struct gw_op *op;
	int rc = gw_channel_send(link->channel, &attr, &op);

	if (!rc)
		++*open;
	fail(link, rc);
	return rc;
}

int link_note(struct link *link, enum note note)
{
	return post_send(link, NOTE_BYTES + (uint64_t)note, noted, &link->notes_open);
}

int link_send(struct link *link, uint64_t length)
{
	return post_send(link, length, sent, &link->open);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* rx.h: taking packets apart. Private to fabric/roce. */
#ifndef FABRIC_ROCE_RX_H
#define FABRIC_ROCE_RX_H

#include "fabric/roce/endpoint.h"

/* A packet that was received. */
struct incoming {
	const union socket_address *from;
	const uint8_t *bytes;
	size_t length;
	/* Whether the kernel merged packets in its datagram, and its place there. */
	bool merged;
	uint32_t segment;
	/* Whether a process that shares the port handed it on. */
	bool forwarded;
	bool ce;
	/* Time of arrival; 0: not known. */
	uint64_t at_ns;
};

/* What the next packet of a datagram has to look like to be the next of its message as well (run.c). */
struct rx_run {
	/* Null: no packet is expected. */
	struct roce_qp *qp;
	struct roce_window *window;
	/* Event of the packets before it. */
	struct fabric_event *event;
	/* Bytes of the packet. */
	size_t length;
	/* Its headers: what the BTH begins with, the place, key and length of the data, the immediate. */
	uint64_t bth;
	uint64_t va;
	uint64_t key;
	uint32_t imm;
};

/* rx.c */
/* Whether the packet's ICRC is right, or none is needed. */
bool rx_icrc_right(struct roce_qp *qp, const struct incoming *in);
/* A packet with data was marked by a queue on the way. */
void rx_marked(struct roce_qp *qp);
/* Copies data to its place in a window. */
void rx_place(const struct roce_window *window, uint64_t offset, const uint8_t *data,
	      size_t length);

/* run.c */
/* Expects the packet that goes on with this one, which has landed in the window and makes this event. */
void rx_run_begin(struct rx_run *run, struct roce_qp *qp, struct roce_window *window,
		  const struct incoming *in, const struct roce_packet *packet,
		  struct fabric_event *event);
/* Takes the packet if it is the expected one. */
bool rx_run_goes_on(struct rx_run *run, const struct incoming *in);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control_datagram.h: a control datagram in the making. Messages are put in one after the other; when the next does not fit, what
 * there is leaves. One that the fabric has no room for counts as lost.
 */
#ifndef MESSAGE_CONTROL_DATAGRAM_H
#define MESSAGE_CONTROL_DATAGRAM_H

#include "message/state.h"

#define CONTROL_DATAGRAM_SIZE 9216 /* one that is padded fills a jumbo frame */

struct control_datagram {
	struct gw_qp *qp;
	/* writer of the message that was begun */
	struct control_writer writer;
	/* bytes that the datagram has at most */
	size_t size;
	/* bytes of messages that are ended */
	size_t used;
	/* result of the last sending */
	int error;
	uint8_t bytes[CONTROL_DATAGRAM_SIZE];
};

void control_datagram_open(struct control_datagram *datagram, struct gw_qp *qp, size_t size);
/* Room for the header and the largest body without lists is certain. */
void control_datagram_begin(struct control_datagram *datagram, enum control_type type);
/* A message without content is taken back. */
void control_datagram_end(struct control_datagram *datagram);
/* 0, or -errno of the fabric. */
int control_datagram_send(struct control_datagram *datagram);

static inline bool control_datagram_is_empty(const struct control_datagram *datagram)
{
	return !datagram->used;
}

#endif

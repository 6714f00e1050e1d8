/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * letter.h: a control datagram in the making. Messages are put in one after the other; when the next does not fit, what
 * there is leaves. One that the fabric has no room for counts as lost.
 */
#ifndef MESSAGE_LETTER_H
#define MESSAGE_LETTER_H

#include "message/state.h"

#define LETTER_SIZE 9216 /* one that is padded fills a jumbo frame */

struct letter {
	struct gw_qp *qp;
	struct control_writer writer; /* of the message that was begun */
	size_t size;		      /* at most */
	size_t used;		      /* by messages that are ended */
	int error;		      /* of the last sending */
	uint8_t bytes[LETTER_SIZE];
};

void letter_open(struct letter *letter, struct gw_qp *qp, size_t size);
/* Room for the header and the largest body without lists is certain. */
void letter_begin(struct letter *letter, enum control_type type);
/* A message without content is taken back. */
void letter_end(struct letter *letter);
/* 0, or -errno of the fabric. */
int letter_send(struct letter *letter);

static inline bool letter_empty(const struct letter *letter)
{
	return !letter->used;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The automatic choice for operations that name no scheme: parity where the sender expects to gain by it, and neither
 * memory nor messages for it elsewhere.
 *
 * Parity lands in memory of the receiver's channel, in a message behind that of the data. So the receiver has to offer it
 * with the receive, and the sender has to ask for it before: each part says in its immediate whether the sender would code
 * messages of this length (PART_CODE), and when the latest one did, the parts posted from then on are under gw_auto and say
 * so in their tag (TAG_CODED). Where nothing is lost no part is, and every message is one of Selective Repeat.
 *
 * Each end has a fixed number of members of a struct gw_erasure for each direction. When they are used up, parts go
 * without parity. As many messages in flight as that mostly fill their path, and then a repeat delays none of them.
 */
#include <errno.h>

#include <godwit/auto.h>

#include "channel/state.h"

int coders_open(struct gw_channel *ch)
{
	static const uint32_t members[2] = { CODERS_SENDING, CODERS_RECEIVING };
	struct gw_room room;
	int error = gw_context_room(ch->ctx, &room);

	if (error || room.pinned || ch->flags & GW_CHANNEL_NO_PARITY)
		return error;
	for (int i = 0; !error && i < 2; i++) {
		struct coders *coders = &ch->coders[i];
		struct gw_erasure_attr attr = { .max_length = CODED_PART, .transfers = members[i] };

		error = gw_erasure_open(ch->ctx, &attr, &coders->all);
		for (uint32_t j = members[i]; !error && j-- > 0;)
			coders->free[coders->left++] = gw_erasure_member(coders->all, j);
	}
	return error;
}

void coders_close(struct gw_channel *ch)
{
	for (int i = 0; i < 2; i++) {
		if (ch->coders[i].all)
			gw_erasure_close(ch->coders[i].all);
		ch->coders[i] = (struct coders){ .all = NULL };
	}
}

bool coders_wanted(struct gw_channel *ch, uint64_t length)
{
	if (!ch->coders[0].all)
		return false;
	return gw_auto_codes(ch->coders[0].all, ch->qp[BULK],
			     length < CODED_PART ? length : CODED_PART) > 0;
}

struct gw_erasure *coder_get(struct gw_channel *ch, bool receiving)
{
	struct coders *coders = &ch->coders[receiving];
	struct gw_room room;

	/* The second message must find room when the first has. */
	if (!coders->left || gw_context_room(ch->ctx, &room) ||
	    (receiving ? room.recvs : room.sends) < 2)
		return NULL;
	return coders->free[--coders->left];
}

void coder_put(struct gw_channel *ch, bool receiving, struct gw_erasure *coder)
{
	struct coders *coders = &ch->coders[receiving];

	if (coder)
		coders->free[coders->left++] = coder;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selective_repeat_state.h: what both ends of Selective Repeat share: the two things that the sender says, and the
 * handlers.
 *
 *	TAIL_PROBE  u8 1 | u32 round      everything was sent, and for a while nothing came; `round` is the last one that
 *	                                  was answered, 0 if none was
 *	ANSWER      u8 2 | u32 round | u64 position
 *	                                  the repeats of that round wait to be sent, before the first pass goes on there
 *
 * Big-endian. A probe without a round, as earlier versions send, asks for everything that is missing.
 */
#ifndef RELIABILITY_SELECTIVE_REPEAT_STATE_H
#define RELIABILITY_SELECTIVE_REPEAT_STATE_H

#include <godwit/scheme.h>

#include "constants/protocol.h"

#define TAIL_PROBE	1
#define TAIL_PROBE_SIZE 5
#define ANSWER		2
#define ANSWER_SIZE	13

/* selective_repeat.c, for the tables of this scheme and of the automatic choice */
void selective_repeat_granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now);
void selective_repeat_drained(struct gw_send *send, void *arg, uint64_t now);
void selective_repeat_nack(struct gw_send *send, void *arg, const struct gw_nack *nack,
			   uint64_t now);
void selective_repeat_send_timer(struct gw_send *send, void *arg, uint64_t now);
void selective_repeat_result(struct gw_send *send, void *arg, const struct gw_result *outcome,
			     uint64_t now);
void selective_repeat_send_recut(struct gw_send *send, void *arg, uint64_t now);
/* Returns how long after its last packet a sender asks what is missing, in ns: on a long path when that packet has arrived, though
 * late, elsewhere when an answer would have come. */
uint64_t selective_repeat_ask_ns(const struct gw_qp *qp);

/* selective_repeat_recv.c, likewise */
void selective_repeat_look(struct gw_recv *recv, void *arg, uint64_t now);
void selective_repeat_told(struct gw_recv *recv, void *arg, const void *data, size_t length,
			   uint64_t now);
void selective_repeat_overdue(struct gw_recv *recv, void *arg, uint64_t now);
void selective_repeat_recut(struct gw_recv *recv, void *arg, uint64_t now);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recv.h: a receive, and the slot that ties it to packets. Private to message/.
 *
 *	slot     FREE -> EXPOSING -> OPEN -> COMPLETED -> FENCED -> RESTING -> FREE
 *	         EXPOSING -> FENCED     the fabric could not open it
 *	         FREE -> FENCED         it was given up before its turn
 *	receive  OPEN -> COMPLETED -> RELEASED -> TOLD     one direction only
 */
#ifndef MESSAGE_RECV_H
#define MESSAGE_RECV_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <godwit/control.h>

#include "base/list.h"
#include "fabric/fabric.h"
#include "message/timer.h"
#include "wire/control.h"

enum slot_state {
	SLOT_FREE,
	/* The fabric is opening a window. */
	SLOT_EXPOSING,
	/* Granted; packets land. */
	SLOT_OPEN,
	/* Completed; the fabric is fencing. */
	SLOT_COMPLETED,
	/* Nothing lands any more; the result is not acknowledged. */
	SLOT_FENCED,
	/* Acknowledged; not used again for a packet's lifetime. */
	SLOT_RESTING,
};

struct slot {
	/* The receive's pool index; while resting, until when (65.5 us units). */
	uint32_t value;
	uint16_t generation;
	/* enum slot_state */
	uint8_t state;
	uint8_t reserved;
};

enum recv_stage {
	/* Packets may land. */
	RECV_OPEN,
	/* The bits are frozen, and the result is final. */
	RECV_COMPLETED,
	/* Fenced: the memory is the owner's. */
	RECV_RELEASED,
	/* `released` has been called. */
	RECV_TOLD,
};

struct gw_recv {
	struct gw_context *ctx;
	/* Null once the protocol has done with it. */
	struct gw_qp *qp;
	/* Place in qp->rx.waiting, or in qp->order.watchers. */
	struct list link;
	/* Place in ctx->touched. */
	struct list touched;
	/* Place in ctx->ended_recvs. */
	struct list ended_link;
	struct timer timer;
	const struct gw_recv_handler *handler;
	void *arg;
	struct gw_mr *mr;
	uint8_t *addr;
	/* Bytes of the buffer, and of the message once announced. */
	uint64_t capacity;
	uint64_t length;
	/* Bytes of data in a full packet; 0 until it has a slot. */
	uint32_t payload;
	/* Position that it waits for (order.c); 0: none. */
	uint64_t watch;
	/* One bit for each packet, and one for each chunk whose packets have all landed. */
	uint64_t *bits;
	uint64_t *chunks;
	/* Size of the block that holds both, bytes. */
	size_t bits_bytes;
	/* The block where it is no larger than this: up to 64 packets. */
	uint64_t few_bits[3];
	/* Address and key of its window, as told to the peer. */
	uint64_t va;
	uint32_t rkey;
	/* Packets that the buffer holds. */
	uint32_t capacity_packets;
	uint32_t chunk_packets;
	/* Packets of the message; 0 until announced. */
	uint32_t packets;
	/* Different packets that have landed, and one past the highest of them. */
	uint32_t landed;
	uint32_t highest;
	/* Number of the message. */
	uint32_t msn;
	/* Number that its owner chose, told with the grant. */
	uint32_t tag;
	uint32_t imm;
	/* The immediate from the packets' user bits: pieces it travels in, one bit for each piece seen, value so far. */
	uint32_t pieces;
	uint32_t fragments;
	uint32_t fragment_value;
	/* A packet that was not full, seen before the announcement, and its bytes; 0: none. */
	uint32_t short_packet;
	uint32_t short_length;
	uint32_t geometry[2];
	/* Packets that had not landed when it completed. */
	uint32_t missing;
	/* Number of the report in which its result was last told; 0: never. */
	uint32_t told_round;
	uint8_t scheme;
	/* enum recv_stage */
	uint8_t stage;
	bool has_imm;
	/* Its holes say nothing of the path. */
	bool sparse;
	/* Its packets are as large as those of the receive before it. */
	bool same_size;
	/* Its packets became smaller under way: the first pass is over. */
	bool recut;
	bool is_announced;
	/* The protocol still refers to it: it waits for a slot or is in one. */
	bool held;
	/* The owner gave the handle back. */
	bool closed;
	int status;
	_Alignas(16) uint8_t state[GW_STATE_BYTES];
};

static inline void recv_set_stage(struct gw_recv *recv, enum recv_stage stage)
{
	assert(stage > recv->stage);
	recv->stage = (uint8_t)stage;
}

static inline bool recv_is_completed(const struct gw_recv *recv)
{
	return recv->stage >= RECV_COMPLETED;
}

static inline bool recv_is_released(const struct gw_recv *recv)
{
	return recv->stage >= RECV_RELEASED;
}

/* Whether the owner has not closed the handle. An object that went back to its pool stays closed until it is used again. */
static inline bool recv_valid(const struct gw_recv *recv)
{
	return recv->ctx && !recv->closed;
}

/* recv.c */
/* Finds the receive with this number that is in a slot; null: there is none. */
struct gw_recv *recv_find(struct gw_qp *qp, uint32_t msn);
/* Gives posted receives their slots, in order, as far as those are free. */
/* How long a slot that rests has to go on, in ns. */
uint64_t recv_rest_ns(const struct gw_qp *qp, const struct slot *slot);
void recv_place(struct gw_qp *qp);
void recv_exposed(struct gw_qp *qp, const struct fabric_event *event);
void recv_expose_failed(struct gw_qp *qp, const struct fabric_event *event);
void recv_fenced(struct gw_qp *qp, uint32_t index);
/* The sender knows every result below `results`. */
void recv_results_acked(struct gw_qp *qp, uint32_t results);
/* The queue pair is over. `fenced`: for the fabric as well, so that nothing lands any more. */
void recv_detach(struct gw_recv *recv, int status, bool fenced);
/* Calls `released`. */
void recv_tell(struct gw_recv *recv);

/* Gives the object back when nobody needs it any more. */
void recv_reap(struct gw_recv *recv);

/* arrival.c */
/* A data packet landed. */
void recv_land(struct gw_qp *qp, const struct fabric_event *event);
/* A packet came inside a control datagram. False when it cannot be. */
bool recv_land_inline(struct gw_qp *qp, const struct control_data *data);
void recv_announce(struct gw_recv *recv, const struct control_announce_entry *entry);
/* Sets the chunk bits anew from the packets'. */
void recv_rebuild_chunks(struct gw_recv *recv);

/* first_receive.c */
struct peer_info;
/* Draws the key of the first receive, where the fabric allows it, for the queue pair's description. */
void first_receive_promise(struct gw_qp *qp, uint64_t bytes);
/* Takes the peer's promise as the first grant. */
void first_receive_take(struct gw_qp *qp, const struct peer_info *info);
/* Whether this receive was promised: it is exposed at once, under the key it was promised with. */
bool first_receive_covers(const struct gw_qp *qp, const struct gw_recv *recv);
void first_receive_exposed(struct gw_qp *qp, const struct gw_recv *recv);

#endif

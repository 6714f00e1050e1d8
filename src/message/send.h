/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.h: a send, the grant it was matched with, and the ranges of it that wait to leave. Private to message/.
 *
 * A send has two lives, and each moves in one direction only. For the protocol it goes through its phases; for its owner
 * through its stages. The object goes back to its pool when it is RETIRED, TOLD and closed.
 *
 *	phase    WAITING -> MATCHED -> ANSWERED -> RETIRED     a queue pair that ends takes it from any phase to RETIRED
 *	stage    OPEN -> CLOSING -> ENDED -> TOLD              gw_send_close() takes it from OPEN to ENDED
 */
#ifndef MESSAGE_SEND_H
#define MESSAGE_SEND_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include <godwit/control.h>

#include "base/list.h"
#include "fabric/fabric.h"
#include "message/timer.h"

/* Grants that a queue pair can always take in, and those beyond that all of a context share. */
#define GRANTS_EACH   64u
#define GRANTS_COMMON 16384u
/* The same of puts: a peer that asks for many repairs makes many. */
#define PUTS_EACH   16u
#define PUTS_COMMON 16384u

/* A receiver's buffer as the sender knows it. */
struct grant {
	struct list link;
	struct fabric_target target;
	/* Address of the buffer's first byte in the receiver's own terms. */
	uint64_t va;
	/* Size of the buffer, bytes. */
	uint64_t capacity;
	/* Number that the receiver chose for it. */
	uint32_t tag;
	/* Bytes of data in a full packet. */
	uint32_t payload;
};

/* A range of a message that waits to be sent. */
struct put {
	struct put *next;
	struct gw_mr *mr;
	/* Data of the next packet. */
	const uint8_t *addr;
	/* Number of the range's first packet, and of the next one to leave. */
	uint32_t first;
	uint32_t packet;
	/* Packets left. */
	uint32_t packets;
	/* Bytes of data in the last one. */
	uint32_t tail;
};

/* What the protocol knows of a send. */
enum send_phase {
	/* In qp->tx.waiting, for a grant. */
	SEND_WAITING,
	/* Has a grant, and is announced until the peer acknowledged that. */
	SEND_MATCHED,
	/* The receiver's result is known. */
	SEND_ANSWERED,
	/* Its number is free at both ends. */
	SEND_RETIRED,
};

/* What its owner has been told. */
enum send_stage {
	/* Puts are possible. */
	SEND_OPEN,
	/* No more puts: it ends when the last one was handed over. */
	SEND_CLOSING,
	/* Status is final, and the memory is the owner's; `done` is still to be called. */
	SEND_ENDED,
	/* `done` has been called. */
	SEND_TOLD,
};

struct gw_send {
	struct gw_context *ctx;
	/* Null once the queue pair has done with it. */
	struct gw_qp *qp;
	/* Place in one of qp->tx.waiting, ready, flushing and lingering. */
	struct list link;
	/* Place in ctx->ended_sends. */
	struct list ended_link;
	struct timer timer;
	const struct gw_send_handler *handler;
	void *arg;
	/* Memory that is in use until the send ends. */
	struct gw_mr *mr;
	/* Of a one-shot send: its data. */
	const uint8_t *addr;
	/* Bytes of the message. */
	uint64_t length;
	/* Offset at which a one-shot send goes on after a cut, bytes. */
	uint64_t resume;
	/* Bytes of data in a full packet; 0 until matched. */
	uint32_t payload;
	/* Packets of the message; 0 until matched. */
	uint32_t packets;
	/* Number of the message. */
	uint32_t msn;
	/* Where packets go. */
	struct fabric_target target;
	uint64_t va;
	/* Ranges that wait, in the order in which they leave. */
	struct put *head;
	struct put *tail;
	uint32_t puts;
	/* One past the highest packet that was sent at least once. */
	uint32_t high_water;
	/* qp->tx.written after its last packet. */
	uint64_t mark;
	/* The number of its last packet among all that the queue pair sent. */
	uint32_t last_sequence;
	uint32_t imm;
	uint32_t flags;
	uint32_t geometry[2];
	/* Number of the scheme, as announced. */
	uint8_t scheme;
	/* enum send_phase, enum send_stage */
	uint8_t phase;
	uint8_t stage;
	bool stream;
	/* Waits for a grant with smaller packets. */
	bool held;
	/* The owner gave the handle back. */
	bool closed;
	int status;
	_Alignas(16) uint8_t state[GW_STATE_BYTES];
};

static inline void send_set_phase(struct gw_send *send, enum send_phase phase)
{
	assert(phase > send->phase);
	send->phase = (uint8_t)phase;
}

static inline void send_set_stage(struct gw_send *send, enum send_stage stage)
{
	assert(stage > send->stage);
	send->stage = (uint8_t)stage;
}

static inline bool send_is_matched(const struct gw_send *send)
{
	return send->phase >= SEND_MATCHED;
}

static inline bool send_is_answered(const struct gw_send *send)
{
	return send->phase >= SEND_ANSWERED;
}

static inline bool send_is_ended(const struct gw_send *send)
{
	return send->stage >= SEND_ENDED;
}

static inline bool send_is_closing(const struct gw_send *send)
{
	return send->stage >= SEND_CLOSING;
}

/* Whether the owner has not closed the handle. An object that went back to its pool stays closed until it is used again. */
static inline bool send_valid(const struct gw_send *send)
{
	return send->ctx && !send->closed;
}

/* send.c */
/* Finds the send with this number that was matched and is not retired; null: there is none. */
struct gw_send *send_find(struct gw_qp *qp, uint32_t msn);
/* Matches waiting sends with grants, in order. */
void send_match(struct gw_qp *qp);
/* Takes in the receiver's result. */
void send_result(struct gw_send *send, const struct gw_result *result);
/* Ends it for its owner. */
void send_end(struct gw_send *send, int status);
/* Calls `done`. */
void send_tell(struct gw_send *send);
/* The queue pair is over. `fenced`: for the fabric as well, so that no memory is being read any more. */
void send_detach(struct gw_send *send, int status, bool fenced);
/* Ends a send whose last packet was handed over, or tells its owner that there is room for more puts. */
void send_check(struct gw_send *send);

/* put.c */
/* Adds a range; retransmissions go before what was never sent. -EAGAIN: the pool is empty. */
int put_add(struct gw_send *send, uint64_t offset, const void *addr, uint64_t length,
	    struct gw_mr *mr);
/* Drops the first range: all of it was sent. */
void put_done(struct gw_send *send);
void put_drop_all(struct gw_send *send);

/* data_tx.c */
/* Lets every queue pair with data send some, in turn; returns how many packets left. */
int data_send(struct gw_context *ctx);
/* Counts the first `n` packets of the send's first put as sent. `copied`: the fabric does not read them where they are. */
void data_sent(struct gw_qp *qp, struct gw_send *send, uint32_t n, uint32_t lane, bool copied);
/* The fabric is done with the memory of so many more packets. */
void data_flushed(struct gw_qp *qp, uint32_t count);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state.h: what a channel consists of. Private to channel/.
 *
 * Operations of one direction are numbered (seq, wrapping); number i of the sends meets number i of the receives. Two
 * queue pairs carry them. On the *small* one packs travel: buffers of the channel's own that hold records (record.h),
 * received into a ring of *bounces*. On the *bulk* one large sends go straight from buffer to buffer, in *parts*.
 *
 * A receive that could hold a large message posts its parts at once, tagged with its number. The sender looks at the tag
 * of the next grant before it posts anything (bulk_send.c): it is the turn of the first large send, or belongs to an
 * operation that went small or ended and is answered with an empty message, or to one that is still to come.
 *
 * Where all messages are small though their receives are not, that would be a grant, an empty message and its result for each of
 * them. So on a short path, after a run of small messages, receives are *withheld*: they post no parts until a large message
 * is announced or the sender of one asks (RECORD_ASK), which it does at once if it has no grant and sent a small one before.
 *
 *	send   bulk: ch->bulk_sends until all of it is bound to parts        small: in line until it is in a pack
 *	recv   bulk: ch->bulk_recvs until all its parts are posted
 *	what comes for a receive that is not posted yet waits in its bounce, and ch->early[seq] points at it
 *
 * An operation has two lives, as a request of the message layer has: for its user it lasts until `ended`; for the peer,
 * until `finished`: nothing about it is owed or expected any more.
 */
#ifndef CHANNEL_STATE_H
#define CHANNEL_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include <godwit/channel.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/pool.h"
#include "channel/record.h"
#include "congestion/governor.h"

#define NEVER		UINT64_MAX
#define SCHEMES_MAX	8
#define EXPLANATION_MAX 384
/* More than bounces: one that waits for its receive holds up only the one so far behind it. */
#define SMALL_SLOTS 256

/* The immediate of a part. */
#define PART_MORE  1u /* as long as its receive, and another follows */
#define PART_LAST  2u
#define PART_SKIP  3u /* empty: the operation did not go this way */
#define PART_KIND  0xffu
#define PART_CRC   0x100u /* a CRC record belongs to the operation */
#define PART_CODE  0x200u /* the sender would send parity, if there were room for it */
#define PART_LABEL 16	  /* the send's label is above so many bits */

/* The tag of a part's receive: the operation's number above these two bits. */
#define TAG_LAST  1u /* of the operation's receives */
#define TAG_CODED 2u /* it is under gw_auto, and another one for parity follows */
#define TAG_BITS  2

/* Members for parity in each direction. Those of a sender are in use for a round trip longer. */
#define CODERS_RECEIVING 16
#define CODERS_SENDING	 32
/* Most bytes in a part with parity. */
#define CODED_PART (UINT64_C(2) << 20)

/* What an operation owes the peer: a bit for each kind of record. */
#define OWES(kind) (1u << (kind))

struct gw_op {
	struct gw_channel *ch;
	/* link in ch->bulk_sends or ch->bulk_recvs */
	struct list link;
	/* link in one of ch->lines, or in a pack's list */
	struct list record;
	/* link in ch->ended */
	struct list end;
	/* parts that are open */
	struct list parts;
	struct heap_node deadline;
	gw_op_fn *done;
	gw_op_part_fn *part;
	void *arg;
	/* scheme of a large message; null: chosen for each part */
	const struct gw_scheme *scheme;
	/* options of the scheme */
	const void *options;
	uint8_t *addr;
	struct gw_mr *mr;
	/* bytes to send, or capacity of a receive */
	uint64_t length;
	/* bytes of the message, once `matched` */
	uint64_t total;
	/* bytes from the start that have parts */
	uint64_t bound;
	/* bytes that have arrived, in parts that are over */
	uint64_t moved;
	/* bounce that waits until the peer knows of the refusal of its record */
	struct bounce *refused;
	/* number of the operation: the i-th send goes to the i-th receive */
	uint32_t seq;
	uint32_t crc;
	/* the caller's, of the send; a receive knows it with its message */
	uint16_t label;
	/* kinds of record to be written, one bit each */
	uint32_t owes;
	/* kinds of record in a pack that is not acknowledged yet */
	uint32_t packed;
	/* status that it will end with; 0: none yet */
	int failure;
	bool receiving;
	/* a receive: its send is known, or known not to come */
	bool matched;
	/* a receive: a CRC record belongs to it; that record has come */
	bool crc_wanted;
	bool crc_known;
	/* a large send: the one before was small, so that its receive may be withheld */
	bool follows_small;
	/* a send: its receiver was asked for a buffer since a later one was granted, or none because it is withheld */
	bool asked;
	/* a send: its receive is known to be posted, so that its number is no longer ahead of the peer's */
	bool met;
	/* a send: it ends when it was copied (GW_OP_BUFFERED); it ended so */
	bool buffered;
	bool copied;
	/* steps to its end: the result is known; neither end needs it; `done` was called; the handle was closed */
	bool ended;
	bool finished;
	bool told;
	bool closed;
};

/* What came for a receive before it was posted. */
struct early {
	/* bounce that holds its data; null: none came */
	struct bounce *bounce;
	const uint8_t *data;
	uint32_t length;
	uint32_t crc;
	/* status of a send that ended; 0: it did not */
	uint16_t status;
	/* label and flags of the data's record */
	uint16_t label;
	uint8_t flags;
};

struct part {
	struct gw_channel *ch;
	/* null: a part that skips an operation */
	struct gw_op *op;
	/* link in op->parts */
	struct list link;
	/* link in ch->parts */
	struct list all;
	struct gw_send *send;
	struct gw_recv *recv;
	/* scheme of a receive */
	const struct gw_scheme *scheme;
	/* memory for parity; null: it has none */
	struct gw_erasure *coder;
	uint64_t offset;
	uint64_t length;
	/* one of PART_, once known */
	uint32_t kind;
};

/* Members of a struct gw_erasure, for one direction. */
struct coders {
	/* all members; null: there are none */
	struct gw_erasure *all;
	/* members not in use, of which the one used last is taken first: its memory has been touched */
	struct gw_erasure *free[CODERS_SENDING];
	/* how many of those there are */
	uint32_t left;
};

struct pack {
	struct gw_channel *ch;
	struct gw_send *send;
	/* operations with a record in it */
	struct list records;
	uint8_t *addr;
	uint32_t used;
	/* packs sent before it */
	uint32_t number;
	uint8_t group;
	bool busy;
};

struct bounce {
	struct gw_channel *ch;
	/* null: to be posted when there is room in the slots */
	struct gw_recv *recv;
	uint8_t *addr;
	/* records whose receive is not posted yet */
	uint32_t waiting;
	/* refusals that the peer does not know yet */
	uint32_t held;
	bool read;
};

/* Data and notices travel in packs of their own: data waits for its receive, and a notice must not wait with it. */
enum pack_group { GROUP_DATA, GROUP_NOTICE, GROUPS };
/* Packs of a group that leave without gathering records. */
#define PACKS_AT_ONCE 2

enum { BULK, SMALL, QPS };

struct scheme_entry {
	/* scheme as the user knows it */
	const struct gw_scheme *scheme;
	/* the same for receives, with a callback of the channel at `announced` */
	struct gw_scheme receiving;
};

struct gw_channel {
	struct gw_context *ctx;
	/* null once the channel is over; indices above */
	struct gw_qp *qp[QPS];
	const struct gw_channel_handler *handler;
	void *arg;
	int status;
	bool connected;
	bool gone_told;
	/* some operation is to be told of in the next turn */
	bool kicked;
	/* variable to set when the channel is closed inside a callback */
	bool *closed;
	uint32_t flags;
	/* operations at a time, less one */
	uint32_t mask;
	uint32_t small_bytes;
	/* largest pack that both ends take */
	uint32_t pack_bytes;
	uint32_t packs_max;
	uint32_t slots;
	uint64_t part_bytes;

	struct pool ops;
	struct heap deadlines;
	/* unfinished operations by number, and what came for receives not yet posted */
	struct gw_op **sends;
	struct gw_op **recvs;
	struct early *early;
	/* unfinished sends that the peer has room for */
	uint32_t send_window;
	uint32_t send_next, send_oldest;
	uint32_t recv_next, recv_oldest;
	struct list ended;

	/* operations that owe a record */
	struct list lines[GROUPS];
	struct pack *packs;
	struct pack *filling[GROUPS];
	uint32_t pack_count;
	/* sends that ended when they were copied, and are not finished */
	uint32_t unanswered;
	uint32_t packs_busy[GROUPS];
	/* busy packs that were sent */
	uint32_t packs_out[GROUPS];
	/* when the latest packs left, the last one first */
	uint64_t pack_left_ns[GROUPS][PACKS_AT_ONCE];
	/* when a pack that gathers records leaves */
	uint64_t pack_at;
	/* Time that the timer of the small queue pair is set to; NEVER: it is not running. */
	uint64_t armed_at;
	struct bounce *bounces;
	/* bytes of a bounce; the peer may take shorter packs */
	uint32_t bounce_bytes;
	/* the promised first receive (eager.c), posted once */
	struct bounce eager;
	uint64_t eager_bytes;
	/* bytes that came in it, the send's label, and one of PART_ */
	uint64_t eager_length;
	uint16_t eager_label;
	uint8_t eager_kind;
	bool eager_crc;
	/* its receive has taken it, or never will */
	bool eager_met;
	/* the first part sent goes into the peer's promised receive */
	bool peer_eager;
	/* receives behind the number `wanted_seq` post no parts */
	bool withholding;
	/* the latest send was small */
	bool sent_small;
	uint8_t *memory;
	struct gw_mr *mr;

	struct pool part_pool;
	struct list parts;
	struct list bulk_sends;
	struct list bulk_recvs;
	uint32_t recv_parts;
	/* small messages taken since the last large one was announced or asked for */
	uint32_t small_run;
	/* number of the last operation whose sender has asked for a buffer */
	uint32_t wanted_seq;
	/* when to ask for a buffer for the oldest send; how long to wait after that; when it was last asked for */
	uint64_t ask_at;
	uint64_t ask_wait_ns;
	uint64_t asked_at;
	/* when to try again what did not fit the context's pools */
	uint64_t retry_at;

	/* memory for parity, for sending and for receiving */
	struct coders coders[2];
	/* the latest part that was announced said that the peer would code */
	bool peer_codes;

	/* Selective Repeat for bounces: reads one before it completes it */
	struct gw_scheme bouncing;
	struct scheme_entry schemes[SCHEMES_MAX];
	uint32_t scheme_count;

	const struct cc_ops *controller;
	struct governor governor;
	uint64_t cap_bps;

	struct gw_channel_stats stats;
	/* reason why the channel is gone */
	char why[EXPLANATION_MAX];
};

/* channel.c */
void channel_arm(struct gw_channel *ch);
/* Something is to be told: soon, from where a callback may do anything. */
void channel_kick(struct gw_channel *ch);
/* A request could not be posted for lack of room in the context. */
void channel_retry(struct gw_channel *ch);
/* Everything ends with this status. The caller settles afterwards. */
void channel_fail(struct gw_channel *ch, int status);
/* A request ended with this: the channel is over if its queue pair is. */
bool channel_lost(struct gw_channel *ch, int status);
/* Likewise, where nothing but the queue pair or a dishonest peer can end it otherwise than well. */
bool channel_broken(struct gw_channel *ch, int status);

/* op.c */
bool op_valid(const struct gw_op *op);
/* For the user. */
void op_end(struct gw_op *op, int status);
/* Gives it back as far as nobody needs it any more. */
void op_check(struct gw_op *op);
/* It will not end well. */
void op_fail(struct gw_op *op, int status);
void op_drop(struct gw_op *op);
void op_expire(struct gw_channel *ch, uint64_t now);
/* Tells the ends of operations: the last thing a callback does, for the channel may be gone afterwards. */
void settle(struct gw_channel *ch);
/* Says that this callback ends with settle(), so that an operation that ends needs no timer for it. */
static inline void settle_follows(struct gw_channel *ch)
{
	ch->kicked = true;
}

/* pack.c */
void pack_owe(struct gw_op *op, enum record_kind kind);
void pack_fill(struct gw_channel *ch);
/* How many were sent since the oldest that the peer has not taken. */
uint32_t pack_span(const struct gw_channel *ch);
void pack_heard(struct gw_channel *ch, const struct record *record);

/* bounce.c */
int bounce_post(struct gw_channel *ch);
/* A receive was posted: what came before it is its. False when nothing did. */
bool bounce_early(struct gw_op *op);
/* It may have nothing left to wait for. */
void bounce_done(struct bounce *bounce);
void bounce_listen(struct gw_channel *ch);

/* It does not take what came for it; the bounce, which may be null, is answered when the sender knows. */
void bounce_refuse(struct gw_op *op, struct bounce *bounce, int status);

/* eager.c */
int eager_post(struct gw_channel *ch);
int eager_read(struct gw_channel *ch, uint64_t length);
/* A receive was posted, or the buffer was filled. */
void eager_meet(struct gw_channel *ch);
/* Part of the receive is still to come that way. */
bool eager_awaited(const struct gw_op *op);
/* What of a new receive comes that way. */
void eager_bind(struct gw_op *op);
/* The first operation does not go that way any more. */
void eager_drop(struct gw_channel *ch);

/* bulk_send.c */
void bulk_bind(struct gw_channel *ch);
void bulk_abort(struct gw_op *op);
void bulk_ask(struct gw_channel *ch, uint64_t now);
uint32_t crc_of(uint32_t crc, const uint8_t *data, uint64_t length);

/* bulk_recv.c */
void bulk_post(struct gw_channel *ch);
void bulk_withdraw(struct gw_op *op);
/* A small message was taken. */
void bulk_unused(struct gw_channel *ch);
/* The sender of this operation asks for a buffer. */
void bulk_wanted(struct gw_channel *ch, uint32_t seq);
void recv_check(struct gw_op *op);
void bulk_listen(struct scheme_entry *entry, const struct gw_scheme *scheme);
/* Bytes that have landed in the parts of a receive that are open. 0 for a send: its parts are confirmed as a whole. */
uint64_t bulk_landed(const struct gw_op *op);

/* coders.c */
int coders_open(struct gw_channel *ch);
void coders_close(struct gw_channel *ch);
/* Whether a send of this length would be coded. */
bool coders_wanted(struct gw_channel *ch, uint64_t length);
/* Null: none is left, or the context has no room for a second message. */
struct gw_erasure *coder_get(struct gw_channel *ch, bool receiving);
void coder_put(struct gw_channel *ch, bool receiving, struct gw_erasure *coder);

/* post.c */
/* A scheme for receives, with our ear in it. Null: there are too many. */
const struct gw_scheme *scheme_receiving(struct gw_channel *ch, const struct gw_scheme *scheme);

/* info.c */
struct peer_channel {
	struct gw_qp_info qp[QPS];
	uint32_t small_bytes, pack_bytes, packs, operations, slots;
};
void channel_info_encode(const struct peer_channel *in, struct gw_channel_info *out);
int channel_info_decode(const struct gw_channel_info *in, struct peer_channel *out);

/* explain.c */
void explain_end(struct gw_channel *ch, int status);

static inline bool owes_anything(const struct gw_op *op)
{
	return op->owes || op->packed;
}

#endif

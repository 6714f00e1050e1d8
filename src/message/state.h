/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state.h: what a context, a queue pair, a send and a receive consist of. Private to message/.
 *
 * Messages of one direction are numbered (msn, 32 bits, wrapping, starting anywhere). Both ends keep, for each
 * direction, a handful of cumulative numbers, and every control datagram carries the four that its sender owes the
 * other end. Whatever one end does not yet know the other knows is repeated until it does; a repeated, reordered or
 * lost datagram therefore changes nothing.
 *
 *   the receiving end                               the sending end
 *   rx.posted         next number to be posted      tx.posted          next number to be posted
 *   rx.placed         below: given a slot           tx.matched         below: matched with a grant
 *   rx.granted        below: exposed, granted       tx.grants_seen     below: grants known     -> header.granted
 *   rx.grants_acked   below: peer knows the grant   tx.announce_acked  below: peer knows it
 *   rx.announced      below: announcement known     tx.results_seen    below: results known    -> header.results
 *   rx.completed      below: completed
 *   rx.results_acked  below: peer knows the result
 *
 * Message msn uses slot msn mod slots: at most `slots` messages are between grant and acknowledged result, so a table
 * of that size finds any of them at either end without a search.
 */
#ifndef MESSAGE_STATE_H
#define MESSAGE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include <godwit/control.h>

#include "base/arena.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/pool.h"
#include "fabric/fabric.h"
#include "message/feedback.h"
#include "message/group.h"
#include "message/order.h"
#include "message/reach.h"
#include "message/recv.h"
#include "message/send.h"
#include "message/size.h"
#include "path/path.h"
#include "wire/control.h"

/* Counters of the message layer; their names are in counters.c. */
enum message_counter {
	/* Data packets handed to the fabric, and those of them that were sent before. */
	COUNT_SENT,
	COUNT_RETRANSMITTED,
	/* Packets that set a bit, that a scheme computed from others, that found their bit set, that came after completion. */
	COUNT_LANDED,
	COUNT_LANDED_BYTES,
	COUNT_REBUILT,
	COUNT_DUPLICATE,
	COUNT_LATE,
	/* Control datagrams sent, their bytes, control messages received, reports sent. */
	COUNT_CONTROL_SENT,
	COUNT_CONTROL_BYTES,
	COUNT_CONTROL_HEARD,
	COUNT_REPORTS_SENT,
	/* Times that grants, announcements or results were repeated because the peer had not acknowledged them. */
	COUNT_GRANT_REPEATS,
	COUNT_ANNOUNCE_REPEATS,
	COUNT_RESULT_REPEATS,
	/* Times that all packets in flight were taken for lost. */
	COUNT_STALLS,
	COUNT_LANES_RETIRED,
	COUNT_LANES_RESTORED,
	/* Times that the path was found to carry smaller packets than before. */
	COUNT_PAYLOAD_CUTS,
	/* Queue pairs whose peer fell silent. */
	COUNT_PEERS_GONE,
	/* Data dropped: of an older use of its slot; of a length that contradicts the message's; for memory that only the NIC
	 * can write. */
	COUNT_DROP_GENERATION,
	COUNT_DROP_SHAPE,
	COUNT_DROP_UNREACHABLE,
	/* Control dropped: malformed; of another version; of an unknown type; of another connection; impossible. */
	COUNT_DROP_CONTROL,
	COUNT_DROP_CONTROL_VERSION,
	COUNT_DROP_CONTROL_UNKNOWN,
	COUNT_DROP_TOKEN,
	COUNT_DROP_CLAIM,
	MESSAGE_COUNTERS,
};

/* What all peers together may have in flight towards a context, in units of the fabric's buffer (credit.c). */
struct credit {
	/* Units that all peers together may have in flight. */
	uint64_t pool;
	/* Units above which the pool grows slowly. */
	uint64_t ease;
	/* Units that one peer may have in flight. */
	uint64_t level;
	/* Begin of the round trip, and when it ends. */
	uint64_t began_ns;
	uint64_t ends_ns;
	/* Number of the round trip. */
	uint32_t round;
	/* Times that an overrun lowered the pool. */
	uint32_t cuts;
	/* Whether the last round trip lowered it. */
	bool cut;
	/* Queue pairs on which data landed within the last second. */
	struct list receivers;
};

/* A queue pair's part of it. */
struct credit_part {
	struct list link;
	/* Packets that had landed when the round trip began. */
	uint32_t landed;
	/* Number of the round trip in which the credit was last told. */
	uint32_t told;
	/* When something landed last, to the precision of a round trip. */
	uint64_t landed_ns;
	/* Units that it had in flight in the last round trip. */
	uint64_t used;
};

struct gw_context {
	struct fabric *fabric;
	/* Inside gw_progress(). */
	bool busy;
	/* Time of this turn, and of the event that is being handled: that or before. */
	uint64_t now;
	uint64_t arrived;
	struct pool qps;
	struct pool sends;
	struct pool recvs;
	struct pool grants;
	struct pool puts;
	struct pool mrs;
	/* Bitmaps and logs of sent packets. */
	struct arena arena;
	struct heap timers;
	struct list all_qps;
	/* Queue pairs that qp_run() is to be called for. */
	struct list runnable;
	/* Queue pairs whose timer is to be set anew before the turn ends. */
	struct list unarmed;
	/* Queue pairs with data to send, served in turn. */
	struct list senders;
	/* Queue pairs whose end is still to be told. */
	struct list gone;
	/* Receives with packets since their last `progress`. */
	struct list touched;
	/* Requests whose end is still to be told. */
	struct list ended_sends;
	struct list ended_recvs;
	struct groups groups;
	struct credit credit;
	/* FABRIC_DROP_OVERRUN when the credit last followed it. */
	uint64_t overruns;
	uint64_t counters[MESSAGE_COUNTERS];
};

struct gw_mr {
	struct gw_context *ctx;
	struct fabric_mr *fabric_mr;
	uintptr_t addr;
	size_t length;
	/* Requests and puts that refer to it. */
	uint32_t users;
	/* The processor cannot reach the memory, only the NIC can. */
	bool unreachable;
};

enum qp_state { QP_CREATED, QP_CONNECTED, QP_GONE };

/* What is owed to the peer with the next control datagram. */
#define OWE_GRANT    1u
#define OWE_ANNOUNCE 2u
#define OWE_REPORT   4u
/* The cumulative numbers and no more. */
#define OWE_ACK	  8u
#define OWE_PROBE 16u
/* The answer to a probe. */
#define OWE_REPLY 32u
/* Probes of packet sizes, or a cut; and that such probes arrived. */
#define OWE_SIZE    64u
#define OWE_ARRIVED 128u

/* Largest credit that a peer may give, packets. */
#define CREDIT_MAX (1u << 24)

/* As the sender of messages; see the table above for the numbers. */
struct qp_tx {
	uint32_t posted;
	uint32_t matched;
	uint32_t grants_seen;
	uint32_t announce_acked;
	uint32_t results_seen;
	/* Below: announced in some datagram. */
	uint32_t announce_told;
	/* Below: grants that the peer repeats after a cut. */
	uint32_t cut_until;
	/* Puts of all sends. */
	uint32_t puts;
	/* `granted` of the queue pair's handler is still to be called. */
	bool grants_fresh;
	/* Payload of the send that was last matched, bytes. */
	uint32_t payload;
	/* Pool index + 1 of each matched send, by number; the mask that makes an index of a number. */
	uint32_t *sends;
	uint32_t mask;
	/* Packets handed to the fabric, and those of them whose memory it has done with. */
	uint64_t written;
	uint64_t flushed;
	/* Position after the furthest packet that was sent for the first time (order.c). */
	uint64_t front;
	/* Sends that wait for a grant; with puts; with memory still read by the fabric; retired but not ended. */
	struct list waiting;
	struct list ready;
	struct list flushing;
	struct list lingering;
	/* Grants that no send has taken. */
	struct list grants;
};

/* As the receiver of messages. */
struct qp_rx {
	/* Number of the first message. */
	uint32_t first_msn;
	uint32_t posted;
	uint32_t placed;
	uint32_t granted;
	uint32_t grants_acked;
	uint32_t announced;
	uint32_t completed;
	uint32_t results_acked;
	/* Below: granted in some datagram. */
	uint32_t grants_told;
	/* Grants from this one on are repeated, though acknowledged: the peer asked for smaller packets. */
	bool grants_again;
	uint32_t grants_from;
	/* Receives that are not completed; completed ones whose result the peer does not know. */
	uint32_t open;
	uint32_t results_owed;
	/* Number of the report that last told results, and the message to begin with where not all fit. */
	uint32_t results_round;
	uint32_t results_turn;
	/* Payload of the receive that was last given a slot, bytes. */
	uint32_t payload;
	/* Packets that one bit of the chunk bitmap stands for. */
	uint32_t chunk_packets;
	/* Size and key of the first receive, where it is promised (first_receive.c). */
	uint64_t first_bytes;
	uint32_t first_key;
	uint32_t mask;
	struct slot *slots;
	/* Receives that wait for a slot. */
	struct list waiting;
};

/* Control datagrams. */
struct qp_control {
	/* Quoted by the peer, and by us to it. */
	uint32_t token;
	uint32_t peer_token;
	/* Bytes of a datagram at most; probes of sizes are longer. */
	uint32_t max;
	/* OWE_ bits to pay in the next turn; with the next datagram, or at soon_at. */
	uint32_t owed;
	uint32_t owed_soon;
	uint64_t soon_at;
	/* When to repeat what is not acknowledged, and how often that was done in a row. */
	uint64_t repeat_at;
	uint32_t repeats;
	/* when what the peer has not acknowledged was told for the first time */
	uint64_t first_ns;
	/* lane that control leaves by; since when; when another was last looked for */
	uint8_t lane;
	uint64_t lane_ns;
	uint64_t turned_ns;
	/* times that control left by each lane in vain, since some was known to arrive; see lanes.c */
	uint8_t in_vain[FABRIC_LANES_MAX];
	/* When the peer was last heard. */
	uint64_t heard_at;
	/* When the latest datagram left. */
	uint64_t told_at;
};

struct gw_qp {
	struct gw_context *ctx;
	struct fabric_qp *fabric_qp;
	/* Place in ctx->all_qps, in ctx->runnable, in ctx->unarmed, and in ctx->senders or ctx->gone. */
	struct list link;
	struct list run_link;
	struct list arm_link;
	struct list data_link;
	struct credit_part credit;
	struct timer timer;
	struct timer user_timer;
	const struct gw_qp_handler *handler;
	void *arg;
	const struct gw_gate *gate;
	void *gate_arg;
	struct fabric_split split;
	/* Of the immediate's user bits: those that carry the generation, and a piece of the user's immediate. */
	uint8_t generation_bits;
	uint8_t fragment_bits;
	/* enum qp_state */
	uint8_t state;
	int status;
	/* Silence after which the peer is taken for dead; time that a slot rests. */
	uint64_t peer_timeout_ns;
	uint64_t lifetime_ns;
	/* Round-trip time that another protocol has measured; 0: none. */
	uint64_t rtt_hint_ns;
	/* What is known of each lane; null where there is one. */
	struct path *path;
	struct qp_tx tx;
	struct qp_rx rx;
	struct qp_control control;
	struct reach reach;
	struct size size;
	struct order order;
	struct feedback feedback;
};

/* mr.c */
/* Deregisters all that callers left. */
void mrs_close(struct gw_context *ctx);
bool mr_covers(const struct gw_mr *mr, const struct gw_context *ctx, const void *addr,
	       uint64_t length);

/* Whether the owner has not closed the handle; closing one takes its context away. */
static inline bool qp_valid(const struct gw_qp *qp)
{
	return qp && qp->ctx;
}

/* qp.c */
/* 0, or why nothing can be posted. */
int qp_usable(const struct gw_qp *qp);
/* Whether something is asked of the peer. */
bool qp_waits(const struct gw_qp *qp);
/* Something is about to be asked of the peer: silence counts from now if nothing was asked before. */
void qp_busy(struct gw_qp *qp);
/* Ends the queue pair and every request of it. */
void qp_gone(struct gw_qp *qp, int status);
/* The same, and the peer is told. */
void qp_give_up(struct gw_qp *qp, int status);

/* qp_run.c */
/* Has qp_run() called in this turn of gw_progress(). */
void qp_schedule(struct gw_qp *qp);
/* Matches sends with grants, then sends the control that is owed. Data follows in turns (data_tx.c). */
void qp_run(struct gw_qp *qp);
/* Something is owed to the peer: at once; within a part of a round trip; a grant, sooner or later by how many it has. */
void qp_owe(struct gw_qp *qp, uint32_t what);
void qp_owe_soon(struct gw_qp *qp, uint32_t what);
void qp_owe_grant(struct gw_qp *qp);
/* Grants and announcements that the peer has not acknowledged are told from the first one on. */
void qp_tell_again(struct gw_qp *qp);
/* Has the timer set to the next time at which something is due: now, or in a turn by the qp_arm_all() at its end. */
void qp_arm(struct gw_qp *qp);
void qp_arm_all(struct gw_context *ctx);
/* Does what is due. */
void qp_timer(struct gw_qp *qp);

/* control_rx.c */
void control_received(struct gw_qp *qp, const uint8_t *bytes, uint32_t length);

/* control_datagram.c */
/* Lets datagrams leave that the fabric has collected. */
void control_flush(struct gw_context *ctx);

/* control_tx.c */
/* Sends what is owed, in one datagram where it fits. */
void control_send_owed(struct gw_qp *qp);
/* Starts the repeat timer if something is not acknowledged and the timer does not run; stops it if all is. */
void control_set_repeat(struct gw_qp *qp);
/* Tells the peer that the queue pair is over. */
void control_send_close(struct gw_qp *qp);

/* resize.c */
/* Holds back what is in packets larger than the floor. */
void resize_hold(struct gw_qp *qp);
bool resize_waits(struct gw_qp *qp);
/* Returns the number of the first message that waits. */
uint32_t resize_first(struct gw_qp *qp);
/* A grant was repeated. */
void resize_granted(struct gw_qp *qp, uint32_t msn, const struct grant *grant);
/* Goes on with smaller packets in an open slot. */
void resize_cut(struct gw_qp *qp, uint32_t index);
/* The peer asks for smaller grants. False when it cannot. */
bool resize_asked(struct gw_qp *qp, uint8_t epoch, const struct control_size *size);

/* credit.c */
void credit_open(struct gw_context *ctx);
void credit_join(struct gw_qp *qp);
/* Data landed on this queue pair: it has a part in the pool. */
static inline void credit_used(struct gw_qp *qp)
{
	if (list_empty(&qp->credit.link))
		credit_join(qp);
}
/* Returns the packets that the peer of this queue pair may have in flight. */
uint32_t credit_packets(const struct gw_qp *qp);
/* Ends a round trip when it is over, and follows what landed and what overran in it. */
void credit_update(struct gw_context *ctx);

/* gate.c */
/* Returns how many packets the gate lets leave now, or, if `early`, at feedback.leave_ns, which it sets. */
uint32_t gate_allow(struct gw_qp *qp, uint32_t in_flight, uint32_t payload, bool early);
void gate_left(struct gw_qp *qp, uint32_t packets, uint64_t bytes);
void gate_report(struct gw_qp *qp, uint64_t rtt_ns, uint64_t return_queue_ns, uint32_t rtt_bytes);
void gate_timeout(struct gw_qp *qp);
void gate_undo_timeout(struct gw_qp *qp);
void gate_credit(struct gw_qp *qp);
void gate_cnp(struct gw_qp *qp);

static inline uint32_t packets_of(uint64_t length, uint32_t payload)
{
	return (uint32_t)((length + payload - 1) / payload);
}

/* Whether bytes may be taken from the arena that this end needs only because its peer wishes so: small packets, a large credit.
 * The other half is for what this end asks for itself. */
static inline bool arena_has_spare(const struct gw_context *ctx, size_t bytes)
{
	return arena_used(&ctx->arena) + bytes <= arena_size(&ctx->arena) / 2;
}

static inline void count(struct gw_context *ctx, enum message_counter counter)
{
	ctx->counters[counter]++;
}

#endif

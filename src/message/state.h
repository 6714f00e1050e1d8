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
 *   recv_posted   next msn to be posted             send_posted    next msn to be posted
 *   recv_placed   below: given a slot               send_matched   below: matched with a grant
 *   recv_granted  below: exposed, may be granted    grants_seen    below: grants known       -> header.granted
 *   grants_acked  below: peer knows the grant       announce_acked below: peer knows it
 *   announced     below: announcement known         results_seen   below: results known      -> header.results
 *   completed     below: completed
 *   results_acked below: peer knows the result
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
#include "message/order.h"
#include "message/size.h"
#include "path/path.h"
#include "wire/control.h"

#define NEVER UINT64_MAX

enum timer_kind { TIMER_QP, TIMER_SEND, TIMER_RECV, TIMER_QP_USER };

struct timer {
	struct heap_node node;
	enum timer_kind kind;
};

/* Counters of the message layer; their names are in counters.c. */
enum message_counter {
	COUNT_SENT,	     /* data packets handed to the fabric */
	COUNT_RETRANSMITTED, /* of which not for the first time */
	COUNT_LANDED,	     /* packets that set a bit */
	COUNT_REBUILT,	     /* packets that a scheme computed from others */
	COUNT_DUPLICATE,     /* packets that found their bit set */
	COUNT_LATE,	     /* that came after completion */
	COUNT_CONTROL_SENT,
	COUNT_CONTROL_BYTES,
	COUNT_CONTROL_HEARD,
	COUNT_REPORTS_SENT,
	COUNT_GRANT_REPEATS, /* datagrams that repeat what the peer did not acknowledge */
	COUNT_ANNOUNCE_REPEATS,
	COUNT_RESULT_REPEATS,
	COUNT_STALLS,		/* a full window given up as lost */
	COUNT_LANES_RETIRED,	/* times that a lane went out of use */
	COUNT_LANES_RESTORED,	/* and came back */
	COUNT_PAYLOAD_CUTS,	/* times that a path carried less than both ends' interfaces */
	COUNT_PEERS_GONE,	/* queue pairs that ended by silence */
	COUNT_DROP_GENERATION,	/* data of an older use of the slot */
	COUNT_DROP_SHAPE,	/* data whose length contradicts the message's */
	COUNT_DROP_UNREACHABLE, /* small data told, for memory that only the NIC writes */
	COUNT_DROP_CONTROL,	/* malformed control */
	COUNT_DROP_CONTROL_VERSION,
	COUNT_DROP_CONTROL_UNKNOWN, /* of a type from the future */
	COUNT_DROP_TOKEN,	    /* control of another connection */
	COUNT_DROP_CLAIM,	    /* control that claims what cannot be */
	MESSAGE_COUNTERS,
};

/* A receiver's buffer as the sender knows it. */
struct grant {
	struct list link;
	struct fabric_target target;
	uint64_t va;
	uint64_t capacity;
	uint32_t tag;
	/* Bytes of data in a full packet. */
	uint32_t payload;
};

/* A range that waits to be sent. */
struct put {
	struct put *next;
	struct gw_mr *mr;
	const uint8_t *addr;
	uint32_t first;
	uint32_t packet;  /* next to send */
	uint32_t packets; /* left */
	uint32_t tail;	  /* length of the last one */
};

struct gw_context {
	struct fabric *fabric;
	bool busy; /* inside gw_progress() */
	uint64_t now;
	const struct gw_recv *shown; /* whose `progress` is running */
	uint64_t arrived; /* when the event that is handled came in: at `now` or before */
	struct pool qps;
	struct pool sends;
	struct pool recvs;
	struct pool grants;
	struct pool puts;
	struct pool mrs;
	struct arena arena;
	struct heap timers;
	struct list all_qps;
	struct list talkers; /* queue pairs with control to send */
	struct list senders; /* queue pairs with data to send, served in turn */
	struct list gone;    /* queue pairs whose end is still to be told */
	struct list touched; /* receives with packets since their last progress call */
	struct list ended_sends;
	struct list ended_recvs;
	uint32_t epoch;		 /* of receiving; window.c */
	uint32_t active;	 /* queue pairs that data landed on in the last one */
	uint32_t active_next;	 /* and in this one */
	uint64_t epoch_at;	 /* when this one ends */
	uint32_t window;	 /* packets this context is willing to have in flight towards it */
	uint64_t window_changed; /* when */
	uint64_t overruns;	 /* fabric's count when last looked */
	uint64_t counters[MESSAGE_COUNTERS];
};

struct gw_mr {
	struct gw_context *ctx;
	struct fabric_mr *fabric_mr;
	uintptr_t addr;
	size_t length;
	uint32_t users;
	bool unreachable; /* by the processor */
};

enum qp_state { QP_CREATED, QP_CONNECTED, QP_GONE };

enum slot_state { SLOT_FREE, SLOT_EXPOSING, SLOT_OPEN, SLOT_COMPLETED, SLOT_FENCED, SLOT_RESTING };

struct slot {
	uint32_t value; /* the receive's pool index; while resting, until when (REST_UNIT_NS) */
	uint16_t generation;
	uint8_t state;
	uint8_t reserved;
};
#define REST_UNIT_SHIFT 16 /* 65.5 us: 32 bits span three days, enough for wrapping comparison */

/* What is owed to the peer at the next opportunity. */
#define OWE_GRANT    1u
#define OWE_ANNOUNCE 2u
#define OWE_REPORT   4u
#define OWE_ACK	     8u /* nothing but the cumulative numbers */
#define OWE_PROBE    16u
#define OWE_REPLY    32u
#define OWE_SIZE     64u  /* probes of packet sizes, or a cut */
#define OWE_ARRIVED  128u /* that such probes arrived */

struct gw_qp {
	struct gw_context *ctx;
	struct fabric_qp *fabric_qp;
	struct list link;
	struct list talker;
	struct list sender; /* among the senders, or the gone */
	struct timer timer;
	struct timer user_timer;
	const struct gw_qp_handler *handler;
	void *arg;
	struct fabric_split split;
	uint8_t state;
	bool grants_fresh; /* `granted` is still to be called */
	bool grants_again; /* grants from `grants_from` on are to be repeated, though acknowledged */
	uint32_t grants_from;
	uint32_t cut_until;	 /* below: grants that the peer repeats after a cut */
	uint8_t generation_bits; /* of the user bits; the rest carry the immediate's fragments */
	uint8_t fragment_bits;
	uint8_t control_lane; /* that control leaves by */
	uint64_t turned_ns;   /* since when */
	int status;
	const struct gw_gate *gate;
	void *gate_arg;
	uint32_t chunk_packets;
	uint32_t slots_mask;
	uint32_t token; /* ours: the peer quotes it */
	uint32_t peer_token;
	uint32_t control_max; /* bytes of a control datagram at most; probes of sizes are longer */
	uint32_t owed;
	uint32_t owed_soon; /* rides with whatever is said next, or is said at that time */
	uint64_t soon_at;
	uint64_t peer_timeout_ns;
	uint64_t lifetime_ns;
	uint64_t heard_at;
	uint64_t repeat_at;
	uint32_t repeats; /* in a row, for the back-off */

	uint32_t first_msn; /* of what we receive */
	uint32_t
		first_key; /* of the first receive, and its bytes, where it is promised: first_receive.c */
	uint64_t first_bytes;
	uint32_t recv_posted, recv_placed, recv_granted, grants_acked, announced, completed,
		results_acked;
	uint32_t recv_payload;	/* of the receive that was last given a slot, bytes */
	uint32_t grants_told;	/* below: in some datagram */
	uint32_t recvs_open;	/* not yet completed */
	uint32_t results_owed;	/* completed, and the peer does not know */
	uint32_t results_round; /* of telling them */
	uint32_t results_turn;	/* the msn to begin with where not all fit */
	struct slot *slots;
	struct list recvs_waiting; /* for a slot */

	uint32_t send_posted, send_matched, grants_seen, announce_acked, results_seen;
	uint32_t send_payload; /* of the latest send that was matched with a grant, bytes */
	uint32_t announce_told;
	uint32_t sends_mask;
	uint32_t *sends;	     /* pool index + 1 by msn */
	struct path *path;	     /* null where there is one lane */
	uint64_t written;	     /* packets handed to the fabric */
	uint64_t flushed;	     /* of which it is done with the memory */
	struct list sends_waiting;   /* for a grant */
	struct list sends_ready;     /* with puts */
	struct list sends_flushing;  /* all put, memory still with the fabric */
	struct list sends_lingering; /* retired, but their user has not ended them */
	struct list grants;

	uint64_t
		sent_front; /* one past the furthest packet sent for the first time: a position, see order.c */

	struct size size;
	struct order order;
	struct feedback feedback;
};

struct gw_send {
	struct gw_context *ctx;
	struct gw_qp *qp; /* null once the queue pair is closed */
	struct list link; /* waiting for a grant, ready, or flushing */
	struct list ended_link;
	struct timer timer;
	const struct gw_send_handler *handler;
	void *arg;
	struct gw_mr *mr;
	const uint8_t *addr;
	uint64_t length;
	uint64_t resume;  /* offset at which a one-shot send goes on after a cut, bytes */
	uint32_t payload; /* bytes of data in a full packet; 0 until granted */
	uint32_t packets;
	uint32_t msn;
	struct fabric_target target;
	uint64_t va;
	struct put *head;
	struct put *tail;
	uint32_t puts;
	uint32_t high_water; /* packets below were sent at least once */
	uint64_t mark;	     /* qp->written after its last packet */
	uint32_t imm;
	uint32_t flags;
	uint32_t geometry[2];
	struct gw_result result_value;
	uint8_t scheme;
	bool stream;
	bool granted;
	bool held;    /* waits for a grant with smaller packets */
	bool closing; /* no more puts: done when drained */
	bool result;  /* known */
	bool retired; /* the message layer is finished with it */
	bool ended;   /* status is final; the handler has been or will be told */
	bool closed;  /* the user gave the handle back */
	bool told;
	int status;
	_Alignas(16) uint8_t state[GW_STATE_BYTES];
};

struct gw_recv {
	struct gw_context *ctx;
	struct gw_qp *qp;
	struct list link; /* waiting for a slot, or among the watchers */
	struct list touched;
	struct list ended_link;
	struct timer timer;
	const struct gw_recv_handler *handler;
	void *arg;
	struct gw_mr *mr;
	uint8_t *addr;
	uint64_t capacity;
	uint64_t length;
	uint32_t payload;  /* bytes of data in a full packet; 0 until it has a slot */
	uint64_t watch;	   /* the position it waits for; 0: for none */
	uint64_t *bits;	   /* a bit a packet */
	uint64_t *chunks;  /* a bit a chunk */
	size_t bits_bytes; /* of the one block that holds both */
	uint64_t va;
	uint32_t rkey;
	uint32_t capacity_packets;
	uint32_t chunk_packets;
	uint32_t pieces; /* that the immediate travels in */
	uint32_t packets;
	uint32_t landed;
	uint32_t highest;
	uint32_t msn;
	uint32_t tag;
	uint32_t imm;
	uint32_t fragments;	 /* a bit each */
	uint32_t fragment_value; /* rebuilt so far */
	uint32_t short_packet;	 /* one below full length, seen before the announcement */
	uint32_t short_length;	 /* 0: none */
	uint32_t geometry[2];
	uint32_t missing;
	uint32_t told_round; /* in which its result was last told; 0: never */
	uint8_t scheme;
	bool has_imm;
	bool sparse;
	bool same_size; /* packets as large as those of the receive before it */
	bool recut;	/* its packets became smaller under way: the first pass is over */
	bool is_announced;
	bool completed;
	bool released;
	bool held; /* the protocol still refers to it: it waits for a slot or is in one */
	bool closed;
	bool told;
	int status;
	_Alignas(16) uint8_t state[GW_STATE_BYTES];
};

/* context.c */
void timer_set(struct gw_context *ctx, struct timer *timer, uint64_t at);
bool mr_covers(const struct gw_mr *mr, const struct gw_context *ctx, const void *addr,
	       uint64_t length);

/* qp.c */
bool qp_valid(const struct gw_qp *qp);
int qp_usable(const struct gw_qp *qp);
bool qp_waits(const struct gw_qp *qp);
void qp_owe(struct gw_qp *qp, uint32_t what);
/* Within a part of a round trip, and sooner if there is something else to say. */
void qp_owe_soon(struct gw_qp *qp, uint32_t what);
void qp_owe_grant(struct gw_qp *qp);
void qp_arm(struct gw_qp *qp);
void qp_timer(struct gw_qp *qp);
void qp_gone(struct gw_qp *qp, int status);
void qp_give_up(struct gw_qp *qp, int status);
void qp_busy(struct gw_qp *qp);

/* send.c */
bool send_valid(const struct gw_send *send);
void send_match(struct gw_qp *qp);
void send_result(struct gw_send *send, const struct gw_result *result);
void send_end(struct gw_send *send, int status);
void send_retire(struct gw_send *send);
void send_detach(struct gw_send *send, int status, bool fenced);
void send_tell(struct gw_send *send);
struct gw_send *send_find(struct gw_qp *qp, uint32_t msn);

/* put.c */
int put_add(struct gw_send *send, uint64_t offset, const void *addr, uint64_t length,
	    struct gw_mr *mr);
/* The first one was sent. */
void put_done(struct gw_send *send);
void put_drop_all(struct gw_send *send);

/* pump.c */
/* The first `n` packets of the send's first put have left. `copied`: the fabric does not read them where they are. */
void pump_sent(struct gw_qp *qp, struct gw_send *send, uint32_t n, uint32_t lane, bool copied);
int pump(struct gw_context *ctx);
void pump_flushed(struct gw_qp *qp, uint32_t count);
void pump_check(struct gw_send *send);

/* recv.c */
bool recv_valid(const struct gw_recv *recv);
void recv_place(struct gw_qp *qp);
void recv_exposed(struct gw_qp *qp, const struct fabric_event *event);
void recv_expose_failed(struct gw_qp *qp, const struct fabric_event *event);
void recv_fenced(struct gw_qp *qp, uint32_t index);
void recv_land(struct gw_qp *qp, const struct fabric_event *event);
/* A packet that came inside a control datagram. False when it cannot be. */
bool recv_land_told(struct gw_qp *qp, const struct control_data *data);
void recv_announce(struct gw_recv *recv, const struct control_announce_entry *entry);
void recv_results_acked(struct gw_qp *qp, uint32_t results);
void recv_detach(struct gw_recv *recv, int status, bool fenced);
void recv_tell(struct gw_recv *recv);
void recv_reap(struct gw_recv *recv);
struct gw_recv *recv_find(struct gw_qp *qp, uint32_t msn);

/* Sets the chunk bits anew from the packets'. */
void recv_rebuild_chunks(struct gw_recv *recv);

/* hear.c */
void hear(struct gw_qp *qp, const uint8_t *bytes, uint32_t length);

/* talk.c */
void talk(struct gw_qp *qp);
void talk_close(struct gw_qp *qp, int reason, const char *text);

/* first_receive.c */
struct peer_info;
void first_receive_promise(struct gw_qp *qp, uint64_t bytes);
void first_receive_take(struct gw_qp *qp, const struct peer_info *info);
/* Whether this receive was promised: it is exposed at once, under the key it was promised with. */
bool first_receive_covers(const struct gw_qp *qp, const struct gw_recv *recv);
void first_receive_exposed(struct gw_qp *qp, const struct gw_recv *recv);

/* resize.c */
/* Holds back what is in packets larger than the floor. Whether anything waits for a smaller grant now. */
bool resize_hold(struct gw_qp *qp);
bool resize_waits(struct gw_qp *qp);
/* The first message that waits. */
uint32_t resize_first(struct gw_qp *qp);
/* A grant was repeated. */
void resize_granted(struct gw_qp *qp, uint32_t msn, const struct grant *grant);
/* Goes on with smaller packets in an open slot. */
void resize_cut(struct gw_qp *qp, uint32_t index);
/* The peer asks for smaller grants. False when it cannot. */
bool resize_asked(struct gw_qp *qp, uint8_t epoch, const struct control_size *size);

/* window.c */
void window_used(struct gw_qp *qp);
/* What each of those may have in flight that are receiving; and what one may have that has just come. */
uint32_t window_share(const struct gw_context *ctx);
uint32_t window_initial(const struct gw_context *ctx);
void window_turn(struct gw_context *ctx);

/* gate.c */
uint32_t gate_allow(struct gw_qp *qp, uint32_t in_flight, uint32_t payload);
/* These left. */
void gate_left(struct gw_qp *qp, uint32_t packets, uint64_t bytes);
void gate_report(struct gw_qp *qp, uint64_t rtt_ns);
void gate_timeout(struct gw_qp *qp);
void gate_credit(struct gw_qp *qp);
void gate_cnp(struct gw_qp *qp);

static inline uint32_t packets_of(uint64_t length, uint32_t payload)
{
	return (uint32_t)((length + payload - 1) / payload);
}

static inline void count(struct gw_context *ctx, enum message_counter counter)
{
	ctx->counters[counter]++;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one thread of an end does in a measurement of one size: queue pairs, memory, and the messages in flight. They are made anew for each
 * size, so that no size inherits anything from the one before it. The context is kept: if it left a shared port and joined
 * it again, packets could go to another process.
 *
 * A flow is a queue pair or a channel. It owns shots. A shot is the state of one message in flight and the memory for it;
 * from message to message it goes round the places in its share of the memory, so that messages in flight never overlap.
 * An engine decides what is posted when: a stream for bandwidth, ping-pong for latency.
 *
 * The time is cut into phases (warm-up, measurement). A flow's last message of a phase says so in its immediate.
 */
#ifndef TOOLS_PERF_BENCH_H
#define TOOLS_PERF_BENCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <godwit/bounded.h>
#include <godwit/channel.h>
#include <godwit/erasure.h>
#include <godwit/rendezvous.h>

#include "base/list.h"
#include "tools/options.h"
#include "plan.h"

struct report;
struct perf_bench;
struct perf_flow;

#define PERF_IMM_LAST	  0x80000000u /* of this flow in this phase */
#define PERF_IMM_HOLED	  0x40000000u /* the ping that this answers had not arrived whole */
#define PERF_IMM_SEQUENCE 0x3fffffffu

/* One message in flight, or the place for one. */
struct perf_shot {
	/* in the list of idle shots, or of open receives in the order of posting */
	struct list link;
	struct perf_flow *flow;
	/* first of its places in memory */
	uint8_t *memory;
	uint64_t uses;
	/* number of the message in its direction of the flow */
	uint64_t sequence;
	/* under `raw`: packets that had landed when it was last looked at */
	uint32_t landed;
	/* time at which the last packet landed, or 0 */
	uint64_t landed_ns;
	/* time of the last packet or of the announcement */
	uint64_t heard_ns;
	bool announced;
	bool completed;
	/* time at which the send was posted */
	uint64_t posted_ns;
	struct gw_send *send;
	struct gw_recv *recv;
	/* parity, under a code */
	struct gw_erasure *erasure;
	/* operation of a channel, in place of send and recv */
	struct gw_op *op;
};

struct perf_flow {
	struct perf_bench *bench;
	struct gw_qp *qp;
	/* pace of bounded messages */
	struct gw_pace pace;
	/* congestion control of the queue pair, or null */
	struct gw_flow *governed;
	/* channel in place of the queue pair, where the plan says so */
	struct gw_channel *channel;
	/* number among the bench's flows, and among those of all threads */
	uint32_t index;
	uint32_t number;
	struct list idle_sends;
	struct list idle_recvs;
	struct list open_recvs;
	uint32_t idle_recv_count;
	uint32_t sends_open;
	uint64_t send_sequence;
	/* number of the next receive to be posted */
	uint64_t recv_sequence;
	/* messages received since the first phase */
	uint64_t received;
	/* value of `received` at the end of the phase, as far as known */
	uint64_t recv_end;
	/* under `raw`: one past the newest message of which anything landed */
	uint64_t newest;
	/* time at which anything of a message was last received */
	uint64_t heard_ns;
	/* messages posted in this phase, and so on to last_sent */
	uint64_t sent;
	/* messages whose send has ended */
	uint64_t delivered;
	/* bytes received */
	uint64_t bytes;
	/* bytes received when the first flow had finished */
	uint64_t fair_bytes;
	bool last_sent;
	bool send_finished;
	/* the library had no room for the next one */
	bool send_waits;
	bool recv_waits;
	/* ping-pong */
	uint64_t ping_ns;
	uint32_t owed_imm;
	bool owes;
};

/* What a message came to at the receiver. */
struct perf_arrival {
	uint32_t imm;
	uint32_t missing_packets;
	uint64_t missing_bytes;
};

struct perf_engine {
	void (*begin)(struct perf_bench *bench, uint64_t now);
	/* A send ended; its shot is idle again. */
	void (*sent)(struct perf_flow *flow, uint64_t now);
	/* A message arrived; its shot is idle again. */
	void (*received)(struct perf_flow *flow, const struct perf_arrival *arrival, uint64_t now);
	/* Between turns of gw_progress(). May be null. */
	void (*between)(struct perf_bench *bench);
};

extern const struct perf_engine perf_stream;
extern const struct perf_engine perf_pingpong;

/* Registered memory in equal pieces, `pieces` for each of a flow's shots. */
struct perf_area {
	uint8_t *memory;
	size_t bytes;
	struct gw_mr *mr;
	uint64_t pieces;
	struct perf_shot *shots;
	/* shots of each flow */
	uint32_t shots_each;
};

/* What is counted in a phase. */
struct perf_phase {
	/* messages on each flow, or 0 */
	uint64_t count;
	uint64_t stop_ns;
	/* time at which the peer was told to start */
	uint64_t started_ns;
	/* time of the last byte received */
	uint64_t last_ns;
	uint64_t messages;
	uint64_t bytes;
	uint64_t missing_bytes;
	uint64_t missing_packets;
	uint64_t holed_messages;
	/* flows that have not sent everything */
	uint32_t flows_sending;
	/* flows that have not received everything */
	uint32_t flows_receiving;
	/* measured, not to warm up */
	bool measured;
	/* the peer says that it has sent everything */
	bool peer_sent;
	bool fair_taken;
};

/* Half round trips, at the client of a latency test; of a bandwidth test, at a sender: how long messages took. */
struct perf_samples {
	uint64_t *ns;
	uint64_t count;
	uint64_t room;
	/* pings without a sample because a part of them was lost */
	uint64_t lost;
};

/* How far a bench is with its phase. */
enum perf_state { PERF_RUNNING, PERF_OVER, PERF_FAILED };

struct perf_bench {
	/* with as many queue pairs as this thread has */
	struct perf_plan plan;
	/* enum perf_state; any thread may read it */
	atomic_int state;
	const struct perf_engine *engine;
	bool client;
	bool sends;
	bool receives;
	struct gw_context *ctx;
	struct perf_area send_area;
	struct perf_area recv_area;
	struct perf_flow *flows;
	struct perf_phase phase;
	struct perf_samples samples;
	/* a flow had no room for a message */
	bool waits;
	/* ping-pong: receives are posted after the next turn */
	bool restock_next;
	bool restock_now;
	/* first error, or 0 */
	int error;
	/* sentence about `error`, where the errno is not enough */
	char why[PERF_WHY];
	/* status with which the peer was lost; 0 while it is there */
	int gone;
};

/* Limits of a context for this plan and any like it with at most as many queue pairs and so much memory. */
struct gw_context_attr perf_context_limits(const struct perf_plan *plan, uint64_t memory_bytes);

/* Makes it all, but for the connections. The plan must have been checked; `met` is the connection to the other end. `thread`
 * says which of the plan's threads this is. */
int perf_bench_open(struct perf_bench *bench, struct report *report, const struct options *options,
		    const struct perf_plan *plan, uint32_t thread, bool client,
		    struct gw_rendezvous *met, struct gw_context *ctx);

/* Tells the peer and gives everything back. Harmless on one that is not open. */
void perf_bench_close(struct perf_bench *bench);

/* Posts the first receives, once the queue pairs are connected. */
int perf_bench_stock(struct perf_bench *bench);

/* A new phase: what the receiving side counts starts here, so call it before the peer is told to go. */
void perf_bench_phase(struct perf_bench *bench, bool measured, uint64_t now);

/* The sending side of it. */
void perf_bench_go(struct perf_bench *bench, uint64_t now);

/* Whether everything of the phase has been sent and received, or failed. */
bool perf_bench_idle(const struct perf_bench *bench);

/* Publishes how far the phase is, after anything that may have changed it. */
void perf_bench_settle(struct perf_bench *bench);

/* The peer has sent all of this phase: what is not here soon is lost. */
void perf_bench_peer_sent(struct perf_bench *bench, uint64_t now);

/* One turn of gw_wait() or gw_progress(), as planned; it sleeps `nap_ns` at most. */
void perf_bench_turn(struct perf_bench *bench, uint64_t nap_ns);

/* For engines. Messages are numbered here; `flags` are those of the immediate. False: there was no room for the message, and the engine's
 * sent() is called when there may be, or the test has failed. */
bool perf_flow_send(struct perf_flow *flow, uint32_t flags);
/* Posts receives for all idle shots, as far as there is room. */
void perf_flow_restock(struct perf_flow *flow);

/* Whether the next message is the flow's last of this phase. */
bool perf_flow_ends(const struct perf_flow *flow, uint64_t now);

/* A sample, if there is room. */
void perf_samples_add(struct perf_samples *samples, uint64_t ns);

/* For schemes: the request ended. `landed_ns` is when its last packet came. */
void perf_shot_sent(struct perf_shot *shot, int status, uint64_t now);
void perf_shot_received(struct perf_shot *shot, int status, uint64_t landed_ns, uint64_t now);

#endif

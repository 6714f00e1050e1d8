/* SPDX-License-Identifier: BSD-3-Clause */
/* scenario.h: a scenario is drawn from a seed: a network, its hosts, flows of messages, and faults (misfortunes). */
#ifndef SIMULATION_SCENARIO_H
#define SIMULATION_SCENARIO_H

#include <godwit/message.h>

#include "fabric/sim/sim.h"

#define FLOWS_MAX	8
#define MESSAGES_MAX	24
#define MISFORTUNES_MAX 4

enum message_mode {
	/* Selective Repeat. */
	MODE_EXACT,
	/* Erasure coding. */
	MODE_ERASURE,
	/* The automatic choice between these two. */
	MODE_AUTO,
	/* Bounded completion. */
	MODE_BOUNDED,
	/* Without a scheme: a send of the whole message. */
	MODE_ONE_SHOT,
	/* Without a scheme: a stream of ranges in changing order. */
	MODE_STREAM,
	MODES,
};

struct message_plan {
	enum message_mode mode;
	uint64_t length;
	uint64_t capacity;
	bool has_imm;
	uint32_t imm;
	/* Without a scheme: time from the announcement until the receiver completes the message, with or without holes. */
	uint64_t hold_ns;
	/* The receiver completes the receive when it has posted it. */
	bool receive_early;
	/* The sender closes its handle when it has posted the send. */
	bool send_abandoned;
	/* Stream: a range is left out where the cursor is a multiple of this; 0: none. */
	uint32_t gaps;
	/* Stream: every range is put twice. */
	bool stream_twice;
	/* Erasure, auto: data and parity packets of a group; 0: chosen by the scheme. */
	uint32_t k;
	uint32_t m;
	/* Erasure: the sender, the receiver, is opened with an XOR code. */
	bool by_xor[2];
	/* Bounded: options of the receive. */
	uint64_t deadline_ns;
	uint32_t floor_ppm;
	/* Bounded: newer messages of the flow pre-empt this one. */
	bool in_line;
};

static inline bool message_is_raw(const struct message_plan *plan)
{
	return plan->mode >= MODE_ONE_SHOT;
}

/* One direction of a queue pair. */
struct flow_plan {
	uint32_t from;
	uint32_t to;
	uint32_t messages;
	/* Sends and receives that are open at the same time, at most. */
	uint32_t sends_open;
	uint32_t recvs_open;
	struct message_plan message[MESSAGES_MAX];
};

enum misfortune_kind {
	/* A link is down for a while. */
	PARTITION,
	/* A process makes no progress for a while. */
	STALL,
	/* A host dies. */
	DEATH,
	/* The clock of a host jumps ahead. */
	JUMP,
	/* A queue pair or channel is closed while messages are under way. */
	CLOSE,
	MISFORTUNES,
};

struct misfortune {
	enum misfortune_kind kind;
	/* Begin, from the start of the run, and duration; of JUMP, how far the clock jumps. */
	uint64_t at_ns;
	uint64_t for_ns;
	/* Random number that selects the link, host or queue pair. */
	uint32_t which;
};

struct scenario {
	uint64_t seed;
	struct sim_attr sim;
	struct sim_shape_attr shape;
	struct sim_host_attr host;
	struct gw_qp_attr qp;
	/* Flows 2i and 2i + 1 are the two directions of one queue pair. */
	uint32_t flow_count;
	struct flow_plan flow[FLOWS_MAX];
	uint32_t misfortune_count;
	struct misfortune misfortune[MISFORTUNES_MAX];
	/* When the path begins to carry smaller packets, from the start, and their payload; 0: it does not. */
	uint64_t shrink_ns;
	uint32_t shrink_payload;
	/* Round-trip time of a path that was drawn far apart; 0: it was not. */
	uint64_t far_ns;
	/* Share of packets lost on the longest way. */
	double loss;
	/* True if the flows use channels instead of queue pairs. */
	bool channels;
	/* True if something in the scenario may make exact transfers fail. */
	bool may_fail;
};

void scenario_draw(uint64_t seed, struct scenario *out);

/* Describes the scenario in a few lines on stderr. */
void scenario_print(const struct scenario *scenario);

#endif

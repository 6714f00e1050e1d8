/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenario.h: what a seed stands for: a network, hosts, flows of messages, and misfortunes.
 */
#ifndef SIMULATION_SCENARIO_H
#define SIMULATION_SCENARIO_H

#include <godwit/message.h>

#include "fabric/sim/sim.h"

#define FLOWS_MAX	8
#define MESSAGES_MAX	24
#define MISFORTUNES_MAX 4

enum message_mode {
	MODE_EXACT,    /* under Selective Repeat */
	MODE_ERASURE,  /* exact, under erasure coding */
	MODE_AUTO,     /* exact, under one or the other */
	MODE_BOUNDED,  /* under bounded completion */
	MODE_ONE_SHOT, /* raw */
	MODE_STREAM,   /* raw, ranges at random */
	MODES,
};

struct message_plan {
	enum message_mode mode;
	uint64_t length;
	uint64_t capacity;
	bool has_imm;
	uint32_t imm;
	uint64_t
		hold_ns; /* raw: the receiver completes this long after the announcement, holes or not */
	bool receive_early;  /* the receiver gives up at once */
	bool send_abandoned; /* the sender closes its handle at once */
	uint32_t gaps;	     /* stream: one packet in this many is left out; 0: none */
	bool stream_twice;
	uint32_t k;	      /* erasure, auto: data packets of a group; 0: by what is measured */
	uint32_t m;	      /* parity packets; 0: by measured loss */
	bool by_xor[2];	      /* erasure: what each end would code with */
	uint64_t deadline_ns; /* bounded */
	uint32_t floor_ppm;
	bool in_line; /* newer ones of the flow pre-empt it */
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
	uint32_t sends_open; /* posted at once */
	uint32_t recvs_open;
	struct message_plan message[MESSAGES_MAX];
};

enum misfortune_kind {
	PARTITION, /* a link goes down for a while */
	STALL,	   /* a process makes no progress for a while */
	DEATH,	   /* a host dies */
	JUMP,	   /* a clock jumps ahead */
	CLOSE,	   /* a queue pair is closed in the middle */
	MISFORTUNES,
};

struct misfortune {
	enum misfortune_kind kind;
	uint64_t at_ns;
	uint64_t for_ns;
	uint32_t which;
};

struct scenario {
	uint64_t seed;
	struct sim_attr sim;
	struct sim_shape_attr shape;
	struct sim_host_attr host;
	struct gw_qp_attr qp;
	uint32_t flow_count; /* pairs of them share a queue pair: 2i and 2i + 1 */
	struct flow_plan flow[FLOWS_MAX];
	uint32_t misfortune_count;
	struct misfortune misfortune[MISFORTUNES_MAX];
	uint64_t shrink_ns;	 /* when the path begins to carry less */
	uint32_t shrink_payload; /* from then on; 0: it does not */
	bool channels;		 /* in place of queue pairs */
	bool may_fail;		 /* something may keep exact transfers from ending well */
};

void scenario_draw(uint64_t seed, struct scenario *out);

/* What it is, in a few lines on stderr. */
void scenario_print(const struct scenario *scenario);

#endif

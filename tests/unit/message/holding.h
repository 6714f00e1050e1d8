/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * holding.h: a host that holds packets until their departure. The simulator's hosts hold nothing: this one does, between the message
 * layer and the simulated fabric of end 0.
 */
#ifndef TESTS_MESSAGE_HOLDING_H
#define TESTS_MESSAGE_HOLDING_H

#include "../reliability/duo.h"

#include <godwit/flow.h>

#include "message/state.h"

#define DELAY_NS (8 * MS)
#define RATE_BPS UINT64_C(400000000)
#define AHEAD_NS (2 * MS)
/* The sender's process runs this often, and in no other moment. */
#define WAKES_NS (3 * MS)
#define LENGTH	 (8u << 20)
#define HELD_MAX 512

/* A packet that the host holds. */
struct held {
	uint64_t at_ns;
	struct fabric_qp *qp;
	struct fabric_target target;
	struct fabric_write write;
};

struct holding {
	struct duo *duo;
	struct held held[HELD_MAX];
	unsigned count;
	/* Packets taken before their departure, the first and the last time, and the longest between two. */
	unsigned early;
	uint64_t first_ns;
	uint64_t last_ns;
	uint64_t longest_ns;
	/* The host takes nothing early now. */
	bool full;
	/* Turns of the sender's context. */
	unsigned turns;
};
extern struct holding host;

/* Lets so much time pass, with a sender that runs whenever there is something to do, or every WAKES_NS only. */
void run_on(struct duo *duo, uint64_t ns);
void run_late(struct duo *duo, uint64_t ns);

/* Opens the two ends, and a flow of RATE_BPS when the round-trip time is known; `start_ns` is the clock at the beginning. */
void begin_at(struct duo *duo, bool holds, uint64_t start_ns, struct gw_flow **flow);
void begin(struct duo *duo, bool holds, struct gw_flow **flow);

#endif

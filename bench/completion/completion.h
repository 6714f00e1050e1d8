/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * completion.h: messages one after another over one simulated path, and how long each took.
 *
 * The path is two hosts and a link between them, with the same loss both ways, so that control is lost like data. A
 * packet is a chunk. Packets leave as the interface takes them: a few wait for the wire, and the rest in the library,
 * where a repair can still overtake.
 */
#ifndef BENCH_COMPLETION_H
#define BENCH_COMPLETION_H

#include <stdbool.h>
#include <stdint.h>

#include <godwit/erasure.h>

#include "plan/plan.h"

enum completion_scheme {
	COMPLETION_SR,	  /* gw_selective_repeat */
	COMPLETION_RTO,	  /* timer_repeat.h */
	COMPLETION_CODED, /* gw_erasure: code, k, m, depth */
	COMPLETION_AUTO,  /* gw_auto */
};

struct completion_options {
	enum completion_scheme scheme;
	struct plan_params params; /* the same, as the planner calls it */
	uint32_t code;		   /* as gw_erasure is told, and those below */
	uint32_t k;
	uint32_t m;
	uint32_t depth;
	uint64_t rtt_ns;
	uint64_t rate_bps;
	double loss;
	double burst;	      /* packets lost in a row, on average; up to 1: independent losses */
	bool control_arrives; /* nothing is lost on the way back */
	uint64_t size;
	uint32_t chunk;
	uint32_t messages;
	uint64_t seed;
};

/* What all of them came to, beside their times. */
struct completion_counts {
	uint64_t sent_packets;
	uint64_t retransmitted_packets;
	uint64_t control_packets; /* both ways */
	uint64_t events;
	uint64_t hash;
	uint64_t patience_ns[2];       /* at the end: the sender's, the receiver's */
	char choice[PLAN_REASON_SIZE]; /* the last one of gw_auto, and why */
};

/* What a data packet has on the wire beside its payload, in this simulation. */
#define COMPLETION_OVERHEAD 64

/* times_ns[] has room for options->messages. Ends the program where anything goes wrong. */
void completion_run(const struct completion_options *options, uint64_t *times_ns,
		    struct completion_counts *counts);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loop.h: flows through one bottleneck, in virtual time: controllers of ours behind their pacers, and models of TCP.
 *
 * The bottleneck is a link of src/link. What lands at the far end is told to the sender over a return path without
 * limits: in reports, as godwit makes them, or packet by packet, as TCP does. Nothing is sent again, for it makes no
 * difference to a controller which bytes a packet carries.
 */
#ifndef CONGESTION_LOOP_H
#define CONGESTION_LOOP_H

#include "congestion/cc.h"
#include "congestion/pacer.h"
#include "link/link.h"

#define MS	   UINT64_C(1000000)
#define S	   UINT64_C(1000000000)
#define MBIT	   UINT64_C(1000000)
#define GBIT	   UINT64_C(1000000000)
#define LOOP_FLOWS 20
#define LOOP_STEPS 4
#define LOOP_SLOTS 512

enum loop_kind { LOOP_CC, LOOP_CUBIC, LOOP_BBR };

struct loop_flow {
	enum loop_kind kind;
	const struct cc_ops *ops; /* of LOOP_CC */
	struct cc_attr cc;
	uint64_t start_ns;
	uint64_t stop_ns;	 /* 0: never */
	uint64_t extra_delay_ns; /* on its return path */
	uint32_t packet_bytes;	 /* 0: 1500 */
	/* on for some time, and off for some; 0: always on */
	uint64_t on_ns, off_ns;
};

struct loop_attr {
	struct link_attr link; /* delay_ns: one way; the return path has the same */
	struct {
		uint64_t at_ns, rate_bps;
	} steps[LOOP_STEPS]; /* at_ns 0: no more */
	uint64_t noise_ns;   /* feedback is late by up to this: a busy host */
	uint64_t jitter_ns;  /* random delay of single packets, at most; they overtake each other */
	uint64_t seed;
	uint64_t from_ns, to_ns; /* what is measured; the run ends at to_ns */
	unsigned flows;
	struct loop_flow flow[LOOP_FLOWS];
	bool trace;	   /* a line every trace_ns, to stdout */
	uint64_t trace_ns; /* 0: 100 ms */
};

struct loop_result {
	double utilisation;	  /* of the link's time, packets lost by chance included */
	double goodput_bps;	  /* of all flows */
	double share[LOOP_FLOWS]; /* of each: goodput over the link's rate */
	double jain;
	double queue_median_ns, queue_p95_ns, queue_max_ns; /* sampled every millisecond */
	double loss; /* of all packets: by chance, and for want of room */
	double overflow;
	/* in each 512th of the run, from its start: what landed of all flows, and the longest queue */
	double delivered_bps[LOOP_SLOTS];
	double slot_queue_ns[LOOP_SLOTS];
	uint64_t timeouts;
};

void loop_run(const struct loop_attr *attr, struct loop_result *out);

/* TCP, in tcp.c. Everything is in packets. */
struct tcp {
	enum loop_kind kind;
	double cwnd;
	double pace_bps; /* 0: not paced */
	uint64_t least_rtt_ns, least_at;
	/* cubic */
	double ssthresh, peak, k_s;
	uint64_t epoch_ns, recover;
	/* bbr */
	int phase;
	double peaks[10]; /* of the delivery rate in each of the last rounds, packets per second */
	unsigned slot, still, cycle;
	double full;
	uint64_t round_end, phase_at, delivered;
};

struct tcp_ack {
	uint64_t rtt_ns;
	uint64_t sequence; /* of the packet */
	uint64_t next;	   /* to be sent */
	uint64_t lost;	   /* before it and after the last */
	uint64_t in_flight;
	uint64_t delivered_then; /* when it was sent, of this flow, and at what time */
	uint64_t delivered_then_ns;
};

void tcp_init(struct tcp *tcp, enum loop_kind kind, uint64_t now_ns);
void tcp_ack(struct tcp *tcp, const struct tcp_ack *ack, uint32_t packet_bytes, uint64_t now_ns);
void tcp_timeout(struct tcp *tcp);

#endif

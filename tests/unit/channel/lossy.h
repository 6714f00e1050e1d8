/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lossy.h: a stream of messages over a simulated path that loses packets in both directions, and what became of the link's
 * time.
 *
 * One end keeps `depth` messages of one size under way on a channel, as `godwit perf` does. Goodput counts from the end of
 * the tenth message on, as a share of what the path leaves: its rate times (1 - loss). While the link to the receiver has
 * nothing to send, the time is charged to whatever held the sender back.
 */
#ifndef TESTS_UNIT_CHANNEL_LOSSY_H
#define TESTS_UNIT_CHANNEL_LOSSY_H

#include <stdbool.h>
#include <stdint.h>

struct gw_scheme;

struct lossy_path {
	uint64_t rtt_ns;
	uint64_t rate_bps;
	/* Mean share of packets lost on the way to the receiver, and on the way back. */
	double loss;
	double back;
	/* Mean number of packets lost in a row; 0 or 1: each loss is independent. */
	double burst;
	/* Bytes of a message, and messages under way. */
	uint64_t size;
	uint32_t depth;
	/* Messages in all; 0: enough for twenty more than `depth` and 200 round trips at full rate. */
	uint32_t messages;
	/* Longest time for which each host stops again and again, as on a busy machine, and longest time in between. */
	uint64_t stall_ns;
	uint64_t run_ns;
	/* Longest random delay of a packet, each way. */
	uint64_t jitter_ns;
	uint64_t seed;
	/* Bytes of data in the largest packet that the path carries; 0: as on an MTU of 1500. */
	uint32_t payload;
	/* Share of packets held back, and the longest time for which they are. */
	double reorder;
	uint64_t reorder_ns;
	/* Null: Selective Repeat, unless `automatic`: what operations get that name none. */
	const struct gw_scheme *scheme;
	bool automatic;
	/* Name of the congestion controller; null: the default. */
	const char *congestion;
	/* Events that the queue of a host holds, with which its credit begins; 0: more than the path. */
	uint32_t queue;
	/* Rate of the way back in bits a second; 0: as the way there. Share of packets that arrive twice. */
	uint64_t back_bps;
	double duplicate;
	/* When the rate of the way there changes, in ns after the start, and to what; 0: never. */
	uint64_t step_ns;
	uint64_t step_bps;
	/* When both ways begin to lose everything, in ns after the start, and for how long; 0: never. */
	uint64_t outage_ns;
	uint64_t outage_length_ns;
	/* Messages after which both ends wait until all have ended, and then go on; 0: never. */
	uint32_t rest;
	/* Lanes of the channel; 0: one. */
	uint32_t lanes;
	/* Time after which a line about the sender is printed, again and again; 0: none. */
	uint64_t every_ns;
};

/* Why the link to the receiver had nothing to send. */
enum lossy_idle {
	/* The sender's rate limit. */
	IDLE_PACER,
	/* The controller's window. */
	IDLE_WINDOW,
	/* The receiver's credit. */
	IDLE_CREDIT,
	/* Every message under way was sent once, and no repeat is asked for. */
	IDLE_MESSAGE,
	/* A message waits for a grant. */
	IDLE_GRANT,
	IDLE_REASONS,
};

struct lossy_result {
	/* Whether all messages arrived. */
	bool ended;
	/* Virtual time until the end, and from the tenth message on. */
	uint64_t took_ns;
	uint64_t counted_ns;
	double goodput_bps;
	/* Goodput divided by the rate that loss and headers leave. */
	double share;
	/* Share of the counted time in which the link sent data. */
	double busy;
	/* Share of the counted time for each reason. */
	double idle[IDLE_REASONS];
	/* Largest rate at which the controller believed packets to arrive, as a multiple of the path's. */
	double believed;
	/* Packets sent and sent again, duplicates among those that landed, and probe timeouts. */
	uint64_t sent;
	uint64_t again;
	uint64_t duplicate;
	uint64_t stalls;
	/* Control datagrams of both ends. */
	uint64_t control;
	/* Shares of what the path leaves, from the tenth message on: the sender's control datagrams, and packets that had arrived
	 * before. */
	double control_share;
	double twice_share;
	char explain[512];
};

void lossy_run(const struct lossy_path *path, struct lossy_result *out);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cc.h: congestion control. Events with their time go in, a rate and a window come out.
 *
 * A controller reads no clock, does no I/O and allocates nothing: a struct cc is all the memory it has, and can be
 * copied, thrown away or run in a simulator. The caller counts. It differences the receiver's totals, knows what is in
 * flight, and says so in a report, about four times a round trip (every 0.1 to 5 ms). It sends no faster than the rate,
 * through a pacer, and no more than the window beyond what is in flight.
 *
 * Controllers, by name (cc_find):
 *	default     swift while the round trip is below 3 ms, long-haul above; it decides by itself
 *	long-haul   a model of the path: delivery rate and least round trip; holds a small queue
 *	swift       a target for the delay, for the short round trips inside a building
 *	none        no pacing; the window is the receiver's. For a private link only
 *
 * A further controller is a file with a const struct cc_ops, and a line in cc.c.
 */
#ifndef CONGESTION_CC_H
#define CONGESTION_CC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CC_UNPACED     UINT64_MAX
#define CC_STATE_SIZE  384 /* of one controller, at most */
#define CC_CHOICE_SIZE 80
#define CC_TEXT_SIZE   160 /* holds any line of cc_explain() */

/* Zero stands for the default, or for "not known". */
struct cc_attr {
	uint32_t packet_bytes;	/* 1500 */
	uint64_t link_rate_bps; /* never faster than this: the interface's rate, or a user's cap */
	uint64_t max_window_bytes;     /* never more than this in flight */
	uint64_t initial_window_bytes; /* before anything was measured; 32 packets */
	uint64_t
		target_queue_ns; /* the delay that may stand in queues; the controller's own choice */
};

/* What became known since the last report. */
struct cc_report {
	uint64_t delivered_bytes;
	uint64_t delivered_packets;
	uint64_t lost_packets;
	uint64_t ce_packets; /* of those delivered, marked by a switch */
	uint64_t
		rtt_ns; /* of the latest packet that arrived, without the receiver's hold; 0: none */
	uint64_t in_flight_bytes; /* sent and neither delivered nor lost, as of now */
	bool app_limited;	  /* there was nothing to send for some of the time */
};

struct cc_limits {
	uint64_t rate_bps; /* CC_UNPACED: as fast as you like */
	uint64_t window_bytes;
};

/* What a person would like to know. */
struct cc_sight {
	const char *name;	/* the controller at work, where it is not the one asked for */
	const char *doing;	/* "probing up" */
	uint64_t base_rtt_ns;	/* least round trip; 0: not known yet */
	uint64_t queue_ns;	/* above it */
	uint64_t delivered_bps; /* as last measured; 0: not known */
};

/* A controller. Its state lies in the struct cc; all but sent, cnp and timeout must be there. */
struct cc_ops {
	const char *name;
	size_t state_size;
	void (*init)(void *state, const struct cc_attr *attr, uint64_t now_ns);
	void (*sent)(void *state, uint64_t bytes, uint64_t now_ns);
	void (*report)(void *state, const struct cc_report *report, uint64_t now_ns);
	void (*cnp)(void *state, uint64_t now_ns);
	void (*timeout)(void *state, uint64_t now_ns);
	void (*limits)(const void *state, struct cc_limits *out);
	void (*sight)(const void *state, struct cc_sight *out);
};

extern const struct cc_ops cc_default, cc_long_haul, cc_swift, cc_none;

struct cc {
	const struct cc_ops *ops;
	struct cc_attr attr;
	uint64_t credit_bytes;
	/* Room for one controller and for what `default` needs to choose one. */
	_Alignas(8) unsigned char state[CC_STATE_SIZE + CC_CHOICE_SIZE];
};

/* NULL if there is none of that name. */
const struct cc_ops *cc_find(const char *name);

/* The i-th controller, NULL past the last: for listing them. */
const struct cc_ops *cc_at(size_t i);

void cc_init(struct cc *cc, const struct cc_ops *ops, const struct cc_attr *attr, uint64_t now_ns);

/* That many bytes left. */
void cc_sent(struct cc *cc, uint64_t bytes, uint64_t now_ns);

void cc_report(struct cc *cc, const struct cc_report *report, uint64_t now_ns);

/* A congestion notification packet came: some packets were marked. */
void cc_cnp(struct cc *cc, uint64_t now_ns);

/* Nothing was heard for so long that all in flight was given up. */
void cc_timeout(struct cc *cc, uint64_t now_ns);

/* What the receiver can buffer; without limit until it is said. */
void cc_credit(struct cc *cc, uint64_t window_bytes, uint64_t now_ns);

/* The window is never below one packet, unless the receiver's credit is; the rate never 0. */
struct cc_limits cc_limits(const struct cc *cc);

/*
 * One line for a person: "long-haul: probing up: 940 Mbit/s, queue 1.2 ms over 25.0 ms, window 3.2 MB". Returns its
 * length; cut if it does not fit `size`.
 */
size_t cc_explain(const struct cc *cc, char *text, size_t size);

#endif

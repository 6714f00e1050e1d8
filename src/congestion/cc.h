/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cc.h: congestion control. Events with their time go in, a rate and a window (bytes in flight) come out.
 *
 * A controller reads no clock, does no I/O and allocates nothing: struct cc is all of its memory. The caller counts
 * packets and bytes and passes a report about four times in a round trip (every 0.1 to 5 ms). It sends at most at the
 * rate, through a pacer, and keeps at most the window in flight.
 *
 * Controllers, by name (cc_find):
 *	default     swift while the round-trip time is below 3 ms, otherwise long-haul
 *	long-haul   a model of the path: delivery rate and minimum round-trip time; keeps a small queue
 *	swift       a delay target, for the short round trips of a data centre
 *	none        no pacing; the window is the receiver's credit. For a private link only
 *
 * To add a controller, write a file with a const struct cc_ops and list it in cc.c.
 *
 * These types stay apart from struct gw_gate and struct gw_path_report: the gate decides about the packets of one queue
 * pair, while a controller counts the bytes of one path, which two queue pairs may share. governor.c joins the two.
 */
#ifndef CONGESTION_CC_H
#define CONGESTION_CC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As a rate: no pacing. */
#define CC_UNPACED UINT64_MAX
/* Bytes of state that a controller may have. */
#define CC_STATE_SIZE 672
/* Bytes that hold any text of cc_explain(). */
#define CC_TEXT_SIZE 160

/* Zero stands for the default. */
struct cc_attr {
	/* bytes in a packet; default 1500 */
	uint32_t packet_bytes;
	/* highest rate, that of the interface or a user's limit; default: no limit */
	uint64_t link_rate_bps;
	/* largest window; default: no limit */
	uint64_t max_window_bytes;
	/* window before the first measurement; default: 32 packets or 64 KiB, whichever is less, but at least 10 packets */
	uint64_t initial_window_bytes;
	/* queueing delay that the controller may cause; default: chosen by the controller */
	uint64_t target_queue_ns;
	/* time until a host has seen a packet, which looks like a queue; default 50 us: a process that sleeps on a socket */
	uint64_t wake_ns;
};

/* What became known since the last report. */
struct cc_report {
	uint64_t delivered_bytes;
	uint64_t delivered_packets;
	/* packets lost, and packets sent that they are counted among: 0 of 0 in a report that tells nothing about loss */
	uint64_t lost_packets;
	uint64_t counted_packets;
	/* packets among those delivered that a switch marked (ECN CE) */
	uint64_t marked_packets;
	/* round-trip time of the latest packet delivered, without the receiver's hold time; 0: not measured */
	uint64_t rtt_ns;
	/* part of it that was spent in queues on the way back, which this end's data does not cause; below rtt_ns */
	uint64_t return_ns;
	/* bytes in that packet; 0: not known */
	uint32_t rtt_bytes;
	/* bytes that it has more than those measured before, whose round-trip times may not compare; 0: they do; set by
	 * cc_report() */
	uint32_t larger;
	/* bytes sent and neither delivered nor lost, as of now */
	uint64_t in_flight_bytes;
	/* for some of the time the sender had nothing to send */
	bool app_limited;
};

struct cc_limits {
	/* CC_UNPACED: no pacing */
	uint64_t rate_bps;
	uint64_t window_bytes;
};

/* What a controller measured and does, for cc_explain(). */
struct cc_status {
	/* such as "probing up" */
	const char *doing;
	/* minimum round-trip time; 0: not measured yet */
	uint64_t base_rtt_ns;
	/* round-trip time above the minimum */
	uint64_t queue_ns;
	/* latest delivery rate; 0: not measured */
	uint64_t delivered_bps;
};

/* A controller. `state` is in struct cc. sent, cnp and timeout may be null. */
struct cc_ops {
	const char *name;
	/* bytes of state; at most CC_STATE_SIZE */
	size_t state_size;
	/* attr has no zeros but target_queue_ns */
	void (*init)(void *state, const struct cc_attr *attr, uint64_t now_ns);
	void (*sent)(void *state, uint64_t bytes, uint64_t now_ns);
	void (*report)(void *state, const struct cc_report *report, uint64_t now_ns);
	void (*cnp)(void *state, uint64_t now_ns);
	void (*timeout)(void *state, uint64_t now_ns);
	void (*limits)(const void *state, struct cc_limits *out);
	void (*status)(const void *state, struct cc_status *out);
};

/* cc_default is a name only: cc.c runs swift or long-haul for it. */
extern const struct cc_ops cc_default, cc_long_haul, cc_swift, cc_none;

struct cc {
	/* the controller at work */
	const struct cc_ops *ops;
	/* it was chosen by `default`, which may replace it */
	bool choosing;
	/* for `default`: minimum round-trip time in this period, UINT64_MAX if not measured, and when the period began */
	uint64_t least_ns;
	uint64_t period_at_ns;
	/* bytes in the packets whose round-trip times the controller is told, and consecutive samples of smaller ones */
	uint32_t sample_bytes;
	uint32_t smaller;
	/* without zeros, except target_queue_ns */
	struct cc_attr attr;
	/* bytes that the receiver can buffer */
	uint64_t credit_bytes;
	/* what the controller allows in its present state */
	struct cc_limits limits;
	_Alignas(8) unsigned char state[CC_STATE_SIZE];
	/* state before a timeout, if there was one and no report came since */
	bool is_saved;
	_Alignas(8) unsigned char saved[CC_STATE_SIZE];
};

/* Returns the controller of that name, or NULL. */
const struct cc_ops *cc_find(const char *name);

/* Returns the i-th controller, for listing them; NULL after the last. */
const struct cc_ops *cc_at(size_t i);

void cc_init(struct cc *cc, const struct cc_ops *ops, const struct cc_attr *attr, uint64_t now_ns);

/* Data of that many bytes left. */
void cc_sent(struct cc *cc, uint64_t bytes, uint64_t now_ns);

void cc_report(struct cc *cc, const struct cc_report *report, uint64_t now_ns);

/* Goes on with what another controller has learned of the same path. Returns false, without effect, if it is of another kind. */
bool cc_follow(struct cc *cc, const struct cc *other);

/* A congestion notification packet arrived: some packets were marked. */
void cc_cnp(struct cc *cc, uint64_t now_ns);

/* Nothing that was sent is known to have arrived for so long that the path may be gone: the window becomes 4 packets. */
void cc_timeout(struct cc *cc, uint64_t now_ns);

/* What was in flight at the last timeout has arrived after all: everything becomes as it was before the timeout. Without
 * effect if a report came since. */
void cc_undo_timeout(struct cc *cc);

/* Sets how much the receiver can buffer; without limit until the first call. */
void cc_credit(struct cc *cc, uint64_t window_bytes, uint64_t now_ns);

/* Returns rate and window. The rate is never 0; the window is at least one packet unless the credit is less. */
struct cc_limits cc_limits(const struct cc *cc);

/*
 * Writes one line for people, such as "long-haul: probing up: 940 Mbit/s, queue 1.2 ms over 25.0 ms, window 3.2 MB".
 * Returns its length; the line is truncated if it does not fit.
 */
size_t cc_explain(const struct cc *cc, char *text, size_t size);

#endif

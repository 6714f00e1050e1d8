/* SPDX-License-Identifier: BSD-3-Clause */
/* feedback.h: what each end knows of the other through reports. Private to message/; the ideas are in feedback.c. */
#ifndef MESSAGE_FEEDBACK_H
#define MESSAGE_FEEDBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "message/estimate.h"

struct control_message;
struct gw_qp;
struct gw_send;
struct sent_record; /* feedback.c */

/* Questions about the round trip and signs of life are numbered in blocks: within one none was answered. So whoever is asked
 * knows from two of them, however many were lost in between, that its answers do not arrive. */
#define PROBE_BLOCK_SIZE 256u
#define PROBE_BLOCK(id)	 ((id) & ~(PROBE_BLOCK_SIZE - 1))

/* Bytes of a report on the wire, near enough. */
#define REPORT_COST 140
/* How long a receiver waits before it reports what landed: by the round trip, and where data has not paid for a report. */
#define REPORT_DELAY_MIN_NS  UINT64_C(100000)
#define REPORT_DELAY_MAX_NS  UINT64_C(5000000)
#define REPORT_DELAY_POOR_NS UINT64_C(50000000)

/* What came back about what was sent, and what is to be reported about what came. */
struct feedback {
	/* ---- as sender ---- */
	/* the latest packets sent, by sequence number */
	struct sent_record *log;
	struct path_estimate path;
	/* packets lost, and packets sent that they are counted among, that the gate was not told of yet; below zero: too many
	 * were told */
	double untold_lost, untold_sent;
	/* when to ask the gate again */
	uint64_t gate_at;
	/* when a report was last asked for because the gate was shut */
	uint64_t asked_ns;
	/* packets sent until then */
	uint32_t asked_sequence;
	/* when the next probe timeout is due */
	uint64_t timeout_at;
	/* when the packets leave that may leave by the latest answer of the gate; later than now: the host holds them until then */
	uint64_t leave_ns;
	/* when data last left, or leaves */
	uint64_t sent_ns;
	/* packets sent in all, and how many of them again */
	uint64_t sent;
	uint64_t retransmitted;
	/* entries of the log, less one */
	uint32_t log_mask;
	/* packets that the peer lets be in flight */
	uint32_t window;
	/* packets sent, wrapping: the sequence number of the latest */
	uint32_t sequence;
	/* sequence number of the latest packet known to have arrived, or that need not be waited for: later ones are in flight */
	uint32_t echoed;
	/* peer_arrived when `echoed` last moved */
	uint32_t echoed_arrived;
	/* sequence number of the packet whose echo was taken last */
	uint32_t sampled;
	/* packets that have arrived at the peer, duplicates and late ones included */
	uint32_t peer_arrived;
	/* marked packets that the peer has seen */
	uint32_t peer_ce;
	/* packets that the peer's host dropped for want of room, of all its queue pairs */
	uint32_t peer_overrun;
	/* peer_arrived and peer_ce as last told to the gate */
	uint32_t told_arrived;
	uint32_t told_ce;
	/* congestion notifications of the peer */
	uint32_t cnps;
	/* probe timeouts in a row without an arrival */
	uint32_t timeouts;
	/* times in a row that packets left beyond the window because an answer showed no arrival */
	uint32_t in_vain;
	/* `sequence` when the gate was last told of a timeout */
	uint32_t timeout_sequence;
	/* packets that may leave although the window is full, since a probe timeout or an answer that shows no arrival */
	uint32_t beyond;
	/* `sequence` when there was last nothing to send */
	uint32_t dry;
	/* there was nothing to send since the gate was last told */
	bool idle;
	/* the gate was told of a timeout, and nothing has arrived since */
	bool timed_out;

	/* ---- as receiver ---- */
	/* the packet to be echoed is known */
	bool echo_valid;
	/* the latest packet that landed, and when */
	uint32_t echo_msn;
	uint32_t echo_packet;
	uint64_t echo_time;
	/* when a report is due */
	uint64_t report_at;
	/* packets: landed, landed twice, arrived after their message ended, marked by a switch */
	uint32_t landed;
	uint32_t duplicate;
	uint32_t late;
	uint32_t ce;
	struct hole_count holes;
	/* packets landed since the last report */
	uint32_t unreported;
	/* hundredths of a byte of report that the data so far has paid for */
	int32_t budget;
	/* packets in flight that the peer was last allowed */
	uint32_t advertised;

	/* ---- both ---- */
	/* probes sent since the last sign of life */
	uint32_t probes_unanswered;
	/* round-trip time and its deviation, smoothed */
	uint64_t rtt_ns;
	uint64_t rtt_var_ns;
	/* minimum of the last 15 to 30 s; that of the current 15 s, and when these began */
	uint64_t rtt_min_ns;
	uint64_t rtt_min_now_ns;
	uint64_t rtt_min_since_ns;
	/* time that the two hosts add to the answer of a probe, smoothed: no part of the round trip, but of any wait */
	uint64_t hold_ns;
	/* when the next probe is due; when it is due once the last one is answered */
	uint64_t probe_at;
	uint64_t probe_later;
	/* packets sent and landed when last probed */
	uint64_t activity;
	/* when the latest probe was sent that was answered */
	uint64_t answered_ns;
	/* the peer's latest probe: its time, when it came, its number */
	uint64_t reply_time;
	uint64_t reply_since;
	uint32_t reply_id;
	/* when the peer's first probe since it had an answer was answered; 0: not yet */
	uint64_t replied_ns;
	/* number of this end's latest probe */
	uint32_t probe_id;
};

int feedback_start(struct gw_qp *qp);
void feedback_stop(struct gw_qp *qp);
/* Returns how many of `want` packets with `payload` bytes may leave now, or, if `early`, at leave_ns. */
uint32_t feedback_allow(struct gw_qp *qp, uint32_t payload, uint32_t want, bool early);
void feedback_reopen(struct gw_qp *qp);
/* So many packets left, from this one on, with `bytes` of data each; the first is the `number`-th on its lane. */
void feedback_sent(struct gw_qp *qp, uint32_t msn, uint32_t packet, uint32_t packets,
		   uint32_t bytes, bool again, uint32_t lane, uint32_t number);
/* The lane that a packet was last sent on; PATH_NONE when that is forgotten. */
uint32_t feedback_lane(const struct gw_qp *qp, uint32_t msn, uint32_t packet);
/* So many packets landed, of which this is the last, with so many bytes in all. */
void feedback_landed(struct gw_qp *qp, uint32_t msn, uint32_t packet, uint32_t packets,
		     uint64_t bytes, bool ce);
void feedback_reported(struct gw_qp *qp, const struct control_message *message);
void feedback_rtt(struct gw_qp *qp, uint64_t sample_ns);
/* The answer to a probe waited this long at both hosts. */
void feedback_held(struct gw_qp *qp, uint64_t hold_ns);
/* The receiver completed this message: nothing of it is waited for any more. */
void feedback_ended(struct gw_qp *qp, const struct gw_send *send);
/* Nothing came for a probe timeout although the window is full. */
void feedback_timeout(struct gw_qp *qp);
/* A probe that left at `asked_ns` was answered, after the report that came with the answer. */
void feedback_answered(struct gw_qp *qp, uint64_t asked_ns);
/* Whether the data that has left since this packet pays for two reports, or for a request and its report. */
bool feedback_pays_since(const struct gw_qp *qp, uint32_t sequence);
/* Returns the probe timeout: how long an echo takes at most, as far as is known. */
uint64_t feedback_pto_ns(const struct gw_qp *qp);
/* The packets in flight do not count any more: they are larger than the path carries. */
void feedback_forget(struct gw_qp *qp);
void feedback_reporting(struct gw_qp *qp);
void feedback_credit(struct gw_qp *qp, uint32_t window);

#endif

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

/* The longest time that a receiver waits before it reports what landed. */
#define REPORT_DELAY_POOR_NS UINT64_C(50000000)

/* What came back about what was sent, and what is to be told about what came. */
struct feedback {
	/* as sender */
	struct sent_record *log;
	uint32_t log_mask;
	uint32_t window;   /* the peer's */
	uint32_t sequence; /* packets sent */
	uint32_t echoed;   /* the sequence number of the latest one known to have landed */
	uint32_t peer_landed;
	uint32_t heard_landed; /* the same, of the latest report and not of the latest echo */
	uint32_t
		peer_landed_at_echo; /* and the pair (sequence, landed) the loss estimate last used */
	uint32_t echo_at_loss;
	struct path_estimate path;
	uint32_t peer_ce;			      /* marks that the peer has seen */
	uint32_t told_landed, told_sequence, told_ce; /* to the gate */
	int32_t missing; /* packets passed and not landed, since then; below zero: landed and not passed yet */
	bool idle;	   /* there was nothing to send since it was last told */
	uint64_t gate_at;  /* when to ask it again */
	uint64_t asked_ns; /* when a report was last asked for because the gate was shut */
	uint32_t cnps;
	uint32_t stalls; /* in a row */
	uint64_t stall_at;
	uint64_t retransmitted;
	uint64_t sent;
	/* as receiver */
	uint32_t landed;
	uint32_t duplicate;
	uint32_t late;
	uint32_t ce;
	uint32_t echo_msn;
	uint32_t echo_packet;
	uint64_t echo_time;
	bool echo_valid;
	struct hole_count holes;
	uint32_t unreported; /* packets */
	int32_t budget;	     /* hundredths of a byte of report that the data so far has paid for */
	uint64_t report_at;
	uint32_t advertised; /* the window last told */
	uint32_t epoch;	     /* in which something landed last */
	/* both */
	uint64_t rtt_ns;
	uint64_t rtt_var_ns;
	uint64_t rtt_min_ns;
	uint64_t probe_at;
	uint64_t probe_later; /* the same, once the last one is answered */
	uint32_t probes_unanswered;
	uint64_t activity; /* packets both ways when last probed */
	uint32_t probe_id;
	uint64_t answered_ns; /* when the latest probe was sent that was answered */
	uint32_t reply_id;
	uint64_t reply_time;
	uint64_t reply_since;
};

int feedback_start(struct gw_qp *qp);
void feedback_stop(struct gw_qp *qp);
/* How many of `want` packets with `payload` bytes may leave now. */
uint32_t feedback_allow(struct gw_qp *qp, uint32_t payload, uint32_t want);
void feedback_reopen(struct gw_qp *qp);
/* The `number`-th on its lane. */
void feedback_sent(struct gw_qp *qp, uint32_t msn, uint32_t packet, bool again, uint32_t lane,
		   uint32_t number);
/* The lane that a packet was last sent on; PATH_NONE when that is forgotten. */
uint32_t feedback_lane(const struct gw_qp *qp, uint32_t msn, uint32_t packet);
void feedback_landed(struct gw_qp *qp, uint32_t msn, uint32_t packet, uint32_t bytes, bool ce);
void feedback_reported(struct gw_qp *qp, const struct control_message *message);
void feedback_rtt(struct gw_qp *qp, uint64_t sample_ns);
/* The receiver completed this message. */
void feedback_ended(struct gw_qp *qp, const struct gw_send *send);
void feedback_stalled(struct gw_qp *qp);
void feedback_reporting(struct gw_qp *qp);
void feedback_credit(struct gw_qp *qp, uint32_t window);

#endif

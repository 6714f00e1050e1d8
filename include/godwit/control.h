/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h: what the two ends of a message tell each other, and what is known of the path.
 *
 * Control travels as single datagrams beside the data and may be lost, repeated or overtaken like any packet. A scheme
 * makes its statements absolute ("these packets are missing") rather than relative, and repeats them on a timer.
 */
#ifndef GODWIT_CONTROL_H
#define GODWIT_CONTROL_H

#include <godwit/message.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An acknowledgement: cumulative up to `below` except for the runs. */
struct gw_nack {
	uint32_t round; /* the receiver's own numbering */
	uint32_t below; /* packets below this and in no run have landed */
	const struct gw_run *runs;
	uint32_t count;
	uint32_t reserved;
};
#define GW_NACK_RUNS_MAX 96

/* Sends one to the message's sender. At most GW_NACK_RUNS_MAX runs (-EINVAL). -EALREADY once completed, -EAGAIN when
 * the fabric has no room: the scheme's timer will repeat it. */
GW_API int gw_recv_nack(struct gw_recv *recv, const struct gw_nack *nack);

/* Up to GW_CONTROL_MAX bytes (-EMSGSIZE) from one end's scheme to the other's, for this message. -EAGAIN likewise. */
#define GW_CONTROL_MAX 512
GW_API int gw_send_control(struct gw_send *send, const void *data, size_t length);
GW_API int gw_recv_control(struct gw_recv *recv, const void *data, size_t length);

/* One timer a request. `at` is in the context's clock; 0 stops it; setting it again moves it. */
GW_API int gw_send_timer(struct gw_send *send, uint64_t at);
GW_API int gw_recv_timer(struct gw_recv *recv, uint64_t at);

/* A request's own memory for a scheme: zeroed, GW_STATE_BYTES, aligned for anything, gone with the handle. */
#define GW_STATE_BYTES 192
GW_API void *gw_send_state(struct gw_send *send);
GW_API void *gw_recv_state(struct gw_recv *recv);

GW_API struct gw_qp *gw_send_qp(const struct gw_send *send);
GW_API struct gw_qp *gw_recv_qp(const struct gw_recv *recv);

/* The time, as gw_now_ns(). */
GW_API uint64_t gw_qp_now_ns(const struct gw_qp *qp);

/* What is known of the path to the peer. */
struct gw_estimate {
	uint64_t rtt_ns;     /* smoothed; 0 until measured */
	uint64_t rtt_var_ns; /* mean deviation */
	uint64_t rtt_min_ns;
	double loss;		/* of packets sent, smoothed over some hundreds */
	uint32_t window;	/* packets the receiver can buffer */
	uint32_t in_flight;	/* packets sent and not yet accounted for */
	uint64_t sent;		/* data packets handed to the fabric */
	uint64_t retransmitted; /* of which again */
	uint32_t marked;	/* of which the peer saw marked as having met congestion; wraps */
	uint32_t cnps;		/* congestion notifications from the peer; wraps */
	uint64_t reserved[3];
};
GW_API int gw_qp_estimate(const struct gw_qp *qp, struct gw_estimate *out);

/* How long to wait for an answer before believing it lost: smoothed RTT and four deviations, never under a
 * millisecond, 50 ms before anything was measured. */
GW_API uint64_t gw_qp_patience_ns(const struct gw_qp *qp);

#ifdef __cplusplus
}
#endif
#endif

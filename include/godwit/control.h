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
	/* Number of the request, in the receiver's own numbering. */
	uint32_t round;
	/* Packets below this and in no run have landed. */
	uint32_t below;
	const struct gw_run *runs;
	uint32_t count;
	uint32_t reserved;
};
#define GW_NACK_RUNS_MAX 96

/* Sends one to the message's sender. At most GW_NACK_RUNS_MAX runs (-EINVAL); where one datagram does not carry all of
 * them `below` ends with the last that fits. -EALREADY once completed, -EAGAIN when the fabric has no room: the scheme's
 * timer will repeat it. */
GW_API int gw_recv_nack(struct gw_recv *recv, const struct gw_nack *nack);

/* Names the holes in [*from, below), as many as one datagram carries, and moves *from behind the last of them. Returns how
 * many packets were named: 0 when there is no hole. A datagram that the fabric has no room for counts as sent and lost.
 * -EINVAL, -ESTALE, -EALREADY once completed. */
GW_API int gw_recv_nack_holes(struct gw_recv *recv, uint32_t round, uint32_t *from, uint32_t below);

/* For a scheme that computes lost packets from others: packet `packet` of the message now lies in its place and counts
 * as landed, in the bitmap, in the status and in the result. The packet itself may still land: it brings the same
 * bytes. -EAGAIN until announced, -ERANGE past the message's end, -EALREADY once completed or when it is there. */
GW_API int gw_recv_rebuilt(struct gw_recv *recv, uint32_t packet);

/* Up to GW_CONTROL_MAX bytes (-EMSGSIZE) from one end's scheme to the other's, for this message. -EAGAIN likewise. */
#define GW_CONTROL_MAX 512
GW_API int gw_send_control(struct gw_send *send, const void *data, size_t length);
GW_API int gw_recv_control(struct gw_recv *recv, const void *data, size_t length);

/*
 * Order. Packets of a queue pair are sent for the first time message by message, ascending within each where the sender
 * puts them so, and puts of packets that were sent before go first. A lane of the network keeps them nearly in order. So
 * packets that land prove others lost. A position counts from a message's start: packets, and in the high 32 bits the
 * messages after it.
 */
#define GW_POSITION_END ((uint64_t)1 << 32) /* past this message */
/* Where sending has got to: what is put now to be repeated leaves before anything from there on. -EALREADY once the queue
 * pair has done with it. */
GW_API int gw_send_position(const struct gw_send *send, uint64_t *out);
/* What was first sent before this has landed or is lost, as far as can be told; some slack for packets out of order, which
 * is learnt, is taken off. -EALREADY once completed. */
GW_API int gw_recv_passed(const struct gw_recv *recv, uint64_t *out);
/* Has `progress` called once when that is reached, though none of this message's packets landed; 0: not. -EAGAIN before
 * it is granted, -EALREADY once completed. */
GW_API int gw_recv_watch(struct gw_recv *recv, uint64_t position);

/* Sends the peer at once, in several copies, the results of receives that it does not know: for whoever is going to close another
 * queue pair whose end makes the peer close this one. -EINVAL, -ESTALE. */
GW_API int gw_qp_tell_results(struct gw_qp *qp);

/* One timer a request. `at` is in the context's clock; 0 stops it; setting it again moves it. */
GW_API int gw_send_timer(struct gw_send *send, uint64_t at);
GW_API int gw_recv_timer(struct gw_recv *recv, uint64_t at);
/* And one a queue pair, for whoever is above it. */
GW_API int gw_qp_timer(struct gw_qp *qp, uint64_t at);

/* A request's own memory for a scheme: zeroed, GW_STATE_BYTES, aligned for anything, gone with the handle. */
#define GW_STATE_BYTES 384
GW_API void *gw_send_state(struct gw_send *send);
GW_API void *gw_recv_state(struct gw_recv *recv);

/* Gives a request other handlers, from the next call on: a scheme hands a message over to another one. `arg` and the
 * request's memory stay. -EINVAL, -ESTALE. */
GW_API int gw_send_set_handler(struct gw_send *send, const struct gw_send_handler *handler);
GW_API int gw_recv_set_handler(struct gw_recv *recv, const struct gw_recv_handler *handler);

GW_API struct gw_qp *gw_send_qp(const struct gw_send *send);
GW_API struct gw_qp *gw_recv_qp(const struct gw_recv *recv);

/* The time, as gw_now_ns(). */
GW_API uint64_t gw_qp_now_ns(const struct gw_qp *qp);

/* What is known of the path to the peer. */
struct gw_estimate {
	/* Round-trip time, smoothed, in ns; 0 until measured. */
	uint64_t rtt_ns;
	/* Mean deviation of the round-trip time, in ns. */
	uint64_t rtt_var_ns;
	/* Shortest round-trip time, in ns. */
	uint64_t rtt_min_ns;
	/* Share of packets lost, smoothed over some hundreds. */
	double loss;
	/* Packets the receiver can buffer. */
	uint32_t window;
	/* Packets sent and not yet accounted for. */
	uint32_t in_flight;
	/* Data packets handed to the fabric. */
	uint64_t sent;
	/* Of those, the ones sent before. */
	uint64_t retransmitted;
	/* Data packets that the peer saw marked as having met congestion; wraps. */
	uint32_t marked;
	/* Congestion notifications from the peer; wraps. */
	uint32_t cnps;
	/* Share of packets lost, over some dozens of losses: for what is rare. */
	double loss_mean;
	/* Packets lost in a row, on average; 1: losses are independent, or unknown. */
	double burst;
	/* Rate at which data landed while it flowed, in bit/s; 0 until measured. */
	uint64_t rate_bps;
	/* Bytes of data in a full packet: of the latest message that this end was granted, and of the next that it grants. */
	uint32_t payload_send;
	uint32_t payload_recv;
	/* The same for the smallest packets that the queue pair uses, which every path carries, and for the largest. */
	uint32_t payload_floor;
	uint32_t payload_most;
	/* 1: the peer tries no larger packets for now. */
	uint32_t payload_settled;
	/* Most packets in a message: what the immediate can count. */
	uint32_t packets_most;
	/* Sends that were posted and whose results are not known. */
	uint32_t sends;
	/* Time by which packets overtake each other, in ns, about; 0: they arrive in order. */
	uint64_t overtaken_ns;
	/* Time that usually passes at most until a host has seen a packet that reached it, in ns: it is no queue of the path. */
	uint64_t wake_ns;
};
GW_API int gw_qp_estimate(const struct gw_qp *qp, struct gw_estimate *out);

/* What is known of one of several lanes to the peer. */
struct gw_lane {
	/* Packets sent; this and the next two wrap. */
	uint32_t sent;
	/* Packets landed, as the peer last reported. */
	uint32_t landed;
	/* Landed packets that were marked as having met congestion. */
	uint32_t marked;
	/* 1: the lane lost too much, and is out of use but for a try now and then. */
	uint32_t retired;
	/* Round-trip time, smoothed, in ns; 0 until measured. */
	uint64_t rtt_ns;
	/* Share of packets lost, of some hundreds. */
	double loss;
	uint64_t reserved[2];
};
/* -ERANGE past the last one; there are none where there is one way only. */
GW_API int gw_qp_lane(const struct gw_qp *qp, uint32_t index, struct gw_lane *out);

/* What became known of this end's packets since the last such report. */
struct gw_path_report {
	uint64_t delivered_packets;
	/* Packets lost of the `counted_packets`; one that was only late is taken back. */
	uint64_t lost_packets;
	/* Delivered packets that a queue on the way marked. */
	uint64_t marked_packets;
	/* Round-trip time of the latest packet that landed, without the receiver's delay, in ns; 0: none. */
	uint64_t rtt_ns;
	uint64_t in_flight_packets;
	/* Bytes of data in a full packet. */
	uint32_t payload;
	/* 1: for some of the time there was nothing to send. */
	uint32_t idle;
	/* Bytes of data in the packet that rtt_ns was measured with: a longer packet takes longer on a slow link. */
	uint32_t rtt_bytes;
	uint32_t reserved_32;
	/* Packets sent whose loss or arrival was counted since the last report. Losses are counted once a round trip, packets
	 * delivered in every report: only these two make a share. */
	uint64_t counted_packets;
	/* Part of rtt_ns that the report spent in queues on its way back, in ns; 0 where it is not known. */
	uint64_t return_queue_ns;
};

/*
 * Whoever decides when data leaves: congestion control, a rate cap, a kill switch. Called inside gw_progress(); must not
 * call back into the library. Each may be null.
 */
struct gw_gate {
	/* How many packets of `payload` bytes may leave now. When fewer than one, *again_ns is when to ask again;
	 * UINT64_MAX: after the next report. */
	uint32_t (*allow)(void *arg, uint32_t in_flight, uint32_t payload, uint64_t now,
			  uint64_t *again_ns);
	void (*sent)(void *arg, uint32_t packets, uint64_t bytes, uint64_t now);
	void (*report)(void *arg, const struct gw_path_report *report, uint64_t now);
	/* The peer notified congestion. */
	void (*cnp)(void *arg, uint64_t now);
	/* Of what is in flight, nothing has arrived for three probe timeouts: the path may be gone. */
	void (*timeout)(void *arg, uint64_t now);
	/* The receiver can buffer so many packets. */
	void (*credit)(void *arg, uint32_t packets, uint64_t now);
	/* The last timeout was wrong: what was in flight then has arrived. Comes before the report about it. */
	void (*undo_timeout)(void *arg, uint64_t now);
	/* GW_GATE_AHEAD or 0. */
	uint32_t flags;
};

/* allow() and sent() may be passed a time some milliseconds in the future, when *again_ns names it: that of packets which
 * are handed over now, and which the host holds until then. Times of later calls may be earlier. */
#define GW_GATE_AHEAD 1u

/* Several queue pairs may share a gate. Null takes it away: the receiver's buffer is then the only limit. */
GW_API int gw_qp_set_gate(struct gw_qp *qp, const struct gw_gate *gate, void *arg);
/* Asks the gate again now: it has changed its mind. */
GW_API int gw_qp_reopen(struct gw_qp *qp);

/* How long to wait for an answer before believing it lost: smoothed RTT and four deviations or a quarter, and the time that
 * the hosts take to answer; never under a millisecond, 50 ms before anything was measured. */
GW_API uint64_t gw_qp_patience_ns(const struct gw_qp *qp);
/* How long an answer takes, and a little more: to be asked again after that costs a datagram and no more. Smoothed RTT and
 * two deviations or an eighth, and the time that the hosts take to answer; never under half a millisecond, 50 ms before
 * anything was measured. */
GW_API uint64_t gw_qp_answer_ns(const struct gw_qp *qp);

#ifdef __cplusplus
}
#endif
#endif

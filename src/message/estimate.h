/* SPDX-License-Identifier: BSD-3-Clause */
/* estimate.h: the sums behind what is known of a path. Private to message/; the ideas are in estimate.c. */
#ifndef MESSAGE_ESTIMATE_H
#define MESSAGE_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

struct control_report;
struct feedback;
struct gw_qp;
struct gw_recv;

#define LOSS_POINTS 5

/* Packets sent up to some moment, and how many of them were lost. */
struct loss_point {
	double sent;
	double lost;
};

/* Losses: packets sent less packets arrived, as the echoes show them. */
struct loss_meter {
	/* the latest echo: its sequence number, and packets that had arrived then */
	uint32_t sequence;
	uint32_t arrived;
	/* the same since the beginning, without wrap */
	int64_t sent_total;
	int64_t arrived_total;
	/* the echoes of this round trip: how many, their sums, when it began, and whether the receiver overran in it */
	uint32_t echoes;
	struct loss_point sum;
	uint64_t since_ns;
	bool overran;
	/* mean of the echoes of the round trip before */
	struct loss_point mean;
	/* earlier means, each LOSS_STEP packets after the one before; the latest is the last */
	struct loss_point points[LOSS_POINTS];
};

/* At the sender. */
struct path_estimate {
	struct loss_meter meter;
	/* share of packets lost in the latest LOSS_POINTS - 1 steps */
	float loss;
	/* packets sent and lost, behind the mean loss */
	float span, lost;
	/* the same since it was last compared with them */
	float late_sent, late_lost;
	/* runs of lost packets, and packets in them */
	float runs, run_packets;
	/* runs of holes and packets in them, as last reported */
	uint32_t peer_runs, peer_packets;
	/* packets, their bytes and the time behind the rate */
	double flow_packets, flow_bytes, flow_ns;
	/* time of the latest echo that the rate counts, or 0 */
	uint64_t flow_at;
	uint32_t flow_msn, flow_sequence, flow_arrived;
	/* least time of a report on its way back, by two clocks that differ, in ns; when it was seen, or 0 */
	int64_t return_least_ns;
	uint64_t return_at;
	/* when the latest packet left that is known to have arrived, in ns */
	uint64_t arrived_sent_ns;
	/* longest time by which a packet left before another that arrived before it, in ns; it fades */
	uint64_t overtaken_ns;
};

/* At the receiver: runs of packets that did not come in their turn. */
struct hole_count {
	uint32_t runs;
	uint32_t packets;
	uint32_t latest_msn;
	uint32_t latest_first, latest_end;
	uint64_t latest_at;
};

/* An echo came of the packet with this sequence number, which was sent once. */
void estimate_loss(struct gw_qp *qp, uint32_t sequence);
/* Takes the receiver's total of packets that it dropped for want of room. */
void estimate_overrun(struct feedback *f, uint32_t overrun);
/* Leaves the packets in flight out of the loss. */
void estimate_restart(struct feedback *f);
/* A packet that was sent once, at `sent_ns`, has arrived. */
void estimate_order(struct feedback *f, uint64_t sent_ns);
/* An echo came of a packet of this message. `landed_at`: when it landed there, by our clock and but for the way back. */
void estimate_rate(struct gw_qp *qp, uint32_t msn, uint32_t sequence, uint64_t landed_at);
void estimate_holes(struct feedback *f, const struct control_report *report);
/* Returns how long a report waited in queues on its way back, as far as known; `rtt_ns`: the round trip that it ended. */
uint64_t estimate_return_queue(struct gw_qp *qp, const struct control_report *report,
			       uint64_t rtt_ns);
/* A packet landed that was not the next. */
void estimate_gap(struct gw_qp *qp, const struct gw_recv *recv, uint32_t packet);

#endif

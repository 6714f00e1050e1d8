/* SPDX-License-Identifier: BSD-3-Clause */
/* estimate.h: the sums behind what is known of a path. Private to message/; the ideas are in estimate.c. */
#ifndef MESSAGE_ESTIMATE_H
#define MESSAGE_ESTIMATE_H

#include <stdint.h>

struct control_report;
struct feedback;
struct gw_qp;
struct gw_recv;

/* At the sender. */
struct path_estimate {
	float loss;			  /* of late */
	float span, lost;		  /* packets sent and lost, behind the mean loss */
	float runs, run_packets;	  /* losses in a row */
	uint32_t peer_runs, peer_packets; /* as last reported */
	double flow_packets, flow_ns;	  /* behind the rate */
	uint64_t flow_at;		  /* the latest echo that it counts, or 0 */
	uint32_t flow_msn, flow_landed;
};

/* At the receiver: runs of packets that did not come in their turn. */
struct hole_count {
	uint32_t runs;
	uint32_t packets;
	uint32_t latest_msn;
	uint32_t latest_first, latest_end;
	uint64_t latest_at;
};

void estimate_loss(struct feedback *f);
/* `landed_at`: when the packet echoed landed there, by our clock and but for the way back. */
void estimate_rate(struct feedback *f, uint32_t msn, uint64_t landed_at);
void estimate_holes(struct feedback *f, const struct control_report *report);
/* A packet landed that was not the next. */
void estimate_gap(struct gw_qp *qp, const struct gw_recv *recv, uint32_t packet);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* tx.h: packets on their way out of a user-space endpoint, for whoever builds some. Private to fabric/roce. */
#ifndef FABRIC_ROCE_TX_H
#define FABRIC_ROCE_TX_H

#include "fabric/roce/endpoint.h"

#define TX_BATCH 64
#define PAD_MAX	 3
#define TRAILER	 (PAD_MAX + ROCE_ICRC_SIZE)

/* Headers and trailer, gathered around a payload that stays where it is. */
struct frame {
	uint8_t headers[ROCE_HEADERS_MAX];
	uint8_t trailer[TRAILER];
	struct iovec parts[3];
};

/* What the ICRC covers of a lane to the peer; returns the socket that it leaves by. */
int lane_flow(const struct roce_qp *qp, unsigned lane, struct icrc_flow *out);

/* The first `headers` bytes of the frame's are written; this adds the packet's payload, pad and ICRC. Without a flow
 * there is no ICRC but zeros. */
void frame_finish(struct frame *frame, size_t headers, const struct icrc_flow *flow,
		  const struct roce_packet *packet, uint16_t ip_id);
void frame_address(struct frame *frame, union address *to, struct msghdr *out);
/* Sends what it can; returns how many messages are gone, one way or another. */
unsigned frames_push(struct endpoint *endpoint, int fd, struct mmsghdr *messages, unsigned count);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rate_limit.h: holds datagrams to the rate of the port they leave by. A NIC paces its RDMA writes itself. Nothing paces
 * UD datagrams and multicast: a burst at the speed of memory would overflow the first queue on the way, for all
 * receivers at once.
 *
 * It is a token bucket that counts bytes as on the wire. Its depth is what the port sends in a quarter of a millisecond,
 * between 64 KiB (one batch) and 1 MiB. It reads no clock: `now_ns` is the time of the fabric's last poll.
 */
#ifndef FABRIC_RATE_LIMIT_H
#define FABRIC_RATE_LIMIT_H

#include "base/bucket.h"
#include "fabric/fabric.h"

struct rate_limit {
	struct bucket bucket;
	/* Time at which a sender that was refused may try again; UINT64_MAX: none was refused. */
	uint64_t again_ns;
	/* Bytes that each packet has on the wire beyond its data. */
	uint32_t extra;
};

/* Starts with a full bucket. A rate of 0 is no limit. */
void rate_limit_init(struct rate_limit *limit, uint64_t rate_bps, uint32_t extra, uint64_t now_ns);

/* How many of these writes, from the first on, may leave now. When none may, again_ns says when to ask again. */
unsigned rate_limit_allow(struct rate_limit *limit, const struct fabric_write *writes,
			  unsigned count, uint64_t now_ns);

/* Takes the bytes of writes that have left out of the bucket. */
void rate_limit_sent(struct rate_limit *limit, const struct fabric_write *writes, unsigned count,
		     uint64_t now_ns);

/* Called at every poll: forgets a refused sender whose time has come, since it either asks again or no longer wants to. */
static inline void rate_limit_poll(struct rate_limit *limit, uint64_t now_ns)
{
	if (now_ns >= limit->again_ns)
		limit->again_ns = UINT64_MAX;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pace.h: holds datagrams to the rate of the port they leave by. A write of a NIC is paced by the NIC; UD and multicast
 * nobody paces, and a burst at the speed of memory is lost in the first queue, for every receiver at once.
 *
 * A token bucket, no deeper than a quarter of a millisecond and 1 MiB, but at least 64 KiB: one batch. Bytes are counted
 * as on the wire. It reads no clock: time is that of the fabric's last poll.
 */
#ifndef FABRIC_PACE_H
#define FABRIC_PACE_H

#include "base/bucket.h"
#include "fabric/fabric.h"

struct pace {
	struct bucket bucket;
	uint64_t again_ns; /* when whoever was sent away should come back; UINT64_MAX: nobody was */
	uint32_t extra;	   /* bytes that each packet has on the wire beyond its data */
};

/* 0: as fast as you like. */
void pace_init(struct pace *pace, uint64_t rate_bps, uint32_t extra, uint64_t now_ns);

/* How many of these may leave now, from the first on. */
unsigned pace_allow(struct pace *pace, const struct fabric_write *writes, unsigned count,
		    uint64_t now_ns);
/* They left. */
void pace_left(struct pace *pace, const struct fabric_write *writes, unsigned count,
	       uint64_t now_ns);

/* At every poll: whoever was sent away may try again, or has changed its mind. */
static inline void pace_poll(struct pace *pace, uint64_t now_ns)
{
	if (now_ns >= pace->again_ns)
		pace->again_ns = UINT64_MAX;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pacer.h: holds a sender to a rate, in bursts that are short in time as well as in bytes.
 *
 * A token bucket (base/bucket.h) whose depth follows the rate: what that sends in burst_ns; at least one packet, or
 * nothing could leave at a low rate; at least one group of packets where the rate sends that many within a millisecond,
 * for batches are what makes sending cheap; at most burst_bytes.
 *
 * A sender that asks at least once every burst_ns (and, at high rates, before burst_bytes have passed) gets its rate
 * exactly.
 *
 * A busy host wakes a sender late. What a sender that was waiting (pacer_next_ns) missed so, beyond the bucket, is not
 * lost: up to late_ns of it is made up for, at a quarter more than the rate. One that had nothing to send missed nothing.
 */
#ifndef CONGESTION_PACER_H
#define CONGESTION_PACER_H

#include "base/bucket.h"

#define PACER_UNPACED BUCKET_UNPACED /* as a rate: send what you like */

/* Zero stands for the default. */
struct pacer_attr {
	uint32_t packet_bytes; /* 1500 */
	uint32_t group_bytes;  /* what one call to the fabric sends at best; 64 KiB */
	uint32_t burst_bytes;  /* 1 MiB */
	uint64_t burst_ns;     /* 1 ms; at most 100 ms */
	uint64_t late_ns;      /* what may be made up for; none; at most 100 ms */
};

struct pacer {
	struct bucket bucket;
	uint32_t packet_bytes;
	uint32_t group_bytes;
	uint32_t burst_bytes;
	uint64_t burst_ns;
};

/* Unpaced until a rate is set. */
void pacer_init(struct pacer *pacer, const struct pacer_attr *attr, uint64_t now_ns);

/* As bucket_set(), with the depth that goes with the rate. */
void pacer_set_rate(struct pacer *pacer, uint64_t rate_bps, uint64_t now_ns);

/* Other bounds in time than at first. */
void pacer_set_times(struct pacer *pacer, uint64_t burst_ns, uint64_t late_ns, uint64_t now_ns);

static inline uint64_t pacer_allow(struct pacer *pacer, uint64_t now_ns)
{
	return bucket_allow(&pacer->bucket, now_ns);
}

static inline void pacer_take(struct pacer *pacer, uint64_t bytes, uint64_t now_ns)
{
	bucket_take(&pacer->bucket, bytes, now_ns);
}

static inline uint64_t pacer_next_ns(struct pacer *pacer, uint64_t bytes, uint64_t now_ns)
{
	return bucket_next_ns(&pacer->bucket, bytes, now_ns);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pacer.h: limits a sender to a rate, in bursts that are bounded in time and in bytes.
 *
 * A token bucket (base/bucket.h) whose depth follows the rate: what the rate sends in burst_ns, but at least one packet, so
 * that data can leave at a low rate; at least what it sends in 2 x burst_ns, 0.1 to 0.5 ms, up to one batch of packets, because
 * sending in batches is cheaper and hosts cannot time shorter bursts; and at most burst_bytes. More would be a queue at the
 * bottleneck whenever a sender begins after a pause.
 *
 * A sender that asks at least once every burst_ns (and, at high rates, every burst_bytes) gets its rate exactly.
 *
 * A busy host wakes a sender late. A sender that was waiting (pacer_next_ns) sends at once what it missed in the first
 * millisecond (1 MiB at most), and catches up on at most late_ns more, at a quarter above the rate. A sender that had nothing to
 * send has missed nothing.
 */
#ifndef CONGESTION_PACER_H
#define CONGESTION_PACER_H

#include "base/bucket.h"

/* As a rate: no limit. */
#define PACER_UNPACED BUCKET_UNPACED

/* Zero stands for the default. */
struct pacer_attr {
	/* bytes in a packet; default 1500 */
	uint32_t packet_bytes;
	/* bytes that one call to the fabric sends at best; default 64 KiB */
	uint32_t batch_bytes;
	/* most bytes in a burst; default 1 MiB */
	uint32_t burst_bytes;
	/* duration of a burst; default 1 ms, at most 100 ms */
	uint64_t burst_ns;
	/* lateness beyond a millisecond that a sender catches up on; default 0: a late sender gets nothing, at most 100 ms */
	uint64_t late_ns;
};

struct pacer {
	struct bucket bucket;
	/* as in struct pacer_attr, without zeros */
	uint32_t packet_bytes;
	uint32_t batch_bytes;
	uint32_t burst_bytes;
	uint64_t burst_ns;
};

/* Starts unpaced, until a rate is set. */
void pacer_init(struct pacer *pacer, const struct pacer_attr *attr, uint64_t now_ns);

/* Sets the rate, and the bucket's depth that goes with it; see bucket_set(). */
void pacer_set_rate(struct pacer *pacer, uint64_t rate_bps, uint64_t now_ns);

/* Changes the duration of a burst and the lateness. */
void pacer_set_times(struct pacer *pacer, uint64_t burst_ns, uint64_t late_ns, uint64_t now_ns);

/* The calls of base/bucket.h. */
static inline uint64_t pacer_allow(struct pacer *pacer, uint64_t now_ns)
{
	return bucket_allow(&pacer->bucket, now_ns);
}

static inline uint64_t pacer_allow_first(struct pacer *pacer, uint64_t now_ns)
{
	return bucket_allow_first(&pacer->bucket, now_ns);
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
